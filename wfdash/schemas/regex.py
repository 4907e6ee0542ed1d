"""Regular expressions of JSON Schemas, matched in time linear in the text. Pure.

They are matched by the engine of pydantic itself (Rust's, without backtracking), so that a value matches a schema's
pattern exactly when it matches the model's. Look-around and back-references, which that engine does not support, could
take Python's ``re`` exponential time: they are refused, but for the one look-ahead that pydantic itself writes, at the
start of the patterns of ``Decimal``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jsonschema.exceptions import ValidationError
from pydantic_core import SchemaError, SchemaValidator, core_schema

_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(\d*)(,?)(\d*)\}|.", re.DOTALL)
_NOT_AHEAD = re.compile(r"\^\(\?!(?P<no>\^[^()]*\$)\)(?P<yes>[^()]*)", re.DOTALL)


class UnsupportedPattern(ValueError):
    """A pattern that is not valid or cannot be checked in bounded time; the message names it."""


@dataclass(frozen=True, kw_only=True)
class Matcher:
    """The pattern a text must contain, and the one it must not."""

    yes: SchemaValidator
    states: int
    """About how many states it has: at worst the engine is in each of them at each character."""
    no: SchemaValidator | None = None

    def finds(self, text: str) -> bool:
        """Return whether the pattern occurs in a text, as ``re.search`` would."""
        return self.yes.isinstance_python(text) and not (self.no and self.no.isinstance_python(text))


@lru_cache(maxsize=512)
def matcher_of(pattern: str) -> Matcher:
    """Return the matcher of a pattern. ``UnsupportedPattern``."""
    parts = _NOT_AHEAD.fullmatch(pattern)
    try:
        if parts is None:
            return Matcher(yes=_compiled(pattern), states=states_of(pattern))
        return Matcher(yes=_compiled(f"^{parts['yes']}"), no=_compiled(parts["no"]), states=states_of(pattern))
    except SchemaError as error:
        why = str(error).rstrip().rpartition("error: ")[2] or "not a regular expression"
        raise UnsupportedPattern(f"The pattern {pattern!r} cannot be checked: {why[:200]}") from error


def _compiled(pattern: str) -> SchemaValidator:
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True))


def states_of(pattern: str) -> int:
    """Return about how many states a pattern has. ``{n,m}`` repeats what it follows; a class takes up to four bytes."""
    totals, last = [0], 0
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        if text == "(":
            totals.append(0)
        elif text.startswith("{") and text.endswith("}") and len(text) > 1:
            times = max((int(one[:6]) for one in (token[1], token[3]) if one), default=1)
            totals[-1] += last * max(0, times - 1)
            last *= max(1, times)
        else:
            last = (totals.pop() if text == ")" and len(totals) > 1 else 0) + (4 if len(text) > 1 else 1)
            totals[-1] += last
    return sum(totals)


def refuse_unsupported(schema: Any) -> None:
    """Raise ``UnsupportedPattern`` for the first pattern anywhere in a JSON Schema that cannot be checked."""
    for pattern in patterns_of(schema):
        matcher_of(pattern)


def is_known(schema: Mapping[str, Any], name: str) -> bool:
    """Return whether an object's schema names this property, or has a pattern for it."""
    return name in schema.get("properties", {}) or any(
        matcher_of(pattern).finds(name) for pattern in schema.get("patternProperties", {})
    )


def refuse_mixture(schema: Any) -> None:
    """Raise ``UnsupportedPattern`` where ``unevaluatedProperties`` would have ``jsonschema`` search with ``re``."""
    keywords = {key for node in _nodes(schema) for key in ("unevaluatedProperties", "patternProperties") if key in node}
    if len(keywords) > 1:
        raise UnsupportedPattern("unevaluatedProperties cannot be checked beside patternProperties")


def patterns_of(schema: Any) -> Iterator[str]:
    """Yield all patterns of a JSON Schema."""
    for node in _nodes(schema):
        if isinstance(node.get("pattern"), str):
            yield node["pattern"]
        if isinstance(node.get("patternProperties"), Mapping):
            yield from map(str, node["patternProperties"])


def _nodes(schema: Any) -> Iterator[Mapping[str, Any]]:
    stack = [schema]
    while stack:
        current = stack.pop()
        if isinstance(current, Mapping):
            yield current
            stack.extend(current.values())
        elif isinstance(current, list):
            stack.extend(current)


def check_pattern(_validator: Any, pattern: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    """Check ``pattern``: the text must contain it."""
    if isinstance(instance, str) and not matcher_of(pattern).finds(instance):
        yield ValidationError(f"does not match {pattern!r}")


def check_pattern_properties(validator: Any, patterns: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    """Check ``patternProperties``: the values of the properties whose names match."""
    for pattern, inner in patterns.items() if isinstance(instance, Mapping) else ():
        for name, value in instance.items():
            if matcher_of(pattern).finds(name):
                yield from validator.descend(value, inner, path=name, schema_path=pattern)


def check_additional(validator: Any, inner: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Check ``additionalProperties``: properties neither named nor matched by a pattern."""
    more = [name for name in instance if not is_known(schema, name)] if isinstance(instance, Mapping) else []
    if isinstance(inner, Mapping):
        for name in more:
            yield from validator.descend(instance[name], inner, path=name)
    elif inner is False and more:
        yield ValidationError(f"additional properties: {', '.join(more)}")


CHECKS = {
    "pattern": check_pattern,
    "patternProperties": check_pattern_properties,
    "additionalProperties": check_additional,
}
"""Replacements for checks of ``jsonschema`` that search with ``re``."""
