"""Adding, removing and moving rows: on the posted fields, before they are read, so that nothing typed is lost. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wfdash.pages.ui.forms.fields import index_of
from wfdash.pages.ui.forms.read import MAX_ROWS

ADD, REMOVE, UP, DOWN, SHOW, MODE = "_add", "_remove", "_up", "_down", "_show", "_mode"
BUTTONS = (ADD, REMOVE, UP, DOWN, SHOW, MODE)
MARKS = ".!@?#$"


def pressed(post: Mapping[str, Sequence[str]]) -> tuple[str, str] | None:
    """Return the pressed row button and the name it is for, or None."""
    return next(((button, post[button][-1]) for button in BUTTONS if post.get(button)), None)


def changed(post: Mapping[str, Sequence[str]], button: str, target: str) -> dict[str, list[str]]:
    """Return the posted fields after the change. ``target``: a list for ``_add``, else a row of one."""
    copy = {name: list(values) for name, values in post.items() if name not in BUTTONS}
    if button == ADD:
        count = _row_count(copy, target)
        return _resized(copy, target, min(count + 1, MAX_ROWS))
    parent, _, last = target.rpartition(".")
    row = index_of(last)
    if button in {SHOW, MODE} or row is None:
        return copy
    order = _order(button, row, _row_count(copy, parent))
    return _reordered(copy, parent, order)


def _row_count(post: Mapping[str, Sequence[str]], name: str) -> int:
    return min(index_of(post.get(f"{name}!", ["0"])[-1]) or 0, MAX_ROWS)


def _resized(post: dict[str, list[str]], name: str, count: int) -> dict[str, list[str]]:
    return {**post, f"{name}!": [str(count)]}


def _order(button: str, index: int, count: int) -> list[int]:
    """Return the old indexes in their new order."""
    order = list(range(count))
    if index >= count:
        return order
    if button == REMOVE:
        del order[index]
    other = index + {UP: -1, DOWN: 1}.get(button, 0)
    if button != REMOVE and 0 <= other < count:
        order[index], order[other] = order[other], order[index]
    return order


def _reordered(post: dict[str, list[str]], parent: str, order: list[int]) -> dict[str, list[str]]:
    place = {old: new for new, old in enumerate(order)}
    moved: dict[str, list[str]] = {}
    for name, values in post.items():
        index, rest = _split(name, parent)
        if index is None:
            moved[name] = values
        elif index in place:
            moved[f"{parent}.{place[index]}{rest}"] = values
    return _resized(moved, parent, len(order))


def _split(name: str, parent: str) -> tuple[int | None, str]:
    """Return the row a control belongs to and what follows its index; None for controls elsewhere."""
    if not name.startswith(f"{parent}."):
        return None, ""
    tail = name[len(parent) + 1 :]
    digits = tail[: next((i for i, char in enumerate(tail) if char in MARKS), len(tail))]
    index = index_of(digits)
    return index, "" if index is None else tail[len(digits) :]
