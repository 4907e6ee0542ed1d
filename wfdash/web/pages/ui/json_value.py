"""Any JSON value as a tree that folds without scripts. Never fails: other values are shown as type, size, repr."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from checkpoints.records import frozen
from wfdash.domain.json_patch import escape
from wfdash.domain.labels import escaped, visible
from wfdash.values.display import OPAQUE
from wfdash.web.pages.ui.time_html import format_html
from wfdash.web.pages.ui.times import counted, number

MAX_DEPTH = 40
MAX_ITEMS = 200
MAX_OPEN = 20
"""A longer list or mapping is initially folded, unless it is the whole value."""
MAX_NODES = 3000
LONG_TEXT = 240
MAX_TEXT = 20_000
MAX_REPR = 500
NO_KEY = SafeString("")


def render_value(value: Any, *, open_levels: int = 1) -> SafeString:
    """Return the value as nested ``<details>``; the first ``open_levels`` are open."""
    return format_html('<div class="tree">{}</div>', TreeRenderer(open_levels).render(value, 0))


def pretty(value: Any) -> str:
    """Return indented JSON text, no character of it invisible; values that JSON does not support become their repr."""
    try:
        return escaped(json.dumps(value, indent=2, ensure_ascii=False, default=_scalar_text))
    except Exception:
        return _described(value)


def describe(value: Any) -> str:
    """Return a one-line description of a value: ``3 fields``, ``12 items``, ``"short text"``, ``42``."""
    if isinstance(value, Mapping):
        if is_opaque(value):
            return str(value[OPAQUE])
        return f"{len(value)} field{'' if len(value) == 1 else 's'}"
    if isinstance(value, (list, tuple)):
        return f"{len(value)} item{'' if len(value) == 1 else 's'}"
    if isinstance(value, str):
        return f"“{visible(value[:60])}{'…' if len(value) > 60 else ''}”"
    return _scalar_text(value)


def _described(value: Any) -> str:
    try:
        return describe(value)
    except Exception:
        return _scalar_text(value)


def is_opaque(value: Mapping[Any, Any]) -> bool:
    """Return whether this represents a value that JSON does not support: its type, maybe its size, its repr."""
    return OPAQUE in value and {OPAQUE, "repr"} <= set(value) <= {OPAQUE, "repr", "size"}


def _scalar_text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    try:
        return visible(repr(value)[:MAX_REPR])
    except Exception as error:
        return f"(cannot be shown: {type(error).__name__})"


class TreeRenderer:
    """Renders one tree and stops after ``MAX_NODES``."""

    def __init__(self, open_levels: int) -> None:
        self.open_levels = open_levels
        self.left = MAX_NODES

    def render(self, value: Any, depth: int, key: SafeString = NO_KEY) -> SafeString:
        """Return one value after its key; a foldable one has the key in its summary."""
        self.left -= 1
        if isinstance(value, (Mapping, list, tuple)):
            try:
                return self._compound(value, depth, key)
            except Exception:
                return key + _scalar(value)
        if isinstance(value, str):
            return _render_text(value, key)
        return key + _scalar(value)

    def _compound(self, value: Mapping[Any, Any] | Sequence[Any], depth: int, key: SafeString) -> SafeString:
        if isinstance(value, Mapping) and is_opaque(value):
            return key + _chip(value[OPAQUE], value.get("size"), value["repr"])
        if not value:
            return key + format_html('<span class="v-empty">{}</span>', "{}" if isinstance(value, Mapping) else "[]")
        if depth >= MAX_DEPTH or self.left <= 0:
            return key + format_html('<span class="v-more">… {}</span>', describe(value))
        pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
        rows = self._rows(pairs, len(value), depth)
        opened = SafeString(" open" if depth < self.open_levels and (not depth or len(value) <= MAX_OPEN) else "")
        return format_html(
            '<details class="v-fold"{}><summary>{}{}</summary><ul class="v-rows">{}</ul></details>',
            opened,
            key,
            describe(value),
            rows,
        )

    def _rows(self, pairs: Iterable[tuple[Any, Any]], count: int, depth: int) -> SafeString:
        drawn: list[SafeString] = []
        for key, item in pairs:
            if len(drawn) >= MAX_ITEMS or self.left <= 0:
                drawn.append(format_html('<li class="v-more">… {} more</li>', count - len(drawn)))
                break
            drawn.append(self._row(key, item, depth))
        return format_html_join("", "{}", ((row,) for row in drawn))

    def _row(self, key: Any, item: Any, depth: int) -> SafeString:
        text = visible((key if isinstance(key, str) else _scalar_text(key))[:LONG_TEXT])
        exact = format_html(' data-key="{}"', escaped_key(key)) if text != str(key) else ""
        name = format_html('<span class="v-key"{}>{}</span> ', exact, text)
        return format_html("<li>{}</li>", self.render(item, depth + 1, name))


def is_cut(value: Any) -> bool:
    """Return whether a tree shows only a part of a value."""
    waiting, seen = [value], 0
    while waiting:
        one = waiting.pop()
        seen += 1
        parts = one.values() if isinstance(one, Mapping) else one if isinstance(one, (list, tuple)) else ()
        if seen > MAX_NODES or len(parts) > MAX_ITEMS:
            return True
        waiting.extend(parts)
    return False


def escaped_key(key: Any) -> str:
    """Return a key as JSON text in which nothing is invisible: what a page knows it by."""
    return escaped(json.dumps(str(key)[:MAX_TEXT], ensure_ascii=False))


def _render_text(value: str, key: SafeString) -> SafeString:
    shown = visible(value[:MAX_TEXT])
    if len(value) <= LONG_TEXT and "\n" not in value:
        return key + format_html('<span class="v-text" dir="auto">{}</span>', shown or "(empty text)")
    cut = (
        format_html('<p class="v-more">… {} more characters</p>', len(value) - MAX_TEXT)
        if len(value) > MAX_TEXT
        else ""
    )
    lines = value.count("\n") + 1
    size = counted(len(value), "character") + (f", {number(lines)} lines" if lines > 1 else "")
    return format_html(
        '<details class="v-fold"><summary>{}<span class="v-text" dir="auto">{}…</span>'
        ' <span class="v-more">{}</span></summary>'
        '<pre class="v-long" tabindex="0">{}</pre>{}</details>',
        key,
        visible(value[:48].replace("\n", " ")),
        size,
        shown,
        cut,
    )


def _scalar(value: Any) -> SafeString:
    if value is None or isinstance(value, bool):
        return format_html('<span class="v-word">{}</span>', _scalar_text(value))
    if isinstance(value, (int, float)):
        return format_html('<span class="v-number">{}</span>', _scalar_text(value))
    return _chip(type(value).__name__, _size_of(value), _scalar_text(value))


def _size_of(value: Any) -> int | None:
    try:
        return len(value)
    except Exception:
        return None


def _chip(kind: Any, size: Any, text: Any) -> SafeString:
    """Return the chip of a value of another type: its name, its size, its repr."""
    unit = "bytes" if kind in {"bytes", "bytearray", "memoryview"} else "items"
    length = f", {number(size)} {unit}" if isinstance(size, int) else ""
    return format_html(
        '<span class="v-other"><span class="chip">{}{}</span> <code>{}</code></span>',
        visible(str(kind)[:LONG_TEXT]),
        length,
        visible(str(text)[:MAX_REPR]),
    )


# A large JSON value as a tree that is loaded lazily, each node with an address; and search in it. Pure.

HEAVY_VALUES = 60
"""A node with more values in it than this is fetched when a person opens it."""
AT_ONCE = 100
"""Children of one list or mapping that are shown together."""
MOST_HITS = 100
MOST_LOOKED_AT = 500_000
LONG_TREE_TEXT = 5_000

Address = Callable[[str, int], str]
"""(pointer, index of the first child) -> address."""


class NoSuchNode(LookupError):
    """There is no such node: the value has changed, or the address is wrong."""


@frozen
class SearchHit:
    """A match of the search: in the key, or in the value."""

    pointer: str
    shown: str


def at(value: Any, pointer: str) -> Any:
    """Return the target of a JSON pointer. ``NoSuchNode``."""
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isascii() and key.isdigit() and len(key) < 10 and int(key) < len(value):
            value = value[int(key)]
        else:
            raise NoSuchNode(f"Nothing at {pointer}")
    return value


def trail(pointer: str) -> list[tuple[str, str]]:
    """Return (name, pointer) of every parent of a node, outermost first, itself last."""
    parts = pointer.split("/")[1:]
    names = [part.replace("~1", "/").replace("~0", "~") for part in parts]
    return [(name, "/".join(["", *parts[: place + 1]])) for place, name in enumerate(names)]


def heavy(value: Any, limit: int = HEAVY_VALUES) -> bool:
    """Return whether a value contains more than ``limit`` others, or a very long text, without looking further."""
    waiting, seen = [value], 0
    while waiting:
        one = waiting.pop()
        seen += 1
        if isinstance(one, str) and len(one) > LONG_TREE_TEXT:
            return True
        parts: Iterable[Any] = one.values() if isinstance(one, Mapping) else one if isinstance(one, list) else ()
        if isinstance(one, (Mapping, list)) and len(one) + seen > limit:
            return True
        waiting.extend(parts)
        if seen > limit:
            return True
    return False


def render_tree(value: Any, address: Address, pointer: str = "", begin: int = 0) -> SafeString:
    """Return a part of a tree: its children from ``begin`` on, small ones whole, large ones to be opened."""
    return format_html('<div class="tree">{}</div>', LazyTreeRenderer(address, pointer, begin).render(value, 0))


def children(value: Any, address: Address, pointer: str, begin: int = 0) -> SafeString:
    """Return only the rows of a node, to be inserted where it is opened."""
    if not isinstance(value, (Mapping, list)) or is_leaf(value):
        return format_html(
            '<ul class="v-rows"><li>{}</li></ul>', LazyTreeRenderer(address, pointer, 0).render(value, 0)
        )
    return format_html('<ul class="v-rows">{}</ul>', LazyTreeRenderer(address, pointer, begin).rows_of(value))


def is_leaf(value: Any) -> bool:
    """Return whether a value is shown in one piece."""
    return not value or (isinstance(value, Mapping) and is_opaque(value))


class LazyTreeRenderer(TreeRenderer):
    """Renders with addresses: a heavy node is left to be fetched from its address."""

    def __init__(self, address: Address, pointer: str, begin: int) -> None:
        super().__init__(open_levels=2)
        self.address, self.begin = address, begin
        self.places = [pointer]

    def rows_of(self, value: Mapping[Any, Any] | Sequence[Any]) -> SafeString:
        """Return the rows of the top level."""
        pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
        return self._rows(pairs, len(value), 0)

    def _compound(self, value: Mapping[Any, Any] | Sequence[Any], depth: int, key: SafeString) -> SafeString:
        if depth == 0 or is_leaf(value) or not heavy(value):
            return super()._compound(value, depth, key)
        place = self.places[-1]
        return format_html(
            '<details class="v-fold" data-lazy="{}"><summary>{}{}</summary>'
            '<p class="v-more"><a href="{}">Open</a></p></details>',
            self.address(place, 0),
            key,
            describe(value),
            self.address(place, 0),
        )

    def _rows(self, pairs: Iterable[tuple[Any, Any]], count: int, depth: int) -> SafeString:
        begin = self.begin if depth == 0 else 0
        drawn: list[SafeString] = []
        for place, (key, item) in enumerate(pairs):
            if place < begin:
                continue
            if len(drawn) >= AT_ONCE:
                more = self.address(self.places[-1], place)
                words = f"{number(count - place)} more"
                drawn.append(
                    format_html('<li class="v-more"><a href="{}" data-more="{}">{}</a></li>', more, more, words)
                )
                break
            self.places.append(f"{self.places[-1]}/{escape(str(key))}")
            drawn.append(self._row(key, item, depth))
            self.places.pop()
        return format_html_join("", "{}", ((row,) for row in drawn))

    def render(self, value: Any, depth: int, key: SafeString = NO_KEY) -> SafeString:
        """Return one value after its key; a very long text is fetched from its address."""
        if depth and isinstance(value, str) and len(value) > LONG_TREE_TEXT:
            words = format_html(
                '<a href="{}">{}</a>', self.address(self.places[-1], 0), counted(len(value), "character")
            )
            return key + format_html('<span class="v-text" dir="auto">{}…</span> {}', visible(value[:60]), words)
        return super().render(value, depth, key)


def find(value: Any, text: str) -> tuple[tuple[SearchHit, ...], bool]:
    """Return the matches of a text in keys and values, in document order, and whether there may be more."""
    wanted, hits = text.lower(), list[SearchHit]()
    for looked, (pointer, key, item) in enumerate(_walk(value), 1):
        leaf = not isinstance(item, (Mapping, list))
        if wanted in key.lower() or (leaf and wanted in _searchable(item).lower()):
            hits.append(SearchHit(pointer=pointer, shown=describe(item)))
        if len(hits) > MOST_HITS or looked >= MOST_LOOKED_AT:
            return tuple(hits[:MOST_HITS]), True
    return tuple(hits), False


def _searchable(item: Any) -> str:
    return item if isinstance(item, str) else {None: "null", True: "true", False: "false"}.get(item, str(item))


def _walk(value: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield (pointer, key, value) of everything inside, in document order."""
    waiting: list[tuple[str, str, Any]] = [("", "", value)]
    while waiting:
        pointer, key, item = waiting.pop()
        yield pointer, key, item
        pairs: list[tuple[str, Any]] = []
        if isinstance(item, Mapping):
            pairs = [(str(name), part) for name, part in item.items()]
        elif isinstance(item, list):
            pairs = [(str(place), part) for place, part in enumerate(item)]
        waiting.extend((f"{pointer}/{escape(name)}", name, part) for name, part in reversed(pairs))
