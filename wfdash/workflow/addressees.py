"""Whom the questions of a workflow are addressed to, read from the source of its steps without running them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import CodeType
from typing import Any

from pydantic import ValidationError

from wfdash.contract import Addressees
from wfdash.questions.ask_policy import policy_of
from wfdash.questions.policy import Policy, addressees_of
from wfdash.workflow.compiler.graph import Graph, Node
from wfdash.workflow.describe import asks_people, parsed, used_of
from wfdash.workflow.errors import InvalidCall

NAMING = ("by", "not_by")
UNKNOWN = object()
"""The value of an expression that only a running step has."""


def addressees(graph: Graph) -> list[Addressees]:
    """Return whom each step asks, once for each different way, in the order of the steps.

    A name is known where it is written as text, or as a constant of its module. Where it is not, what the workflow's
    policy says is given, and ``certain`` is False.
    """
    asking = (node for node in graph.nodes.values() if not node.hidden and (node.people or asks_people(node)))
    return [one for node in asking for one in dict.fromkeys(_of(node))]


def _of(node: Node) -> Iterator[Addressees]:
    function = inspect.unwrap(node.function)
    code, known = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    calls = _calls(code, node.context) if code is not None and node.context else ()
    for call in calls:
        yield _addressed(node, call, known)
    if not calls:
        yield addressees_of(node.name, node.policy or Policy(), certain=False)


@lru_cache(maxsize=2_048)
def _calls(code: CodeType, context: str) -> tuple[ast.Call, ...]:
    """Return the calls of the context's ``ask``."""
    found = (part for part in ast.walk(parsed(code)) if isinstance(part, ast.Call))
    return tuple(call for call in found if used_of(context, call.func) == "ask")


def _addressed(node: Node, call: ast.Call, known: Mapping[str, Any]) -> Addressees:
    given = {word.arg: word.value for word in call.keywords if word.arg}
    values = {name: _names(given[name], known) for name in NAMING if name in given}
    said = _policy(given["policy"], known) if "policy" in given else None
    certain = said is not UNKNOWN and UNKNOWN not in values.values() and len(given) == len(call.keywords)
    policy = said if isinstance(said, Policy) else None
    try:
        stated = policy_of(policy, {name: value for name, value in values.items() if value is not UNKNOWN})
    except InvalidCall:
        stated, certain = Policy(), False
    return addressees_of(node.name, stated.over(node.policy), certain=certain)


def _names(expression: ast.expr, known: Mapping[str, Any]) -> Any:
    """Return the names an expression means, ``UNKNOWN`` if that cannot be read from the source."""
    value = _value(expression, known)
    if isinstance(value, str):
        return (value,)
    texts = isinstance(value, (tuple, list)) and all(isinstance(one, str) for one in value)
    return tuple(value) if texts else UNKNOWN


def _policy(expression: ast.expr, known: Mapping[str, Any]) -> Any:
    """Return the policy an expression makes or names, as far as it names people; else ``UNKNOWN``."""
    found = _value(expression, known)
    if isinstance(found, Policy) or found is None:
        return found
    if not isinstance(expression, ast.Call) or _value(expression.func, known) is not Policy:
        return UNKNOWN
    given = {word.arg: _value(word.value, known) for word in expression.keywords if word.arg}
    if UNKNOWN in given.values():
        return UNKNOWN
    try:
        return Policy(**given)
    except ValidationError:
        return UNKNOWN


def _value(expression: ast.expr, known: Mapping[str, Any]) -> Any:
    if isinstance(expression, ast.Name):
        return known.get(expression.id, UNKNOWN)
    if isinstance(expression, (ast.Tuple, ast.List)):
        return tuple(_value(one, known) for one in expression.elts)
    try:
        return ast.literal_eval(expression)
    except ValueError:
        return UNKNOWN
