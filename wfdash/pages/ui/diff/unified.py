"""A unified diff, read for display: files, hunks, numbered lines. Pure; never fails on text that is no diff."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from wfdash.pages.ui.diff.lines import MAX_LINES, DiffLine, LinePair, changed_lines, pair_up, whole

_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)$")
_MODES = (("new file mode", "added"), ("deleted file mode", "deleted"), ("rename from", "renamed"))
MAX_BESIDE = 400
MAX_OPEN_FILE = 120
MAX_OPEN = 360


@dataclass(frozen=True, kw_only=True)
class Hunk:
    """A place where a file changes; ``title`` is what git writes after the numbers."""

    header: str
    title: str
    lines: tuple[DiffLine, ...]

    @property
    def pairs(self) -> tuple[LinePair, ...]:
        """Return the lines side by side."""
        return tuple(pair_up(self.lines))


@dataclass(frozen=True, kw_only=True)
class FileDiff:
    """A file of a diff. ``status``: changed | added | deleted | renamed | binary."""

    old: str
    new: str
    status: str
    hunks: tuple[Hunk, ...]
    left_out: int = 0
    """Lines beyond what is shown."""
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
    def added(self) -> int:
        """Return how many lines are added."""
        return self._count_lines("added")

    @property
    def removed(self) -> int:
        """Return how many lines are removed."""
        return self._count_lines("removed")

    @property
    def long(self) -> bool:
        """Return whether it is too long to be rendered side by side as well."""
        return self.size > MAX_BESIDE

    def _count_lines(self, kind: str) -> int:
        return sum(line.kind == kind for hunk in self.hunks for line in hunk.lines)


def parse_unified(text: str) -> tuple[FileDiff, ...]:
    """Return the files of a unified diff (git's or plain). Text that is none gives an empty tuple."""
    reader = _DiffParser(text.replace("\r\n", "\n").split("\n"))
    return _fold(tuple(reader.files()))


def _fold(files: tuple[FileDiff, ...]) -> tuple[FileDiff, ...]:
    """Return the files with long ones folded, and those after many open lines; a single file stays open."""
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
    left_out: int = 0

    def finish(self) -> FileDiff:
        """Return the file; ``/dev/null`` marks new and deleted files."""
        status = "added" if self.old == "/dev/null" else "deleted" if self.new == "/dev/null" else self.status
        return FileDiff(old=self.old, new=self.new, status=status, hunks=tuple(self.hunks), left_out=self.left_out)


class _DiffParser:
    """Walks the lines once; ``budget`` bounds how many are kept."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.at = 0
        self.budget = MAX_LINES

    def files(self) -> Iterator[FileDiff]:
        draft: _FileBuilder | None = None
        while self.at < len(self.lines):
            line = self.lines[self.at]
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
            draft.old, draft.new = line[len("diff --git ") :].removeprefix("a/").split(" b/", 1)
        elif line.startswith("--- "):
            draft.old = _file_name(line[4:])
        elif line.startswith("+++ "):
            draft.new = _file_name(line[4:])
        elif line.startswith(("Binary files", "GIT binary patch")):
            draft.status = "binary"
        else:
            draft.status = next((status for start, status in _MODES if line.startswith(start)), draft.status)

    def _hunk(self, draft: _FileBuilder, match: re.Match[str]) -> None:
        old_at, new_at = int(match[1]), int(match[3])
        old_left, new_left = int(match[2] or 1), int(match[4] or 1)
        self.at += 1
        body = list(self._body(old_left, new_left))
        kept = body[: max(self.budget, 0)]
        self.budget -= len(kept)
        draft.left_out += len(body) - len(kept)
        header = f"@@ -{match[1]},{old_left} +{match[3]},{new_left} @@"
        draft.hunks.append(Hunk(header=header, title=match[5].strip(), lines=tuple(_number(kept, old_at, new_at))))

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


def _number(body: list[str], old: int, new: int) -> Iterator[DiffLine]:
    """Yield numbered lines; a run of removals and the additions after it are compared word by word."""
    removed: list[str] = []
    added: list[str] = []
    for line in [*body, None]:
        sign = line[:1] if line is not None else "end"
        if line is not None and sign == "-" and not added:
            removed.append(line[1:])
            continue
        if line is not None and sign == "+":
            added.append(line[1:])
            continue
        yield from changed_lines(removed, added, old, new)
        old, new = old + len(removed), new + len(added)
        removed, added = ([line[1:]], []) if line is not None and sign == "-" else ([], [])
        if line is None or sign == "-":
            continue
        if sign == "\\":
            yield DiffLine(kind="note", pieces=whole(line[2:]))
            continue
        yield DiffLine(kind="same", old=old, new=new, pieces=whole(line[1:]))
        old, new = old + 1, new + 1


def _file_name(text: str) -> str:
    """Return a file's name without git's a/ or b/ and without a time stamp."""
    name = text.split("\t", 1)[0].strip().strip('"')
    return name[2:] if name.startswith(("a/", "b/")) else name
