"""From a schema and a value to the fields a template renders. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from types import MappingProxyType
from typing import Any

from checkpoints.records import Pairs, frozen
from wfdash.domain.labels import humanize, label_of_field, label_of_type
from wfdash.questions.choices import is_open
from wfdash.values.schemas import formats
from wfdash.values.schemas.formats import limit_of, too_large, wanted_types
from wfdash.values.schemas.validate import display, problems_of
from wfdash.web.pages.ui.forms import read
from wfdash.web.pages.ui.forms.read import (
    LOCAL_DATE,
    LOCAL_MOMENT,
    LOCAL_TIME,
    MISSING,
    ReadNotes,
    UnreadableText,
    show,
)
from wfdash.web.pages.ui.forms.spec import (
    Field,
    FieldOption,
    FieldRow,
    Loc,
    Schemas,
    Spec,
    UnionBranch,
    child,
    mapping,
    others,
)
from wfdash.web.pages.ui.times import counted, number, size

MAX_RADIOS = 4
MOST_OPEN = 5  # initial rows of a list that needs some
MAX_RADIO_TEXT = 40
MOST_FIELDS = 500
"""Fields of all forms of a page, branches included: a part that has more is JSON text. A row with its buttons counts as
two, as do 8,000 characters of the schema's words and 20 options.
"""
MAX_LABEL = 200
"""Characters of a label, and of an example in an empty control."""


@frozen
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

    def __init__(self, schemas: Schemas, notes: ReadNotes, errors: Mapping[Loc, Sequence[str]], left: int) -> None:
        self.schemas = schemas
        self.notes = notes
        self.errors = errors
        self.left = left

    def draw(self, schema: Any, place: FieldSlot, value: Any) -> Field:
        """Return the field of this node for a value or ``MISSING``."""
        spec = self.schemas.spec(schema, place.depth, place.required)
        begins = value is MISSING and "default" in spec.schema and place.name not in self.notes.cleared
        shown = spec.schema["default"] if begins else value
        parts = self._count_parts(spec, place, shown)
        if parts > max(self.left, 0) or (begins and self.left <= 0):
            return self._as_json(spec, place, value, "Shown as JSON because the form has too many fields.")
        self.left -= parts
        if f"{place.name}$" in self.notes.texts or not _shows(spec, shown):
            return self._as_json(spec, place, shown, "Shown as JSON because it does not match its field.")
        field = _DRAWERS.get(spec.kind, Drawer._scalar)(self, spec, place, shown)
        words = "".join([field.help, *(option.label for option in field.options)])
        self.left -= (len(words) + (len(field.text + field.preview) if value is MISSING else 0)) // 4_000
        return field

    def _count_parts(self, spec: Spec, place: FieldSlot, value: Any) -> int:
        """Return how many fields the parts of a field count as; each of a long name as several."""
        rows = len(self.notes.pairs.get(place.name) or (value if isinstance(value, (list, Mapping)) else ()))
        known, one = spec.schema.get("properties", {}), 1 + len(place.name) // 100
        match spec.kind:
            case "group":
                more = mapping(value).keys() - known
                return one * len(known) + sum(map(len, known)) // 100 + 2 * len(more)
            case "rows" | "pairs":
                rows = rows or min(int(spec.schema.get("minItems") or 0), MOST_OPEN)
                return rows * (2 * one + len(self.schemas.names_of(spec)) // 10)
            case _:
                parts = (*spec.branches, *spec.schema.get("prefixItems", ()))
                return one * len(parts) + (len(spec.options) * (1 + rows // 500) + 9) // 10

    def _field(self, kind: str, spec: Spec, place: FieldSlot, hint: str = "", **rest: Any) -> Field:
        return Field(
            kind=kind,
            id=f"field-{place.name}",
            loc=place.loc,
            label=(place.label or spec.title)[:MAX_LABEL],
            help=" ".join(filter(None, (help_of(spec) if self.left > 0 else "", hint))),
            required=place.required and not spec.nullable,
            **{"name": place.name, "errors": tuple(self.errors.get(place.loc, ())), **rest},
        )

    def _as_json(self, spec: Spec, place: FieldSlot, value: Any, why: str) -> Field:
        """Return a value that its own control cannot show, as text: nothing is lost, and it can be fixed."""
        text = self.notes.texts.get(f"{place.name}$") or ("" if value is MISSING else read.write(value))
        kind, attributes = control(Spec(kind="json", schema={}), text)
        return self._field(kind, spec, place, why, name=f"{place.name}$", text=text, attributes=attributes)

    def _file(self, spec: Spec, place: FieldSlot, value: Any) -> Field:
        text = value if isinstance(value, str) else ""
        blank, preview = file_of(spec, text) if text else ("", "")
        return self._field(
            "file",
            spec,
            place,
            text=text,
            original=_emptiness(spec, place, value),
            blank=blank,
            preview=preview,
            **_upload(spec),
        )

    def _scalar(self, spec: Spec, place: FieldSlot, value: Any) -> Field:
        if spec.kind == "secret":  # never sent back: an empty control, whatever the value
            kind, attributes = control(spec, "")
            again = "Secrets are not shown again. If empty, enter it again." if isinstance(value, str) and value else ""
            return self._field(kind, spec, place, again, attributes=attributes)
        typed = self.notes.texts.get(place.name)
        text = typed or read.show(spec, value)
        kind, attributes = control(spec, text)
        original = None if typed else self.notes.originals.get(place.name) or _original(spec, place, text, value)
        more = _upload(spec) if spec.uploads else {}
        return self._field(kind, spec, place, text=text, original=original, attributes=attributes, **more)

    def _const(self, spec: Spec, place: FieldSlot, value: Any) -> Field:
        text = read.show(spec, spec.schema["const"]) if self.left > 0 else ""
        self.left -= len(text) // 4_000
        return self._field("const", spec, place, text=text)

    def _switch(self, spec: Spec, place: FieldSlot, value: Any) -> Field:
        if not spec.nullable and (place.required or "default" in spec.schema):
            return self._field("switch", spec, place, text="true" if value is True else "")
        options = options_of(replace(spec, options=(True, False)), [value] if isinstance(value, bool) else [])
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
        shown = read.ticked(spec.options, chosen)
        original = _emptiness(spec, place, value) if read.same(shown, chosen) else json.dumps(chosen)
        return self._field("checks", spec, place, options=options_of(spec, shown), original=original)

    def _group(self, spec: Spec, place: FieldSlot, value: Any) -> Field:
        given, known = mapping(value), spec.schema.get("properties", {})
        children = tuple[Field, ...]()
        for key, inner in known.items():
            spot = place.inner(
                key, label_of_field(key, mapping(inner).get("title")), key in spec.schema.get("required", ())
            )
            children += (self.draw(inner, spot, given.get(key, MISSING)),)
        more = {key: item for key, item in given.items() if key not in known}
        if more or spec.grows or others(place.name) in self.notes.pairs:
            children += (self._others(spec, place, more),)
        return self._field("group", spec, place, children=children)

    def _others(self, spec: Spec, place: FieldSlot, value: Any) -> Field:
        """Return the fields of a group that its schema does not name, as names and values."""
        loose = replace(place, name=others(place.name), label="Other fields")
        field = self._pairs(replace(spec, schema={"additionalProperties": spec.entries}), loose, value)
        return replace(field, errors=(), required=False, help="")

    def _rows(self, spec: Spec, place: FieldSlot, value: Any) -> Field:
        least = min(int(spec.schema.get("minItems") or 0), MOST_OPEN) if value is MISSING and place.required else 0
        items = value if isinstance(value, list) else [MISSING] * least
        rows = tuple(self._row(spec.schema["items"], place, index, item) for index, item in enumerate(items))
        return self._field("rows", spec, place, rows=rows, original=_emptiness(spec, place, value))

    def _row(self, schema: Any, place: FieldSlot, index: int, item: Any) -> FieldRow:
        label = f"{title_of(self.schemas, self.schemas.resolve(schema)) or place.label or 'Item'} {index + 1}"
        spot = place.inner(index, label, True)
        return FieldRow(name=spot.name, field=self.draw(schema, spot, self._unless_blank(spot, item)))

    def _unless_blank(self, place: FieldSlot, item: Any) -> Any:
        """Return an item, or None where its row was left empty."""
        return MISSING if item is None and place.loc in self.notes.errors else item

    def _tuple(self, spec: Spec, place: FieldSlot, value: Any) -> Field:
        schemas = spec.schema["prefixItems"]
        items = value if isinstance(value, list) else [MISSING] * len(schemas)
        labels = (title_of(self.schemas, schema) or f"Part {number}" for number, schema in enumerate(schemas, 1))
        spots = [place.inner(index, label, True) for index, label in enumerate(labels)]
        children = tuple(map(self.draw, schemas, spots, map(self._unless_blank, spots, items)))
        return self._field("tuple", spec, place, children=children)

    def _pairs(self, spec: Spec, place: FieldSlot, value: Any) -> Field:
        pairs = self.notes.pairs.get(place.name) or list(mapping(value).items())
        rows = tuple(self._pair(spec, place, index, key, item) for index, (key, item) in enumerate(pairs))
        options = tuple(FieldOption(sent=name, label=name, chosen=False) for name in self.schemas.names_of(spec))
        return self._field("pairs", spec, place, rows=rows, options=options, original=_emptiness(spec, place, value))

    def _pair(self, spec: Spec, place: FieldSlot, index: int, key: str, item: Any) -> FieldRow:
        spot = replace(place.inner(index, f"Value {index + 1}", True), loc=(*place.loc, key))
        field = self.draw(spec.entries, spot, self._unless_blank(spot, item))
        return FieldRow(
            name=spot.name,
            field=field,
            key=key,
            key_original=not key and place.name not in self.notes.pairs,
            known=key in self.schemas.names_of(spec),
        )

    def _union(self, spec: Spec, place: FieldSlot, value: Any) -> Field:
        here = self._pick(spec, place, value)
        branches = [UnionBranch(sent="null", label="None", chosen=here == "null", field=None)] if spec.nullable else []
        if here == "" or (not spec.nullable and not place.required):
            label = "Choose" if place.required else "Not given"
            branches.insert(0, UnionBranch(sent="", label=label, chosen=here == "", field=None))
        branches += [self._branch(spec, place, value, i, here == str(i)) for i in range(len(spec.branches))]
        shown = any(branch.chosen and branch.field for branch in branches)
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
        schema, label = spec.branches[index], name_branch(self.schemas, spec, index)[:MAX_LABEL]
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


def _shows_option(spec: Spec, value: Any) -> bool:
    return isinstance(value, str) or any(read.same(value, option) for option in spec.options)


_SHOWS: dict[str, Callable[[Spec, Any], bool]] = {
    "const": lambda spec, value: read.same(value, spec.schema["const"]),
    "switch": lambda _, value: isinstance(value, bool),
    "choice": _shows_option,
    "checks": lambda spec, value: isinstance(value, list) and all(_shows_option(spec, item) for item in value),
    "group": lambda spec, value: _shows_names(value, spec.schema.get("properties", {})),
    "rows": lambda _, value: isinstance(value, list),
    "pairs": lambda _, value: _shows_names(value),
    "tuple": lambda spec, value: isinstance(value, list) and len(value) == len(spec.schema["prefixItems"]),
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
        again = read.read_scalar(spec, text) if text else empty
    except UnreadableText:
        return json.dumps(value)
    return None if read.same(again, value) else json.dumps(value)


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


# The control of a scalar and its help text. Pure.

_NUMBERS = {"integer": "numeric", "number": "decimal", "decimal": "decimal"}
_PICKERS = {
    "date": ("date", LOCAL_DATE),
    "datetime": ("datetime-local", LOCAL_MOMENT),
    "time": ("time", LOCAL_TIME),
}
MAX_LINES = 24
MAX_PREVIEW = 300_000
"""Characters of a file's text up to which an image is shown."""
PROSE = frozenset({"text/markdown", "text/plain"})
"""Media types of texts that are written in paragraphs."""


OWN_DIRECTION = (("dir", "auto"),)
"""What is typed is written from its own side."""


def control(spec: Spec, text: str) -> tuple[str, Pairs]:
    """Return the template kind and the attributes of the control that can show this text unchanged."""
    if spec.kind in {"area", "json"} or "\n" in text:
        return "area", _area(spec, text)
    if spec.kind in _NUMBERS:
        look = (("type", "text"), ("inputmode", _NUMBERS[spec.kind]), ("autocomplete", "off"))
        return "input", (*look, *_placeholder(spec))
    if spec.kind == "duration":
        return "input", (("type", "text"), ("placeholder", _example(spec) or "1 h 30 min"), ("autocomplete", "off"))
    if spec.kind in _PICKERS:
        picker, shape = _PICKERS[spec.kind]
        fits = not text or shape.fullmatch(text)
        return "input", (("type", picker), ("step", "any")) if fits else (("type", "text"),)
    if spec.kind == "secret":
        return "input", (("type", "password"), ("autocomplete", "new-password"))
    return "input", (("type", "text"), ("inputmode", spec.input_type), *OWN_DIRECTION, *_placeholder(spec))


def _area(spec: Spec, text: str) -> Pairs:
    # Lines of code stay lines; prose wraps, a file of it too.
    code = spec.kind == "json" or (spec.uploads and spec.schema.get("contentMediaType") not in PROSE)
    lines = min(max(text.count("\n") + 2, 6 if spec.uploads else 4), MAX_LINES)
    look: Pairs = (("class", "mono"), ("spellcheck", "false"), ("wrap", "off")) if code else OWN_DIRECTION
    return (("rows", str(lines)), *look, *_placeholder(spec))


def _placeholder(spec: Spec) -> Pairs:
    first = _example(spec)
    return (("placeholder", first[:MAX_LABEL]),) if first and "\n" not in first else ()


def _example(spec: Spec) -> str:
    examples = spec.schema.get("examples")
    first = examples[0] if isinstance(examples, list) and examples else None
    return "" if first is None or isinstance(first, dict | list) else show(spec, first)


def help_of(spec: Spec) -> str:
    """Return the author's description and the limits, as text."""
    described = str(spec.schema.get("description") or "").strip()
    hint = {"datetime": "Time in UTC.", "json": "JSON."}.get(spec.kind)
    added = " ".join(filter(None, (_limits(spec), hint)))
    ended = f"{described}." if described and added and described[-1] not in ".!?:;…" else described
    return f"{ended} {added}".strip()


def file_of(spec: Spec, text: str) -> tuple[str, str]:
    """Return a description of the file that a text represents, and an image as a ``data:`` address."""
    try:
        content = formats.decode(spec.schema, text)
    except ValueError:
        return "A file that cannot be read", ""
    kind = formats.sniff(content)
    named = {"text/plain": "Text", formats.BINARY: "File"}.get(kind, kind.partition("/")[2].upper())
    shown = kind.startswith("image/") and len(text) <= MAX_PREVIEW
    preview = f"data:{kind};base64,{base64.b64encode(content).decode()}" if shown else ""
    return f"{named}, {size(len(content))}", preview


def _limits(spec: Spec) -> str:
    if spec.kind in _NUMBERS:
        return _range(spec)
    if spec.kind in {"rows", "checks", "pairs"}:
        return _amount(spec, "Properties" if spec.kind == "pairs" else "Items")
    if spec.uploads:
        return f"{_file_kinds(spec)}At most {size(formats.limit_of(spec.schema)).replace('.0 ', ' ')}."
    return _length(spec)


def _range(spec: Spec) -> str:
    names = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf")
    low, above, high, below, step = (display(one) if one is not None else "" for one in map(spec.schema.get, names))
    words = [f"more than {above}" if above else low and f"{low} or more"]
    words += [f"less than {below}" if below else high and f"at most {high}", step and f"multiple of {step}"]
    if low and high and not above and not below:
        words[:2] = [f"{low} to {high}"]
    found = ", ".join(filter(None, words))
    return f"{found.capitalize()}." if found else ""


def _amount(spec: Spec, what: str) -> str:
    low, high = _int_keyword(spec, f"min{what}") or 0, _int_keyword(spec, f"max{what}")
    alone = " No duplicates." if spec.schema.get("uniqueItems") and spec.kind == "rows" else ""
    if high is None:
        return f"At least {low}.{alone}" if low else alone.strip()
    return f"{low} to {high}.{alone}" if low and low != high else f"{'Exactly' if low else 'At most'} {high}.{alone}"


def _length(spec: Spec) -> str:
    least, most = _int_keyword(spec, "minLength") or 0, _int_keyword(spec, "maxLength")
    if spec.kind not in {"text", "area", "secret"}:
        return ""
    pattern = spec.schema.get("pattern")
    shape = f"Pattern: {pattern}" if isinstance(pattern, str) and not _example(spec) else ""
    if spec.schema.get("format") in {"uri", "url"} or (least <= 1 and most is None):
        return shape
    if most is None:
        return f"At least {counted(least, 'character')}. {shape}".strip()
    words = f"{number(least)} to" if 1 < least != most else "Exactly" if least == most else "At most"
    return f"{words} {counted(most, 'character')}. {shape}".strip()


def _int_keyword(spec: Spec, key: str) -> int | None:
    given = spec.schema.get(key)
    return given if isinstance(given, int) and not isinstance(given, bool) else None


def _file_kinds(spec: Spec) -> str:
    kinds = [kind.partition("/")[2].removeprefix("x-").upper() for kind in formats.wanted_types(spec.schema)]
    return f"{' or '.join(kinds)} file. " if kinds and not any("*" in kind for kind in kinds) else ""


# Options of enums and branches of unions: what they are called, which one a value belongs to. Pure.

_NAMES = {
    "text": "Text",
    "area": "Text",
    "integer": "Whole number",
    "number": "Number",
    "decimal": "Number",
    "switch": "Yes or no",
    "rows": "List",
    "checks": "List",
    "tuple": "List",
    "pairs": "Names and values",
    "group": "Group",
    "date": "Date",
    "datetime": "Date and time",
    "time": "Time",
    "duration": "Duration",
    "file": "File",
    "secret": "Secret",
    "choice": "Choice",
    "union": "Alternatives",
    "json": "JSON",
}
_ALONE = {"group": "Fill in", "const": "Yes", "rows": "List", "pairs": "Entries"}


def options_of(spec: Spec, chosen: list[Any]) -> tuple[FieldOption, ...]:
    """Return the options, those in ``chosen`` marked; a chosen value that is not an option is added, and says so."""
    drawn = [
        FieldOption(sent=token, label=label or label_of(option), chosen=any(read.same(option, one) for one in chosen))
        for token, option, label in zip_longest(read.tokens(spec.options), spec.options, spec.labels)
    ]
    strange = [value for value in chosen if not any(read.same(option, value) for option in spec.options)]
    for value in strange:
        token = value if isinstance(value, str) else json.dumps(value)
        drawn.append(FieldOption(sent=token, label=f"{token} (not a choice)", chosen=True))
    return tuple(drawn)


def label_of(option: Any) -> str:
    """Return an option's label: words for snake_case, Yes and No for booleans, else its text."""
    if isinstance(option, bool):
        return "Yes" if option else "No"
    if isinstance(option, str):
        return humanize(option) if "_" in option.strip("_") else option or "(empty)"
    return json.dumps(option, ensure_ascii=False)


def match_branch(schemas: Schemas, spec: Spec, value: Any) -> str:
    """Return the token of the branch a value belongs to: ``null``, or the index of the closest one."""
    if value is MISSING or (value is None and spec.nullable):
        return "null" if spec.nullable else "0"
    for index, branch in enumerate(spec.branches):
        if _discriminated(schemas, spec, branch, value) or not problems_of(branch, value, root=schemas.root):
            return str(index)
    return str(max(range(len(spec.branches)), key=lambda index: _likeness(spec.branches[index], value)))


def _likeness(branch: Mapping[str, Any], value: Any) -> int:
    """Return how similar a value that matches no branch is to this one: of its type, with as many of its fields."""
    kinds: dict[type, tuple[str, ...]] = {
        dict: ("object",),
        list: ("array",),
        str: ("string",),
        bool: ("boolean",),
        int: ("integer", "number"),
        float: ("number",),
    }
    fields = branch.get("properties")
    if isinstance(value, dict) and isinstance(fields, Mapping):
        return 1 + len(fields.keys() & value.keys())
    return int(branch.get("type") in kinds.get(type(value), ()))


def name_branch(schemas: Schemas, spec: Spec, index: int) -> str:
    """Return a branch's name: its title, its discriminator, or its kind."""
    branch = spec.branches[index]
    own, kind = title_of(schemas, branch), schemas.spec(branch).kind
    if len(spec.branches) == 1:
        return str(own or _ALONE.get(kind) or _NAMES.get(kind) or "Value")
    return str(own or _tag(schemas, spec, branch) or _NAMES.get(kind, f"Choice {index + 1}"))


def title_of(schemas: Schemas, schema: Any) -> str:
    """Return the title of a schema, empty without one; that of a model is the name of its class, as words."""
    title = schema.get("title") if isinstance(schema, Mapping) else None
    models = schemas.root.get("$defs")
    made = isinstance(models, Mapping) and title in models
    return label_of_type(str(title)) if made else str(title or "")


def _tag(schemas: Schemas, spec: Spec, branch: Mapping[str, Any]) -> Any:
    key = _discriminator(spec)
    node = branch.get("properties", {}).get(key) if key else None
    return schemas.spec(node).schema.get("const") if node else None


def _discriminator(spec: Spec) -> str | None:
    named = spec.schema.get("discriminator")
    return str(named["propertyName"]) if isinstance(named, Mapping) and "propertyName" in named else None


def _discriminated(schemas: Schemas, spec: Spec, branch: Mapping[str, Any], value: Any) -> bool:
    key = _discriminator(spec)
    if not isinstance(value, Mapping) or key not in value:
        return False
    tag = _tag(schemas, spec, branch)
    return tag is not None and bool(tag == value[key])
