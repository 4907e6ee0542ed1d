"""From a schema and a value to the fields a template draws. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wfdash.pages.forms import scalars
from wfdash.pages.forms.choices import match_branch, name_branch, options_of
from wfdash.pages.forms.fields import Branch, Field, Loc, Option, Row, child
from wfdash.pages.forms.hints import control, help_of
from wfdash.pages.forms.read import Notes
from wfdash.pages.forms.scalars import MISSING
from wfdash.pages.forms.spec import Schemas, Spec, humanize

MAX_RADIOS = 4
MAX_RADIO_TEXT = 40


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a value stands. ``open`` says whether branches that nobody picked are drawn, too."""

    name: str
    loc: Loc = ()
    label: str = ""
    required: bool = False
    open: bool = True
    depth: int = 0

    def inner(self, key: str | int, label: str, required: bool) -> Place:
        """Return the place of a value inside this one."""
        return Place(
            name=child(self.name, key),
            loc=(*self.loc, key),
            label=label,
            required=required,
            open=self.open,
            depth=self.depth + 1,
        )


class Drawer:
    """Draws one schema. ``errors``: messages by place."""

    def __init__(self, schemas: Schemas, notes: Notes, errors: Mapping[Loc, Sequence[str]]) -> None:
        self.schemas = schemas
        self.notes = notes
        self.errors = errors

    def draw(self, schema: Any, place: Place, value: Any) -> Field:
        """Return the field of this node for a value or ``MISSING``."""
        spec = self.schemas.spec(schema, place.depth)
        if value is MISSING and "default" in spec.schema:
            value = spec.schema["default"]
        return _DRAWERS.get(spec.kind, Drawer._scalar)(self, spec, place, value)

    def _field(self, kind: str, spec: Spec, place: Place, **rest: Any) -> Field:
        return Field(
            kind=kind,
            name=place.name,
            id=f"field-{place.name}",
            loc=place.loc,
            label=place.label or spec.title,
            help=help_of(spec),
            required=place.required and not spec.nullable,
            **{"errors": tuple(self.errors.get(place.loc, ())), **rest},
        )

    def _scalar(self, spec: Spec, place: Place, value: Any) -> Field:
        typed = self.notes.texts.get(place.name)
        text = typed or scalars.show(spec, value)
        kind, attributes = control(spec, text)
        original = None if typed else self.notes.originals.get(place.name) or _original(spec, text, value)
        if spec.kind == "secret":
            text, original = "", None
        return self._field(kind, spec, place, text=text, original=original, attributes=attributes, uploads=spec.uploads)

    def _const(self, spec: Spec, place: Place, value: Any) -> Field:
        return self._field("const", spec, place, text=scalars.show(spec, spec.schema["const"]))

    def _switch(self, spec: Spec, place: Place, value: Any) -> Field:
        if not spec.nullable:
            return self._field("switch", spec, place, text="true" if value is True else "")
        options = (
            Option(sent="true", label="Yes", chosen=value is True),
            Option(sent="false", label="No", chosen=value is False),
        )
        return self._field("radios", spec, place, options=options, blank="Not set", text="" if value is None else "x")

    def _choice(self, spec: Spec, place: Place, value: Any) -> Field:
        options = options_of(spec, [] if value is MISSING or value is None else [value])
        short = len(options) <= MAX_RADIOS and sum(len(option.label) for option in options) <= MAX_RADIO_TEXT * 2
        blank = "None" if spec.nullable or not (place.required or "default" in spec.schema) else ""
        text = "".join(option.sent for option in options if option.chosen)
        return self._field("radios" if short else "select", spec, place, options=options, blank=blank, text=text)

    def _checks(self, spec: Spec, place: Place, value: Any) -> Field:
        chosen = value if isinstance(value, list) else []
        shown = scalars.ticked(spec.options, chosen)
        original = None if scalars.same(shown, chosen) else json.dumps(chosen)
        return self._field("checks", spec, place, options=options_of(spec, shown), original=original)

    def _group(self, spec: Spec, place: Place, value: Any) -> Field:
        given = value if isinstance(value, Mapping) else {}
        needed = spec.schema.get("required", ())
        children = tuple(
            self.draw(inner, place.inner(key, self._label(inner, key, place), key in needed), given.get(key, MISSING))
            for key, inner in spec.schema["properties"].items()
        )
        return self._field("group", spec, place, children=children)

    def _label(self, schema: Any, key: str, place: Place) -> str:
        """Return the author's title; a pydantic model's own name is no title for a field that holds one."""
        own = schema.get("title") if isinstance(schema, Mapping) else None
        return str(own or humanize(key))

    def _rows(self, spec: Spec, place: Place, value: Any) -> Field:
        items = value if isinstance(value, list) else []
        rows = tuple(
            self._row(spec.schema["items"], place, index, item, len(items)) for index, item in enumerate(items)
        )
        return self._field("rows", spec, place, rows=rows)

    def _row(self, schema: Any, place: Place, index: int, item: Any, count: int) -> Row:
        label = f"{place.label or 'Item'} {index + 1}"
        field = self.draw(schema, place.inner(index, label, True), MISSING if item is None else item)
        return Row(
            index=index, name=field.name, number=index + 1, first=index == 0, last=index == count - 1, field=field
        )

    def _tuple(self, spec: Spec, place: Place, value: Any) -> Field:
        items = value if isinstance(value, list) else []
        schemas: Sequence[Any] = spec.schema["prefixItems"]
        children = tuple(
            self.draw(
                schema,
                place.inner(index, _title(schema) or f"Part {index + 1}", True),
                items[index] if index < len(items) else MISSING,
            )
            for index, schema in enumerate(schemas)
        )
        return self._field("tuple", spec, place, children=children)

    def _pairs(self, spec: Spec, place: Place, value: Any) -> Field:
        pairs = self.notes.pairs.get(place.name) or list(value.items() if isinstance(value, Mapping) else ())
        rows = tuple(self._pair(spec, place, index, key, item, len(pairs)) for index, (key, item) in enumerate(pairs))
        return self._field("pairs", spec, place, rows=rows)

    def _pair(self, spec: Spec, place: Place, index: int, key: str, item: Any, count: int) -> Row:
        inner = place.inner(index, f"Value {index + 1}", True)
        spot = Place(name=inner.name, loc=(*place.loc, key), label=inner.label, required=True, depth=inner.depth)
        field = self.draw(spec.schema["additionalProperties"], spot, item)
        fresh = place.name in self.notes.pairs
        return Row(
            index=index,
            name=field.name,
            number=index + 1,
            first=index == 0,
            last=index == count - 1,
            field=field,
            key=key,
            key_original=not key and not fresh,
        )

    def _union(self, spec: Spec, place: Place, value: Any) -> Field:
        picked = self.notes.picks.get(place.name)
        here = picked if picked is not None else match_branch(self.schemas, spec, value)
        branches = [Branch(sent="null", label="None", chosen=here == "null", field=None)] if spec.nullable else []
        if here == "" or (not spec.nullable and not place.required):
            branches.insert(0, Branch(sent="", label="Choose…", chosen=here == "", field=None))
        branches += [self._branch(spec, place, value, i, here == str(i)) for i in range(len(spec.branches))]
        told = any(branch.chosen and branch.field is not None for branch in branches)
        errors = () if told else tuple(self.errors.get(place.loc, ()))
        return self._field("union", spec, place, branches=tuple(branches), errors=errors)

    def _branch(self, spec: Spec, place: Place, value: Any, index: int, chosen: bool) -> Branch:
        schema, label = spec.branches[index], name_branch(self.schemas, spec, index)
        picked = place.name in self.notes.picks
        known = value is not MISSING and (value is not None or not spec.nullable)
        field = None
        if (chosen and (known or picked)) or place.open:
            spot = Place(
                name=child(place.name, index),
                loc=place.loc if chosen else (*place.loc, "?", index),
                label=label,
                required=True,
                open=chosen and known,
                depth=place.depth + 1,
            )
            field = self.draw(schema, spot, value if chosen else MISSING)
        return Branch(sent=str(index), label=label, chosen=chosen, field=field)


def _title(schema: Any) -> str:
    return str(schema.get("title") or "") if isinstance(schema, Mapping) else ""


def _fits(spec: Spec, value: Any) -> bool:
    """Say whether a value has the type its control is for; others are shown but not vouched for."""
    if value is None:
        return spec.nullable or spec.kind == "json"
    if spec.kind in {"integer", "number"}:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if spec.kind == "decimal":
        return isinstance(value, (int, float, str)) and not isinstance(value, bool)
    return spec.kind == "json" or isinstance(value, str)


def _original(spec: Spec, text: str, value: Any) -> str | None:
    """Return the value as JSON where reading the text back would give another one, else None."""
    if value is MISSING or not _fits(spec, value):
        return None
    try:
        again = scalars.read(spec, text) if text else (None if spec.nullable else MISSING)
    except scalars.Unreadable:
        return json.dumps(value)
    return None if scalars.same(again, value) else json.dumps(value)


_DRAWERS: dict[str, Callable[[Drawer, Spec, Place, Any], Field]] = {
    "const": Drawer._const,
    "switch": Drawer._switch,
    "choice": Drawer._choice,
    "checks": Drawer._checks,
    "group": Drawer._group,
    "rows": Drawer._rows,
    "tuple": Drawer._tuple,
    "pairs": Drawer._pairs,
    "union": Drawer._union,
}
