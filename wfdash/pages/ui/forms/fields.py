"""What a form template renders: fields, options, branches, and how controls are named. Pure.

A control's name is the path of its value, parts joined by dots: ``claims.0.amount``. Marks follow a name: ``!`` the
control was there (and how many rows), ``@`` the original value, ``?`` the branch picked, ``#`` a key, ``$`` the value
as JSON text, because the control could not show it. ``*`` holds a group's fields without a schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import quote

from django.forms.utils import flatatt
from django.utils.safestring import SafeString

Loc: TypeAlias = tuple[str | int, ...]

RESERVED = frozenset({"csrfmiddlewaretoken"})
UNNAMED = frozenset({"group", "rows", "pairs", "tuple", "radios", "checks", "switch", "union", "file"})
"""Kinds for which ``aria-required`` is not defined."""

MAX_SEGMENTS = 5
MAX_SEGMENT_TEXT = 60


@dataclass(frozen=True, kw_only=True)
class FieldOption:
    """A choice: ``sent`` is what the browser sends."""

    sent: str
    label: str
    chosen: bool


@dataclass(frozen=True, kw_only=True)
class UnionBranch:
    """An alternative of a union; ``field`` is None while it is not rendered."""

    sent: str
    label: str
    chosen: bool
    field: Field | None


@dataclass(frozen=True, kw_only=True)
class FieldRow:
    """An item of a list, or an entry of a dictionary (then with its ``key``)."""

    index: int
    name: str
    number: int
    first: bool
    last: bool
    field: Field
    key: str = ""
    key_original: bool = False
    known: bool = True
    """Whether the key is one of those that are offered."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """A part of the form. ``kind`` names its template; ``text`` is exactly what the control shows."""

    kind: str
    name: str
    id: str
    loc: Loc
    label: str
    help: str = ""
    required: bool = False
    text: str = ""
    original: str | None = None
    attributes: tuple[tuple[str, str], ...] = ()
    options: tuple[FieldOption, ...] = ()
    blank: str = ""
    children: tuple[Field, ...] = ()
    branches: tuple[UnionBranch, ...] = ()
    rows: tuple[FieldRow, ...] = ()
    uploads: bool = False
    accept: str = ""
    most_bytes: int = 0
    too_large: str = ""
    preview: str = ""
    errors: tuple[str, ...] = ()

    @property
    def template(self) -> str:
        """Return the template that renders it."""
        return f"components/fields/{self.kind}.html"

    @property
    def boxed(self) -> bool:
        """Return whether it holds more than one control, so that a row of a list is a box of its own."""
        return self.kind in {"group", "tuple", "union", "rows", "pairs", "file"}

    @property
    def segmented(self) -> bool:
        """Return whether the branches of a union are few and short enough for a segmented control."""
        return len(self.branches) <= MAX_SEGMENTS and sum(len(b.label) for b in self.branches) <= MAX_SEGMENT_TEXT

    @property
    def kinds(self) -> tuple[UnionBranch, ...]:
        """Return the branches to pick from: where one has to be, none may be picked yet."""
        return tuple(one for one in self.branches if one.sent or not self.required)

    @property
    def described_by(self) -> str:
        """Return the ids of the texts that explain the control."""
        parts = [f"{self.id}-error"] if self.errors else []
        return " ".join(parts + ([f"{self.id}-help"] if self.help else []))

    @property
    def flat(self) -> SafeString:
        """Return the control's attributes, escaped, as one string that starts with a space."""
        own: dict[str, Any] = {**dict(self.attributes), **self._aria()}
        return flatatt({**own, "id": self.id, "name": self.name})

    @property
    def aria(self) -> SafeString:
        """Return only state and description, for controls that come in groups."""
        return flatatt(self._aria())

    def _aria(self) -> dict[str, Any]:
        given: dict[str, Any] = {"aria-invalid": "true"} if self.errors else {}
        if self.required and self.kind not in UNNAMED:
            given["aria-required"] = "true"
        return given | ({"aria-describedby": self.described_by} if self.described_by else {})


def part(key: str | int) -> str:
    """Return one part of a control's name: no dots, marks or spaces, never what Django or the page reserves."""
    if isinstance(key, int):
        return str(key)
    text = quote(key, safe="").replace(".", "%2E") or "%"
    return "%5F" + text[1:] if text.startswith("_") else "%63" + text[1:] if text in RESERVED else text


def child(name: str, key: str | int) -> str:
    """Return the name of a value inside a value. A prefix ends in ``:``, the root of a group has no name."""
    return _joined_name(name, part(key))


def others(name: str) -> str:
    """Return the name of the fields of a group that its schema does not name."""
    return _joined_name(name, "*")


def _joined_name(name: str, own: str) -> str:
    return f"{name}{own}" if not name or name.endswith(":") else f"{name}.{own}"


def index_of(text: str) -> int | None:
    """Return the number of a row, a branch or a count of rows as a form posts it; None for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
