"""The policy of one question: the arguments of ``ctx.ask`` over the policy it was given. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from wfdash.questions.policy import Policy
from wfdash.values.errors import InvalidCall


def policy_of(policy: Policy | None, arguments: Mapping[str, Any]) -> Policy:
    """Return the policy with the arguments of ``ctx.ask``. ``InvalidCall`` if one is given twice, or is invalid."""
    given = {name: value for name, value in arguments.items() if value not in ((), "", None)}
    twice = given.keys() & (policy.model_fields_set if policy else set())
    if twice:
        raise InvalidCall(f"ctx.ask got {sorted(twice)[0]}= twice: as an argument and in policy=")
    try:
        return Policy(**given).over(policy)
    except ValidationError as error:
        raise InvalidCall(f"ctx.ask: {error.errors()[0]['msg']}") from error


def refuse_unknown(arguments: Mapping[str, Any]) -> None:
    """Raise ``InvalidCall`` for arguments that ``ctx.ask`` has not: those of a policy go into one."""
    for name in arguments:
        remedy = f"give policy=Policy({name}=...)" if name in Policy.model_fields else "see its docstring"
        raise InvalidCall(f"ctx.ask takes no {name}=: by, not_by and due are its own, {remedy}")
