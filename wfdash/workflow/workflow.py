"""``Workflow``: the definition, and the one method that starts, answers, resumes and recovers its runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from checkpoints.ids import RequestKey, RunId
from checkpoints.records import Checkpoint, Json
from wfdash.contract import Outcome
from wfdash.workflow.build import build
from wfdash.workflow.call import UNSET, Call
from wfdash.workflow.errors import InvalidWorkflow
from wfdash.workflow.graph import Graph
from wfdash.workflow.inputs import accept_input, input_schema
from wfdash.workflow.migration import Hook, Way
from wfdash.workflow.plan import Sub
from wfdash.workflow.policy import Policy
from wfdash.workflow.retry import Retry
from wfdash.workflow.steps import Function, Step
from wfdash.workflow.stream import RunStream
from wfdash.workflow.wiring import After, Named, Switch

Answers = Mapping[str, Any] | Mapping[RequestKey, Any]


class Workflow:
    """A named graph of steps. Holds no run: one definition serves any number of runs at once.

    ``state``: a pydantic model or dataclass for ``ctx.state``, with defaults; None for a free dict. ``reducers``:
    key -> ``f(current, contribution)`` for keys that overlapping steps write. ``max_steps``: how many steps of one loop
    may run between two answers of people. ``policy``: how its requests are decided where they do not say it themselves.
    """

    def __init__(
        self,
        name: str,
        *,
        title: str = "",
        doc: str = "",
        state: Any = None,
        reducers: Mapping[str, Callable[[Any, Any], Any]] | None = None,
        max_steps: int = 1000,
        policy: Policy | None = None,
        examples: tuple[Any, ...] | list[Any] = (),
    ) -> None:
        self.name = name
        self.title = title or name.replace("_", " ").capitalize()
        self.doc = doc
        self.state = state
        self.reducers: Mapping[str, Callable[[Any, Any], Any]] = dict(reducers or {})
        self.max_steps = max_steps
        self.policy = policy
        self.examples = tuple(examples)
        self._steps: dict[str, Step] = {}
        self._subs: dict[str, Sub] = {}
        self._hooks: list[Way] = []
        self._switches = 0
        self._graph: Graph | None = None

    def __repr__(self) -> str:
        """Name it."""
        return f"Workflow({self.name!r})"

    @property
    def steps(self) -> Mapping[str, Step]:
        """The declared steps by name."""
        return self._steps

    @property
    def subs(self) -> Mapping[str, Sub]:
        """The declared sub-workflows by name."""
        return self._subs

    @property
    def graph(self) -> Graph:
        """The compiled graph. The first use validates: ``InvalidWorkflow`` names what is wrong."""
        if self._graph is None:
            self._graph = build(self)
        return self._graph

    @property
    def version(self) -> str:
        """The graph's signature; a checkpoint of another one resumes only by a declared migration or old name."""
        return self.graph.version

    def step(
        self,
        *,
        start: bool = False,
        after: After | None = None,
        when: Callable[[Any], Any] | None = None,
        otherwise: bool = False,
        retry: Retry | None = None,
        timeout: float | None = None,
        concurrency: int | None = None,
        name: str | None = None,
        title: str = "",
        was: str | tuple[str, ...] = (),
    ) -> Callable[[Function], Step]:
        """Declare a step: an async function, or a plain one (run in a thread).

        It takes ``(message, ctx)``, ``(message)``, ``(ctx)`` or nothing. ``after``: what triggers it. ``when``: a
        predicate on the value; ``otherwise``: if no other ``when`` of that source held. ``timeout``: seconds of work,
        waiting for people not counted. ``concurrency``: how many may run at once in one run. ``was``: names it had
        before, so that runs begun then find it.
        """
        names = _local_names()

        def declare(function: Function) -> Step:
            step = Step(
                name=name or str(getattr(function, "__name__", "step")),
                function=function,
                start=start,
                after=after,
                when=when,
                otherwise=otherwise,
                retry=retry,
                timeout=timeout,
                concurrency=concurrency,
                title=title,
                was=(was,) if isinstance(was, str) else tuple(was),
                names=names,
            )
            self._claim_name(step.name)
            self._steps[step.name] = step
            return step

        return declare

    def sub(
        self,
        name: str,
        child: Workflow,
        *,
        start: bool = False,
        after: After | None = None,
        when: Callable[[Any], Any] | None = None,
        otherwise: bool = False,
        was: str | tuple[str, ...] = (),
    ) -> Sub:
        """Use another workflow as a step. Its requests are the run's; its state keeps its own names."""
        before = (was,) if isinstance(was, str) else tuple(was)
        sub = Sub(name=name, child=child, start=start, after=after, when=when, otherwise=otherwise, was=before)
        self._claim_name(name)
        self._subs[name] = sub
        return sub

    def switch(self, source: Named | str, *, key: Callable[[Any], Any]) -> Switch:
        """Route what ``source`` returns by ``key(value)``: ``after=switch.case("high")``, ``after=switch.default``."""
        self._switches += 1
        return Switch(source, f"switch{self._switches}", key)

    def migrate(self, *, from_version: str, to_version: str = "") -> Callable[[Hook], Hook]:
        """Declare how a run of an older graph goes on: ``hook(migration)`` changes the ``Migration`` it is given.

        It leads to ``to_version``; without one to the next hook's ``from_version``, from the last hook to the
        present graph. What it leaves must be valid there, or the run stays as it is.
        """

        def declare(hook: Hook) -> Hook:
            if any(known.from_version == from_version for known in self._hooks):
                raise InvalidWorkflow(f"workflow {self.name!r} has two migrations from version {from_version!r}")
            self._hooks.append(Way(from_version=from_version, to_version=to_version, hook=hook))
            return hook

        return declare

    @property
    def hooks(self) -> tuple[Way, ...]:
        """The declared migrations, in order."""
        return tuple(self._hooks)

    def _claim_name(self, name: str) -> None:
        if name in self._steps or name in self._subs:
            raise InvalidWorkflow(f"workflow {self.name!r} has two steps named {name!r}")
        if not name or set(name) & set("/>@*:"):
            raise InvalidWorkflow(f"step name {name!r}: must not be empty or contain any of / > @ * :")
        self._graph = None

    def input_schema(self) -> dict[str, Json]:
        """Return the JSON Schema of ``run``'s message."""
        return input_schema(self.graph)

    def check_input(self, message: Any) -> Json:
        """Return the message as JSON; ``InvalidInput`` with errors per field if no start step takes it."""
        return accept_input(self.graph, message)[1]

    async def run(
        self,
        message: Any = UNSET,
        *,
        answers: Answers | None = None,
        checkpoint: Checkpoint | str | None = None,
        storage: object = None,
        run_id: str | None = None,
        park_after: float = 1.0,
    ) -> Outcome:
        """Start (``message``), answer (``answers``), resume or recover (``checkpoint``, or ``run_id`` with a storage).

        Returns ``Finished``, ``Waiting`` or ``Failed``, each with the ``checkpoint`` to go on from. ``checkpoint``: a
        record, or its id with ``storage`` and ``run_id``. ``answers``: request key -> value or ``Answer``. ``storage``:
        a storage, manager, journal or recorder; without one the checkpoint is yours to keep. ``park_after``: sleeps
        longer than these seconds park the run. ``InvalidCall`` names arguments that do not go together;
        ``InvalidInput`` what does not fit; ``Incompatible`` a checkpoint of another graph to which no ``migrate``
        hook and no old name (``was``) leads.
        """
        call = Call(message, answers, checkpoint, storage, RunId(run_id) if run_id else None, park_after)
        return await (await call.prepare(self.name, self.graph, hooks=self.hooks)).go()

    def run_stream(
        self,
        message: Any = UNSET,
        *,
        answers: Answers | None = None,
        checkpoint: Checkpoint | str | None = None,
        storage: object = None,
        run_id: str | None = None,
        park_after: float = 1.0,
    ) -> RunStream:
        """Make the same call, yielding each event once it is committed; then ``.outcome``."""
        call = Call(message, answers, checkpoint, storage, RunId(run_id) if run_id else None, park_after)
        return RunStream(lambda show: call.prepare(self.name, self.graph, show, hooks=self.hooks))


def _local_names() -> dict[str, Any]:
    """Return the local names around the decorator: annotations of steps declared in a function mean them."""
    frame = sys._getframe(2)
    return {} if frame.f_code.co_name == "<module>" else dict(frame.f_locals)
