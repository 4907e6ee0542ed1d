"""From a schema and a value to the fields a template renders. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from wfdash.domain.labels import label_of_field
from wfdash.pages.ui.forms import json_text, scalars
from wfdash.pages.ui.forms.choices import match_branch, name_branch, options_of, title_of
from wfdash.pages.ui.forms.fields import Field, FieldOption, FieldRow, Loc, UnionBranch, child, others
from wfdash.pages.ui.forms.hints import control, describe_file, help_of, preview_of
from wfdash.pages.ui.forms.json_text import Unreadable
from wfdash.pages.ui.forms.read import ReadNotes
from wfdash.pages.ui.forms.scalars import MISSING
from wfdash.pages.ui.forms.spec import Schemas, Spec
from wfdash.questions.open_answers import is_open
from wfdash.schemas.media import limit_of, too_large, wanted_types

MAX_RADIOS = 4
MOST_OPEN = 5  # initial rows of a list that needs some
MAX_RADIO_TEXT = 40
MOST_FIELDS = 3_000
"""Fields that are drawn, rows and branches included; the rest is JSON text. Ten options count as a field."""


@dataclass(frozen=True, kw_only=True)
class FieldSlot:
    """The place of a value. ``open`` says whether branches that were not picked are rendered, too."""

    name: str
    loc: Loc = ()
    label: str = ""
    required: bool = False
    open: bool = True
    depth: int = 0

    def inner(self, key: str | int, label: str, required: bool) -> FieldSlot:
        """Return the place of a value inside this one."""
        return FieldSlot(
            name=child(self.name, key),
            loc=(*self.loc, key),
            label=label,
            required=required,
            open=self.open,
            depth=self.depth + 1,
        )


class Drawer:
    """Builds the fields of one schema. ``errors``: messages by place."""

    def __init__(self, schemas: Schemas, notes: ReadNotes, errors: Mapping[Loc, Sequence[str]]) -> None:
        self.schemas = schemas
        self.notes = notes
        self.errors = errors
        self._left = MOST_FIELDS

    def draw(self, schema: Any, place: FieldSlot, value: Any) -> Field:
        """Return the field of this node for a value or ``MISSING``."""
        spec = self.schemas.spec(schema, place.depth, place.required)
        if value is MISSING and "default" in spec.schema and place.name not in self.notes.cleared:
            value = spec.schema["default"]
        self._left -= 1 + len(spec.branches) + len(spec.options) // 10
        if self._left < 0 and spec.kind != "const":
            return self._as_json(spec, place, value, "Shown as JSON because the form has too many fields.")
        if f"{place.name}$" in self.notes.texts or not _shows(spec, value):
            return self._as_json(spec, place, value, "Shown as JSON because it does not match its field.")
        return _DRAWERS.get(spec.kind, Drawer._scalar)(self, spec, place, value)

    def _field(self, kind: str, spec: Spec, place: FieldSlot, **rest: Any) -> Field:
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

    def _as_json(self, spec: Spec, place: FieldSlot, value: Any, why: str) -> Field:
        """Return a value that its own control cannot show, as text: nothing is lost, and it can be fixed."""
        text = self.notes.texts.get(f"{place.name}$") or ("" if value is MISSING else json_text.write(value))
        kind, attributes = control(Spec(kind="json", schema={}), text)
        field = self._field(kind, spec, place, text=text, attributes=attributes)
        hint = " ".join(part for part in (field.help, why) if part)
        return replace(field, name=f"{place.name}$", help=hint)

    def _file(self, spec: Spec, place: FieldSlot, value: Any) -> Field:
        text = value if isinstance(value, str) else ""
        return self._field(
            "file",
            spec,
            place,
            text=text,
            original=_emptiness(spec, place, value),
            blank=describe_file(spec, text),
            preview=preview_of(spec, text),
            **_upload(spec),
        )

    def _scalar(self, spec: Spec, place: FieldSlot, value: Any) -> Field:
        typed = self.notes.texts.get(place.name)
        text = typed or scalars.show(spec, value)
        kind, attributes = control(spec, text)
        original = None if typed else self.notes.originals.get(place.name) or _original(spec, place, text, value)
        if spec.kind == "secret":
            return self._secret(spec, place, value)
        more = _upload(spec) if spec.uploads else {}
        return self._field(kind, spec, place, text=text, original=original, attributes=attributes, **more)

    def _secret(self, spec: Spec, place: FieldSlot, value: Any) -> Field:
        """Return an empty control, whatever the value: a secret is never sent back."""
        kind, attributes = control(spec, "")
        field = self._field(kind, spec, place, attributes=attributes)
        again = "Secrets are not shown again. If empty, enter it again." if isinstance(value, str) and value else ""
        return replace(field, help=" ".join(part for part in (field.help, again) if part))

    def _const(self, spec: Spec, place: FieldSlot, value: Any) -> Field:
        return self._field("const", spec, place, text=scalars.show(spec, spec.schema["const"]))

    def _switch(self, spec: Spec, place: FieldSlot, value: Any) -> Field:
        if not spec.nullable and (place.required or "default" in spec.schema):
            return self._field("switch", spec, place, text="true" if value is True else "")
        options = (
            FieldOption(sent="true", label="Yes", chosen=value is True),
            FieldOption(sent="false", label="No", chosen=value is False),
        )
        text, original = "x" if isinstance(value, bool) else "", _emptiness(spec, place, value)
        return self._field("radios", spec, place, options=options, blank="Not set", text=text, original=original)

    def _choice(self, spec: Spec, place: FieldSlot, value: Any) -> Field:
        options = options_of(spec, [] if value is MISSING or value is None else [value])
        short = len(options) <= MAX_RADIOS and sum(len(option.label) for option in options) <= MAX_RADIO_TEXT * 2
        blank = "None" if spec.nullable else "" if place.required or "default" in spec.schema else "Not set"
        text = "".join(option.sent for option in options if option.chosen)
        kind, original = "radios" if short else "select", _emptiness(spec, place, value)
        return self._field(kind, spec, place, options=options, blank=blank, text=text, original=original)

    def _checks(self, spec: Spec, place: FieldSlot, value: Any) -> Field:
        chosen = value if isinstance(value, list) else []
        shown = scalars.ticked(spec.options, chosen)
        original = _emptiness(spec, place, value) if scalars.same(shown, chosen) else json.dumps(chosen)
        return self._field("checks", spec, place, options=options_of(spec, shown), original=original)

    def _group(self, spec: Spec, place: FieldSlot, value: Any) -> Field:
        given = value if isinstance(value, Mapping) else {}
        needed = spec.schema.get("required", ())
        children = tuple(
            self.draw(inner, place.inner(key, self._label(inner, key, place), key in needed), given.get(key, MISSING))
            for key, inner in spec.schema.get("properties", {}).items()
        )
        more = {key: item for key, item in given.items() if key not in spec.schema.get("properties", {})}
        if more or spec.grows or others(place.name) in self.notes.pairs:
            children += (self._others(spec, place, more),)
        return self._field("group", spec, place, children=children)

    def _others(self, spec: Spec, place: FieldSlot, value: Any) -> Field:
        """Return the fields of a group that its schema does not name, as names and values."""
        loose = replace(place, name=others(place.name), label="Other fields", depth=place.depth)
        field = self._pairs(replace(spec, schema={"additionalProperties": spec.entries}), loose, value)
        return replace(field, errors=(), required=False, help="")

    def _label(self, schema: Any, key: str, place: FieldSlot) -> str:
        """Return the author's title; a pydantic model's own name is no title for a field that holds one."""
        own = schema.get("title") if isinstance(schema, Mapping) else None
        return label_of_field(key, own)

    def _rows(self, spec: Spec, place: FieldSlot, value: Any) -> Field:
        least = min(int(spec.schema.get("minItems") or 0), MOST_OPEN) if value is MISSING and place.required else 0
        items = value if isinstance(value, list) else [MISSING] * least
        rows = tuple(
            self._row(spec.schema["items"], place, index, item, len(items)) for index, item in enumerate(items)
        )
        return self._field("rows", spec, place, rows=rows, original=_emptiness(spec, place, value))

    def _row(self, schema: Any, place: FieldSlot, index: int, item: Any, count: int) -> FieldRow:
        label = f"{title_of(self.schemas, self.schemas.resolve(schema)) or place.label or 'Item'} {index + 1}"
        spot = place.inner(index, label, True)
        field = self.draw(schema, spot, self._unless_blank(spot, item))
        return FieldRow(
            index=index, name=spot.name, number=index + 1, first=index == 0, last=index == count - 1, field=field
        )

    def _unless_blank(self, place: FieldSlot, item: Any) -> Any:
        """Return an item, or None where its row was left empty."""
        return MISSING if item is None and place.loc in self.notes.errors else item

    def _tuple(self, spec: Spec, place: FieldSlot, value: Any) -> Field:
        items = value if isinstance(value, list) else []
        schemas: Sequence[Any] = spec.schema["prefixItems"]
        children = tuple(
            self.draw(
                schema,
                place.inner(index, title_of(self.schemas, schema) or f"Part {index + 1}", True),
                self._unless_blank(place.inner(index, "", True), items[index]) if index < len(items) else MISSING,
            )
            for index, schema in enumerate(schemas)
        )
        return self._field("tuple", spec, place, children=children)

    def _pairs(self, spec: Spec, place: FieldSlot, value: Any) -> Field:
        pairs = self.notes.pairs.get(place.name) or list(value.items() if isinstance(value, Mapping) else ())
        rows = tuple(self._pair(spec, place, index, key, item, len(pairs)) for index, (key, item) in enumerate(pairs))
        options = tuple(FieldOption(sent=name, label=name, chosen=False) for name in self.schemas.names_of(spec))
        return self._field("pairs", spec, place, rows=rows, options=options, original=_emptiness(spec, place, value))

    def _pair(self, spec: Spec, place: FieldSlot, index: int, key: str, item: Any, count: int) -> FieldRow:
        inner = place.inner(index, f"Value {index + 1}", True)
        spot = FieldSlot(name=inner.name, loc=(*place.loc, key), label=inner.label, required=True, depth=inner.depth)
        field = self.draw(spec.entries, spot, self._unless_blank(spot, item))
        fresh = place.name in self.notes.pairs
        return FieldRow(
            index=index,
            name=inner.name,
            number=index + 1,
            first=index == 0,
            last=index == count - 1,
            field=field,
            key=key,
            key_original=not key and not fresh,
            known=key in self.schemas.names_of(spec),
        )

    def _union(self, spec: Spec, place: FieldSlot, value: Any) -> Field:
        here = self._pick(spec, place, value)
        branches = [UnionBranch(sent="null", label="None", chosen=here == "null", field=None)] if spec.nullable else []
        if here == "" or (not spec.nullable and not place.required):
            label = "Choose" if place.required else "Not given"
            branches.insert(0, UnionBranch(sent="", label=label, chosen=here == "", field=None))
        branches += [self._branch(spec, place, value, i, here == str(i)) for i in range(len(spec.branches))]
        shown = any(branch.chosen and branch.field is not None for branch in branches)
        errors = () if shown else tuple(self.errors.get(place.loc, ()))
        return self._field("union", spec, place, branches=tuple(branches), errors=errors)

    def _pick(self, spec: Spec, place: FieldSlot, value: Any) -> str:
        """Return the chosen branch: the posted one, else by the value; empty where none is needed."""
        picked = self.notes.picks.get(place.name)
        if picked is not None:
            return picked
        if value is MISSING and (not spec.stays(place.required) or _means_anything(spec)):
            return ""
        return match_branch(self.schemas, spec, value)

    def _branch(self, spec: Spec, place: FieldSlot, value: Any, index: int, chosen: bool) -> UnionBranch:
        schema, label = spec.branches[index], name_branch(self.schemas, spec, index)
        picked = place.name in self.notes.picks
        known = value is not MISSING and (value is not None or not spec.nullable)
        field = None
        if (chosen and (known or picked)) or place.open:
            spot = FieldSlot(
                name=child(place.name, index),
                loc=place.loc if chosen else (*place.loc, "?", index),
                label=label,
                required=True,
                open=chosen and known,
                depth=place.depth + 1,
            )
            field = self.draw(schema, spot, value if chosen else MISSING)
        return UnionBranch(sent=str(index), label=label, chosen=chosen, field=field)


def _means_anything(spec: Spec) -> bool:
    """Return whether nothing says what is wanted. Options that are offered do."""
    kinds = {str(branch.get("type")) for branch in spec.branches if "enum" in branch}
    return is_open(spec.branches) and kinds <= {"boolean"}


def _shows(spec: Spec, value: Any) -> bool:
    """Return whether the control of this kind can show a value at all, valid or not, and send it back."""
    if value is MISSING or value is None:
        return True
    shows = _SHOWS.get(spec.kind)
    if shows is not None:
        return shows(spec, value)
    return isinstance(value, str) or _fits(spec, value)


def _shows_names(value: Any, known: Mapping[str, Any] = MappingProxyType({})) -> bool:
    """Return whether the typed names fit on one line: a browser drops the rest of them."""
    if not isinstance(value, Mapping):
        return False
    return not any("\n" in name or "\r" in name for name in value if name not in known)


def _shows_tuple(spec: Spec, value: Any) -> bool:
    return isinstance(value, list) and len(value) == len(spec.schema["prefixItems"])


def _shows_option(spec: Spec, value: Any) -> bool:
    return isinstance(value, str) or any(scalars.same(value, option) for option in spec.options)


def _shows_checks(spec: Spec, value: Any) -> bool:
    return isinstance(value, list) and all(_shows_option(spec, item) for item in value)


_SHOWS: dict[str, Callable[[Spec, Any], bool]] = {
    "const": lambda spec, value: scalars.same(value, spec.schema["const"]),
    "switch": lambda _, value: isinstance(value, bool),
    "choice": _shows_option,
    "checks": _shows_checks,
    "group": lambda spec, value: _shows_names(value, spec.schema.get("properties", {})),
    "rows": lambda _, value: isinstance(value, list),
    "pairs": lambda _, value: _shows_names(value),
    "tuple": _shows_tuple,
    "union": lambda *_: True,
}


def _fits(spec: Spec, value: Any) -> bool:
    """Return whether a value has the type its control is for; others are shown but not guaranteed."""
    if value is None:
        return spec.nullable or spec.kind == "json"
    if spec.kind in {"integer", "number"}:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if spec.kind == "decimal":
        return isinstance(value, (int, float, str)) and not isinstance(value, bool)
    return spec.kind == "json" or isinstance(value, str)


def _upload(spec: Spec) -> dict[str, Any]:
    """Return what a field's control for a file needs."""
    wanted, most = ",".join(wanted_types(spec.schema)), limit_of(spec.schema)
    return {"uploads": True, "accept": wanted, "most_bytes": most, "too_large": too_large(spec.schema)}


def _emptiness(spec: Spec, place: FieldSlot, value: Any) -> str | None:
    """Return an empty value as JSON where an empty control would mean none."""
    if value is MISSING or value or value is False:
        return None
    return None if spec.stays(place.required) and value != "" else json.dumps(value)


def _original(spec: Spec, place: FieldSlot, text: str, value: Any) -> str | None:
    """Return the value as JSON where reading the text back would give another one, else None."""
    if value is MISSING or not _fits(spec, value):
        return None
    try:
        empty = None if spec.nullable and spec.stays(place.required) else MISSING
        again = scalars.read(spec, text) if text else empty
    except Unreadable:
        return json.dumps(value)
    return None if scalars.same(again, value) else json.dumps(value)


_DRAWERS: dict[str, Callable[[Drawer, Spec, FieldSlot, Any], Field]] = {
    "const": Drawer._const,
    "file": Drawer._file,
    "switch": Drawer._switch,
    "choice": Drawer._choice,
    "checks": Drawer._checks,
    "group": Drawer._group,
    "rows": Drawer._rows,
    "tuple": Drawer._tuple,
    "pairs": Drawer._pairs,
    "union": Drawer._union,
}
