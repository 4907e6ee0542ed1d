"""From the posted fields to a JSON value, along the schema. Pure.

What cannot be read stays in the value as it was typed, with an error beside it, so that nothing typed is lost.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wfdash.pages.ui.forms import json_text, scalars
from wfdash.pages.ui.forms.fields import Loc, child, index_of, others
from wfdash.pages.ui.forms.json_text import Unreadable
from wfdash.pages.ui.forms.scalars import MISSING
from wfdash.pages.ui.forms.spec import Schema, Schemas, Spec
from wfdash.schemas import media

MAX_ROWS = 1000
MOST_READ = 30_000
"""Places of a schema that are looked at: more than a form has fields, and options that are not shown."""

Post = Mapping[str, Sequence[str]]
Files = Mapping[str, bytes]


@dataclass(kw_only=True)
class ReadNotes:
    """What the value itself does not contain: errors and branches by place; by control, what was typed and picked.

    ``cleared``: controls that were left empty, which do not get their default back.
    """

    errors: dict[Loc, str] = field(default_factory=dict)
    branches: dict[Loc, tuple[Schema, Any]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    picks: dict[str, str] = field(default_factory=dict)
    pairs: dict[str, list[tuple[str, Any]]] = field(default_factory=dict)
    originals: dict[str, str] = field(default_factory=dict)
    cleared: set[str] = field(default_factory=set)


class FormReader:
    """Reads one POST by one schema, collecting ``notes`` on the way."""

    def __init__(self, schemas: Schemas, post: Post, files: Files | None = None) -> None:
        self.schemas = schemas
        self.post = post
        self.files = files or {}
        self.notes = ReadNotes()
        self._left = MOST_READ

    def value(self, schema: Any, name: str, loc: Loc, required: bool, depth: int = 0) -> Any:
        """Return the value at this place, or ``MISSING``."""
        as_json = self._last_value(f"{name}$")
        if as_json is not None:
            return self._json(as_json, f"{name}$", loc)
        self._left -= 1
        if self._left < 0:
            self.notes.errors[()] = "This has more fields than a form can hold: write the value as JSON"
            return MISSING
        spec = self.schemas.spec(schema, depth, required)
        if spec.kind == "const":
            return spec.schema["const"]
        return _READERS.get(spec.kind, FormReader._scalar)(self, spec, name, loc, required, depth)

    def _last_value(self, name: str) -> str | None:
        given = self.post.get(name)
        return given[-1] if given else None

    def _row_count(self, name: str) -> int | None:
        count = index_of(self._last_value(f"{name}!") or "")
        return None if count is None else min(count, MAX_ROWS)

    def _original(self, name: str) -> Any:
        """Return the value a control was rendered for, where its text alone is ambiguous."""
        packed = self._last_value(f"{name}@")
        if packed is None:
            return MISSING
        with contextlib.suppress(Unreadable):
            value = json_text.read(packed)
            self.notes.originals[name] = packed
            return value
        return MISSING

    def _json(self, text: str, name: str, loc: Loc) -> Any:
        """Return a part of the value that is edited as JSON; an empty text is no value."""
        return self._typed(Spec(kind="json", schema={}), text, name, loc) if text.strip() else MISSING

    def _scalar(self, spec: Spec, name: str, loc: Loc, required: bool, depth: int) -> Any:
        uploaded = self._upload(spec, name, loc)
        if uploaded is not None:
            return uploaded
        text = self._last_value(name)
        if text is None:
            return MISSING
        original = self._original(name)
        if original is not MISSING and scalars.show(spec, original) == text.replace("\r\n", "\n"):
            return original
        if not text or (text.isspace() and spec.kind not in {"text", "area", "secret"}):
            self.notes.cleared.add(name)
            return _nothing(spec, required)
        return self._typed(spec, text, name, loc)

    def _typed(self, spec: Spec, text: str, name: str, loc: Loc) -> Any:
        try:
            return scalars.read(spec, text)
        except Unreadable as error:
            self.notes.errors[loc] = str(error)
            self.notes.texts[name] = text
            return text

    def _file(self, spec: Spec, name: str, loc: Loc, required: bool, depth: int) -> Any:
        """Return a new file, else the previous one, unless it was removed."""
        uploaded = self._upload(spec, name, loc)
        if uploaded is not None:
            return uploaded
        kept = self._last_value(name)
        if f"{name}!away" in self.post:
            return _nothing(spec, required)
        return kept or self._unless_kept(spec, name, required)

    def _upload(self, spec: Spec, name: str, loc: Loc) -> str | None:
        content = self.files.get(f"{name}!file")
        if not content or not spec.uploads:
            return None
        try:
            if len(content) <= media.limit_of(spec.schema):
                return media.encode(spec.schema, content)
            self.notes.errors[loc] = media.too_large(spec.schema)
        except UnicodeDecodeError:
            self.notes.errors[loc] = "The file is not UTF-8 text: choose another one, or save it as UTF-8"
        return self._last_value(name) or ""

    def _switch(self, spec: Spec, name: str, loc: Loc, required: bool, depth: int) -> Any:
        given, drawn = self._last_value(name), f"{name}!" in self.post
        if (required and not spec.nullable) or ("default" in spec.schema and not spec.nullable):
            return given is not None if drawn or given is not None else MISSING
        if given:
            return {"true": True, "false": False}.get(given, given)
        return self._unless_kept(spec, name, required) if drawn else MISSING

    def _choice(self, spec: Spec, name: str, loc: Loc, required: bool, depth: int) -> Any:
        token = self._last_value(name)
        if not token:
            return self._unless_kept(spec, name, required) if f"{name}!" in self.post else MISSING
        return dict(zip(scalars.tokens(spec.options), spec.options, strict=True)).get(token, token)

    def _checks(self, spec: Spec, name: str, loc: Loc, required: bool, depth: int) -> Any:
        if f"{name}!" not in self.post:
            return MISSING
        given = set(self.post.get(name, ()))
        drawn = zip(scalars.tokens(spec.options), spec.options, strict=True)
        chosen = [option for token, option in drawn if token in given]
        original = self._original(name)
        if original is not MISSING and scalars.same(scalars.ticked(spec.options, original), chosen):
            return original
        return chosen if chosen or spec.stays(required) else MISSING

    def _group(self, spec: Spec, name: str, loc: Loc, required: bool, depth: int) -> dict[str, Any]:
        needed = spec.schema.get("required", ())
        fields = spec.schema.get("properties", {})
        value = {
            key: self.value(inner, child(name, key), (*loc, key), key in needed, depth + 1)
            for key, inner in fields.items()
        }
        more = self._pairs(spec, others(name), loc, True, depth)
        if more is MISSING:
            more = {}
        elif more.keys() & fields.keys():
            self.notes.errors[loc] = "Each entry needs a unique name"
        return {key: item for key, item in {**more, **value}.items() if item is not MISSING}

    def _rows(self, spec: Spec, name: str, loc: Loc, required: bool, depth: int) -> Any:
        count = self._row_count(name)
        if not count:
            return self._none(spec, name, required, [])
        return [self._item(spec.schema["items"], name, loc, index, depth) for index in range(count)]

    def _unless_kept(self, spec: Spec, name: str, required: bool) -> Any:
        """Return the previous empty value, else the value of an empty control."""
        original = self._original(name)
        return _nothing(spec, required) if original is MISSING or original else original

    def _none(self, spec: Spec, name: str, required: bool, empty: Any) -> Any:
        """Return the value of a list without rows: an empty one where it is required, or was empty before."""
        if self._row_count(name) is None:
            return MISSING
        return empty if spec.stays(required) or self._original(name) is not MISSING else MISSING

    def _tuple(self, spec: Spec, name: str, loc: Loc, required: bool, depth: int) -> Any:
        schemas: Sequence[Schema] = spec.schema["prefixItems"]
        return [self._item(schema, name, loc, index, depth) for index, schema in enumerate(schemas)]

    def _item(self, schema: Any, name: str, loc: Loc, index: int, depth: int) -> Any:
        value = self.value(schema, child(name, index), (*loc, index), True, depth + 1)
        if value is MISSING:
            self.notes.errors.setdefault((*loc, index), "Required, or remove this row")
            return None
        return value

    def _pairs(self, spec: Spec, name: str, loc: Loc, required: bool, depth: int) -> Any:
        count = self._row_count(name)
        if not count:
            return self._none(spec, name, required, {})
        names = [child(name, index) for index in range(count)]
        pairs = [self._pair(spec, entry, loc, depth) for entry in names]
        nameless = any(not key and f"{entry}#!" not in self.post for entry, (key, _) in zip(names, pairs, strict=True))
        if nameless or len(dict(pairs)) < len(pairs):
            self.notes.pairs[name] = pairs
            self.notes.errors[loc] = "Each entry needs a unique name"
        return dict(pairs)

    def _pair(self, spec: Spec, name: str, loc: Loc, depth: int) -> tuple[str, Any]:
        key = self._last_value(f"{name}#") or ""
        value = self.value(spec.entries, name, (*loc, key), True, depth + 1)
        if value is MISSING:
            self.notes.errors.setdefault((*loc, key), "Required, or remove this row")
            return key, None
        return key, value

    def _union(self, spec: Spec, name: str, loc: Loc, required: bool, depth: int) -> Any:
        pick = self._last_value(f"{name}?")
        if pick is None:
            return MISSING
        self.notes.picks[name] = pick
        chosen = index_of(pick)
        if chosen is not None and chosen < len(spec.branches):
            branch = spec.branches[chosen]
            value = self.value(branch, child(name, chosen), loc, True, depth + 1)
            if value is not MISSING:
                self.notes.branches.setdefault(loc, (branch, value))
            return value
        return None if pick == "null" and spec.nullable else MISSING


def _nothing(spec: Spec, required: bool) -> Any:
    """Return the value of an empty control: null if that is allowed, an empty text over a default, else no value."""
    if spec.nullable:
        return None if spec.stays(required) else MISSING
    textual = spec.kind in {"text", "area", "secret"}
    return "" if textual and isinstance(spec.schema.get("default"), str) else MISSING


_READERS: dict[str, Callable[[FormReader, Spec, str, Loc, bool, int], Any]] = {
    "file": FormReader._file,
    "switch": FormReader._switch,
    "choice": FormReader._choice,
    "checks": FormReader._checks,
    "group": FormReader._group,
    "rows": FormReader._rows,
    "tuple": FormReader._tuple,
    "pairs": FormReader._pairs,
    "union": FormReader._union,
}
