"""Declarations of authors: steps, edges, policies, retries, migration hooks."""

from __future__ import annotations

import inspect
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, get_type_hints

from pydantic import BaseModel, ConfigDict, Field

from checkpoints.limits import problem_of
from checkpoints.records import Json, JsonObject, frozen
from wfdash.questions.policy import Duration, Seconds, span_of
from wfdash.values.codec import copy_plain
from wfdash.workflow.errors import InvalidWorkflow

# -- the values of ``after=``: where a step's message comes from


class Named(Protocol):
    """Anything that can be named as a step: a step, or a sub-workflow."""

    @property
    def name(self) -> str:
        """Return the step's name in its workflow."""


Source: TypeAlias = "Named | Case | str"
After: TypeAlias = "Source | Join | Each | Gather | Sequence[Source]"


@dataclass(frozen=True, slots=True)
class Case:
    """One branch of a switch. ``value`` is None and ``default`` True for the branch of all other values."""

    source: Named | str
    switch: str
    key: Callable[[Any], Any]
    value: Any = None
    default: bool = False


@dataclass(frozen=True, slots=True)
class Switch:
    """Routes the output of ``source`` by ``key(value)``; use ``.case(x)`` and ``.default`` in ``after=``."""

    source: Named | str
    name: str
    key: Callable[[Any], Any]

    def case(self, value: Any) -> Case:
        """Return the branch taken when ``key(...)`` equals ``value``."""
        return Case(self.source, self.name, self.key, value)

    @property
    def default(self) -> Case:
        """Return the branch taken when no case of this switch matched."""
        return Case(self.source, self.name, self.key, default=True)


@dataclass(frozen=True, slots=True)
class Join:
    """Waits for several sources: fires once ``need`` of them arrived (None: all that still can)."""

    sources: tuple[Source, ...]
    need: int | None
    single: bool = False
    """True: the message is the first value, not a list."""


@dataclass(frozen=True, slots=True)
class Each:
    """One activation per item of the list that ``source`` returns. ``label``: what an item is called."""

    source: Source
    label: str = ""


@dataclass(frozen=True, slots=True)
class Gather:
    """Closes the innermost map around its sources."""

    sources: tuple[Source, ...]


def all_of(*sources: Source) -> Join:
    """Return a join of every source that can still arrive. Message: list of their outputs in this order."""
    return Join(sources, None)


def any_of(*sources: Source) -> Join:
    """Return a join that continues with the first that arrives and ignores the others. Message: its output."""
    return Join(sources, 1, single=True)


def n_of(need: int, *sources: Source) -> Join:
    """Return a join that continues once ``need`` sources arrived. Message: list of outputs in this order.

    If fewer than ``need`` can still arrive, the step does not run.
    """
    return Join(sources, need)


def each(source: Source, *, label: str = "") -> Each:
    """Return a map: the step runs once per item of the list ``source`` returns; later steps stay with their item.

    ``label``: what an item is called in all its steps, with fields of the item: ``"{employee}: {amount}"``.
    """
    return Each(source, label)


def gather(*sources: Source) -> Gather:
    """Return the end of the innermost map: the step runs once when nothing of it can still arrive.

    Message: list of what arrived, in item order; ``[]`` at once for an empty map.
    """
    return Gather(sources)


class Retry(BaseModel):
    """Retries up to ``attempts`` attempts in all, ``delay`` apart, growing by ``factor`` up to ``longest``.

    Durations: ``"30s"``, ``"5m"``, seconds or a ``timedelta``. ``on``: error classes to retry; ``never``: those that
    are not, checked first.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    attempts: int = Field(default=3, ge=1)
    delay: Seconds = Field(default=1.0, ge=0)
    factor: float = Field(default=2.0, ge=1)
    longest: Seconds = Field(default=300.0, ge=0)
    on: tuple[type[Exception], ...] = (Exception,)
    never: tuple[type[Exception], ...] = ()

    if TYPE_CHECKING:
        # What it takes is wider than what it holds: type checkers know only the latter.
        def __init__(
            self,
            *,
            attempts: int = 3,
            delay: Duration = 1.0,
            factor: float = 2.0,
            longest: Duration = 300.0,
            on: tuple[type[Exception], ...] = (Exception,),
            never: tuple[type[Exception], ...] = (),
        ) -> None: ...

    def delay_after(self, attempt: int, error: BaseException) -> float | None:
        """Return the seconds to wait after failed attempt number ``attempt`` (from 1), None to give up."""
        if attempt >= self.attempts or isinstance(error, self.never) or not isinstance(error, self.on):
            return None
        return min(self.delay * self.factor ** (attempt - 1), self.longest)


# -- a step as its author declared it, and its function's signature

Function = Callable[..., Any]


class StepContext:
    """Marks a step's parameter as its context; ``Context`` is the one class below it."""


@frozen
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
    rate: Rate | None = None
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


@frozen
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
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    given = inspect.signature(step.function).parameters.values()
    wanted = [p for p in given if p.default is p.empty and p.kind in positional]
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


def _is_context(parameter: inspect.Parameter, hints: dict[str, Any]) -> bool:
    hint = hints.get(parameter.name)
    return (isinstance(hint, type) and issubclass(hint, StepContext)) or (
        hint is None and parameter.name in {"ctx", "context"}
    )


# -- migration hooks: their argument, the changes they may make, and which of them leads to the current graph


@frozen
class StepChange:
    """One change of a hook. ``verb``: rename | drop | move."""

    verb: str
    step: str
    to: str = ""

    def inside(self, prefix: str) -> StepChange:
        """Return the change with the names of a sub-workflow's steps in the whole graph."""
        return replace(self, step=prefix + self.step, to=prefix + self.to if self.to else "")


class Migration:
    """A run being migrated to a newer graph. Change ``state`` in place; declare what became of removed steps.

    ``steps``: how many activations of each step are in progress. Steps that are not mentioned keep their place and
    name. Nothing is written until the result is known to be valid in the new graph.
    """

    def __init__(self, state: Mapping[str, Json], steps: Mapping[str, int]) -> None:
        self.state: JsonObject = copy_plain(dict(state))
        self.steps: Mapping[str, int] = dict(steps)
        self.changes: list[StepChange] = []

    def rename(self, old: str, new: str) -> None:
        """Rename step ``old`` to ``new``: its questions, calls and answers stay with it."""
        self._change(StepChange(verb="rename", step=old, to=new))

    def drop(self, step: str) -> None:
        """End every activation of ``step`` without a result: its questions are withdrawn."""
        self._change(StepChange(verb="drop", step=step))

    def move(self, step: str, to: str) -> None:
        """Start ``to`` with the same message in place of ``step``, from its top: questions are withdrawn."""
        self._change(StepChange(verb="move", step=step, to=to))

    def _change(self, change: StepChange) -> None:
        self.changes.append(change)
        counted = Counter(dict(self.steps))
        in_progress = counted.pop(change.step, 0)
        if change.to and in_progress:
            counted[change.to] += in_progress
        self.steps = dict(counted)


Hook: TypeAlias = Callable[[Migration], Any]


@frozen
class MigrationHook:
    """A declared hook. ``to_version`` is empty for the next declared one's, or the current graph."""

    from_version: str
    to_version: str
    hook: Hook


def find_path(ways: tuple[MigrationHook, ...], version: str, present: str) -> tuple[MigrationHook, ...]:
    """Return the hooks that lead from ``version`` to the ``present`` one, in order; empty if they do not."""
    following = [*(way.from_version for way in ways[1:]), present]
    leads = {way.from_version: (way, way.to_version or after) for way, after in zip(ways, following, strict=False)}
    found: list[MigrationHook] = []
    while version != present:
        if version not in leads:
            return ()
        way, version = leads.pop(version)
        found.append(way)
    return tuple(found)


# -- arguments of ``Workflow`` as they are given, and what is wrong with them


def checked(what: str, text: str) -> str:
    """Return a name that every storage can store; ``InvalidWorkflow`` says what is wrong with any other."""
    if problem := problem_of(what, text):
        raise InvalidWorkflow(f"{str(text)[:40]!r} is no {problem}")
    return text


def limit_of(timeout: Duration | None) -> float | None:
    """Return a step's ``timeout`` in seconds; ``InvalidWorkflow`` says what is wrong with it."""
    try:
        return None if timeout is None else span_of(timeout).total_seconds()
    except ValueError as error:
        raise InvalidWorkflow(f"timeout: {error}") from error


RATE = re.compile(r"([1-9]\d{0,5})/([smhd])")
Rate: TypeAlias = tuple[str, float]
"""The workflow that it was declared in, and the seconds between two starts."""


def rate_of(text: str | None, workflow: str) -> Rate | None:
    """Return a step's ``rate`` as read; ``InvalidWorkflow`` says how to write one."""
    if text is None:
        return None
    if (found := RATE.fullmatch(str(text))) is None:
        way = "write its starts in a second, minute, hour or day, such as 60/m"
        raise InvalidWorkflow(f"rate {text!r} of a step of {workflow}: {way}")
    return workflow, {"s": 1, "m": 60, "h": 3600, "d": 86400}[found[2]] / int(found[1])


def refuse_bare(function: Function | None) -> None:
    """Raise ``InvalidWorkflow`` for a decorator without its parentheses."""
    if function is not None:
        raise InvalidWorkflow(
            f"the decorator of {getattr(function, '__name__', function)!r} lacks its parentheses: write"
            " .step(start=True), or .step(after=...) with the step that it follows"
        )


def local_names() -> dict[str, Any]:
    """Return the local names around the decorator that calls the caller of this: for annotations of steps declared in a
    function.
    """
    frame = sys._getframe(2)
    return {} if frame.f_code.co_name == "<module>" else dict(frame.f_locals)
