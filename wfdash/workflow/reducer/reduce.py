"""The engine's reducer: ``reduce(graph, run, moment, tick) -> (moment, commands)``. Pure: no clock, no loop, no I/O.

The contents of a moment's position are described in ``stored``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from checkpoints.events import EventKind
from checkpoints.records import ErrorInfo, Reason
from wfdash.workflow.graph import Edge, Graph, JoinRule, Node
from wfdash.workflow.reducer.moment import MomentBuilder, apply_writes, group_prefix, item_index, parent_scope
from wfdash.workflow.reducer.questions import (
    log_effect,
    on_answers,
    on_asked_again,
    on_call_differs,
    open_request,
    question_calls,
    record_result,
    withdraw,
)
from wfdash.workflow.reducer.routing import label_of
from wfdash.workflow.reducer.ticks import (
    AnswersArrived,
    AskedAgain,
    CallDiffers,
    CallDone,
    Command,
    CompleteRun,
    FailRun,
    MakeCall,
    ModelUsed,
    Moment,
    OperationIssued,
    ResolveEntry,
    Route,
    RunResumed,
    RunStarted,
    RunStep,
    StepEnded,
    StepFailed,
    StepsIdle,
    Tick,
    TimePassed,
    TranscriptGrown,
)
from wfdash.workflow.stored import GroupState, JoinState, JournalEntry, Packed, Rounds


def reduce(graph: Graph, run: str, moment: Moment, tick: Tick) -> tuple[Moment, list[Command]]:
    """Return the next moment and the commands to carry out. ``moment`` is not changed."""
    builder = MomentBuilder(graph, moment, run)
    HANDLERS[type(tick)](builder, tick)
    return builder.build()


def on_started(builder: MomentBuilder, tick: RunStarted) -> None:
    builder.state = dict(tick.state)
    builder.emit(EventKind.RUN_STARTED)
    if tick.title:
        builder.emit(EventKind.RUN_TITLED, title=tick.title)
    for route in tick.routes:
        deliver(builder, route, "", None)
    builder.save(Reason.START)
    _continue_run(builder, "")


def on_resumed(builder: MomentBuilder, tick: RunResumed) -> None:
    builder.position["since"] = {}
    for activation, record in list(builder.position["live"].items()):
        question_calls(builder, activation, tick.running)
        if not {"queued", "parked", "retry_at"} & builder.position["live"][activation].keys():
            if "born" not in record:
                builder.activation(activation)["born"] = builder.position["v"]
            builder.commands.append(RunStep(activation))
    if not builder.position["live"]:
        builder.commands.append(CompleteRun())


def on_step_ended(builder: MomentBuilder, tick: StepEnded) -> None:
    node, record = builder.node(tick.activation), builder.position["live"][tick.activation]
    apply_writes(builder, tick.activation, tick.writes)
    if builder.position["asked"]:
        withdraw(builder, tick.activation)
    facts = {"skipped": True} if tick.skipped else {}
    builder.emit(EventKind.STEP_FINISHED, tick.activation, ms=tick.ms, output=tick.shown, **facts)
    builder.writable("live").pop(tick.activation)
    if node.looped:
        # Guard against loops that no person interrupts.
        scope = record["scope"]
        count = builder.position["since"].get(scope, 0) + 1
        builder.writable("since")[scope] = count
        if count >= builder.graph.max_steps:
            text = f"step {node.name!r}: {count} steps in a loop without an answer; raise max_steps if that is meant"
            builder.commands.append(FailRun(ErrorInfo(type="Runaway", message=text, step=node.name)))
    if tick.output is not None and not tick.skipped:
        _keep_output(builder, node, record["scope"], tick.output)
    for route in tick.routes:
        deliver(builder, route, record["scope"], record.get("rounds"))
    if node.concurrency is not None:
        builder.start_queued(node, node.concurrency)
    builder.save(Reason.STEP, node.name)
    _continue_run(builder, record["scope"])


def _continue_run(builder: MomentBuilder, scope: str) -> None:
    settle(builder, scope)
    if not builder.position["live"]:
        builder.commands.append(CompleteRun())


def _keep_output(builder: MomentBuilder, node: Node, scope: str, output: Packed) -> None:
    if not node.out:
        builder.writable("outputs").append(output)
    elif not node.path:
        builder.position["loose"] = output
    elif node.path[-1].startswith("sub:"):
        prefix = scope[: scope.rstrip("/").rfind(".") + 1]
        key = f"{node.path[-1].removeprefix('sub:')}@{prefix}"
        group = builder.position["joins"][key]
        if "group" in group:
            builder.writable("joins")[key] = {**group, "loose": output}


def on_step_failed(builder: MomentBuilder, tick: StepFailed) -> None:
    node, record = builder.node(tick.activation), builder.activation(tick.activation)
    attempt = record.get("attempt", 1)
    record.pop("parked", None)
    if "used" in record:
        record["used"] = [0, record["used"][1], record["used"][1]]
    _forget_raised(builder, tick)
    if tick.error.type == "ReplayMismatch":
        # Let the next attempt, maybe of fixed code, ask again as often as the first one.
        for index, entry in enumerate(builder.position["live"][tick.activation]["journal"]):
            if entry.get("again"):
                builder.entry(tick.activation, index).pop("again")
    if tick.error.type == "StateConflict":
        record["born"] = builder.position["v"]
    error = {"type": tick.error.type, "message": tick.error.message, "traceback": tick.error.traceback[-4_000:]}
    builder.emit(EventKind.STEP_FAILED, tick.activation, error=error, attempt=attempt)
    builder.save(Reason.FAILURE, node.name)
    if tick.delay is None:
        record.pop("attempt", None)
        record.pop("attempts", None)
        builder.commands.append(FailRun(tick.error))
        return
    question_calls(builder, tick.activation)
    again = tick.at + timedelta(seconds=tick.delay)
    record = builder.activation(tick.activation)
    record |= {"attempt": attempt + 1, "attempts": tick.attempts, "retry_at": again.isoformat()}
    facts = {"at": again.isoformat(), "attempt": attempt + 1, "attempts": tick.attempts}
    builder.emit(EventKind.STEP_RETRYING, tick.activation, **facts)


def _forget_raised(builder: MomentBuilder, tick: StepFailed) -> None:
    """Let calls whose exceptions the step did not handle be repeated by its next attempt."""
    journal = builder.position["live"][tick.activation]["journal"]
    for index, entry in enumerate(journal):
        if "raised" in entry and (index in tick.calls or entry["raised"]["at"] == len(journal)):
            builder.entry(tick.activation, index).pop("raised")


def on_operation_issued(builder: MomentBuilder, tick: OperationIssued) -> None:
    record, step = builder.activation(tick.activation), builder.node(tick.activation).name
    index = len(record["journal"])
    record.pop("parked", None)
    record["journal"] = [*record["journal"], tick.entry]
    match tick.entry["k"]:
        case "ask":
            if tick.request is None:
                raise AssertionError("an ask has a request")
            open_request(builder, tick.activation, index, tick.request)
            builder.save(Reason.PAUSE, step)
        case "call" if {"once", "keyed"} & tick.entry.keys():
            call = log_effect(builder, tick.activation, index, "intended")
            builder.emit(EventKind.CALL_INTENDED, tick.activation, **call)
            builder.save(Reason.CALL, step)
            builder.commands.append(MakeCall(tick.activation, index))
        case "sleep" if tick.save:
            builder.emit(EventKind.STEP_SLEEPING, tick.activation, until=tick.entry["until"])
            builder.save(Reason.PAUSE, step)
        case "label":
            builder.entry(tick.activation, index)["done"] = True
            builder.save(Reason.LABEL, step, tick.entry["label"])
            builder.commands.append(ResolveEntry(tick.activation, index))


def on_call_done(builder: MomentBuilder, tick: CallDone) -> None:
    entry = builder.entry(tick.activation, tick.index)
    if tick.failed is not None:
        entry |= {"failed": tick.failed} if tick.raised is None else {"failed": tick.failed, "raised": tick.raised}
        if not entry.get("once"):
            return
        log_effect(builder, tick.activation, tick.index, "failed")
    else:
        record_result(builder, tick.activation, tick.index, tick.result or [None, None], tick.facts)
    builder.save(Reason.CALL, builder.node(tick.activation).name)
    builder.commands.append(ResolveEntry(tick.activation, tick.index))


def on_transcript(builder: MomentBuilder, tick: TranscriptGrown) -> None:
    """Keep a conversation in place of those it continues, unless a replay says a part of it again."""
    kept, new = builder.position.get("transcripts", {}), tick.messages
    own = kept.get(tick.activation)
    if own is not None and own["messages"][: len(new)] == new:
        return
    live = builder.position["live"]
    continued = {key for key, one in kept.items() if key not in live and new[: len(one["messages"])] == one["messages"]}
    rest = {key: one for key, one in kept.items() if key not in continued}
    said = own["messages"] if own is not None else []
    # The same objects as before where nothing changed: what they are is not encoded again.
    messages = [was if was == now else now for was, now in zip(said, new, strict=False)] + new[len(said) :]
    builder.position["transcripts"] = {
        **rest,
        tick.activation: {"step": builder.node(tick.activation).name, "messages": messages},
    }


def on_model_used(builder: MomentBuilder, tick: ModelUsed) -> None:
    record = builder.activation(tick.activation)
    counted, _, paid = record.get("used", (0, 0, 0))
    record["used"] = [counted + 1, tick.place, paid]
    builder.emit(EventKind.USAGE, tick.activation, **tick.used)
    builder.save(Reason.CALL, record["step"])


def on_time_passed(builder: MomentBuilder, tick: TimePassed) -> None:
    for activation, record in list(builder.position["live"].items()):
        if "retry_at" in record and datetime.fromisoformat(record["retry_at"]) <= tick.at:
            builder.activation(activation).pop("retry_at")
            builder.commands.append(RunStep(activation))
        for index, entry in enumerate(record["journal"]):
            open_sleep = entry["k"] == "sleep" and "done" not in entry
            if open_sleep and datetime.fromisoformat(entry["until"]) <= tick.at:
                builder.entry(activation, index)["done"] = True
                builder.activation(activation).pop("parked", None)
                builder.commands.append(ResolveEntry(activation, index))


def on_idle(builder: MomentBuilder, tick: StepsIdle) -> None:
    for activation, waits in tick.activations.items():
        record = builder.position["live"].get(activation)
        if record is not None and "parked" not in record and all(_is_open(record["journal"][i]) for i in waits):
            builder.activation(activation)["parked"] = True
            if any(record["journal"][i]["k"] != "sleep" for i in waits):
                builder.emit(EventKind.STEP_WAITING, activation)


def _is_open(entry: JournalEntry) -> bool:
    """Return whether only people or time can complete this entry."""
    return not {"answer", "done", "result", "stopped"} & entry.keys() and ("once" not in entry or "unknown" in entry)


HANDLERS: dict[type, Callable[[MomentBuilder, Any], None]] = {
    RunStarted: on_started,
    RunResumed: on_resumed,
    StepEnded: on_step_ended,
    StepFailed: on_step_failed,
    OperationIssued: on_operation_issued,
    AskedAgain: on_asked_again,
    CallDiffers: on_call_differs,
    CallDone: on_call_done,
    TranscriptGrown: on_transcript,
    ModelUsed: on_model_used,
    AnswersArrived: on_answers,
    TimePassed: on_time_passed,
    StepsIdle: on_idle,
}


# -- delivery of values: into steps, into and out of maps and sub-workflows, and together in joins. A join waits as long
# as something can still arrive, and no longer: no run hangs at a join. A scope is text: one ``group.item/`` per map or
# sub-workflow around the activation, outermost first.


def deliver(builder: MomentBuilder, route: Route, scope: str, rounds: Rounds | None) -> None:
    """Deliver a value along its edge to where it triggers a step or waits in a join."""
    node, edge = builder.graph.nodes[route.target], route.edge
    if edge is None or edge.opens is None:
        for _, packed in route.items:
            arrive(builder, node, edge, scope, packed, rounds)
        return
    prefix = _open_group(builder, edge.opens, scope, rounds)
    for index, packed in route.items:
        item = f"{prefix}{index}/"
        if edge.label:
            builder.name_item(item, label_of(builder.graph, node, packed, edge.label))
        arrive(builder, node, edge, item, packed, rounds)


def _open_group(builder: MomentBuilder, opens: str, scope: str, rounds: Rounds | None) -> str:
    if opens in builder.opened:
        return builder.opened[opens]
    prefix = f"{scope}{builder.position['next']}."
    builder.position["next"] += 1
    builder.opened[opens] = prefix
    for target in builder.graph.closers.get(opens, ()):
        entry: GroupState = {"t": target, "scope": scope, "group": prefix, "got": []}
        if rounds:
            entry["rounds"] = rounds
        builder.writable("joins")[f"{target}@{prefix}"] = entry
    return prefix


def arrive(
    builder: MomentBuilder, node: Node, edge: Edge | None, scope: str, packed: Packed, rounds: Rounds | None
) -> None:
    """Handle the arrival of a value at a node."""
    if node.join is None or edge is None or edge.kind not in {"join", "gather", "exit"}:
        builder.start(builder.add_activation(node, packed, scope, rounds))
    elif node.join.kind == "join":
        _arrive_join(builder, node, node.join, edge, scope, packed, rounds)
    else:
        prefix = group_prefix(scope, builder.graph.nodes[edge.source].path.index(str(node.join.closes)))
        entry: GroupState | None = _own_entry(builder, f"{node.name}@{prefix}")
        if entry is not None:
            entry["got"] = [*entry["got"], [scope, packed]]


def _own_entry(builder: MomentBuilder, key: str) -> Any:
    """Return a writable copy of what has been collected under a key, None if nothing has."""
    joins = builder.writable("joins")
    if key not in joins:
        return None
    joins[key] = joins[key].copy()
    return joins[key]


def _arrive_join(
    builder: MomentBuilder, node: Node, rule: JoinRule, edge: Edge, scope: str, packed: Packed, rounds: Rounds | None
) -> None:
    turn = (rounds or {}).get(node.name, 0)
    key = f"{node.name}@{scope}#{turn}"
    entry: JoinState | None = _own_entry(builder, key)
    if entry is None:
        entry = builder.writable("joins")[key] = {"t": node.name, "scope": scope, "turn": turn, "got": {}}
    if entry.get("fired"):
        return
    place, got = str(edge.place), entry["got"]
    entry["got"] = {**got, place: [*got.get(place, ()), packed]}
    if rounds:
        entry["rounds"] = _later(entry.get("rounds"), rounds)
    if len(entry["got"]) >= (rule.need or rule.places):
        builder.writable("joins").pop(key)
        _fire_join(builder, key, entry)


def _later(one: Rounds | None, other: Rounds) -> Rounds:
    merged = dict(one or {})
    for name, turn in other.items():
        merged[name] = max(turn, merged.get(name, 0))
    return merged


def _fire_join(builder: MomentBuilder, key: str, entry: JoinState) -> None:
    node = builder.graph.nodes[entry["t"]]
    rule = _rule(node)
    got = {place: entry["got"][place] for place in sorted(entry["got"], key=int)}
    first = [values[0] for values in got.values()]
    rest = {place: values[1:] for place, values in got.items() if len(values) > 1}
    if rule.need is not None:
        builder.writable("joins")[key] = {**entry, "got": {}, "fired": True}
    elif rest:
        builder.writable("joins")[key] = {**entry, "got": rest}
    rounds = entry.get("rounds")
    if rule.cyclic:
        rounds = {**(rounds or {}), node.name: entry["turn"] + 1}
    message: Packed = first[0] if rule.single else ["*", first]
    builder.start(builder.add_activation(node, message, entry["scope"], rounds))


def _rule(node: Node) -> JoinRule:
    if node.join is None:
        raise AssertionError(f"{node.name} is no join")
    return node.join


def settle(builder: MomentBuilder, scope: str) -> None:
    """Fire every join around ``scope`` that nothing more can reach; if nothing else is left, the oldest.

    The names of items in which nothing is left are forgotten.
    """
    while builder.position["joins"]:
        fired = [_settle_one(builder, key, scope) for key in list(builder.position["joins"])]
        if not any(fired) and not _force(builder):
            break
    builder.forget_items(scope)


def _force(builder: MomentBuilder) -> bool:
    """Fire the join that has waited longest, where joins wait only for each other. Returns whether there was one."""
    if builder.position["live"]:
        return False
    for key, entry in builder.position["joins"].items():
        if "group" in entry or (entry["got"] and _rule(builder.graph.nodes[entry["t"]]).need is None):
            return _fire(builder, key)
    builder.position["joins"] = {}
    return False


def _settle_one(builder: MomentBuilder, key: str, scope: str) -> bool:
    entry = builder.position["joins"].get(key)
    if entry is None or not scope.startswith(entry["scope"]):
        return False
    rule = _rule(builder.graph.nodes[entry["t"]])
    if "group" in entry:
        return not _can_come(builder, key, entry["group"], rule.reach_any, None) and _fire(builder, key)
    got = entry["got"]
    missing = [rule.reach[place] for place in range(rule.places) if str(place) not in got]
    if _can_come(builder, key, entry["scope"], frozenset().union(*missing), entry["turn"]):
        return False
    if not entry.get("fired") and rule.need is None:
        return _fire(builder, key)
    builder.writable("joins").pop(key)
    return False


def _fire(builder: MomentBuilder, key: str) -> bool:
    entry = builder.writable("joins").pop(key)
    if "group" in entry:
        _fire_closer(builder, entry)
    else:
        _fire_join(builder, key, entry)
    return True


def _fire_closer(builder: MomentBuilder, entry: GroupState) -> None:
    node = builder.graph.nodes[entry["t"]]
    prefix, got = entry["group"], entry["got"]
    if _rule(node).kind == "gather":
        ordered = sorted(got, key=lambda pair: item_index(pair[0], prefix))
        message: Packed = ["*", [packed for _, packed in ordered]]
    else:
        message = gather_outputs([packed for _, packed in got], entry.get("loose"))
    since = {scope: n for scope, n in builder.position["since"].items() if not scope.startswith(prefix)}
    builder.position["since"] = since
    builder.start(builder.add_activation(node, message, parent_scope(prefix), entry.get("rounds")))


def gather_outputs(outputs: list[Packed], loose: Packed | None) -> Packed:
    """Return a workflow's output: its one value, the list of several, the last value that no edge took, or None."""
    if len(outputs) == 1:
        return outputs[0]
    return ["*", outputs] if outputs else (loose or [None, None])


def _can_come(builder: MomentBuilder, key: str, within: str, reach: frozenset[str], turn: int | None) -> bool:
    for step, scope, rounds in _tokens(builder, key):
        if step in reach and scope.startswith(within):
            node = builder.position["joins"][key]["t"]
            if turn is None or (rounds or {}).get(node, 0) == turn:
                return True
    return False


def _tokens(builder: MomentBuilder, but: str) -> Iterator[tuple[str, str, Rounds | None]]:
    for activation in builder.position["live"].values():
        yield activation["step"], activation["scope"], activation.get("rounds")
    for key, entry in builder.position["joins"].items():
        if key != but and not entry.get("fired"):
            yield entry["t"], entry["scope"], entry.get("rounds")
