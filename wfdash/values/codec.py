"""Values of declared types: as JSON and back, refused where they would not come back the same; names of types."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import operator
import re
import sys
import types
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import Enum
from functools import cached_property, lru_cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, SecretStr, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError
from pydantic_core import PydanticSerializationError, from_json, to_json
from typing_extensions import is_protocol, is_typeddict

from checkpoints.content.canonical_json import DIGITS, LEVELS, TOO_LARGE
from checkpoints.records import Json, JsonObject
from wfdash.values.errors import InvalidCall, NotStorable, WorkflowError, WrongType
from wfdash.values.schemas.secrets import secret_names
from wfdash.values.schemas.validate import Problem, problems_of

PLAIN = (dict, list, str, int, float, bool, type(None))
ANY: frozenset[Any] = frozenset({Any, object, Json})
SCALARS = (str, bool, int)
"""Types whose values are their own JSON."""
FLAT = frozenset({str, int, float, bool, type(None)})
"""Types of plain values without parts."""
MANY = 5_000
"""Parts of a value that are converted on an event loop: about 25 ms of processor time."""
MUCH = 256_000
"""Characters of such a value's texts."""


LONGEST_PATH = 80
"""Characters of the path to a value that is nested too deeply, in a message."""

UNSTORABLE = "cannot be stored: use JSON types, a dataclass or a pydantic model"


def check_plain(value: Any, path: str, levels: int = LEVELS) -> None:
    """Raise ``NotStorable`` with its path for anything that is not exactly JSON (tuples, NaN, int keys ...).

    So are lists and dicts within each other beyond ``levels``, and whole numbers of too many digits.
    """
    kind = type(value)
    if kind is str:
        return check_text(value, path)
    if (kind is dict or kind is list) and value and not levels:
        path = path if len(path) <= LONGEST_PATH else f"{path[: LONGEST_PATH // 2]}...{path[-LONGEST_PATH // 2 :]}"
        raise NotStorable(f"{path}: nested deeper than {LEVELS} levels: keep it flatter", path=path)
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise NotStorable(f"{path}: key {key!r} is {type(key).__name__}, JSON keys are text", path=path)
            if type(item) is not str or not item.isascii():  # Such text is good, and its path needs not be made.
                check_plain(item, f"{path}.{key}", levels - 1)
    elif kind is list:
        for index, item in enumerate(value):
            if type(item) is not str or not item.isascii():
                check_plain(item, f"{path}[{index}]", levels - 1)
    elif kind is int:
        if abs(value) >= TOO_LARGE:
            raise NotStorable(f"{path}: a whole number has at most {DIGITS} digits", path=path)
    elif kind is float:
        if not math.isfinite(value):
            raise NotStorable(f"{path}: {value!r} is no JSON number", path=path)
    elif kind not in PLAIN:
        raise NotStorable(
            f"{path}: {kind.__name__} is not plain JSON: keep what can be stored"
            " (JSON, or a declared dataclass or pydantic model), not what only lives in this process",
            path=path,
        )
    return None


def check_text(value: str, path: str) -> None:
    """Raise ``NotStorable`` for text that cannot be stored (lone surrogates)."""
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise NotStorable(f"{path}: text with a lone surrogate cannot be stored", path=path) from error


def copy_plain(value: Json) -> Json:
    """Return a deep copy of plain JSON."""
    if type(value) is dict:
        return {key: item if type(item) in FLAT else copy_plain(item) for key, item in value.items()}
    if type(value) is list:
        return [item if type(item) in FLAT else copy_plain(item) for item in value]
    return value


def replaced(value: Any, old: str, new: str) -> Any:
    """Return a value with a text replaced, in lists and dicts, too; ``InvalidCall`` if another object has the text."""
    if type(value) is str:
        return value.replace(old, new)
    if type(value) is dict:
        return {key: replaced(item, old, new) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(replaced(item, old, new) for item in value)
    if old in repr(value):
        raise InvalidCall(f"{type(value).__name__} holds the effect key of another task: give it as an argument")
    return value


def is_large(value: Any) -> bool:
    """Return whether a value has more than ``MANY`` parts, or ``MUCH`` text: converting it would hold an event loop.

    Looks at no more than that. What is inside of objects other than models, data classes and collections is not seen.
    """
    parts, text, stack = MANY, MUCH, [value]
    while stack:
        one = stack.pop()
        if isinstance(one, (str, bytes)):
            text -= len(one)
        elif type(one) not in FLAT:
            inner = _parts_of(one)
            parts -= len(inner)
            if parts >= 0:
                stack.extend(inner)
        if text < 0 or parts < 0:
            return True
    return False


def _parts_of(value: Any) -> Collection[Any]:
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return value
    if isinstance(value, BaseModel):
        return vars(value).values()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    return ()


def children(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a value with their path suffix, to find where two values differ."""
    if isinstance(value, BaseModel):
        yield from ((f".{name}", getattr(value, name)) for name in type(value).model_fields)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from ((f".{field.name}", getattr(value, field.name)) for field in dataclasses.fields(value))
    elif isinstance(value, dict):
        yield from ((f".{key}", item) for key, item in value.items())
    elif isinstance(value, (list, tuple)):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))


def find_difference(before: Any, after: Any, path: str) -> str:
    """Return the path of the first part that differs."""
    if type(before) is type(after):
        mine, theirs = list(children(before)), dict(children(after))
        for suffix, item in mine:
            if suffix not in theirs or not same(item, theirs[suffix]):
                return find_difference(item, theirs.get(suffix), path + suffix)
    return path


def same(before: Any, after: Any) -> bool:
    """Return whether two values are equal and of one type (1 and True, a list and a tuple are not)."""
    if before is None or isinstance(before, (str, int)):
        return type(before) is type(after) and bool(before == after)
    if isinstance(before, (list, tuple)):
        comparable = type(before) is type(after) and len(before) == len(after)
        return comparable and all(map(same, before, after))
    if isinstance(before, dict):
        if not isinstance(after, dict) or len(before) != len(after):
            return False
        return all(key in after and same(item, after[key]) for key, item in before.items()) and same(
            list(before), list(after)
        )
    return bool(before == after) and _kept(before, after)


def _kept(before: Any, after: Any) -> bool:
    """Return whether no part of two equal values has lost its enum, or has changed from bool to a number."""
    if isinstance(before, (Enum, bool)):
        return type(before) is type(after)
    pairs = zip(children(before), children(after), strict=False)
    return all(_kept(mine[1], theirs[1]) for mine, theirs in pairs)


def revealed(dumped: Any, held: Any) -> Any:
    """Return JSON with the values of its secrets, which pydantic masks: they are stored, and masked when shown."""
    if isinstance(held, SecretStr):
        return held.get_secret_value()
    if isinstance(dumped, dict) and isinstance(held, dict) and len(dumped) == len(held):
        return {name: revealed(part, own) for (name, part), own in zip(dumped.items(), held.values(), strict=True)}
    if isinstance(dumped, list) and isinstance(held, (list, tuple)) and len(dumped) == len(held):
        return [revealed(part, own) for part, own in zip(dumped, held, strict=True)]
    return dumped


def unstorable_in(codec: Codec) -> str:
    """Return the type that has no form that can be stored, maybe one inside of the codec's; empty if there is none."""
    try:
        _ = codec.adapter
    except PydanticSchemaGenerationError as error:
        named = re.search(r"schema for (?:<class '([^']+)'>|(\S+?)\.? )", f"{error.message} ")
        inner = (named[1] or named[2]).rpartition(".")[2] if named else ""
        name = str(getattr(codec.kind, "__name__", codec.kind))
        return f"{inner} (in {name})" if inner and inner != name else name
    except PydanticUserError as error:
        if error.code == "typed-dict-version":
            return f"{codec.kind.__name__} (on Python 3.11 take TypedDict from typing_extensions)"
        return ""  # A type that is not complete yet says so when it is used.
    return ""


class Codec:
    """Carries values of one declared type. ``plain`` types (untyped, ``list``, ``dict``) take JSON only."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.plain = is_any(kind) or kind in (list, dict)

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """The type's pydantic adapter."""
        return TypeAdapter(Any if is_any(self.kind) else self.kind)

    @cached_property
    def secret(self) -> bool:
        """Whether a value may contain a ``SecretStr``, which pydantic masks."""
        try:
            return '"format": "password"' in json.dumps(self.schema())
        except (PydanticUserError, ValueError, TypeError):  # A type without a JSON Schema has no form either.
            return False

    @cached_property
    def secret_names(self) -> frozenset[str]:
        """The names of the fields that the type calls secrets; the empty name if it is one itself."""
        try:
            return secret_names({"properties": {"": self.schema()}})
        except (PydanticUserError, ValueError, TypeError):  # A type without a JSON Schema: nothing is known of it.
            return frozenset({""})

    def fits(self, value: Any) -> bool:
        """Return whether the value is already of this type; nothing is converted."""
        if self.plain:
            return not isinstance(self.kind, type) or self.kind is object or type(value) is self.kind
        if type(value) is self.kind:
            return True
        if isinstance(self.kind, type) and (issubclass(self.kind, BaseModel) or dataclasses.is_dataclass(self.kind)):
            return isinstance(value, self.kind)
        try:
            self.adapter.validate_python(value, strict=True)
        except ValidationError:
            return False
        return True

    def encode(self, value: Any, path: str = "value") -> Json:
        """Return the value as JSON; ``NotStorable`` with its path if it does not round-trip."""
        if self.plain or (type(value) is self.kind and self.kind in SCALARS):
            check_plain(value, path)
            return copy_plain(value)
        try:
            dumped = self.adapter.dump_python(value, mode="json", warnings="error")
            if self.secret:
                dumped = revealed(dumped, self.adapter.dump_python(value, warnings="error"))
            text = to_json(dumped, inf_nan_mode="constants")
            back = self.adapter.validate_json(text)
            data = from_json(text, allow_inf_nan=True)
        except (PydanticSerializationError, ValidationError, ValueError, TypeError) as error:
            raise NotStorable(
                f"{path}: {type(value).__name__} cannot be stored: {_error_text(error)}", path=path
            ) from error
        check_plain(data, path)
        if not same(value, back):
            where = find_difference(value, back, path)
            raise NotStorable(f"{where}: does not come back the same from storage", path=where)
        return data

    def decode(self, data: Json, path: str = "value") -> Any:
        """Return a new value; ``WrongType`` if the JSON is not valid."""
        if self.plain:
            return copy_plain(data)
        if type(data) is self.kind and self.kind in SCALARS:
            return data
        try:
            return self.adapter.validate_json(to_json(data, inf_nan_mode="constants"))
        except ValidationError as error:
            raise WrongType(f"{path}: {_error_text(error)}") from error

    def accept(self, value: Any) -> Any:
        """Return the value, converted if it is the type's JSON; pydantic's ``ValidationError`` otherwise."""
        return self.adapter.validate_python(value)

    def schema(self, mode: str = "validation") -> JsonObject:
        """Return the JSON Schema; empty for untyped."""
        if is_any(self.kind):
            return {}
        return self.adapter.json_schema(mode="serialization" if mode == "serialization" else "validation")


def _error_text(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(f"{'.'.join(map(str, e['loc'])) or 'value'}: {e['msg']}" for e in error.errors()[:3])
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _hashable(kind: Any) -> bool:
    try:
        hash(kind)
    except TypeError:
        return False
    return True


@lru_cache(maxsize=4096)
def _cached(kind: Any) -> Codec:
    return Codec(kind)


def codec_for(kind: Any) -> Codec:
    """Return the codec of a type (cached)."""
    return _cached(kind) if _hashable(kind) else Codec(kind)


def members(kind: Any) -> tuple[Any, ...]:
    """Return the members of ``A | B``, the type itself otherwise."""
    if get_origin(kind) in (Union, types.UnionType):
        return get_args(kind)
    return (kind,)


def either(kinds: Sequence[Any]) -> Any:
    """Return the type ``A | B | ...``."""
    return functools.reduce(operator.or_, kinds) if len(set(map(id, kinds))) > 1 else kinds[0]


def is_any(kind: Any) -> bool:
    """Return whether a type means "anything"."""
    return _hashable(kind) and kind in ANY


def return_type(function: Callable[..., Any]) -> Any:
    """Return a function's declared result type, ``Any`` without a readable one."""
    try:
        return get_type_hints(function).get("return", Any)
    except (NameError, TypeError, AttributeError):
        return Any


# -- names of types, and whether values of one type can belong to another

NUMBERS = {(int, float), (int, complex), (float, complex), (bool, int), (bool, float)}


def type_name(kind: Any) -> str:
    """Return a short name: ``Claim``, ``list[Claim]``, ``A | B``; empty for untyped."""
    if is_any(kind):
        return ""
    if kind is None or kind is type(None):
        return "None"
    if get_origin(kind) is Annotated:
        return type_name(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return " | ".join(type_name(member) for member in get_args(kind))
    if get_origin(kind) is Literal:
        return " | ".join(repr(value) for value in get_args(kind))
    if get_args(kind):
        inner = ", ".join(type_name(arg) or "Any" for arg in get_args(kind))
        return f"{getattr(get_origin(kind), '__name__', str(get_origin(kind)))}[{inner}]"
    return str(getattr(kind, "__name__", kind))


def can_carry(gives: Any, takes: Any) -> bool:
    """Return whether some value of ``gives`` can be a ``takes``; when in doubt, True."""
    return any(_meets(given, taken) for given in members(gives) for taken in members(takes))


def _meets(given: Any, taken: Any) -> bool:
    if is_any(given) or is_any(taken):
        return True
    one, other = _bare_type(given), _bare_type(taken)
    if not isinstance(one, type) or not isinstance(other, type) or is_protocol(one) or is_protocol(other):
        return True
    if not (issubclass(one, other) or issubclass(other, one) or (one, other) in NUMBERS):
        return False
    mine, theirs = get_args(given), get_args(taken)
    if len(mine) == len(theirs) == 1 and one is other:
        return can_carry(mine[0], theirs[0])
    return True


def _bare_type(kind: Any) -> Any:
    if kind is None:
        return type(None)
    if get_origin(kind) is Annotated:
        return _bare_type(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return type(get_args(kind)[0])
    if is_typeddict(get_origin(kind) or kind):
        return dict
    return get_origin(kind) or getattr(kind, "__supertype__", kind)


def item_type(kind: Any) -> Any:
    """Return the item type of a list type, ``Any`` if it has none."""
    found = [get_args(m)[0] if get_args(m) else Any for m in members(kind) if _bare_type(m) is list]
    return found[0] if len(found) == 1 else Any


def is_list(kind: Any) -> bool:
    """Return whether values of this type may be lists."""
    return is_any(kind) or any(_bare_type(member) is list for member in members(kind))


# -- classes by name, found again in loaded code, wherever their file or package is: nothing is imported. A class of the
# step's own module is called ``:Qualname``, every other ``module:Qualname``.


def class_name(kind: type, home: Mapping[str, Any]) -> str:
    """Return a class's name for code with these globals."""
    return f"{'' if kind.__module__ == home.get('__name__') else kind.__module__}:{kind.__qualname__}"


def find_class(name: str, home: Mapping[str, Any]) -> type | None:
    """Return the class of this name for code with these globals, None if there is none.

    If its module is not loaded or no longer has it, it is searched at home: it may have moved there, and classes of a
    file used to be named by the folder of the file.
    """
    module, _, path = name.partition(":")
    loaded = vars(sys.modules[module]) if module in sys.modules else {}
    found = _found(loaded if module else home, path)
    return found if found is not None or not module else _found(home, path)


def _found(names: Mapping[str, Any], path: str) -> type | None:
    first, *more = path.split(".")
    found = names.get(first)
    for part in more:
        found = getattr(found, part, None)
    return found if isinstance(found, type) else None


# -- problems of JSON that is to become a value of a declared type: by its JSON Schema, then by the type

ASSERTED = ("Value error, ", "Assertion failed, ")


def schema_problems(codec: Codec, value: Json) -> list[Problem]:
    """Return what the type's JSON Schema rejects in a value, empty if it is valid.

    Stored values have the names of a model's fields, not the aliases that a form sends, and are checked by those.
    """
    if codec.plain:
        return []
    try:
        found = problems_of(codec.schema(), value)
        if found and _is_stored(codec, value):
            return problems_of(codec.adapter.json_schema(by_alias=False), value)
    except PydanticInvalidForJsonSchema:  # A type without a schema has no form either: only the type decides.
        return []
    return found


def _is_stored(codec: Codec, value: Json) -> bool:
    """Return whether a value is in its stored form: then it may have been stored before."""
    try:
        return same(codec.encode(codec.decode(value)), value)
    except WorkflowError:
        return False


def type_problems(error: ValidationError, value: Json) -> list[Problem]:
    """Return what the type itself rejects in a value, each problem at its field."""
    return [
        {"loc": list(_existing_path(found["loc"], value)), "msg": _sentence_of(found["msg"])}
        for found in error.errors(include_url=False, include_context=False, include_input=False)
    ]


def _existing_path(loc: tuple[int | str, ...], value: Any) -> Iterator[int | str]:
    """Yield the parts of a place that the value has; pydantic names branches of unions in between."""
    for number, part in enumerate(loc):
        listed = isinstance(value, list) and isinstance(part, int) and part < len(value)
        if listed or (isinstance(value, dict) and part in value):
            value = value[part]
        elif not isinstance(value, dict) or number < len(loc) - 1 or not str(part).isidentifier():
            continue
        yield part


def _sentence_of(message: str) -> str:
    for start in ASSERTED:
        message = message.removeprefix(start)
    return message[:1].upper() + message[1:]
