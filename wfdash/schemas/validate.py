"""Checks a value against a JSON Schema and returns messages by field. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

from jsonschema import Draft4Validator, Draft6Validator, Draft7Validator, Draft201909Validator, Draft202012Validator
from jsonschema.validators import validator_for
from referencing.jsonschema import EMPTY_REGISTRY, specification_with

from checkpoints.content.canonical_json import dumps, loads
from checkpoints.limits import is_holdable
from wfdash.schemas import media, regex
from wfdash.schemas.formats import make_checker
from wfdash.schemas.messages import Problem, explain, misplaced
from wfdash.schemas.work import MOST_NODES, TooMuchWork, bounded_work, counting, has_more_nodes, names_parts, spend

__all__ = ["MAX_DEPTH", "Problem", "answer_problems", "depth_of", "flaws_of", "problems_of"]

MAX_DEPTH = 32
MAX_PROBLEMS = 100
MOST_FOUND = 1_000
"""Problems after which the check ends: there are more than can be shown."""
SHARED = frozenset({"reason"})
"""Fields that may come with any action: they say why, and do not change what is done."""

MAX_KEPT = 32_000
"""Bytes of a schema whose validator is kept for the next check."""

_DRAFTS: dict[Any, Any] = {
    draft: counting(draft, {**media.CHECKS, **regex.CHECKS})
    for draft in (Draft4Validator, Draft6Validator, Draft7Validator, Draft201909Validator, Draft202012Validator)
}
_FORMATS = make_checker()


MOST_ACTIONS = 6
"""Actions named in an error at most."""


def problems_of(schema: Mapping[str, Any], value: Any, *, root: Mapping[str, Any] | None = None) -> list[Problem]:
    """Return what is wrong, at most one hundred problems, in the order of the fields; empty when the value is valid.

    ``root``: the document that the schema is a part of, where its ``$ref`` point into. No value matches an invalid
    schema, which is reported as a problem, too.
    """
    flaws = flaws_of(value)
    if flaws:
        return flaws
    try:
        # A list first: evaluating a broken schema may fail half-way.
        with bounded_work():
            found = list(islice(_problems(_validator(schema, root), value), MOST_FOUND))
    except TooMuchWork as error:
        return [{"loc": [], "msg": str(error)}]
    except Exception as error:  # A schema is untrusted input: whatever it breaks, the schema is wrong.
        words = str(error).strip().splitlines() or [type(error).__name__]
        return [{"loc": [], "msg": f"The schema of this value is invalid: {words[0][:200]}"}]
    unique = {(tuple(map(str, problem["loc"])), problem["msg"]): problem for problem in found}
    return sorted(unique.values(), key=lambda problem: [str(part) for part in problem["loc"]])[:MAX_PROBLEMS]


def _problems(validator: Any, value: Any) -> Iterator[Problem]:
    for error in validator.iter_errors(value):
        for problem in explain(error):
            spend(1 + len(problem["msg"]) // 200)
            yield problem


def answer_problems(card: Mapping[str, Any], schema: Mapping[str, Any], value: Any) -> list[Problem]:
    """Return what is wrong with an answer to a card: by its schema, then fields of an action that was not chosen.

    The card is checked too, for schemas from before they had that rule themselves, and those of other engines.
    """
    found = problems_of(schema, value)
    listed = card.get("actions")
    names = [str(one.get("name")) for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    if not found or not names or isinstance(value, Mapping):
        return found or list(_stray_fields(card, value))
    others = f", or another action: {', '.join(names[1:MOST_ACTIONS])}" if names[1:] else ""
    return [{**one, "msg": f'{one["msg"]}: give {{"action": "{names[0]}"}}{others}'} for one in found]


def _stray_fields(card: Mapping[str, Any], value: Any) -> Iterator[Problem]:
    listed = card.get("actions")
    actions = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    if not isinstance(value, Mapping) or value.get("action") not in {one.get("name") for one in actions}:
        return
    owners: dict[str, list[str]] = {}
    for one in actions:
        for field in one.get("fields") or ():
            owners.setdefault(str(field), []).append(str(one.get("name")))
    for name, owned in owners.items():
        if name not in SHARED and value.get(name) is not None and value["action"] not in owned:
            yield {"loc": [name], "msg": misplaced(owned)}


def _validator(schema: Mapping[str, Any], root: Mapping[str, Any] | None) -> Any:
    whole = schema if root is None else root
    try:
        text = dumps(whole)
    except ValueError:  # No JSON: whether that is a flaw is for the validator to say.
        text = b""
    spend(len(text) // 1000)
    made = _kept(text) if 0 < len(text) <= MAX_KEPT else _made(dict(whole))
    return made if root is None else made.evolve(schema=dict(schema))


@lru_cache(128)
def _kept(text: bytes) -> Any:
    """Return the validator of a schema given as JSON; making one takes longer than most checks."""
    return _made(loads(text))


def _made(whole: dict[str, Any]) -> Any:
    draft = _DRAFTS.get(validator_for(whole, default=Draft202012Validator), _DRAFTS[Draft202012Validator])
    regex.refuse_mixture(whole)
    # An own registry, because the default one fetches the target of a ``$ref`` from the network.
    registry = EMPTY_REGISTRY
    if names_parts(whole):  # Known from the start: else the whole schema is searched for each reference by name.
        resource = specification_with(draft.META_SCHEMA["$schema"]).create_resource(whole)
        registry = registry.with_resource(resource.id() or "", resource).crawl()
    return draft(whole, format_checker=_FORMATS, registry=registry)


def flaws_of(value: Any) -> list[Problem]:
    """Return what no schema allows: more than ``MAX_DEPTH`` levels or ``MOST_NODES`` values, and values that cannot
    be stored everywhere.
    """
    if has_more_nodes(value, MOST_NODES):
        return [{"loc": [], "msg": f"Must not hold more than {MOST_NODES:,} values: send large data as text or a link"}]
    if depth_of(value) > MAX_DEPTH:
        return [{"loc": [], "msg": f"Must not be nested deeper than {MAX_DEPTH} levels"}]
    return [] if _is_sound(value) else list(islice(_odd_parts(value, []), MOST_FOUND))


def _is_sound(value: Any) -> bool:
    """Return whether there is no odd part, without looking for the place of each."""
    stack: list[Iterable[Any]] = [[value]]
    while stack:
        for item in stack.pop():
            kind = type(item)
            if kind is dict:
                if not all(map(is_holdable, item)):
                    return False
                stack.append(item.values())
            elif kind is list:
                stack.append(item)
            elif not (is_holdable(item) if kind is str else kind is not float or math.isfinite(item)):
                return False
    return True


def _odd_parts(value: Any, loc: list[Any]) -> Iterator[Problem]:
    """Yield where text contains NUL or a lone surrogate, and where a number is no JSON number."""
    if isinstance(value, str):
        if not is_holdable(value):
            yield {"loc": loc, "msg": "Contains characters that cannot be stored"}
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield {"loc": loc, "msg": "This number is too large, or not a number at all"}
    elif isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(key, str) and not is_holdable(key):
                yield {"loc": loc, "msg": "Contains characters that cannot be stored"}
            else:
                yield from _odd_parts(item, [*loc, key])


def depth_of(value: Any, most: int = MAX_DEPTH) -> int:
    """Return how deep lists and objects are nested (a scalar is 0), without recursion; one more than ``most`` is the
    greatest depth.
    """
    deepest, stack = 0, [(value, 0)]
    while stack:
        current, depth = stack.pop()
        deepest = max(deepest, depth)
        if depth <= most and isinstance(current, (dict, list)) and current:
            deepest = max(deepest, depth + 1)
            children = current.values() if isinstance(current, dict) else current
            stack.extend((child, depth + 1) for child in children if isinstance(child, (dict, list)))
    return deepest
