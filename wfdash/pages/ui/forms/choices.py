"""Options of enums and branches of unions: what they are called, which one a value belongs to. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from wfdash.domain.labels import humanize, label_of_type
from wfdash.pages.ui.forms import scalars
from wfdash.pages.ui.forms.fields import FieldOption
from wfdash.pages.ui.forms.scalars import MISSING
from wfdash.pages.ui.forms.spec import Schemas, Spec
from wfdash.schemas.validate import problems_of

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
    labels = spec.labels or ("",) * len(spec.options)
    drawn = [
        FieldOption(
            sent=token, label=label or label_of(option), chosen=any(scalars.same(option, one) for one in chosen)
        )
        for token, option, label in zip(scalars.tokens(spec.options), spec.options, labels, strict=True)
    ]
    strange = [value for value in chosen if not any(scalars.same(option, value) for option in spec.options)]
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
        tagged = _discriminated(schemas, spec, branch, value)
        if tagged or not problems_of(branch, value, root=schemas.root):
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
    branch = schemas.spec(spec.branches[index])
    own = title_of(schemas, spec.branches[index])
    if len(spec.branches) == 1:
        return str(own or _ALONE.get(branch.kind) or _NAMES.get(branch.kind) or "Value")
    return str(own or _tag(schemas, spec, spec.branches[index]) or _NAMES.get(branch.kind, f"Choice {index + 1}"))


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
    if key is None or not isinstance(value, Mapping) or key not in value:
        return False
    tag = _tag(schemas, spec, branch)
    return tag is not None and bool(tag == value[key])
