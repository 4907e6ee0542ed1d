"""A step as its author declared it, and its function's signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, get_type_hints

from wfdash.workflow.authoring.edges import After
from wfdash.workflow.authoring.retry import Retry
from wfdash.workflow.errors import InvalidWorkflow

Function = Callable[..., Any]


class StepContext:
    """Marks a step's parameter as its context; ``Context`` is the one class below it."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A declared step. Calling it calls its function, so a test needs no engine."""

    name: str
    function: Function
    start: bool = False
    follow_up: bool = False
    """It takes the message that follows up on a completed run."""
    after: After | None = None
    when: Callable[[Any], Any] | None = None
    otherwise: bool = False
    retry: Retry | None = None
    timeout: float | None = None
    concurrency: int | None = None
    title: str = ""
    people: bool = False
    """It asks people through a helper: the graph shows it as such."""
    was: tuple[str, ...] = ()
    """Earlier names: older checkpoints refer to it by these."""
    names: dict[str, Any] = field(default_factory=dict, repr=False)
    """Names visible where the step was declared: annotations may be text that refers to them."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of the step's function."""
        return self.function(*args, **kwargs)


@dataclass(frozen=True, kw_only=True)
class Signature:
    """The parameters and result of a step's function. ``order``: its positional arguments, ``message`` or ``ctx``."""

    order: tuple[str, ...]
    takes: Any
    gives: Any
    is_async: bool
    context: str = ""
    """The name of its context parameter, empty without one."""
    message: str = ""
    """The name of its message parameter, empty without one."""


def read_hints(function: Function, names: dict[str, Any]) -> dict[str, Any]:
    """Return the function's annotations as types."""
    return get_type_hints(function, localns=names or None, include_extras=True)


def read_signature(step: Step) -> Signature:
    """Return the signature of the step's function; ``InvalidWorkflow`` names the step if it cannot be called as one."""
    try:
        hints = read_hints(step.function, step.names)
    except NameError as error:
        raise InvalidWorkflow(f"step {step.name!r}: its annotations cannot be read: {error}") from error
    wanted = [p for p in inspect.signature(step.function).parameters.values() if _is_needed(p)]
    order = tuple("ctx" if _is_context(p, hints) else "message" for p in wanted)
    if len(set(order)) != len(order):
        raise InvalidWorkflow(f"step {step.name!r} must take (message, ctx), (message), (ctx) or nothing")
    named = {role: p.name for p, role in zip(wanted, order, strict=True)}
    return Signature(
        order=order,
        context=named.get("ctx", ""),
        message=named.get("message", ""),
        takes=hints.get(named.get("message", ""), Any),
        gives=hints.get("return", Any),
        is_async=inspect.iscoroutinefunction(step.function),
    )


def _is_needed(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind in (
        parameter.POSITIONAL_ONLY,
        parameter.POSITIONAL_OR_KEYWORD,
    )


def _is_context(parameter: inspect.Parameter, hints: dict[str, Any]) -> bool:
    hint = hints.get(parameter.name)
    return (isinstance(hint, type) and issubclass(hint, StepContext)) or (
        hint is None and parameter.name in {"ctx", "context"}
    )
