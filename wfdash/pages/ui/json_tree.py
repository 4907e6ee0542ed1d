"""A large JSON value as a tree that is loaded lazily, each node with an address; and search in it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from wfdash.domain.invisible import visible
from wfdash.domain.json_patch import escape
from wfdash.pages.ui.json_value import NO_KEY, TreeRenderer, describe, is_opaque

HEAVY = 60
"""A node with more values in it than this is fetched when a person opens it."""
AT_ONCE = 100
"""Children of one list or mapping that are shown together."""
MOST_HITS = 100
MOST_LOOKED_AT = 500_000
LONG_TEXT = 5_000

Address = Callable[[str, int], str]
"""(pointer, index of the first child) -> address."""


class NoSuchNode(LookupError):
    """There is no such node: the value has changed, or the address is wrong."""


@dataclass(frozen=True, kw_only=True)
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


def heavy(value: Any, limit: int = HEAVY) -> bool:
    """Return whether a value contains more than ``limit`` others, or a very long text, without looking further."""
    waiting, seen = [value], 0
    while waiting:
        one = waiting.pop()
        seen += 1
        if isinstance(one, str) and len(one) > LONG_TEXT:
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
                words = f"{count - place:,} more"
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
        if depth and isinstance(value, str) and len(value) > LONG_TEXT:
            words = format_html('<a href="{}">{}</a>', self.address(self.places[-1], 0), f"{len(value):,} characters")
            return key + format_html('<span class="v-text">{}…</span> {}', visible(value[:60]), words)
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
