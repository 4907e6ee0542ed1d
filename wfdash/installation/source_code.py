"""The source of served workflows, as it was when they were loaded, and whether its file has changed since."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

LARGEST = 400_000
"""Bytes of a file that is kept; larger ones are not shown."""
MOST_FILES = 20


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """A Python file with steps, as loaded. ``steps``: the first and the last line of each step's function."""

    path: Path
    text: str
    steps: Mapping[str, tuple[int, int]]
    changed_there: bool | None = None
    """Of a file on a worker's disk, of which this machine's says nothing: whether it had changed."""

    @property
    def lines(self) -> list[str]:
        """Return its lines, numbered as Python numbers them."""
        return self.text.removesuffix("\n").split("\n")

    def has_changed(self) -> bool:
        """Return whether the file is another one now, or gone."""
        return read_source(self.path) != self.text if self.changed_there is None else self.changed_there


def read_source(path: Path) -> str | None:
    """Return a file's text with plain line ends, None where it cannot be read or is too large."""
    try:
        with path.open("rb") as file:
            found = file.read(LARGEST + 1)
    except OSError:
        return None
    text = found.decode("utf-8-sig", errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    return text if len(found) <= LARGEST else None


def load_sources(places: Iterable[tuple[str, str, int]]) -> tuple[SourceFile, ...]:
    """Return the files of these places (step, file, first line), in their order; unreadable ones are left out."""
    by_file: dict[str, list[tuple[str, int]]] = {}
    for step, file, line in places:
        by_file.setdefault(file, []).append((step, line))
    found = ((Path(file), read_source(Path(file)), steps) for file, steps in by_file.items())
    files = [
        SourceFile(path=path, text=text, steps=_spans(text, steps)) for path, text, steps in found if text is not None
    ]
    return tuple(files[:MOST_FILES])


def _spans(text: str, steps: Iterable[tuple[str, int]]) -> dict[str, tuple[int, int]]:
    """Return where each function begins, its decorators included, and where it ends."""
    ends = _functions(text)
    return {step: (line, ends.get(line, line)) for step, line in steps}


@lru_cache(maxsize=MOST_FILES)
def _functions(text: str) -> Mapping[int, int]:
    """Return the last line of each function by its first: of all workflows of a file, which is parsed once."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return {}
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    firsts = [min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) for node in found]
    return {first: node.end_lineno or first for first, node in zip(firsts, found, strict=True)}
