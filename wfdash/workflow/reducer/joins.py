"""Delivery of values: into steps, into and out of maps and sub-workflows, and together in joins.

A join waits as long as something can still arrive, and no longer: no run hangs at a join. A scope is text: one
``group.item/`` per map or sub-workflow around the activation, outermost first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wfdash.workflow.compiler.graph import Edge, JoinRule, Node
from wfdash.workflow.reducer.moment_builder import MomentBuilder, group_prefix, item_index, parent_scope
from wfdash.workflow.reducer.routing import label_of
from wfdash.workflow.reducer.ticks import Route
from wfdash.workflow.stored.position import GroupState, JoinState, Packed, Rounds


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
        prefix = group_prefix(scope, _depth(builder, node.join, edge))
        entry: GroupState | None = _own_entry(builder, f"{node.name}@{prefix}")
        if entry is not None:
            entry["got"] = [*entry["got"], [scope, packed]]


def _depth(builder: MomentBuilder, rule: JoinRule, edge: Edge) -> int:
    return builder.graph.nodes[edge.source].path.index(str(rule.closes))


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
