"""Comments on lines of a card's differences: read from a POST, and put where they belong. Pure but for types.

A file of a difference is a ``LineFile`` with a key that changes with its content, a line of it a spot: ``KEY:n12``, a
range ``KEY:o10-12`` (``n`` for lines of the new version, ``o`` for removed ones). POST: ``line:SPOT=<text>`` for each
comment; ``_comment=SPOT`` begins one, and so does ``_comment=KEY`` with ``_lines:KEY=<12 or 10-12>`` and
``_side:KEY=<n or o>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from django.http import QueryDict

from checkpoints.records import Pairs, frozen
from wfdash.domain.json_patch import FIELD, MAX_COMMENTS, comments_in, place_of
from wfdash.domain.labels import visible
from wfdash.web.pages.ui.diff.lines import DiffLine
from wfdash.web.pages.ui.forms.spec import mapping
from wfdash.web.pages.ui.parts import CardPart, evidence_parts, proposal_part

NAME, BEGIN, LINES, SIDE = "line:", "_comment", "_lines:", "_side:"
SIDES = {"n": "new", "o": "old"}
_SPOT = re.compile(r"(?P<key>[a-z0-9-]{1,40}:[0-9a-f]{12}):(?P<side>[no])(?:(?P<start>\d{1,9})-)?(?P<line>\d{1,9})")
_LINES = re.compile(r"(?:(?P<start>\d{1,9})\s*[-–]\s*)?(?P<line>\d{1,9})")


@frozen
class LineFile:
    """A file whose lines take comments: its name, and the numbers of its lines on each side that are shown."""

    key: str
    name: str
    lines: Mapping[str, frozenset[int]]


@frozen
class LineNote:
    """A comment at its line. ``by`` empty: the viewer's own, still to be sent."""

    spot: str
    place: str
    text: str
    by: str = ""


@frozen
class LineNotes:
    """All line comments of a card. ``takes``: new ones can be written; ``elsewhere``: those on lines not shown."""

    takes: bool
    typed: tuple[LineNote, ...] = ()
    elsewhere: tuple[LineNote, ...] = ()

    @property
    def count(self) -> int:
        """Return how many will be sent."""
        return sum(bool(note.text.strip()) for note in self.typed)


class ReadLines(NamedTuple):
    """The line comments of a POST. ``value``: for the answer; ``begun``: one was begun, nothing is to be submitted."""

    typed: Pairs
    value: dict[str, Any]
    problems: list[dict[str, Any]]
    begun: bool


def read_lines(schema: Mapping[str, Any], card: Mapping[str, Any], post: QueryDict) -> ReadLines:
    """Return the line comments of a POST to this card; nothing where its answer takes none."""
    typed = {name[len(NAME) :]: str(post[name]).replace("\r\n", "\n") for name in post if name.startswith(NAME)}
    typed = {spot: text for spot, text in typed.items() if text.strip()}
    begun = post.get(BEGIN, "")
    if FIELD not in mapping(schema.get("properties")) or not (typed or begun):
        return ReadLines((), {}, [], False)
    files = {
        file.key: file
        for file in _files((proposal_part(card, schema), *evidence_parts(card, first=pieces_of((*typed, begun)))))
    }
    found = [(spot, _comment(files, spot, text)) for spot, text in list(typed.items())[: MAX_COMMENTS + 1]]
    lost = [{"loc": [FIELD], "msg": "A comment is on a line that changed or is not shown"}]
    problems = lost if any(comment is None for _, comment in found) else []
    if begun:
        spot = begun if _SPOT.fullmatch(begun) else _spot_of(begun, post)
        if _comment(files, spot, "") is None:
            problems = [{"loc": [FIELD], "msg": "Comment on a line that is shown: its number, or a range like 10-12"}]
        else:
            typed.setdefault(spot, "")
    comments = [comment for _, comment in found if comment is not None]
    return ReadLines(tuple(typed.items()), {FIELD: comments} if comments else {}, problems, bool(begun))


def pieces_of(spots: Iterable[str]) -> set[int]:
    """Return the numbers of the pieces of evidence that these spots are in."""
    return {int(one[1]) for one in map(re.compile(r"evidence-(\d{1,6}):").match, spots) if one}


def _spot_of(key: str, post: QueryDict) -> str:
    lines = _LINES.fullmatch(post.get(LINES + key, "").strip())
    side = post.get(SIDE + key, "n")
    return f"{key}:{side}{'-'.join(one for one in lines.groups() if one)}" if lines else ""


def _comment(files: Mapping[str, LineFile], spot: str, text: str) -> dict[str, Any] | None:
    """Return a comment as an answer has it; None if there is no such line."""
    found = _SPOT.fullmatch(spot)
    file = files.get(found["key"]) if found else None
    if found is None or file is None:
        return None
    start, line = int(found["start"] or found["line"]), int(found["line"])
    if not {start, line} <= file.lines[found["side"]] or start > line:
        return None
    first = {"start_line": start} if start < line else {}
    return {"file": file.name, **first, "line": line, "side": SIDES[found["side"]], "text": text}


def placed(
    parts: Iterable[CardPart | None],
    typed: Iterable[tuple[str, str]],
    said: Iterable[tuple[str, Mapping[str, Any]]],
    *,
    takes: bool,
) -> tuple[list[CardPart | None], LineNotes]:
    """Return the parts of a card with comments at their lines, and all comments. ``said``: by whom, and what."""
    parts = list(parts)
    files = {file.key: file for file in _files(parts)}
    own = [_typed_note(files, spot, text) for spot, text in typed]
    theirs = [_said_note(files.values(), by, comment) for by, comment in said]
    notes: dict[str, list[LineNote]] = {}
    for note in (*theirs, *own):
        if note.spot:
            notes.setdefault(_last_line(note.spot), []).append(note)
    shown = _all(files) if notes else frozenset()
    elsewhere = tuple(note for note in (*theirs, *own) if not note.spot or _last_line(note.spot) not in shown)
    drawn = [_with_notes(part, notes, takes) for part in parts] if takes or notes else parts
    return drawn, LineNotes(takes=takes, typed=tuple(own), elsewhere=elsewhere)


def spots_of(parts: Iterable[CardPart | None], value: Any) -> Pairs:
    """Return the comments of an earlier answer as if they had been typed: those on lines that are shown."""
    files = tuple(_files(parts))
    found = ((_find(files, comment), str(comment["text"])) for comment in comments_in(value))
    return tuple((spot, text) for spot, text in found if spot)


def _files(parts: Iterable[CardPart | None]) -> Iterator[LineFile]:
    for part in parts:
        if part is not None and part.kind == "diff":
            for file in part.files:
                lines = [line for hunk in file.hunks for line in hunk.lines]
                yield LineFile(key=f"{part.anchor}:{file.mark}", name=file.path, lines=_numbers(lines))
        elif part is not None and part.kind == "text_diff" and part.diff is not None:
            name = part.title or part.anchor
            yield LineFile(key=f"{part.anchor}:{part.diff.mark}", name=name, lines=_numbers(part.diff.lines))


def _numbers(lines: Iterable[DiffLine]) -> dict[str, frozenset[int]]:
    every = [line for one in lines for line in (one, *one.hidden)]
    return {
        "n": frozenset(line.new for line in every if line.new is not None),
        "o": frozenset(line.old for line in every if line.old is not None and line.kind == "removed"),
    }


def _all(files: Mapping[str, LineFile]) -> frozenset[str]:
    return frozenset(
        f"{key}:{side}{line}" for key, file in files.items() for side, found in file.lines.items() for line in found
    )


def _last_line(spot: str) -> str:
    """Return the spot of the line below which a comment is shown: the last one of its range."""
    key, _, lines = spot.rpartition(":")
    return f"{key}:{lines[:1]}{lines[1:].rpartition('-')[2]}"


def _typed_note(files: Mapping[str, LineFile], spot: str, text: str) -> LineNote:
    comment = _comment(files, spot, text)
    place = place_of(comment) if comment else "A line that changed"
    return LineNote(spot=spot, place=visible(place), text=text)


def _said_note(files: Iterable[LineFile], by: str, comment: Mapping[str, Any]) -> LineNote:
    spot = _find(files, comment)
    return LineNote(spot=spot, place=visible(place_of(comment)), text=visible(str(comment["text"])), by=by or "Someone")


def _find(files: Iterable[LineFile], comment: Mapping[str, Any]) -> str:
    """Return the spot of a comment; empty if its line is not shown."""
    side = "o" if comment.get("side") == "old" else "n"
    line, start = comment["line"], comment.get("start_line")
    first = f"{start}-" if type(start) is int and start < line else ""
    keys = (file.key for file in files if file.name == comment["file"] and line in file.lines[side])
    return next((f"{key}:{side}{first}{line}" for key in keys), "")


def _with_notes(part: CardPart | None, notes: Mapping[str, list[LineNote]], takes: bool) -> CardPart | None:
    if part is None or part.kind not in {"diff", "text_diff"}:
        return part
    if part.diff is not None:
        lines = _lines_with(part.diff.lines, f"{part.anchor}:{part.diff.mark}", notes, takes)
        key = f"{part.anchor}:{part.diff.mark}" if takes and lines else ""
        return replace(part, diff=replace(part.diff, lines=lines, key=key))
    files = []
    for file in part.files:
        key = f"{part.anchor}:{file.mark}"
        hunks = tuple(replace(hunk, lines=_lines_with(hunk.lines, key, notes, takes)) for hunk in file.hunks)
        noted = any(line.notes or line.noted for hunk in hunks for line in hunk.lines)
        files.append(replace(file, hunks=hunks, folded=file.folded and not noted, key=key if takes and hunks else ""))
    return replace(part, files=tuple(files))


def _lines_with(
    lines: Iterable[DiffLine], key: str, notes: Mapping[str, list[LineNote]], takes: bool
) -> tuple[DiffLine, ...]:
    return tuple(_line_with(line, key, notes, takes) for line in lines)


def _line_with(line: DiffLine, key: str, notes: Mapping[str, list[LineNote]], takes: bool) -> DiffLine:
    if line.hidden:
        return replace(line, hidden=_lines_with(line.hidden, key, notes, takes))
    if line.kind not in {"same", "added", "removed"}:
        return line
    spot = f"{key}:o{line.old}" if line.kind == "removed" else f"{key}:n{line.new}"
    return replace(line, spot=spot if takes else "", notes=tuple(notes.get(spot, ())))
