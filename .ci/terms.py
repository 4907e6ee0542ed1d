#!/usr/bin/env python3
"""Find words that the product does not use: .ci/terms.toml says which, what to write instead, why and where.

A term has ``pattern`` (a regular expression for whole words, case does not matter), ``use``, ``why`` and ``where``:
names of READERS. ``but`` lists files, or folders, where the word is right. Exit status 0: none was found; 1: some were.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path(__file__).with_name("terms.toml")
TAGS = re.compile(r"{#.*?#}|{% comment .*?{% endcomment %}|{%.*?%}|{{.*?}}", re.S)
QUOTED = re.compile(r'"([^"]*)"')
READ_OUT = frozenset({"alt", "aria-label", "content", "data-key-label", "data-label", "label", "placeholder", "title"})
"""The attributes that people see or hear."""
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
"""A word within an identifier."""
SCRIPT_COMMENT = re.compile(r"^[ \t]*//([^\n]*)|/\*(.*?)\*/|[ \t]//[ \t]([^\n]*)", re.M | re.S)
SCRIPT_TEXT = re.compile(r"^\s*(?://|\*|/\*).*$|\"((?:[^\"\\\n]|\\.)*)\"|`((?:[^`\\]|\\.)*)`", re.M)


class Text(NamedTuple):
    """A piece of text and the line where it begins."""

    line: int
    words: str


@dataclass(frozen=True, kw_only=True)
class Term:
    """A word that is not used, as the table has it."""

    pattern: re.Pattern[str]
    use: str
    why: str
    where: tuple[str, ...]
    but: tuple[str, ...] = ()


Reader = Callable[[Path], Iterator[tuple[Path, Text]]]


def main() -> int:
    """Print every finding and return the exit status."""
    findings = find(ROOT, load(TABLE))
    sys.stdout.write("".join(f"{finding}\n" for finding in findings))
    return 1 if findings else 0


def load(path: Path) -> list[Term]:
    """Return the table's terms. Words are bounded: ``tick`` finds no ``data-tick``, ``ticket`` or ``.tick``."""
    rows = tomllib.loads(path.read_text())["term"]
    return [
        Term(
            pattern=re.compile(rf"(?<![\w.#-])(?:{row['pattern']})(?![\w-])", re.I),
            use=row["use"],
            why=row["why"],
            where=tuple(row["where"]),
            but=tuple(row.get("but", ())),
        )
        for row in rows
    ]


def find(root: Path, terms: list[Term]) -> list[str]:
    """Return each use of a term below ``root``, as ``path:line: words: use this (reason)``."""
    found: list[str] = []
    for where, reader in READERS.items():
        here = [term for term in terms if where in term.where]
        any_of = re.compile("|".join(term.pattern.pattern for term in here), re.I)
        for path, text in reader(root) if here else ():
            if any_of.search(text.words):
                name = path.relative_to(root).as_posix()
                found += [f"{name}:{line}: {said}" for line, said in _in(text, here, name)]
    return found


def _in(text: Text, terms: list[Term], name: str) -> Iterator[tuple[int, str]]:
    for term in terms:
        if not name.startswith(term.but or ("\0",)):
            for match in term.pattern.finditer(text.words):
                line = text.line + text.words[: match.start()].count("\n")
                yield line, f'"{match[0]}": {term.use} ({term.why})'


def interface(root: Path) -> Iterator[tuple[Path, Text]]:
    """Yield what people may read on pages, in mails, on the command line and in errors."""
    for path in sorted((root / "templates").rglob("*.*")):
        yield from ((path, text) for text in _of_template(path.read_text()))
    for path in sorted((root / "static/js").rglob("*.js")):
        yield from ((path, text) for text in _of_script(path.read_text()))
    for path in _modules(root):
        yield from ((path, text) for text in _of_module(path.read_text()))


def documentation(root: Path) -> Iterator[tuple[Path, Text]]:
    """Yield the pages at the top and the docs, without what stands between fences of code."""
    for path in (*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))):
        yield (
            path,
            Text(
                1, re.sub(r"^```.*?^```", lambda code: "\n" * code[0].count("\n"), path.read_text(), flags=re.M | re.S)
            ),
        )


def code(root: Path) -> Iterator[tuple[Path, Text]]:
    """Yield docstrings, comments and the words of identifiers of the product, and comments of its scripts."""
    for path in _modules(root):
        yield from ((path, text) for text in _of_code(path.read_text()))
    for path in sorted((root / "static/js").rglob("*.js")):
        source = path.read_text()
        for match in SCRIPT_COMMENT.finditer(source):
            yield path, Text(source[: match.start()].count("\n") + 1, match[1] or match[2] or match[3] or "")


def tests(root: Path) -> Iterator[tuple[Path, Text]]:
    """Yield docstrings, comments and the words of identifiers of the tests."""
    for path in sorted((root / "tests").rglob("*.py")):
        yield from ((path, text) for text in _of_code(path.read_text()))


def _modules(root: Path) -> Iterator[Path]:
    for package in ("checkpoints", "wfdash"):
        yield from (path for path in sorted((root / package).rglob("*.py")) if "migrations" not in path.parts)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[Text] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in {"script", "style"}
        self.texts += [Text(self.getpos()[0], value or "") for name, value in attrs if name in READ_OUT]

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in {"script", "style"}

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.texts.append(Text(self.getpos()[0], data))


def _of_template(source: str) -> list[Text]:
    page = _Page()
    page.feed(TAGS.sub(_blank, source))
    page.close()
    quoted = [
        Text(source[: tag.start()].count("\n") + 1, words)
        for tag in TAGS.finditer(source)
        if not tag[0].startswith(("{#", "{% comment"))
        for words in QUOTED.findall(tag[0])
        if _is_text(words)
    ]
    return page.texts + quoted


def _blank(tag: re.Match[str]) -> str:
    return "x" + "\n" * tag[0].count("\n") if tag[0].startswith("{{") else "\n" * tag[0].count("\n")


def _of_script(source: str) -> Iterator[Text]:
    for match in SCRIPT_TEXT.finditer(source):
        if words := match[1] or match[2]:
            said = re.sub(r"\$\{.*?\}", "x", words)
            if _is_text(said):
                yield Text(source[: match.start()].count("\n") + 1, said)


def _of_module(source: str) -> Iterator[Text]:
    """Yield the strings of a module that are texts: not its docstrings, nor words that are names."""
    tree = ast.parse(source)
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Expr | ast.JoinedStr | ast.Constant)]
    silent = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    silent |= {id(name) for node in tree.body if _lists_names(node) for name in ast.walk(node)}
    silent |= {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            words = "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
            yield Text(node.lineno, words)
        elif isinstance(node, ast.Constant) and id(node) not in silent and _is_text(node.value):
            yield Text(node.lineno, str(node.value))


def _of_code(source: str) -> Iterator[Text]:
    """Yield the docstrings and comments of a module, and each identifier that it defines, as words."""
    seen, quoted = set[str](), set[int]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant | ast.JoinedStr):
            quoted.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield Text(node.lineno, node.value.value)
        elif (name := _defined_by(node)) and name not in seen:
            seen.add(name)
            yield Text(getattr(node, "lineno", 1), " ".join(WORD.findall(name)))
    yield from _comments(source, quoted)


def _comments(source: str, quoted: set[int]) -> Iterator[Text]:
    """Yield the comments of a module. Only where a sign may be within quotes it takes the slow way to be sure."""
    marked = {number: line for number, line in enumerate(source.split("\n"), 1) if "#" in line}
    if marked.keys() & quoted:
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        yield from (Text(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT)
    else:
        yield from (Text(number, line[line.index("#") :]) for number, line in marked.items())


def _defined_by(node: ast.AST) -> str:
    """Return the identifier that a node defines, empty if it defines none."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return node.name
        case ast.arg():
            return node.arg
        case ast.Name(ctx=ast.Store()):
            return node.id
        case ast.Attribute(ctx=ast.Store()):
            return node.attr
    return ""


def _lists_names(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"


def _is_text(value: object) -> bool:
    return isinstance(value, str) and (" " in value or value[:1].isupper())


READERS: dict[str, Reader] = {"ui": interface, "docs": documentation, "code": code, "tests": tests}

if __name__ == "__main__":
    sys.exit(main())
