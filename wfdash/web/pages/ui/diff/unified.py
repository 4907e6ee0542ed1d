"""A unified diff, read for display: files, hunks, numbered lines. Pure; never fails on text that is no diff."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from checkpoints.records import frozen
from wfdash.domain.labels import visible
from wfdash.web.pages.ui.diff.lines import (
    MAX_LINES,
    DiffLine,
    Lines,
    Sheet,
    TextRun,
    changed_lines,
    fold,
    whole,
)
from wfdash.web.pages.ui.markup import MAX_COLOURED, tokens_of

_HUNK = re.compile(r"^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)$")
_OCTAL = re.compile(r"\\([0-7]{3}|.)")
_MODES = (
    ("new file mode", "added"),
    ("deleted file mode", "deleted"),
    ("rename from", "renamed"),
    ("copy from", "copied"),
)
CONTEXT_LINES = 3
MAX_FILES = 300
"""Files that a page shows."""
END = "\0"
"""What no line of a hunk begins with."""
MAX_NAME = 300
MAX_TITLE = 200
MAX_BESIDE = 400
MAX_OPEN_FILE = 120
MAX_OPEN = 360


@frozen
class Hunk(Lines):
    """A place where a file changes; ``title`` is what git writes after the numbers."""

    header: str
    title: str


@frozen
class FileDiff:
    """A file of a diff. ``status``: changed | added | deleted | renamed | copied."""

    old: str
    new: str
    status: str
    hunks: tuple[Hunk, ...]
    added: int = 0
    """How many lines are added, those that are not shown included."""
    removed: int = 0
    binary: bool = False
    mode: str = ""
    """Its permissions, where they change: ``100644 → 100755``."""
    mark: str = ""
    """Differs from file to file, and whenever the file's changes do."""
    left_out: int = 0
    """Lines beyond what is shown."""
    key: str = ""
    """By what it is known where its lines take comments; empty where they take none."""
    folded: bool = False
    """Whether it is folded: it is long, or much is open before it."""

    @property
    def size(self) -> int:
        """Return how many lines it shows."""
        return sum(len(hunk.lines) for hunk in self.hunks)

    @property
    def path(self) -> str:
        """Return the file's current name."""
        return self.old if self.status == "deleted" else self.new or self.old

    @property
    def moved_from(self) -> str:
        """Return the file's earlier name, if it is another one."""
        return self.old if self.status in {"renamed", "copied"} and self.old != self.new else ""

    @property
    def nothing_shown(self) -> str:
        """Return why there are no lines."""
        if self.binary:
            return "Binary file: its content is not shown"
        words = {"renamed": "Renamed without changes", "copied": "Copied without changes", "added": "An empty file"}
        return words.get(self.status, "Only its permissions change" if self.mode else "No lines to show")

    @property
    def long(self) -> bool:
        """Return whether it is too long to be rendered side by side as well."""
        return self.size > MAX_BESIDE


def parse_unified(text: str) -> tuple[FileDiff, ...]:
    """Return the files of a unified diff (git's or plain). Text that is none gives an empty tuple."""
    reader = _DiffParser(text.replace("\r\n", "\n").split("\n"))
    files = tuple(reader.files())
    if len(files) < 2:
        return files
    shown = 0
    folded_files = []
    for file in files:
        folded = file.size > MAX_OPEN_FILE or shown + file.size > MAX_OPEN
        shown += 0 if folded else file.size
        folded_files.append(replace(file, folded=folded))
    return tuple(folded_files)


@dataclass
class _FileBuilder:
    """A file while it is being read."""

    old: str = ""
    new: str = ""
    status: str = "changed"
    hunks: list[Hunk] = field(default_factory=list)
    added: int = 0
    removed: int = 0
    binary: bool = False
    modes: list[str] = field(default_factory=list)
    left_out: int = 0
    content: Any = field(default_factory=lambda: blake2b(digest_size=6))

    def finish(self) -> FileDiff:
        """Return the file; ``/dev/null`` marks new and deleted files."""
        status = "added" if self.old == "/dev/null" else "deleted" if self.new == "/dev/null" else self.status
        self.content.update(f"{self.old}\0{self.new}".encode(errors="surrogatepass"))
        return FileDiff(
            old=self.old,
            new=self.new,
            status=status,
            hunks=tuple(self.hunks),
            added=self.added,
            removed=self.removed,
            binary=self.binary,
            mode=" → ".join(self.modes) if len(self.modes) == 2 else "",
            mark=self.content.hexdigest(),
            left_out=self.left_out,
        )

    def count(self, body: list[str]) -> None:
        """Count the lines of a hunk, those that are not shown included."""
        self.added += sum(line[:1] == "+" for line in body)
        self.removed += sum(line[:1] == "-" for line in body)
        self.content.update("\n".join(body).encode(errors="surrogatepass"))


class _DiffParser:
    """Walks the lines once; ``budget`` bounds how many are kept."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.at = 0
        self.budget = MAX_LINES
        self.colours = Colours()
        self.sheet = Sheet()

    def files(self) -> Iterator[FileDiff]:
        draft: _FileBuilder | None = None
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line[:1] in "+- " and line[:4] not in {"--- ", "+++ "}:
                self.at += 1  # No header begins so: what a hunk does not count is passed over quickly.
                continue
            hunk = _HUNK.match(line)
            if line.startswith("diff --git ") or (self._is_header() and (draft is None or draft.hunks)):
                if draft is not None:
                    yield draft.finish()
                draft = _FileBuilder()
            if hunk and draft is not None:
                self._hunk(draft, hunk)
                continue
            if draft is not None:
                self._header(draft, line)
            self.at += 1
        if draft is not None:
            yield draft.finish()

    def _is_header(self) -> bool:
        following = self.lines[self.at + 1] if self.at + 1 < len(self.lines) else ""
        return self.lines[self.at].startswith("--- ") and following.startswith("+++ ")

    def _header(self, draft: _FileBuilder, line: str) -> None:
        if line.startswith("diff --git ") and " b/" in line:
            draft.old, draft.new = map(_name, line[len("diff --git ") :].removeprefix("a/").split(" b/", 1))
        elif line.startswith("--- "):
            draft.old = _file_name(line[4:])
        elif line.startswith("+++ "):
            draft.new = _file_name(line[4:])
        elif line.startswith(("Binary files", "GIT binary patch")):
            draft.binary = True
        elif line.startswith(("old mode ", "new mode ")):
            draft.modes.append(line[len("old mode ") :].strip()[:6])
        elif line.startswith(("rename to ", "copy to ")):
            draft.new = _name(line.partition(" to ")[2])
        else:
            if line.startswith(("rename from ", "copy from ")):
                draft.old = _name(line.partition(" from ")[2])
            draft.status = next((status for start, status in _MODES if line.startswith(start)), draft.status)

    def _hunk(self, draft: _FileBuilder, match: re.Match[str]) -> None:
        old_at, new_at = int(match[1]), int(match[3])
        old_left, new_left = int(match[2] or 1), int(match[4] or 1)
        self.at += 1
        body = list(self._body(old_left, new_left))
        draft.count(body)
        kept = body[: max(self.budget, 0)]
        self.budget -= len(kept)
        draft.left_out += len(body) - len(kept)
        header = f"@@ -{match[1]},{old_left} +{match[3]},{new_left} @@"
        path = draft.old if draft.new == "/dev/null" else draft.new
        lines = self.colours.of(tuple(_number(kept, old_at, new_at, self.sheet)), path)
        title = visible(match[5].strip()[:MAX_TITLE])
        if lines:
            draft.hunks.append(Hunk(header=header, title=title, lines=tuple(fold(lines, CONTEXT_LINES, Sheet()))))

    def _body(self, old_left: int, new_left: int) -> Iterator[str]:
        """Yield the lines that belong to a hunk, by its own counts."""
        while self.at < len(self.lines):
            line = self.lines[self.at]
            sign = line[:1]
            last = self.at == len(self.lines) - 1
            if sign == "\\":
                self.at += 1
                yield line
                continue
            if (old_left <= 0 and new_left <= 0) or sign not in {"+", "-", " ", ""} or (last and not line):
                return
            old_left -= sign != "+"
            new_left -= sign != "-"
            self.at += 1
            yield line


def _number(body: list[str], old: int, new: int, sheet: Sheet) -> Iterator[DiffLine]:
    """Yield numbered lines; a run of removals and the additions after it are compared word by word."""
    removed: list[str] = []
    added: list[str] = []
    for line in [*body, END]:
        sign = line[:1]
        if sign == "-" and not added:
            removed.append(line[1:])
            continue
        if sign == "+":
            added.append(line[1:])
            continue
        yield from changed_lines(removed, added, old, new, sheet)
        old, new = old + len(removed), new + len(added)
        removed, added = ([line[1:]], []) if sign == "-" else ([], [])
        if sign == "\\":
            yield DiffLine(kind="note", pieces=whole(line[2:]))
        elif sign not in {"-", END}:
            yield DiffLine(kind="same", old=old, new=new, pieces=whole(line[1:]))
            old, new = old + 1, new + 1


def _file_name(text: str) -> str:
    """Return a file's name without git's a/ or b/ and without a time stamp."""
    name = _name(text.split("\t", 1)[0])
    return name[2:] if name.startswith(("a/", "b/")) else name


def _name(text: str) -> str:
    """Return a name as people read it: git's quotes and octal bytes decoded, nothing invisible, not endless."""
    name = text.strip()
    if name[:1] == '"' or name[-1:] == '"':
        name = _unquoted(name.strip('"'))
    return visible(name[:MAX_NAME]) + ("…" if len(name) > MAX_NAME else "")


def _unquoted(name: str) -> str:
    ends = {"n": "\n", "t": "\t", "r": "\r"}
    pieces = _OCTAL.sub(
        lambda found: (
            chr(int(found[1], 8) & 0xFF) if found[1].isdigit() and len(found[1]) == 3 else ends.get(found[1], found[1])
        ),
        name,
    )
    try:
        return pieces.encode("latin-1").decode()
    except (UnicodeEncodeError, UnicodeDecodeError):
        return pieces


# Colours in the lines of a patch, by the name of the file: as far as code blocks have them. Pure and bounded.

MAX_IN_ALL = 32_000
"""Characters coloured in one patch, both sides counted: some 400 lines of code."""
ENDINGS = {"pyi": "python", "mjs": "javascript", "jsx": "javascript", "tsx": "javascript", "htm": "html", "svg": "xml"}

Token = tuple[str, str]


class Colours:
    """Colours the lines of one patch while its budget lasts."""

    def __init__(self) -> None:
        self.left = MAX_IN_ALL

    def of(self, lines: Sequence[DiffLine], path: str) -> tuple[DiffLine, ...]:
        """Return the lines of a hunk, each with the colours of the side that it is on."""
        ending = path.rpartition(".")[2].lower()
        language = ENDINGS.get(ending, ending)
        found: dict[int, DiffLine] = {}
        for kinds in ({"same", "removed"}, {"same", "added"}):
            side = [(place, line) for place, line in enumerate(lines) if line.kind in kinds]
            tokens = self._tokens(["".join(run.text for run in line.pieces) for _, line in side], language)
            found |= {
                place: replace(line, pieces=tuple(overlay(line.pieces, own)))
                for (place, line), own in zip(side, tokens, strict=False)
                if own
            }
        return tuple(found.get(place, line) for place, line in enumerate(lines))

    def _tokens(self, texts: Sequence[str], language: str) -> Iterator[list[Token]]:
        """Yield the tokens of each line. Lexers see blocks of lines, none longer than a coloured code block."""
        for block in blocks(texts):
            text = "\n".join(block)
            tokens = tokens_of(text, language) if len(text) <= self.left else []
            self.left -= len(text) if tokens else 0
            yield from by_line(tokens, len(block))


def blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield the lines in blocks that may be coloured; a line that is too long is a block of its own."""
    block: list[str] = []
    size = 0
    for text in texts:
        if block and size + len(text) >= MAX_COLOURED:
            yield block
            block, size = [], 0
        block.append(text)
        size += len(text) + 1
    if block:
        yield block


def by_line(tokens: Iterable[Token], count: int) -> list[list[Token]]:
    """Return the tokens of each of ``count`` lines: a token that spans lines is on all of them."""
    lines: list[list[Token]] = [[]]
    for look, text in tokens:
        first, *others = text.split("\n")
        lines[-1].append((look, first))
        lines += [[(look, other)] for other in others]
    return [*lines, *([] for _ in range(count - len(lines)))][:count]


def overlay(runs: Sequence[TextRun], tokens: Sequence[Token]) -> Iterator[TextRun]:
    """Yield the runs of a line, cut where its colour changes; unchanged if the tokens are those of another text."""
    if "".join(run.text for run in runs) != "".join(text for _, text in tokens):
        yield from runs
        return
    looks = [(look, len(text)) for look, text in tokens if text]
    for run in runs:
        text = run.text
        while text:
            look, size = looks.pop(0)
            if size > len(text):
                looks.insert(0, (look, size - len(text)))
            yield replace(run, text=text[:size], look=look)
            text = text[size:]
