"""What a card shows, ready to be rendered: the proposal against the current value, and the evidence. Pure.

A card comes from a workflow's code and is not trusted to have any shape: anything unexpected is rendered as a value.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import zip_longest
from typing import Any

from checkpoints.records import Pairs, frozen
from wfdash.contract import unpack_transcript
from wfdash.domain.images import MAX_BYTES, TEXT, Picture, is_pdf, media_type_of, picture_of, safe_name, text_of
from wfdash.domain.labels import label_of_field, label_of_key, visible
from wfdash.domain.votes import EDITED
from wfdash.web.pages.ui.diff.lines import TextDiff, ValueChange, diff_text, diff_values
from wfdash.web.pages.ui.diff.unified import FileDiff, parse_unified
from wfdash.web.pages.ui.forms.spec import Schemas, mapping
from wfdash.web.pages.ui.json_value import at, describe, heavy, is_cut, is_opaque, pretty
from wfdash.web.pages.ui.markup import MAX_COLOURED, TextBlock, block, host_of, is_safe_link, markdown_effort
from wfdash.web.pages.ui.transcript import Talk, draw_talk

MAX_FIELDS = 40
MAX_ADDRESS = 120
MAX_WHOLE = 50_000
"""Characters of two values as text up to which they are also compared line by line."""
MOST_EFFORT = 180_000
"""Microseconds that a card may take to be drawn, by ``effort_of``."""
MOST_PLAIN = 4_000
"""Characters of a piece that are shown where the card has too much evidence to draw all of it."""
SMALL_TREE_VALUES = 12
"""Values in a tree up to which it is taken in at a glance."""
OPENED = frozenset({"json", "transcript"})
"""Kinds whose whole value is at an address."""
MOST_EARLIER = 200
"""Earlier messages of a conversation that a card has in a fold."""
ICONS = {
    "table": "table-cells",
    "image": "photo",
    "file": "paper-clip",
    "pdf": "document-text",
    "link": "link",
    "diff": "arrows-right-left",
    "text_diff": "arrows-right-left",
    "changes": "arrows-right-left",
    "json": "code-bracket",
    "transcript": "chat-bubble-left-right",
    "code": "code-bracket",
}


@frozen
class CardPart:
    """One part of a card. ``kind`` names its template; only the attributes that go with it are set."""

    kind: str
    title: str = ""
    value: Any = None
    text: str = ""
    language: str = ""
    block: TextBlock | None = None
    table: TableView | None = None
    files: tuple[FileDiff, ...] = ()
    anchor: str = ""
    """Where it is on the card: ``proposal``, ``evidence-0``."""
    changes: tuple[ValueChange, ...] = ()
    diff: TextDiff | None = None
    href: str = ""
    file: Attachment | None = None
    formatted: str = ""
    """The address at which a piece that is only shown as text is drawn."""
    talk: Talk | None = None
    """The end of a conversation, and in ``earlier`` what came before."""
    earlier: Talk | None = None

    @property
    def searchable(self) -> bool:
        """Return whether a tree is large enough to be searched and folded by level."""
        return self.kind == "json" and heavy(self.value, SMALL_TREE_VALUES)

    @property
    def cut(self) -> bool:
        """Return whether a tree shows only a part of the value."""
        return is_cut(self.value)

    @property
    def template(self) -> str:
        """Return the template that renders it."""
        return f"components/parts/{self.kind}.html"

    @property
    def icon(self) -> str:
        """Return the icon of its heading."""
        return ICONS.get(self.kind, "document-text")

    @property
    def compares(self) -> bool:
        """Return whether it shows what would change, rather than what is proposed."""
        return self.kind in {"changes", "text_diff"}


def proposal_part(card: Mapping[str, Any], schema: Mapping[str, Any] | None = None) -> CardPart | None:
    """Return the proposal as a difference to ``current`` where there is one; None when there is no proposal.

    ``schema``: of the answer; where the proposal may be edited it has the titles of its fields.
    """
    proposal, current = card.get("proposal"), card.get("current")
    if proposal is None:
        return None
    part = _proposal_alone(proposal, schema or {}) if current is None else compare(current, proposal)
    return replace(part, anchor="proposal")


def compare(before: Any, after: Any, title: str = "") -> CardPart:
    """Return the difference of two texts, or of two values: what changed, and line by line."""
    if isinstance(before, str) and isinstance(after, str):
        return CardPart(kind="text_diff", title=title, diff=diff_text(before, after))
    changes = diff_values(before, after)
    texts = (pretty(before), pretty(after))
    compound = isinstance(after, (Mapping, list))
    whole = diff_text(*texts) if compound and changes and sum(map(len, texts)) <= MAX_WHOLE else None
    return CardPart(
        kind="changes",
        title=title,
        changes=changes,
        diff=whole,
        value=after if compound else None,
    )


def _proposal_alone(proposal: Any, schema: Mapping[str, Any]) -> CardPart:
    if isinstance(proposal, str):
        files = parse_unified(proposal) if "@@" in proposal or proposal.startswith("diff --git ") else ()
        if files:
            return CardPart(kind="diff", files=files, text=proposal)
        return CardPart(kind="text", block=block(proposal))
    if isinstance(proposal, (bool, int, float)):
        return CardPart(kind="text", block=block(cell(proposal)))
    known = unfold(proposal, schema)
    if known:
        return CardPart(kind="fields", value=tuple((name, _field(value)) for name, value in known))
    return (
        CardPart(kind="fields", value=fields(proposal))
        if isinstance(proposal, Mapping) and 0 < len(proposal) <= MAX_FIELDS and not is_opaque(proposal)
        else CardPart(kind="json", value=proposal)
    )


def context_part(card: Mapping[str, Any]) -> CardPart | None:
    """Return the context as names and values; None when there is none."""
    context = card.get("context")
    if not context:
        return None
    flat = isinstance(context, Mapping) and len(context) <= MAX_FIELDS
    flat = flat and all(not isinstance(item, (Mapping, list)) and len(str(item)) <= 200 for item in context.values())
    return CardPart(kind="facts", value=facts(context)) if flat else CardPart(kind="json", value=context)


def facts(value: Any) -> tuple[tuple[str, str | datetime], ...]:
    """Return names and short texts of a flat mapping, for a definition list; times with a zone as such."""
    pairs = value.items() if isinstance(value, Mapping) else ()
    return tuple((cell(label_of_key(str(key))), _parse_time(item) or cell(item)) for key, item in pairs)


def _parse_time(item: Any) -> datetime | None:
    """Return the time that an ISO text with date, time and zone names; None for everything else."""
    try:
        at = datetime.fromisoformat(item) if isinstance(item, str) and "T" in item else None
    except ValueError:
        return None
    return at if at is not None and at.tzinfo else None


def fields(value: Mapping[str, Any]) -> tuple[tuple[str, CardPart], ...]:
    """Return names and values of an object, each value by its kind: text, long text, tree."""
    return tuple((cell(label_of_key(str(key))), _field(item)) for key, item in value.items())


def _field(item: Any) -> CardPart:
    if isinstance(item, str):
        return CardPart(kind="text", block=block(item))
    compound = isinstance(item, (Mapping, list)) and item
    return CardPart(kind="json", value=item) if compound else CardPart(kind="text", block=block(cell(item)))


def evidence_parts(card: Mapping[str, Any], page: str = "", first: Collection[int] = ()) -> tuple[CardPart, ...]:
    """Return the evidence, each piece by its kind. ``page``: the request's address up to the number of a piece, which
    draws that piece first; below its path are their bytes, which without it are in the card.

    The work of a card is bounded: the pieces ``first``, or the last one for numbers beyond it, are drawn in any case,
    then each other piece for which enough of ``MOST_EFFORT`` is left, one at least. The rest is shown as text, and says
    where each piece is drawn.
    """
    listed = card.get("evidence")
    if not listed or not isinstance(listed, list):
        return ()
    efforts = [effort_of(piece) for piece in listed]
    drawn = {min(number, len(listed) - 1) for number in first}
    spent = _effort_of_face(card) + sum(efforts[number] for number in drawn)
    for number, effort in enumerate(efforts):
        if number not in drawn and (spent + effort <= MOST_EFFORT or (not drawn and spent <= MOST_EFFORT // 4)):
            drawn.add(number)
            spent += effort
    return tuple(
        _evidence(piece, number, f"{page.partition('?')[0]}evidence/{number}/" if page else "")
        if number in drawn
        else _plain(piece, number, page)
        for number, piece in enumerate(listed)
    )


def effort_of(piece: Any) -> int:
    """Return about how many microseconds of processor time a piece of evidence takes at most to be drawn."""
    kind, value = (str(piece.get("kind")), piece.get("value")) if isinstance(piece, Mapping) else ("json", piece)
    if kind in {"image", "pdf", "file", "link"}:
        return 100
    sides = value.values() if isinstance(value, Mapping) and {"before", "after"} <= set(value) else ()
    texts = [one if isinstance(one, str) else pretty(one) for one in (sides or [value])]
    size, lines = sum(map(len, texts)), sum(text.count("\n") for text in texts)
    match kind:
        case "text":
            effort = size // 2
        case "markdown":
            effort = sum(map(markdown_effort, texts))
        case "code":
            effort = 10 * min(size, MAX_COLOURED)
        case "table":
            effort = min(20 * lines, MOST_EFFORT // 2)
        case "diff":
            effort = min((60 if sides else 150) * lines + 4 * size, MOST_EFFORT)
        case "transcript":
            effort = min(sum(map(markdown_effort, texts)) + 150 * lines, MOST_EFFORT)
        case _:
            effort = min(15 * lines + size // 4, MOST_EFFORT // 4)
    return 100 + effort


def effort_of_card(card: Mapping[str, Any]) -> int:
    """Return about how many microseconds of processor time a card takes at most to be read and drawn."""
    listed = card.get("evidence")
    work = _effort_of_face(card) + sum(map(effort_of, listed if isinstance(listed, list) else ()))
    return len(str(card)) // 50 + min(work, MOST_EFFORT)


def _effort_of_face(card: Mapping[str, Any]) -> int:
    current = card.get("current")
    sides = {"before": current, "after": card.get("proposal")}
    compared = effort_of({"kind": "json" if current is None else "diff", "value": sides})
    return markdown_effort(str(card.get("body") or "")) + compared


def _plain(piece: Any, number: int, page: str) -> CardPart:
    title, value = (piece.get("title"), piece.get("value")) if isinstance(piece, Mapping) else ("Evidence", piece)
    text = value if isinstance(value, str) else pretty(value)
    return CardPart(
        kind="plain",
        title=cell(str(title or "")),
        block=block(text, MOST_PLAIN),
        anchor=f"evidence-{number}",
        formatted=f"{page}{number}#evidence-{number}" if page else "",
    )


def _evidence(piece: Any, number: int, href: str) -> CardPart:
    if not isinstance(piece, Mapping):
        return CardPart(kind="json", title="Evidence", value=piece)
    title, value, kind = cell(str(piece.get("title") or "")), piece.get("value"), str(piece.get("kind"))
    if kind in {"image", "pdf", "file"}:
        return _media(title, piece, href)
    drawn = DRAWN[kind](title, value, piece) if kind in DRAWN else None
    part = drawn or CardPart(kind="json", title=title, value=value)
    return replace(part, anchor=f"evidence-{number}", href=href if part.kind in OPENED else part.href)


def _media(title: str, piece: Mapping[str, Any], href: str) -> CardPart:
    media = read_media(piece)
    if media is None:
        words = "Cannot be displayed: not an image or file, or too large for a card."
        return CardPart(kind="text", title=title, block=block(words))
    kind = "image" if media.picture else "pdf" if media.inline else "file"
    alt, earlier = str(piece.get("alt") or ""), read_before(piece)
    before = attachment(earlier, alt, f"{href}?before" if href else "") if earlier else None
    return CardPart(kind=kind, title=title, file=replace(attachment(media, alt, href), before=before))


def _text_part(title: str, value: Any, piece: Mapping[str, Any]) -> CardPart | None:
    return CardPart(kind="text", title=title, block=block(value)) if isinstance(value, str) else None


def _markdown(title: str, value: Any, piece: Mapping[str, Any]) -> CardPart | None:
    return CardPart(kind="markdown", title=title, text=value) if isinstance(value, str) else None


def _transcript(title: str, value: Any, piece: Mapping[str, Any]) -> CardPart | None:
    try:
        messages = unpack_transcript(value)
    except ValueError:
        return None
    left_out = piece.get("earlier")
    left_out = left_out if isinstance(left_out, int) and left_out > 0 else 0
    talk = draw_talk(messages, left_out=left_out)
    hidden = talk.before > left_out
    earlier = draw_talk(messages, limit=MOST_EARLIER, until=talk.before, left_out=left_out) if hidden else None
    return CardPart(kind="transcript", title=title or "Conversation", talk=talk, earlier=earlier)


def _table_part(title: str, value: Any, piece: Mapping[str, Any]) -> CardPart | None:
    table = read_table(value, piece.get("columns"))
    return CardPart(kind="table", title=title, table=table) if table else None


def _link(title: str, value: Any, piece: Mapping[str, Any]) -> CardPart:
    address = value.get("href") or value.get("url") if isinstance(value, Mapping) else value
    if not isinstance(address, str) or not is_safe_link(address):
        return CardPart(kind="text", title=title, block=block(str(address)))
    return CardPart(kind="link", title=title or "Link", href=address, text=_address(address))


def _address(address: str) -> str:
    """Return an address as people should read it: its real target, then the rest, nothing hidden."""
    if address.startswith("mailto:"):
        return host_of(address)
    rest = re.sub(r"^https?://[^/?#]*", "", address)
    return visible(f"{host_of(address)}{'' if rest == '/' else rest}")[:MAX_ADDRESS]


def _diff(title: str, value: Any, piece: Mapping[str, Any]) -> CardPart:
    if isinstance(value, Mapping) and {"before", "after"} <= set(value):
        return compare(value["before"], value["after"], title)
    text = value if isinstance(value, str) else str(value)
    return CardPart(kind="diff", title=title, files=parse_unified(text), text=text)


def _code(title: str, value: Any, piece: Mapping[str, Any]) -> CardPart:
    text = value.get("text") if isinstance(value, Mapping) else value
    language = piece.get("language") or (value.get("language") if isinstance(value, Mapping) else "")
    return CardPart(kind="code", title=title, text=str(text or ""), language=str(language or ""))


DRAWN: dict[str, Callable[[str, Any, Mapping[str, Any]], CardPart | None]] = {
    "text": _text_part,
    "markdown": _markdown,
    "transcript": _transcript,
    "table": _table_part,
    "link": _link,
    "diff": _diff,
    "code": _code,
}


# A proposal of a few values, all of them visible: nothing that is approved is hidden in a fold. Pure.

MAX_UNFOLDED_VALUES = 20
"""Values that are shown unfolded."""
MAX_UNFOLDED_DEPTH = 6

Leaves = tuple[tuple[str, Any], ...]


def unfold(proposal: Any, schema: Mapping[str, Any]) -> Leaves:
    """Return label and value of everything in a proposal, by the titles of the answer's ``schema``.

    Empty for one value, and for more than ``MAX_UNFOLDED_VALUES`` of them.
    """
    if not _has_parts(proposal):
        return ()
    schemas, properties = Schemas(schema), mapping(schema.get("properties"))
    node: Any = next((properties[name] for name in EDITED if name in properties), {})
    found: list[tuple[str, Any]] = []
    for leaf in _leaves(proposal, node, schemas, ()):
        found.append(leaf)
        if len(found) > MAX_UNFOLDED_VALUES:
            return ()
    return tuple(found)


def _leaves(value: Any, node: Any, schemas: Schemas, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if not _has_parts(value) or len(path) >= MAX_UNFOLDED_DEPTH:
        yield " › ".join(path), value
        return
    known = _object(node, schemas)
    if isinstance(value, list):
        for number, item in enumerate(value, 1):
            place = (*path[:-1], f"{path[-1]} {number}") if path else (str(number),)
            yield from _leaves(item, known.get("items"), schemas, place)
        return
    fields = mapping(known.get("properties"))
    for key, item in value.items():
        yield from _leaves(item, fields.get(key), schemas, (*path, _title(str(key), fields.get(key), schemas)))


def _has_parts(value: Any) -> bool:
    """Return whether it is more than one value; a list of plain ones fits into a line."""
    if isinstance(value, list):
        return any(isinstance(item, (Mapping, list)) for item in value)
    return isinstance(value, Mapping) and bool(value) and not is_opaque(value)


def _object(node: Any, schemas: Schemas) -> Mapping[str, Any]:
    """Return a node's properties; of an optional one, those of its non-null alternative."""
    known = schemas.resolve(node) if isinstance(node, Mapping) else {}
    branches = [schemas.resolve(one) for one in known.get("anyOf") or () if isinstance(one, Mapping)]
    real = [one for one in branches if one.get("type") != "null"]
    return real[0] if len(real) == 1 else known


def _title(key: str, node: Any, schemas: Schemas) -> str:
    """Return a field's title; its own name where no schema knows it. A model's name is no title of a field."""
    if not isinstance(node, Mapping):
        return cell(label_of_key(key))
    own = node.get("title") or ("" if "$ref" in node else schemas.resolve(node).get("title"))
    return cell(label_of_field(key, own))


# Tables of a card: rows of cells as text, bounded, the long tail behind a fold. Pure.

MAX_ROWS = 200
MAX_COLUMNS = 20
MAX_CELL = 500
FIRST_ROWS = 8
SHORT_CELL_CHARACTERS = 18
_NUMBER = re.compile(r"[-+−]?[\d.,\u2009 ]*\d%?")


@frozen
class TableView:
    """Rows of equal length; ``left_out`` rows are not shown, those after the first few are behind a fold."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0

    @property
    def count(self) -> int:
        """Return how many rows there are, those that are not shown included."""
        return len(self.rows) + self.left_out

    @property
    def many(self) -> bool:
        """Return whether sorting and filtering helps."""
        return len(self.rows) > 1 and len(self.columns) > 0

    @property
    def looks(self) -> tuple[str, ...]:
        """Return a class per column: ``number`` (right-aligned), ``nowrap`` (short words), or empty."""
        return tuple(_column_class(cells) for cells in zip(*self.rows, strict=True))

    @property
    def heads(self) -> Pairs:
        """Return the columns, each with its class."""
        return tuple(zip_longest(self.columns, self.looks[: len(self.columns)], fillvalue=""))

    @property
    def first(self) -> tuple[Pairs, ...]:
        """Return the rows that are shown at once: cells with their classes."""
        return self._cells(self.rows if len(self.rows) <= FIRST_ROWS else self.rows[: FIRST_ROWS - 2])

    @property
    def others(self) -> tuple[Pairs, ...]:
        """Return the rows behind a fold; a long table is never folded for two."""
        return self._cells(() if len(self.rows) <= FIRST_ROWS else self.rows[FIRST_ROWS - 2 :])

    def _cells(self, rows: Sequence[Sequence[str]]) -> tuple[Pairs, ...]:
        looks = self.looks
        return tuple(tuple(zip(row, looks, strict=True)) for row in rows)


def cell(value: Any) -> str:
    """Return a value as the text of a table cell."""
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping) and is_opaque(value):
        return visible(str(value["repr"])[:MAX_CELL])
    text = value if isinstance(value, str) else _cell_text(value)
    return visible(text[:MAX_CELL]) + ("…" if len(text) > MAX_CELL else "")


def read_table(value: Any, columns: Any = None) -> TableView | None:
    """Return a table from a list of objects, a list of lists, or ``{columns, rows}``; None for anything else."""
    if isinstance(value, Mapping) and "rows" in value:
        return read_table(value["rows"], value.get("columns"))
    if not isinstance(value, list):
        return None
    picked = [str(name) for name in columns] if isinstance(columns, list) else []
    if value and all(isinstance(row, Mapping) for row in value):
        names = picked or [str(name) for name in dict.fromkeys(key for row in value[:MAX_ROWS] for key in row)]
        rows = [[row.get(name) for name in names] for row in value[:MAX_ROWS]]
        names = [label_of_key(name) for name in names]
    elif all(isinstance(row, list) for row in value):
        names, rows = picked, value[:MAX_ROWS]
    else:
        names, rows = picked or ["Value"], [[item] for item in value[:MAX_ROWS]]
    width = min(max([len(names), *(len(row) for row in rows)], default=0), MAX_COLUMNS)
    padded = [[*row, *[""] * (width - len(row))][:width] for row in rows]
    return TableView(
        columns=tuple(cell(name) for name in [*names, *[""] * (width - len(names))][:width]) if names else (),
        rows=tuple(tuple(cell(item) for item in row) for row in padded),
        left_out=max(len(value) - len(rows), 0),
    )


def _column_class(cells: Iterable[str]) -> str:
    filled = [text for text in cells if text not in {"", "—"}]
    if filled and all(_NUMBER.fullmatch(text) for text in filled):
        return "number"
    return "nowrap" if all(len(text) <= SHORT_CELL_CHARACTERS for text in filled) else ""


def _cell_text(value: Any) -> str:
    if isinstance(value, list) and 0 < len(value) <= 8 and all(isinstance(item, (str, int, float)) for item in value):
        return ", ".join(str(item) for item in value)
    return describe(value)


# Images and files of a card: read from its evidence, typed by their bytes only. Pure.

MAX_PREVIEW = 200_000
_SAYS = {
    TEXT: "Text",
    "application/pdf": "PDF",
    "application/zip": "ZIP archive",
    "application/gzip": "GZIP archive",
    "application/octet-stream": "Binary file",
}


@frozen
class CardMedia:
    """The bytes of an image or a file, and their type. ``picture`` is None for everything that is not shown."""

    name: str
    data: bytes
    media_type: str
    picture: Picture | None = None
    inline: bool = False
    """Whether browsers show it: an image, or a PDF document that its author wants to be shown."""


@frozen
class Attachment:
    """An image or a file, ready to be rendered. ``src`` is what an image is loaded from, ``href`` downloads."""

    name: str
    says: str
    size: int
    alt: str = ""
    width: int = 0
    height: int = 0
    src: str = ""
    href: str = ""
    preview: TextBlock | None = None
    inline: bool = False
    before: Attachment | None = None
    """The earlier version of an image."""


def read_media(piece: Any) -> CardMedia | None:
    """Return the bytes of a piece of evidence; None if it has none, or more than a card may hold."""
    if not isinstance(piece, Mapping) or piece.get("kind") not in {"image", "pdf", "file"}:
        return None
    value = piece.get("value")
    if not isinstance(value, str) or len(value) > MAX_BYTES * 4 // 3 + 4:
        return None
    try:
        data = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return None
    picture = picture_of(data) if piece["kind"] == "image" else None
    named = str(piece.get("name") or piece.get("title") or piece["kind"])
    ending = f".{picture.media_type.removeprefix('image/')}" if picture and "." not in named else ""
    inline = picture is not None or (piece["kind"] == "pdf" and is_pdf(data))
    name, kind = safe_name(named) + ending, media_type_of(data)
    return CardMedia(name=name, data=data, media_type=kind, picture=picture, inline=inline)


def read_before(piece: Any) -> CardMedia | None:
    """Return the earlier version of an image; None if there is none, or it is no image."""
    earlier = {**piece, "value": piece.get("before")} if isinstance(piece, Mapping) else None
    media = read_media(earlier) if earlier and earlier.get("kind") == "image" else None
    return media if media is not None and media.picture is not None else None


def json_at(card: Mapping[str, Any], number: int, pointer: str) -> CardMedia | None:
    """Return the value of a piece of evidence, or what is in it under a JSON Pointer, as a file; None if it has none.

    ``NoSuchNode`` if nothing is there.
    """
    pieces = card.get("evidence")
    piece = pieces[number] if isinstance(pieces, list) and 0 <= number < len(pieces) else None
    if not isinstance(piece, Mapping) or piece.get("kind") not in ("json", "transcript"):
        return None
    text = pretty(at(piece.get("value"), pointer))
    name = safe_name(str(piece.get("title") or "value")) + ".json"
    return CardMedia(name=name, data=text.encode(errors="backslashreplace"), media_type="application/json")


def media_at(card: Mapping[str, Any], number: int, *, before: bool = False) -> CardMedia | None:
    """Return the bytes of the evidence with that number, counted from zero. ``before``: of its earlier version."""
    pieces = card.get("evidence")
    if not isinstance(pieces, list) or not 0 <= number < len(pieces):
        return None
    return read_before(pieces[number]) if before else read_media(pieces[number])


def attachment(media: CardMedia, alt: str, href: str) -> Attachment:
    """Return an image or a file, ready to be rendered. Without ``href`` an image is part of the page itself."""
    picture = media.picture
    src = ""
    if picture is not None:
        src = href or f"data:{picture.media_type};base64,{base64.b64encode(media.data).decode()}"
    short = len(media.data) <= MAX_PREVIEW and media.media_type == TEXT
    text = text_of(media.data) if short else None
    return Attachment(
        name=media.name,
        says=_SAYS.get(media.media_type, media.media_type.partition(";")[0]),
        size=len(media.data),
        alt=visible(alt),
        width=picture.width if picture else 0,
        height=picture.height if picture else 0,
        src=src,
        href=href,
        preview=block(text) if text else None,
        inline=media.inline,
    )
