"""What JSON Schema 2020-12 says of a schema itself. Pure.

As types of pydantic: ``jsonschema`` applies its meta-schema in pure Python, which takes a second for a large form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypeAliasType, TypedDict

_Kind = Literal["array", "boolean", "integer", "null", "number", "object", "string"]
_Kinds = _Kind | Annotated[list[_Kind], Field(min_length=1)]
_Count = Annotated[float, Field(ge=0, multiple_of=1)]
_Step = Annotated[float, Field(gt=0)]
_Schema = TypeAliasType("_Schema", "bool | _Node")
_Schemas = TypeAliasType("_Schemas", Annotated[list["_Schema"], Field(min_length=1)])
_ByName = TypeAliasType("_ByName", "dict[str, _Schema]")
_make: Any = TypedDict
_Node: Any = _make(
    "_Node",
    {
        **dict.fromkeys(("$id", "$schema", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor", "$comment"), str),
        **dict.fromkeys(("title", "description", "format", "pattern", "contentEncoding", "contentMediaType"), str),
        **dict.fromkeys(("deprecated", "readOnly", "writeOnly", "uniqueItems"), bool),
        **dict.fromkeys(("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"), float),
        **dict.fromkeys(("maxLength", "minLength", "maxItems", "minItems"), _Count),
        **dict.fromkeys(("maxContains", "minContains", "maxProperties", "minProperties"), _Count),
        **dict.fromkeys(("items", "contains", "additionalProperties", "propertyNames", "contentSchema"), _Schema),
        **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties", "not", "if", "then", "else"), _Schema),
        **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), _Schemas),
        **dict.fromkeys(("$defs", "definitions", "properties", "patternProperties", "dependentSchemas"), _ByName),
        **dict.fromkeys(("enum", "examples"), list[Any]),
        "type": _Kinds,
        "multipleOf": _Step,
        "required": list[str],
        "dependentRequired": dict[str, list[str]],
        "dependencies": dict[str, "_Schema | list[str]"],
    },
    total=False,
)
_Node.__pydantic_config__ = ConfigDict(extra="allow", strict=True)
_ADAPTER: TypeAdapter[Any] = TypeAdapter(_Node)


def flaw_of(schema: Mapping[str, Any]) -> str:
    """Return what makes a value no JSON Schema, with its place; empty if it is one."""
    try:
        _ADAPTER.validate_python(schema)
    except ValidationError as error:
        worst = max(error.errors(include_url=False), key=lambda one: len(one["loc"]))
        place = [str(part) for part in worst["loc"] if part not in ("bool", "_Node") and "[" not in str(part)]
        return f"{'.'.join(place) or 'the schema'}: {worst['msg']}"
    return ""
