"""What a card shows, ready to be rendered: the proposal against the current value, and the evidence. Pure.

A card comes from a workflow's code and is not trusted to have any shape: anything unexpected is rendered as a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from wfdash.domain.invisible import visible
from wfdash.domain.labels import label_of_key
from wfdash.pages.ui.card.media import Attachment, attachment, read_before, read_media
from wfdash.pages.ui.card.tables import TableView, cell, read_table
from wfdash.pages.ui.card.unfolded import unfold
from wfdash.pages.ui.diff import FileDiff, TextDiff, ValueChange, diff_text, diff_values, parse_unified
from wfdash.pages.ui.json_tree import heavy
from wfdash.pages.ui.json_value import is_cut, is_opaque, pretty
from wfdash.pages.ui.markup import MAX_COLOURED, host_of, is_safe_link, markdown_effort
from wfdash.pages.ui.text_blocks import TextBlock, block
from wfdash.pages.ui.transcript import Talk, draw_talk
from wfdash.questions.transcript import unpack_transcript

MAX_FIELDS = 40
MAX_ADDRESS = 120
MAX_WHOLE = 50_000
"""Characters of two values as text up to which they are also compared line by line."""
MOST_EFFORT = 120_000
"""Microseconds that a card may take to be drawn, by ``effort_of``."""
MOST_PLAIN = 4_000
"""Characters of a piece that are shown where the card has too much evidence to draw all of it."""
TREE = 12
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


@dataclass(frozen=True, kw_only=True)
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
        return self.kind == "json" and heavy(self.value, TREE)

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
    whole = diff_text(*texts) if changes and sum(map(len, texts)) <= MAX_WHOLE else None
    compound = isinstance(after, (Mapping, list))
    return CardPart(
        kind="changes",
        title=title,
        changes=changes,
        diff=whole if compound else None,
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
        if _has_fields(proposal)
        else CardPart(kind="json", value=proposal)
    )


def context_part(card: Mapping[str, Any]) -> CardPart | None:
    """Return the context as names and values; None when there is none."""
    context = card.get("context")
    if not context:
        return None
    flat = isinstance(context, Mapping) and _is_flat(context)
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


def _has_fields(value: Any) -> bool:
    return isinstance(value, Mapping) and 0 < len(value) <= MAX_FIELDS and not is_opaque(value)


def _is_flat(value: Mapping[str, Any]) -> bool:
    return len(value) <= MAX_FIELDS and all(
        not isinstance(item, (Mapping, list)) and len(str(item)) <= 200 for item in value.values()
    )


def evidence_parts(card: Mapping[str, Any], files: str = "", first: Collection[int] = ()) -> tuple[CardPart, ...]:
    """Return the evidence, each piece by its kind. ``files``: the address under which its bytes are, by number.

    The work of a card is bounded: the pieces ``first`` are drawn in any case, then each other piece for which enough of
    ``MOST_EFFORT`` is left, one at least. The rest is shown as text, and says where each piece is drawn.
    """
    pieces = card.get("evidence")
    listed = pieces if isinstance(pieces, list) else []
    efforts = [effort_of(piece) for piece in listed]
    drawn = {number for number in first if number < len(listed)}
    spent = markdown_effort(str(card.get("body") or "")) + sum(efforts[number] for number in drawn)
    if card.get("current") is not None:
        spent += effort_of({"kind": "diff", "value": {"before": card["current"], "after": card.get("proposal")}})
    for number, effort in enumerate(efforts):
        if number not in drawn and (spent + effort <= MOST_EFFORT or (not drawn and spent <= MOST_EFFORT // 4)):
            drawn.add(number)
            spent += effort
    return tuple(
        (_evidence if number in drawn else _plain)(piece, number, f"{files}{number}/" if files else "")
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
            effort = min((60 if sides else 250) * lines + (4 if sides else 8) * size, MOST_EFFORT)
        case "transcript":
            effort = min(sum(map(markdown_effort, texts)) + 150 * lines, MOST_EFFORT)
        case _:
            effort = min(15 * lines + size // 4, MOST_EFFORT // 4)
    return 100 + effort


def _plain(piece: Any, number: int, href: str) -> CardPart:
    title, value = (piece.get("title"), piece.get("value")) if isinstance(piece, Mapping) else ("Evidence", piece)
    text = value if isinstance(value, str) else pretty(value)
    return CardPart(
        kind="plain",
        title=cell(str(title or "")),
        block=block(text, MOST_PLAIN),
        anchor=f"evidence-{number}",
        formatted=f"{href.removesuffix(f'evidence/{number}/')}?piece={number}#evidence-{number}" if href else "",
    )


def _evidence(piece: Any, number: int, href: str) -> CardPart:
    if not isinstance(piece, Mapping):
        return CardPart(kind="json", title="Evidence", value=piece)
    title, value, kind = cell(str(piece.get("title") or "")), piece.get("value"), str(piece.get("kind"))
    if kind in {"image", "pdf", "file"}:
        return _media(title, piece, href)
    draw = DRAWN.get(kind)
    part = draw(title, value, piece) if draw is not None else CardPart(kind="json", title=title, value=value)
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


def _text_part(title: str, value: Any, piece: Mapping[str, Any]) -> CardPart:
    if not isinstance(value, str):
        return CardPart(kind="json", title=title, value=value)
    return CardPart(kind="text", title=title, block=block(value))


def _markdown(title: str, value: Any, piece: Mapping[str, Any]) -> CardPart:
    return (
        CardPart(kind="markdown", title=title, text=value)
        if isinstance(value, str)
        else _text_part(title, value, piece)
    )


def _transcript(title: str, value: Any, piece: Mapping[str, Any]) -> CardPart:
    try:
        messages = unpack_transcript(value)
    except ValueError:
        return CardPart(kind="json", title=title, value=value)
    left_out = piece.get("earlier")
    left_out = left_out if isinstance(left_out, int) and left_out > 0 else 0
    talk = draw_talk(messages, left_out=left_out)
    hidden = talk.before > left_out
    earlier = draw_talk(messages, limit=MOST_EARLIER, until=talk.before, left_out=left_out) if hidden else None
    return CardPart(kind="transcript", title=title or "Conversation", talk=talk, earlier=earlier)


def _table(title: str, value: Any, piece: Mapping[str, Any]) -> CardPart:
    table = read_table(value, piece.get("columns"))
    return (
        CardPart(kind="table", title=title, table=table) if table else CardPart(kind="json", title=title, value=value)
    )


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


DRAWN: dict[str, Callable[[str, Any, Mapping[str, Any]], CardPart]] = {
    "text": _text_part,
    "markdown": _markdown,
    "transcript": _transcript,
    "table": _table,
    "link": _link,
    "diff": _diff,
    "code": _code,
}
