"""A run's requests: opened, answered, asked again, withdrawn; also those about calls of unknown outcome. Pure."""

from __future__ import annotations

from checkpoints.events import EventKind
from checkpoints.ids import RequestKey
from checkpoints.records import Answer, Effect, Json, JsonObject, Reason, Request
from wfdash.questions.card import action, only_with, when_action
from wfdash.questions.policy import Policy, is_lapse
from wfdash.questions.tools import distinguishing
from wfdash.values.display import truncate
from wfdash.values.fingerprints import asked_again
from wfdash.values.schemas.secrets import masked
from wfdash.workflow.reducer.moment import MomentBuilder, item_of
from wfdash.workflow.reducer.routing import plain
from wfdash.workflow.reducer.ticks import (
    AnswersArrived,
    AskedAgain,
    CallDiffers,
    CloseRequest,
    MakeCall,
    ResolveEntry,
)
from wfdash.workflow.stored import JournalEntry, Packed, numbered, secrets_of, task_name_of


def call_key(builder: MomentBuilder, activation: str, index: int) -> str:
    """Return a call's stable name: activation numbers repeat in branches; ``called`` is a renamed step's first name."""
    record = builder.position["live"][activation]
    task_name = task_name_of(record["journal"][index])
    place = numbered(task_name, list(map(task_name_of, record["journal"][:index])).count(task_name))
    return f"{builder.run}:{record.get('called', record['step'])}.{activation}:{place}"


def log_effect(builder: MomentBuilder, activation: str, index: int, state: str, result: Json = None) -> JsonObject:
    """Log what is known of a call by now; return what the events of it say."""
    entry = builder.position["live"][activation]["journal"][index]
    step, name, once = builder.node(activation).name, entry["name"], bool(entry.get("once"))
    key = call_key(builder, activation, index)
    builder.commands.append(Effect(key=key, step=step, name=name, once=once, state=state, result=result))
    return {"name": name, "key": key}


def question_calls(builder: MomentBuilder, activation: str, running: tuple[str, ...] = ()) -> None:
    """Ask people about every ``once`` call of which only the intent is recorded. ``running``: what still runs."""
    for index, entry in enumerate(builder.position["live"][activation]["journal"]):
        if not entry.get("once") or {"result", "unknown", "raised"} & entry.keys():
            continue
        _question_call(builder, activation, index, _unsure(builder, activation, index, entry, running))


def _question_call(builder: MomentBuilder, activation: str, index: int, request: Request) -> None:
    fresh = builder.entry(activation, index)
    fresh.pop("stopped", None)
    fresh.pop("again", None)
    fresh["unknown"] = True
    open_request(builder, activation, index, request)
    builder.emit(EventKind.CALL_UNKNOWN, activation, **log_effect(builder, activation, index, "unknown"))
    builder.save(Reason.PAUSE, builder.node(activation).name)


def on_call_differs(builder: MomentBuilder, tick: CallDiffers) -> None:
    """Ask again about a call that was to be repeated: it differs from the one that was shown."""
    entry = builder.entry(tick.activation, tick.index)
    before, number = f"call-{tick.activation}.{tick.index}", entry.get("differed", 0)
    entry["args"], entry["at"], entry["differed"] = tick.intent["args"], tick.intent["at"], number + 1
    request = _unsure(builder, tick.activation, tick.index, entry)
    was = f"{before}~{number}" if number else before
    request = asked_again(request, number + 1, ["arguments"], was, answered=True)
    _question_call(builder, tick.activation, tick.index, request)


def _unsure(
    builder: MomentBuilder, activation: str, index: int, entry: JournalEntry, running: tuple[str, ...] = ()
) -> Request:
    """Return the question whether a call happened, with everything that identifies the call."""
    node, record = builder.node(activation), builder.position["live"][activation]
    names = secrets_of(builder.graph)
    return unknown_call(
        RequestKey(f"call-{activation}.{index}"),
        node.name,
        entry,
        node.policy or Policy(),
        effect=call_key(builder, activation, index),
        item=item_of(node.path, record["scope"]) if record["scope"] else None,
        message=truncate(masked(plain(record["message"]), names)) if node.takes_message else None,
        arguments=masked(entry.get("args"), names),
        running=running,
    )


def open_request(builder: MomentBuilder, activation: str, index: int, request: Request) -> None:
    builder.requests[request.key] = request
    builder.writable("asked")[request.key] = [activation, index]
    builder.commands.append(request)
    builder.emit(EventKind.REQUEST_OPENED, activation, key=request.key, subject=request.card.get("subject", ""))


def withdraw(builder: MomentBuilder, activation: str) -> None:
    for key, (owner, _) in list(builder.position["asked"].items()):
        if owner == activation:
            builder.writable("asked").pop(key)
            builder.requests.pop(key)
            builder.commands.append(CloseRequest(key))
            builder.emit(EventKind.REQUEST_WITHDRAWN, activation, key=key)


def record_result(
    builder: MomentBuilder, activation: str, index: int, result: Packed, facts: JsonObject | None = None
) -> None:
    entry = builder.entry(activation, index)
    entry["result"] = result
    entry.pop("failed", None)
    entry.pop("args", None)
    entry.pop("at", None)
    entry.pop("again", None)
    entry.pop("differed", None)
    done = log_effect(builder, activation, index, "done", result[1])
    builder.emit(EventKind.CALL_DONE, activation, **done, **(facts or {}))


def on_answers(builder: MomentBuilder, tick: AnswersArrived) -> None:
    for key, answer in tick.answers.items():
        if key not in builder.position["asked"]:
            continue
        activation, index = builder.writable("asked").pop(key)
        request = builder.requests.pop(key)
        builder.position["since"] = {}
        entry = builder.entry(activation, index)
        builder.activation(activation).pop("parked", None)
        builder.commands.append(CloseRequest(key))
        if entry["k"] == "ask":
            at = answer.at or tick.at
            entry["answer"] = {"value": answer.value, "by": answer.by, "at": at.isoformat()}
            # The step's progress at that point: later records depend on this answer.
            entry["answer"] |= {"n": len(builder.position["live"][activation]["journal"])}
            entry["answer"] |= {"acting_for": answer.acting_for} if answer.acting_for else {}
            entry["answer"] |= {"others": list(answer.others)} if answer.others else {}
            entry["answer"] |= {"lapsed": True} if is_lapse(request, answer) else {}
            builder.commands.append(ResolveEntry(activation, index))
        else:
            _decide_call(builder, activation, index, answer)


def on_asked_again(builder: MomentBuilder, tick: AskedAgain) -> None:
    """Replace the question that its step asked before; an answer to that one no longer counts."""
    record = builder.activation(tick.activation)
    record.pop("parked", None)
    was = record["journal"][tick.index]
    key = RequestKey(was["request"])
    if key in builder.position["asked"]:
        builder.writable("asked").pop(key)
        builder.requests.pop(key)
        builder.commands.append(CloseRequest(key))
    record["journal"] = [*record["journal"][: tick.index], tick.entry, *record["journal"][tick.index + 1 :]]
    facts = {"key": key, "parts": list(tick.parts), "answered": "answer" in was}
    builder.emit(EventKind.REQUEST_REPLACED, tick.activation, **facts)
    open_request(builder, tick.activation, tick.index, tick.request)
    builder.save(Reason.PAUSE, builder.node(tick.activation).name)


def _decide_call(builder: MomentBuilder, activation: str, index: int, answer: Answer) -> None:
    """Do with a call of unknown outcome as a person has decided."""
    entry = builder.entry(activation, index)
    entry.pop("unknown", None)
    if answer.value["action"] == "stop":
        entry["stopped"] = answer.by or True
        builder.commands.append(ResolveEntry(activation, index))
        return
    builder.save(Reason.CALL, builder.node(activation).name)
    if answer.value["action"] == "happened":
        record_result(builder, activation, index, [None, answer.value.get("result")])
        builder.commands.append(ResolveEntry(activation, index))
    else:
        entry.pop("failed", None)
        entry["again"] = True
        log_effect(builder, activation, index, "intended")
        builder.commands.append(MakeCall(activation, index))


# -- the question to people whether a recorded call of unknown outcome has happened


CONSEQUENCE: JsonObject = {
    "happened": "Not repeated; continues with the result you enter.",
    "again": "The call is repeated.",
    "stop": "The run fails here and can be retried.",
}
"""What each answer leads to."""


def _outcome(result: JsonObject) -> tuple[JsonObject, list[str]]:
    """Return the schema of the answer, and what has to be said of a call that happened. ``result``: of its result."""
    defs = result.pop("$defs", None)
    schema: JsonObject = {
        "type": "object",
        "title": "Outcome",
        "properties": {
            "action": {"title": "Action", "enum": ["happened", "again", "stop"], "type": "string"},
            "result": {"title": "Result", **result},
        },
        "required": ["action"],
        "additionalProperties": False,
        "allOf": [],
    }
    needed = ["result"] if result and result.get("type") != "null" else []
    if needed:
        schema["allOf"] = [when_action("happened", {"required": needed})]
    schema["allOf"].append(only_with("happened", "result"))
    if defs:
        schema["$defs"] = defs
    return schema, needed


def unknown_call(
    key: RequestKey,
    step: str,
    entry: JournalEntry,
    policy: Policy,
    *,
    effect: str,
    item: int | None = None,
    message: Json = None,
    arguments: Json = None,
    running: tuple[str, ...] = (),
) -> Request:
    """Return the question to people whether a call of unknown outcome happened.

    It is addressed to those whom the workflow's own policy names. ``effect``: the key the other side may know the call
    by (``ctx.effect_key``); ``item``: of a map, from 0; ``message``: the step's; ``arguments``: those of the call, None
    if not recorded; ``running``: functions of the run that still run.
    """
    name, (schema, needed) = entry["name"], _outcome(dict(entry.get("schema") or {}))
    body = f"The step was interrupted while calling **{name}**. Check the external system first."
    if running:
        still = f"**When this was asked, functions of the run still ran: {', '.join(running)}.**"
        body += f" {still} Wait until they ended."
    # What distinguishes the calls of a map in a headline.
    which = distinguishing(arguments) if isinstance(arguments, dict) else ""
    pieces = (
        ("json", "Call arguments", arguments),
        ("json", "Step input", message),
        ("text", "The call raised", entry.get("failed") or None),
    )
    evidence = [{"kind": kind, "title": title, "value": what} for kind, title, what in pieces if what is not None]
    card: JsonObject = {
        "subject": f"Did {name!r} succeed{f' ({which})' if which else ''}?",
        "body": body,
        "risk": "high",
        "consequence": CONSEQUENCE,
        "evidence": evidence,
        "context": {"step": step, "call": name}
        | ({} if item is None else {"item": item + 1})
        | ({"begun": entry["at"]} if "at" in entry else {})
        | {"effect key": effect},
        "actions": [
            action("happened", "primary", ["result"], needed, "It succeeded"),
            action("again", "danger", [], [], "It did not: run again"),
            action("stop", "quiet", [], [], "Stop"),
        ],
    }
    return Request(
        key=key, step=step, kind="effect", card=card, answer_schema=schema, by=policy.by, not_by=policy.not_by
    )
