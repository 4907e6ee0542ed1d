"""The engine's heart: ``reduce(graph, run, moment, tick) -> (moment, commands)``. Pure: no clock, no loop, no I/O.

Position (JSON): ``live`` activations by id (step, message, scope, journal, born, attempt ...), ``joins`` that collect,
``asked`` request key -> [activation, journal index], ``outputs`` of end steps, ``loose`` the last value nobody took,
``since`` steps per scope since an answer, ``past``/``wrote``/``v`` see ``writes``, ``levels`` (``Graph``), ``next`` id.

Journal entries: ``k`` ask | call | sleep | label, ``name``, ``o`` when others were open at the time, and how they
ended: ``answer``, ``result``, ``done``, ``raised`` (an exception that the step has handled); for ``once`` calls also
``failed``, ``unknown``, ``stopped``. ``t`` is the lane of the task that did it (see ``lanes``).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from checkpoints.ids import RequestKey
from checkpoints.records import Answer, Effect, ErrorInfo, Reason, Request
from wfdash.workflow.cards import unknown_call
from wfdash.workflow.draft import Draft
from wfdash.workflow.graph import Graph, Node
from wfdash.workflow.joins import deliver, settle
from wfdash.workflow.ticks import (
    Answered,
    Began,
    CallDone,
    Close,
    Command,
    Complete,
    Fail,
    Idled,
    Log,
    Moment,
    Open,
    OpIssued,
    Perform,
    Resolve,
    Resumed,
    Run,
    StepEnded,
    StepFailed,
    Tick,
    TimeCame,
)
from wfdash.workflow.writes import apply_writes


def reduce(graph: Graph, run: str, moment: Moment, tick: Tick) -> tuple[Moment, list[Command]]:
    """Return the next moment and what is to be done. ``moment`` is left as it is."""
    draft = Draft(graph, moment, run)
    HANDLERS[type(tick)](draft, tick)
    return draft.finish()


def _key(draft: Draft, act: str, index: int) -> str:
    """Return a call's stable name: activation numbers repeat in branches; ``called`` is a renamed step's first name."""
    record = draft.position["live"][act]
    return f"{draft.run}:{record.get('called', record['step'])}.{act}:{index}"


def took_began(draft: Draft, tick: Began) -> None:
    draft.state = dict(tick.state)
    draft.note("run.started")
    for route in tick.routes:
        deliver(draft, route, "", None)
    draft.save(Reason.START)
    _go_on(draft, "")


def took_resumed(draft: Draft, tick: Resumed) -> None:
    draft.position["since"] = {}
    for act, record in list(draft.position["live"].items()):
        _question_calls(draft, act)
        if not {"queued", "parked", "retry_at"} & draft.position["live"][act].keys():
            if "born" not in record:
                draft.act(act)["born"] = draft.position["v"]
            draft.commands.append(Run(act))
    if not draft.position["live"]:
        draft.commands.append(Complete())


def _question_calls(draft: Draft, act: str) -> None:
    """Ask people about every ``once`` call of which only the intent is known."""
    for index, entry in enumerate(draft.position["live"][act]["journal"]):
        if not entry.get("once") or {"result", "unknown", "raised"} & entry.keys():
            continue
        fresh = draft.entry(act, index)
        fresh.pop("stopped", None)
        fresh["unknown"] = True
        key, node = _key(draft, act, index), draft.node(act)
        request = unknown_call(RequestKey(f"call-{act}.{index}"), node.name, entry, key)
        _open(draft, act, index, request)
        draft.note("call.unknown", act, name=entry["name"], key=key)
        effect = Effect(key=key, step=node.name, name=entry["name"], once=True, state="unknown")
        draft.commands.append(Log(effect))
        draft.save(Reason.PAUSE, node.name)


def _open(draft: Draft, act: str, index: int, request: Request) -> None:
    draft.requests[request.key] = request
    draft.part("asked")[request.key] = [act, index]
    draft.commands.append(Open(request))
    draft.note("request.opened", act, key=request.key, subject=request.card.get("subject", ""))


def took_ended(draft: Draft, tick: StepEnded) -> None:
    node, record = draft.node(tick.act), draft.position["live"][tick.act]
    apply_writes(draft, tick.act, tick.writes)
    _withdraw(draft, tick.act)
    facts = {"skipped": True} if tick.skipped else {}
    draft.note("step.finished", tick.act, ms=tick.ms, output=tick.shown, **facts)
    draft.part("live").pop(tick.act)
    _count(draft, node, record["scope"], tick.act)
    if tick.output is not None and not tick.skipped:
        _keep_output(draft, node, record["scope"], tick.output)
    for route in tick.routes:
        deliver(draft, route, record["scope"], record.get("rounds"))
    draft.begin_queued(node)
    draft.save(Reason.STEP, node.name)
    _go_on(draft, record["scope"])


def _go_on(draft: Draft, scope: str) -> None:
    settle(draft, scope)
    if not draft.position["live"]:
        draft.commands.append(Complete())


def _withdraw(draft: Draft, act: str) -> None:
    for key, (owner, _) in list(draft.position["asked"].items()) if draft.position["asked"] else ():
        if owner == act:
            draft.part("asked").pop(key)
            draft.requests.pop(key)
            draft.commands.append(Close(key))
            draft.note("request.withdrawn", act, key=key)


def _count(draft: Draft, node: Node, scope: str, act: str) -> None:
    """Guard against loops that no person interrupts."""
    if not node.looped:
        return
    count = draft.position["since"].get(scope, 0) + 1
    draft.part("since")[scope] = count
    if count >= draft.graph.max_steps:
        text = f"step {node.name!r}: {count} steps in a loop without an answer; raise max_steps if that is meant"
        draft.commands.append(Fail(ErrorInfo(type="Runaway", message=text, step=node.name)))


def _keep_output(draft: Draft, node: Node, scope: str, output: list[Any]) -> None:
    if node.ends:
        draft.part("outputs").append(output)
    elif not node.path:
        draft.position["loose"] = output
    elif node.path[-1].startswith("sub:"):
        prefix = scope[: scope.rstrip("/").rfind(".") + 1]
        key = f"{node.path[-1].removeprefix('sub:')}@{prefix}"
        joins = draft.part("joins")
        joins[key] = {**joins[key], "loose": output}


def took_failed(draft: Draft, tick: StepFailed) -> None:
    node, record = draft.node(tick.act), draft.act(tick.act)
    attempt = record.get("attempt", 1)
    record.pop("parked", None)
    _forget_raised(draft, tick)
    if tick.error.type == "StateConflict":
        record["born"] = draft.position["v"]
    error = {"type": tick.error.type, "message": tick.error.message, "traceback": tick.error.traceback[-4_000:]}
    draft.note("step.failed", tick.act, error=error, attempt=attempt)
    draft.save(Reason.FAILURE, node.name)
    if tick.delay is None:
        record.pop("attempt", None)
        record.pop("attempts", None)
        draft.commands.append(Fail(tick.error))
        return
    _question_calls(draft, tick.act)
    again = tick.at + timedelta(seconds=tick.delay)
    record = draft.act(tick.act)
    record |= {"attempt": attempt + 1, "attempts": tick.attempts, "retry_at": again.isoformat()}
    draft.note("step.retrying", tick.act, at=again.isoformat(), attempt=attempt + 1, attempts=tick.attempts)


def _forget_raised(draft: Draft, tick: StepFailed) -> None:
    """Let calls whose exceptions the step did not handle be made again by its next attempt."""
    journal = draft.position["live"][tick.act]["journal"]
    for index, entry in enumerate(journal):
        if "raised" in entry and (index in tick.calls or entry["raised"]["at"] == len(journal)):
            draft.entry(tick.act, index).pop("raised")


def took_issued(draft: Draft, tick: OpIssued) -> None:
    record = draft.act(tick.act)
    index = len(record["journal"])
    record.pop("parked", None)
    record["journal"] = [*record["journal"], tick.entry]
    OPS[tick.entry["k"]](draft, tick, index)


def _issued_ask(draft: Draft, tick: OpIssued, index: int) -> None:
    if tick.request is None:
        raise AssertionError("an ask has a request")
    _open(draft, tick.act, index, tick.request)
    draft.save(Reason.PAUSE, draft.node(tick.act).name)


def _issued_call(draft: Draft, tick: OpIssued, index: int) -> None:
    if not tick.entry.get("once"):
        return
    name, node = tick.entry["name"], draft.node(tick.act)
    key = _key(draft, tick.act, index)
    draft.commands.append(Log(Effect(key=key, step=node.name, name=name, once=True, state="intended")))
    draft.note("call.intended", tick.act, name=name, key=key)
    draft.save(Reason.CALL, node.name)
    draft.commands.append(Perform(tick.act, index))


def _issued_sleep(draft: Draft, tick: OpIssued, index: int) -> None:
    if tick.save:
        draft.note("step.sleeping", tick.act, until=tick.entry["until"])
        draft.save(Reason.PAUSE, draft.node(tick.act).name)


def _issued_label(draft: Draft, tick: OpIssued, index: int) -> None:
    entry = draft.entry(tick.act, index)
    entry["done"] = True
    draft.save(Reason.LABEL, draft.node(tick.act).name, entry["label"])
    draft.commands.append(Resolve(tick.act, index))


OPS: dict[str, Callable[[Draft, OpIssued, int], None]] = {
    "ask": _issued_ask,
    "call": _issued_call,
    "sleep": _issued_sleep,
    "label": _issued_label,
}


def took_call(draft: Draft, tick: CallDone) -> None:
    entry, node = draft.entry(tick.act, tick.index), draft.node(tick.act)
    key = _key(draft, tick.act, tick.index)
    once, name = bool(entry.get("once")), entry["name"]
    if tick.failed is not None:
        entry |= {"failed": tick.failed} if tick.raised is None else {"failed": tick.failed, "raised": tick.raised}
        if not once:
            return
        draft.commands.append(Log(Effect(key=key, step=node.name, name=name, once=once, state="failed")))
    else:
        _record_result(draft, tick.act, tick.index, tick.result or [None, None])
    draft.save(Reason.CALL, node.name)
    draft.commands.append(Resolve(tick.act, tick.index))


def _record_result(draft: Draft, act: str, index: int, result: list[Any]) -> None:
    entry, node = draft.entry(act, index), draft.node(act)
    entry["result"] = result
    entry.pop("failed", None)
    key, name, once = _key(draft, act, index), entry["name"], bool(entry.get("once"))
    effect = Effect(key=key, step=node.name, name=name, once=once, state="done", result=result[1])
    draft.commands.append(Log(effect))
    draft.note("call.done", act, name=name, key=key)


def took_answers(draft: Draft, tick: Answered) -> None:
    for key, answer in tick.answers.items():
        if key not in draft.position["asked"]:
            continue
        act, index = draft.part("asked").pop(key)
        draft.requests.pop(key)
        draft.position["since"] = {}
        entry = draft.entry(act, index)
        draft.act(act).pop("parked", None)
        draft.commands.append(Close(key))
        if entry["k"] == "ask":
            at = answer.at or tick.at
            entry["answer"] = {"value": answer.value, "by": answer.by, "at": at.isoformat()}
            draft.commands.append(Resolve(act, index))
        else:
            VERDICTS[answer.value["action"]](draft, act, index, answer)


def _happened(draft: Draft, act: str, index: int, answer: Answer) -> None:
    draft.entry(act, index).pop("unknown", None)
    _record_result(draft, act, index, [None, answer.value.get("result")])
    draft.save(Reason.CALL, draft.node(act).name)
    draft.commands.append(Resolve(act, index))


def _again(draft: Draft, act: str, index: int, answer: Answer) -> None:
    entry = draft.entry(act, index)
    entry.pop("unknown", None)
    entry.pop("failed", None)
    key, name = _key(draft, act, index), entry["name"]
    draft.commands.append(Log(Effect(key=key, step=draft.node(act).name, name=name, once=True, state="intended")))
    draft.save(Reason.CALL, draft.node(act).name)
    draft.commands.append(Perform(act, index))


def _stop(draft: Draft, act: str, index: int, answer: Answer) -> None:
    entry = draft.entry(act, index)
    entry.pop("unknown", None)
    entry["stopped"] = answer.by or True
    draft.commands.append(Resolve(act, index))


VERDICTS: dict[str, Callable[[Draft, str, int, Answer], None]] = {
    "happened": _happened,
    "again": _again,
    "stop": _stop,
}


def took_time(draft: Draft, tick: TimeCame) -> None:
    for act, record in list(draft.position["live"].items()):
        if "retry_at" in record and datetime.fromisoformat(record["retry_at"]) <= tick.at:
            draft.act(act).pop("retry_at")
            draft.commands.append(Run(act))
        for index, entry in enumerate(record["journal"]):
            open_sleep = entry["k"] == "sleep" and "done" not in entry
            if open_sleep and datetime.fromisoformat(entry["until"]) <= tick.at:
                draft.entry(act, index)["done"] = True
                draft.act(act).pop("parked", None)
                draft.commands.append(Resolve(act, index))


def took_idle(draft: Draft, tick: Idled) -> None:
    for act, waits in tick.acts.items():
        record = draft.position["live"].get(act)
        if record is not None and "parked" not in record and all(_is_open(record["journal"][i]) for i in waits):
            draft.act(act)["parked"] = True
            if any(record["journal"][i]["k"] != "sleep" for i in waits):
                draft.note("step.waiting", act)


def _is_open(entry: dict[str, Any]) -> bool:
    """Say whether only people or time can move this entry."""
    return not {"answer", "done", "result", "stopped"} & entry.keys() and ("once" not in entry or "unknown" in entry)


HANDLERS: dict[type, Callable[[Draft, Any], None]] = {
    Began: took_began,
    Resumed: took_resumed,
    StepEnded: took_ended,
    StepFailed: took_failed,
    OpIssued: took_issued,
    CallDone: took_call,
    Answered: took_answers,
    TimeCame: took_time,
    Idled: took_idle,
}
