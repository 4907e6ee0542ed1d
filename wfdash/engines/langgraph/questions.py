"""The questions that a graph waits for: interrupts as cards and answers as what it expects, and breakpoints.

An interrupt's value says by its shape who made it: LangChain's middleware for approvals, which asks about several calls
at once (``action_requests``) or about one (``type: tool_approval``); an agent for Agent Inbox (``action_request`` with
``config``); or any graph with a value of its own. Each call is a question of its own, with its own card and answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from langgraph.types import StateSnapshot

from checkpoints.ids import RequestKey
from checkpoints.records import Answer, Json, JsonObject, Request, frozen
from wfdash.domain.labels import humanize, label_of_step
from wfdash.engines.langgraph.graphs import Graph, Ready
from wfdash.engines.langgraph.private import DISTINCT_IDS, INTERRUPT, NULL_TASK, has_ended
from wfdash.engines.langgraph.thread import Space, Thread, longest_transcript, path_of
from wfdash.engines.langgraph.values import decode, shown
from wfdash.engines.serving import Served
from wfdash.questions.card import KINDS, Asking, headline_about, headline_field
from wfdash.questions.cards import Question, make_request, prepare
from wfdash.questions.choices import open_answer, options_in, text_in
from wfdash.questions.evidence import Evidence
from wfdash.questions.policy import Policy
from wfdash.questions.tools import ToolCall, Verb, conversation

BREAKPOINT = "breakpoint"
"""How the keys of requests begin that let a graph continue behind a breakpoint."""
MOST_MESSAGES = 20
"""Messages that a card shows, from the end; the run's page has all."""


@frozen
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

    def resume(self) -> JsonObject:
        """Return the answers of interrupts all of whose parts are answered, as the graph expects them, by interrupt."""
        found: JsonObject = {}
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
        for ns in sorted(self._thread.spaces, key=lambda name: (name.count("|") + 1 if name else 0, name)):
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


VERBS: tuple[Verb, ...] = ("approve", "edit", "reject", "respond")
INBOX: dict[str, Verb] = {
    "allow_accept": "approve",
    "allow_edit": "edit",
    "allow_ignore": "reject",
    "allow_respond": "respond",
}
BODIES = ("description", "body", "message", "details", "instructions")
CHOICES = ("options", "choices")
"""The keys of an interrupt's value that offer answers: others may be given as well."""
LONGEST = 200
"""Characters of a headline."""
STOCK = re.compile(r"\A[^\n]*\n\nTool: .*\nArgs: ", re.DOTALL)
"""How the middleware describes a call where its author does not: the card shows tool and arguments already."""


@frozen
class QuestionPart:
    """One question of an interrupt. ``names``: what policies of it may be given for, best first."""

    asking: Asking
    names: tuple[str, ...] = ()
    proposal: Json = None


@frozen
class QuestionsAsked:
    """The questions of an interrupt, and how their answers, by number of the part, become what the graph gets."""

    parts: tuple[QuestionPart, ...]
    join: Callable[[Mapping[int, Json]], Json]
    numbered: bool = False
    """Whether each part has a key of its own."""


def asked_by(
    value: Any,
    schema: Any,
    evidence: Sequence[Evidence],
    about: Callable[[Json, str], str],
    secrets: Collection[str] = (),
) -> QuestionsAsked:
    """Return the questions of an interrupt. ``schema``: the JSON Schema of the answer, None without one.

    ``about``: makes the headline of a value that has none, whose kind may be known. ``secrets``: fields that no form
    shows.
    """
    if isinstance(value, dict) and isinstance(value.get("action_requests"), list) and value["action_requests"]:
        return _batched(value, evidence)
    if isinstance(value, dict) and value.get("type") == "tool_approval" and isinstance(value.get("name"), str):
        name, args = value["name"], _arguments(value.get("args"))
        kinds, parameters = _decisions_in(schema)
        part = _tool(name, args, _described(value.get("description")), _verbs(kinds), parameters, evidence)
        decide = _decision(name)
        return QuestionsAsked(parts=(part,), join=lambda answers: decide(answers[0]))
    several = value if isinstance(value, list) and value else [value]
    objects = [one for one in several if isinstance(one, dict) and "config" in one]
    if len(objects) == len(several) and all(isinstance(one.get("action_request"), dict) for one in objects):
        return _for_inbox(several, evidence)
    part = QuestionPart(asking=_free(value, schema, evidence, about, secrets), proposal=shown(value))
    return QuestionsAsked(parts=(part,), join=lambda answers: answers[0])


# -- approvals by LangChain's middleware


def _batched(value: JsonObject, evidence: Sequence[Evidence]) -> QuestionsAsked:
    calls = [one if isinstance(one, dict) else {} for one in value["action_requests"]]
    allowed = {
        one.get("action_name"): one.get("allowed_decisions")
        for one in value.get("review_configs") or ()
        if isinstance(one, dict)
    }
    parts = []
    for call in calls:
        name, args = str(call.get("name", "")), _arguments(call.get("args"))
        allow = _verbs(allowed.get(name))
        parts.append(_tool(name, args, _described(call.get("description")), allow, None, evidence))
    join = _joined([_decision(str(call.get("name", ""))) for call in calls])
    return QuestionsAsked(parts=tuple(parts), join=lambda answers: {"decisions": join(answers)}, numbered=True)


def _decision(name: str) -> Callable[[Json], Json]:
    def decide(answer: Json) -> Json:
        verb = answer["action"]
        if verb == "edit":
            return {"type": "edit", "edited_action": {"name": name, "args": answer["arguments"]}}
        if verb == "reject":
            return {"type": "reject"} | ({"message": answer["feedback"]} if answer.get("feedback") else {})
        return {"type": verb} | ({"message": answer["response"]} if verb == "respond" else {})

    return decide


def _decisions_in(schema: Any) -> tuple[list[str] | None, JsonObject | None]:
    """Return which decisions an answer's schema allows, and the schema of the arguments of an edited call."""
    if not isinstance(schema, dict):
        return None, None
    definitions = schema.get("$defs", {})
    kinds: list[str] = []
    parameters = None
    for branch in _resolved(schema.get("oneOf") or schema.get("anyOf") or [schema], definitions):
        kind = branch.get("properties", {}).get("type", {})
        kinds += [kind["const"]] if "const" in kind else kind.get("enum", [])
        for action in _resolved([branch.get("properties", {}).get("edited_action", {})], definitions):
            for found in _resolved([action.get("properties", {}).get("args", {})], definitions):
                parameters = {**found, "$defs": definitions} if definitions and "$ref" in str(found) else found
    return kinds or None, parameters if parameters and parameters.get("properties") else None


def _resolved(branches: Sequence[Any], definitions: Mapping[str, Any]) -> Iterator[JsonObject]:
    for branch in branches:
        name = branch.get("$ref", "").rpartition("/")[2] if isinstance(branch, dict) else ""
        yield definitions.get(name, branch) if isinstance(branch, dict) else {}


# -- Agent Inbox


def _for_inbox(requests: list[JsonObject], evidence: Sequence[Evidence]) -> QuestionsAsked:
    parts, readers = [], []
    for request in requests:
        config = request["config"] if isinstance(request["config"], dict) else {}
        name, args = str(request["action_request"].get("action", "")), request["action_request"].get("args")
        allow = tuple(verb for key, verb in INBOX.items() if config.get(key)) or VERBS
        labels = {"reject": "Ignore"} if "reject" in allow else {}
        parts.append(
            _tool(name, _arguments(args), str(request.get("description") or ""), allow, None, evidence, labels)
        )
        readers.append(_inbox_answer(name))
    return QuestionsAsked(parts=tuple(parts), join=_joined(readers), numbered=True)


def _inbox_answer(name: str) -> Callable[[Json], Json]:
    def answer(given: Json) -> Json:
        if given["action"] == "edit":
            return {"type": "edit", "args": {"action": name, "args": given["arguments"]}}
        if given["action"] == "respond":
            return {"type": "response", "args": given["response"]}
        return {"type": "accept" if given["action"] == "approve" else "ignore", "args": None}

    return answer


# -- shared


def _tool(
    name: str,
    arguments: JsonObject,
    body: str,
    allow: Sequence[Verb],
    parameters: JsonObject | None,
    evidence: Sequence[Evidence],
    labels: dict[str, str] | None = None,
) -> QuestionPart:
    card = ToolCall(
        tool=name or "tool",
        arguments=arguments,
        parameters=parameters,
        body=body,
        allow=tuple(allow),
        labels=labels or {},
        evidence=list(evidence),
    )
    return QuestionPart(asking=prepare(card, None), names=(name,), proposal=arguments)


def _joined(readers: Sequence[Callable[[Json], Json]]) -> Callable[[Mapping[int, Json]], Json]:
    return lambda answers: [read(answers[number]) for number, read in enumerate(readers)]


def _verbs(given: Any) -> tuple[Verb, ...]:
    allowed = [verb for verb in VERBS if isinstance(given, (list, tuple)) and verb in given]
    return tuple(allowed) or VERBS


def _arguments(given: Any) -> JsonObject:
    if isinstance(given, dict):
        found: JsonObject = shown(given)
        return found
    return {} if given is None else {"value": shown(given)}


def _described(text: Any) -> str:
    return "" if not isinstance(text, str) or STOCK.match(text) else text


# -- values of a graph's own


def _free(
    value: Any,
    schema: Any,
    evidence: Sequence[Evidence],
    about: Callable[[Json, str], str],
    secrets: Collection[str],
) -> Asking:
    """Return the question of any other value: a text is the question, of an object its well-known keys are."""
    subject, body, rest = _worded(value, about)
    wanted = schema if isinstance(schema, dict) else {}
    if not wanted:
        offered, rest = _offered(rest)
        wanted = open_answer(offered, text="" if offered else text_in(rest, secrets))
    shape = wanted if wanted.get("title") else {"title": "Answer", **wanted}
    return prepare(Question(subject=subject, body=body, proposal=rest, evidence=list(evidence)), shape)


def _worded(value: Any, about: Callable[[Json, str], str]) -> tuple[str, str, Json]:
    """Return the headline of a value, its text, and what else there is to see."""
    face = shown(value)
    if isinstance(face, str) and face.strip():
        line, _, more = face.strip().partition("\n")
        return (line, more.strip(), None) if len(line) <= LONGEST else (about(face, ""), face, None)
    if not isinstance(face, dict):
        return about(face, ""), "", face
    head = headline_field(face, _is_line)
    body = next((key for key in BODIES if key != head and isinstance(face.get(key), str)), "")
    rest = {key: part for key, part in face.items() if key not in (head, body)}
    kind = next((face[key] for key in KINDS if isinstance(face.get(key), str)), "").strip()
    subject = face[head].strip() if head else about(face[body] if body else rest, humanize(kind) if kind else "")
    return subject, face[body] if body else "", rest or None


def _offered(rest: Json) -> tuple[list[Json], Json]:
    """Return the answers that a value offers, and what else there is to see: the form shows the answers."""
    given = rest if isinstance(rest, dict) else {}
    for key in CHOICES:
        if found := options_in(given.get(key)):
            return found, {name: part for name, part in given.items() if name != key} or None
    return [], rest


def _is_line(text: Json) -> bool:
    return isinstance(text, str) and 0 < len(text.strip()) <= LONGEST and "\n" not in text.strip()


@dataclass(frozen=True, slots=True)
class _Stand:
    """Where one level of the graph is: its namespace and path, its checkpoint, and the nodes that come next."""

    ns: str
    path: str
    checkpoint: str
    nodes: tuple[str, ...]


class Breakpoints:
    """The breakpoints of one drive."""

    def __init__(self, ready: Ready, graph: Graph, thread: Thread, config: Mapping[str, Any]) -> None:
        self.hit = False
        """Whether the graph has stopped at one."""
        self._ready, self._graph, self._thread, self._config = ready, graph, thread, config

    @property
    def are_declared(self) -> bool:
        """Return whether the graph, or one in it, has breakpoints."""
        return any(graph.interrupt_before_nodes or graph.interrupt_after_nodes for graph in self._ready.levels.values())

    async def here(self) -> JsonObject | None:
        """Return where the graph stands: ``nodes`` that come next, ``checkpoint``, and the ``key`` of the question."""
        stands = [stand for stand in await self._stands() if stand.nodes]
        return self._asked(stands) if stands else None

    async def missed(self) -> JsonObject | None:
        """Return where the graph has to stand still before it continues, None if nowhere.

        A process that ends between a step and the question about it would otherwise run past the breakpoint:
        LangGraph takes each call without an input for a person's permission.
        """
        if self._thread.root is None or not self.are_declared:
            return None
        stands = [stand for stand in await self._stands() if self._stops(stand)]
        found = self._asked(stands) if stands else None
        return None if found is None or found["checkpoint"] == self._thread.passed else found

    def _asked(self, stands: list[_Stand]) -> JsonObject:
        checkpoint = ".".join(stand.checkpoint for stand in stands)
        nodes = [f"{stand.path}/{name}" if stand.path else name for stand in stands for name in stand.nodes]
        steps = [self._ready.step_named(node) for node in nodes]
        return {"nodes": steps, "checkpoint": checkpoint, "key": f"{BREAKPOINT}.{stands[0].checkpoint}"}

    def _stops(self, stand: _Stand) -> bool:
        before = self._ready.breaks(stand.path, before=True)
        after = self._ready.breaks(stand.path, before=False)
        ran = frozenset(self._thread.ran.get(stand.ns, ()))
        stops_before = bool(stand.nodes) if before is None else not before.isdisjoint(stand.nodes)
        stops_after = bool(ran) if after is None else not after.isdisjoint(ran)
        return bool(stand.nodes) and (stops_before or stops_after)

    async def _stands(self) -> list[_Stand]:
        config: Any = self._config
        return list(_innermost(await self._graph.aget_state(config, subgraphs=True)))


def _innermost(snapshot: StateSnapshot) -> Iterator[_Stand]:
    """Yield where the levels stand that no other level is in progress in."""
    inner = [task.state for task in snapshot.tasks if isinstance(task.state, StateSnapshot) and task.state.next]
    if inner:
        for one in inner:
            yield from _innermost(one)
        return
    about = snapshot.config["configurable"]
    ns = str(about.get("checkpoint_ns") or "")
    yield _Stand(ns, path_of(ns), str(about.get("checkpoint_id")), tuple(snapshot.next))
