"""The questions that a graph waits for: which interrupts are pending, as which requests, and what was answered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from checkpoints.ids import RequestKey
from checkpoints.records import Answer, Json, Request
from wfdash.domain.labels import label_of_step
from wfdash.engines.langgraph.driving.cards import QuestionsAsked, asked_by
from wfdash.engines.langgraph.private import DISTINCT_IDS, INTERRUPT, NULL_TASK, has_ended
from wfdash.engines.langgraph.stored.show import longest_transcript
from wfdash.engines.langgraph.stored.thread import Space, Thread
from wfdash.engines.langgraph.stored.values import decode
from wfdash.engines.serving import Served
from wfdash.questions.card import Asking, headline_about
from wfdash.questions.cards import Question, make_request, prepare
from wfdash.questions.policy import Policy
from wfdash.questions.tools import conversation

BREAKPOINT = "breakpoint"
"""How the keys of requests begin that let a graph continue behind a breakpoint."""
MOST_MESSAGES = 20
"""Messages that a card shows, from the end; the run's page has all."""


@dataclass(frozen=True, kw_only=True)
class Pending:
    """An interrupt that has not been answered. ``key``: the same for the same question after a resume."""

    id: str
    key: str
    value: Any
    schema: Any
    ns: str
    task: str


class Questions:
    """The open questions of one run in one drive, and the answers that people gave."""

    def __init__(
        self,
        thread: Thread,
        served: Served,
        requests: Sequence[Request],
        step_of: Callable[[str, str], str | None],
        secrets: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        """``requests``: those open already; ``step_of``: the step of a task of a namespace, None while unknown.

        ``secrets``: returns the names of fields that no headline shows.
        """
        self._thread, self._served, self._step_of, self._secrets = thread, served, step_of, secrets
        self.open: dict[RequestKey, Request] = {request.key: request for request in requests}
        self._asked: dict[str, QuestionsAsked] = {}
        self._values: dict[str, list[Any]] = {}
        self.activations: dict[RequestKey, str] = {}
        """Request -> the task that asks."""

    # -- answers

    def take(self, answers: Mapping[RequestKey, Answer]) -> list[RequestKey]:
        """Keep the answers to open requests in the thread, and return their keys: those are closed now."""
        taken = [key for key in answers if key in self.open]
        for key in taken:
            del self.open[key]
            base, _, part = key.partition("#")
            before = self._thread.given.get(base, {})
            self._thread.given = {**self._thread.given, base: {**before, part or "0": answers[key].value}}
        return taken

    def resume(self) -> dict[str, Json]:
        """Return the answers of interrupts all of whose parts are answered, as the graph expects them, by interrupt."""
        found: dict[str, Json] = {}
        for one in self.interrupts():
            given, asked = self._thread.given.get(one.key, {}), self.asked(one)
            if len(given) == len(asked.parts):
                found[one.id] = asked.join({int(part): value for part, value in given.items()})
        return found

    def refuse(self, ids: Sequence[str]) -> None:
        """Forget the answers to these interrupts: they are asked again."""
        keys = {one.key for one in self.interrupts() if one.id in ids}
        self._thread.given = {key: given for key, given in self._thread.given.items() if key not in keys}

    # -- questions

    def interrupts(self) -> list[Pending]:
        """Return every interrupt of a task that has not ended, answered or not, each once: where it was raised."""
        found: dict[str, Pending] = {}
        for ns in sorted(self._thread.spaces, key=_depth):
            space = self._thread.spaces[ns]
            for task in sorted(space.writes, key=lambda name: (space.writes[name]["path"], name)):
                if task != NULL_TASK and not has_ended(space.writes[task]) and not self._is_over(ns):
                    for one in self._of_task(ns, space, task):
                        found[one.id] = one
        return [one for one in found.values() if not self._is_taken(one)]

    def _of_task(self, ns: str, space: Space, task: str) -> list[Pending]:
        one = space.writes[task]
        asked = one.get("asked", 0)
        stored = next((entry[1] for entry in one["at"].values() if entry[0] == INTERRUPT), None)
        return [
            Pending(
                id=raised.id,
                key=raised.id if DISTINCT_IDS or not asked else f"{raised.id}.{asked}",
                value=raised.value,
                schema=getattr(raised, "response_schema", None),
                ns=ns,
                task=task,
            )
            for raised in (self._decoded(stored) if stored is not None else ())
        ]

    def _is_taken(self, one: Pending) -> bool:
        """Return whether the task that asked has been given the answer already."""
        written = self._thread.spaces[one.ns].writes[one.task]
        return bool(written.get("answered", 0) > written.get("asked", 0))

    def _is_over(self, ns: str) -> bool:
        """Return whether the task that a namespace belongs to has ended."""
        parent, _, last = ns.rpartition("|")
        task = last.partition(":")[2]
        above = self._thread.spaces.get(parent)
        return bool(task) and above is not None and task in above.writes and has_ended(above.writes[task])

    def _decoded(self, stored: Json) -> list[Any]:
        text = str(stored)
        if text not in self._values:
            raised = decode(stored)
            self._values[text] = list(raised) if isinstance(raised, (list, tuple)) else [raised]
        return self._values[text]

    def asked(self, one: Pending) -> QuestionsAsked:
        """Return the questions of an interrupt."""
        if one.key in self._asked:
            return self._asked[one.key]
        step = self._step_of(one.ns, one.task)
        evidence = conversation(longest_transcript(self._thread), most=MOST_MESSAGES)
        title, secrets = label_of_step(step or "The graph"), self._secrets()
        found = asked_by(
            one.value,
            one.schema or self._served.answer_schema(step or ""),
            evidence,
            lambda value, kind: headline_about(kind or title, value, secrets),
            secrets,
        )
        if step is not None:
            self._asked[one.key] = found
        return found

    def update(self, now: datetime) -> tuple[list[Request], list[RequestKey]]:
        """Bring the open requests up to date. Return those that open now, and the keys of those no longer asked."""
        wanted: dict[RequestKey, tuple[Pending, int] | None] = {}
        for one in self.interrupts():
            given, asked = self._thread.given.get(one.key, {}), self.asked(one)
            for number in range(len(asked.parts)):
                if str(number) not in given:
                    wanted[RequestKey(f"{one.key}#{number}" if asked.numbered else one.key)] = (one, number)
        if self._thread.breakpoint is not None:
            wanted[RequestKey(self._thread.breakpoint["key"])] = None
        opened = []
        for key, source in wanted.items():
            if key not in self.open and (request := self._request(key, source, now)) is not None:
                opened.append(request)
        withdrawn = [key for key in self.open if key not in wanted]
        self.open = {key: request for key, request in self.open.items() if key in wanted}
        self.open |= {request.key: request for request in opened}
        return opened, withdrawn

    def _request(self, key: RequestKey, source: tuple[Pending, int] | None, now: datetime) -> Request | None:
        """Return the request of a part of an interrupt, or of the breakpoint; None while its step is unknown."""
        if source is None:
            return self._breakpoint(key, now)
        one, number = source
        step = self._step_of(one.ns, one.task)
        if step is None:
            return None
        part = self.asked(one).parts[number]
        self.activations[key] = one.task
        return self._made(key, step, part.asking, (*part.names, step), part.proposal, now)

    def _breakpoint(self, key: RequestKey, now: datetime) -> Request:
        nodes = (self._thread.breakpoint or {}).get("nodes", [])
        subject = f"Continue with {' and '.join(nodes)}?"
        asking = prepare(Question(subject=subject, body="The graph stops here by its author's wish."), {"type": "null"})
        return self._made(key, nodes[0], asking, tuple(nodes), None, now)

    def _made(
        self, key: RequestKey, step: str, asking: Asking, names: Sequence[str], proposal: Json, now: datetime
    ) -> Request:
        policy = (self._served.policy_of(*names) or Policy()).resolved(proposal)
        return make_request(key, step, asking, policy, due=None, now=now)


def _depth(ns: str) -> tuple[int, str]:
    return (ns.count("|") + 1 if ns else 0, ns)
