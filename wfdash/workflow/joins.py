"""Values on their way: into steps, into and out of maps and sub-workflows, and together in joins.

A join waits as long as something that still can arrive exists, and no longer: no run hangs at a join.
A scope is text: one ``group.item/`` per map or sub-workflow around the activation, outermost first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wfdash.workflow.draft import Draft, group_prefix, item_index, parent_scope
from wfdash.workflow.graph import Edge, JoinRule, Node
from wfdash.workflow.ticks import Packed, Route

Rounds = dict[str, int] | None
"""How often a token has passed the joins that lie on loops: tokens of different rounds never meet there."""


def deliver(draft: Draft, route: Route, scope: str, rounds: Rounds) -> None:
    """Carry a value along its edge to where it triggers a step or waits in a join."""
    node, edge = draft.graph.nodes[route.target], route.edge
    if edge is None or edge.opens is None:
        for _, packed in route.items:
            arrive(draft, node, edge, scope, packed, rounds)
        return
    prefix = _open_group(draft, edge.opens, scope, rounds)
    for index, packed in route.items:
        arrive(draft, node, edge, f"{prefix}{index}/", packed, rounds)


def _open_group(draft: Draft, opens: str, scope: str, rounds: Rounds) -> str:
    if opens in draft.opened:
        return draft.opened[opens]
    prefix = f"{scope}{draft.position['next']}."
    draft.position["next"] += 1
    draft.opened[opens] = prefix
    for target in draft.graph.closers.get(opens, ()):
        entry: dict[str, Any] = {"t": target, "scope": scope, "group": prefix, "got": []}
        if rounds:
            entry["rounds"] = rounds
        draft.part("joins")[f"{target}@{prefix}"] = entry
    return prefix


def arrive(draft: Draft, node: Node, edge: Edge | None, scope: str, packed: Packed, rounds: Rounds) -> None:
    """Let a value arrive at a node."""
    if node.join is None or edge is None or edge.kind not in {"join", "gather", "exit"}:
        draft.begin(draft.spawn(node, packed, scope, rounds))
    elif node.join.kind == "join":
        _arrive_join(draft, node, node.join, edge, scope, packed, rounds)
    else:
        prefix = group_prefix(scope, _depth(draft, node.join, edge))
        entry = _own_entry(draft, f"{node.name}@{prefix}")
        if entry is not None:
            entry["got"] = [*entry["got"], [scope, packed]]


def _depth(draft: Draft, rule: JoinRule, edge: Edge) -> int:
    return draft.graph.nodes[edge.source].path.index(str(rule.closes))


def _own_entry(draft: Draft, key: str) -> dict[str, Any] | None:
    joins = draft.part("joins")
    if key not in joins:
        return None
    joins[key] = dict(joins[key])
    return joins[key]  # type: ignore[no-any-return]


def _arrive_join(
    draft: Draft, node: Node, rule: JoinRule, edge: Edge, scope: str, packed: Packed, rounds: Rounds
) -> None:
    turn = (rounds or {}).get(node.name, 0)
    key = f"{node.name}@{scope}#{turn}"
    entry: dict[str, Any] = _own_entry(draft, key) or {}
    if not entry:
        entry.update({"t": node.name, "scope": scope, "turn": turn, "got": {}})
        draft.part("joins")[key] = entry
    if entry.get("fired"):
        return
    place = str(edge.place)
    got: dict[str, list[Packed]] = entry["got"]
    entry["got"] = {**got, place: [*got.get(place, ()), packed]}
    if rounds:
        entry["rounds"] = _later(entry.get("rounds"), rounds)
    if len(entry["got"]) >= (rule.need or rule.places):
        _fire_join(draft, key)


def _later(one: Rounds, other: Rounds) -> dict[str, int]:
    merged = dict(one or {})
    for name, turn in (other or {}).items():
        merged[name] = max(turn, merged.get(name, 0))
    return merged


def _fire_join(draft: Draft, key: str) -> None:
    entry = draft.part("joins").pop(key)
    node = draft.graph.nodes[entry["t"]]
    rule = _rule(node)
    got = {place: entry["got"][place] for place in sorted(entry["got"], key=int)}
    first = [values[0] for values in got.values()]
    rest = {place: values[1:] for place, values in got.items() if len(values) > 1}
    if rule.need is not None:
        draft.part("joins")[key] = {**entry, "got": {}, "fired": True}
    elif rest:
        draft.part("joins")[key] = {**entry, "got": rest}
    rounds = entry.get("rounds")
    if rule.cyclic:
        rounds = {**(rounds or {}), node.name: entry["turn"] + 1}
    message: Packed = first[0] if rule.single else ["*", first]
    draft.begin(draft.spawn(node, message, entry["scope"], rounds))


def _rule(node: Node) -> JoinRule:
    if node.join is None:
        raise AssertionError(f"{node.name} is no join")
    return node.join


def settle(draft: Draft, scope: str) -> None:
    """Fire every join around ``scope`` that nothing more can reach; at the end of all things, the oldest."""
    while draft.position["joins"]:
        fired = [_settle_one(draft, key, scope) for key in list(draft.position["joins"])]
        if not any(fired) and not _force(draft):
            return


def _force(draft: Draft) -> bool:
    """Two joins that wait for each other and nothing else: the one that waits longest goes on."""
    if draft.position["live"]:
        return False
    for key, entry in draft.position["joins"].items():
        if "group" in entry or (entry["got"] and _rule(draft.graph.nodes[entry["t"]]).need is None):
            return _fire(draft, key)
    draft.position["joins"] = {}
    return False


def _settle_one(draft: Draft, key: str, scope: str) -> bool:
    entry = draft.position["joins"].get(key)
    if entry is None or not scope.startswith(entry["scope"]):
        return False
    rule = _rule(draft.graph.nodes[entry["t"]])
    if "group" in entry:
        return not _can_come(draft, key, entry["group"], rule.reach_any, None) and _fire(draft, key)
    got = entry["got"]
    missing = [rule.reach[place] for place in range(rule.places) if str(place) not in got]
    if _can_come(draft, key, entry["scope"], frozenset().union(*missing), entry["turn"]):
        return False
    if not entry.get("fired") and rule.need is None:
        return _fire(draft, key)
    draft.part("joins").pop(key)
    return False


def _fire(draft: Draft, key: str) -> bool:
    entry = draft.position["joins"][key]
    if "group" in entry:
        _fire_closer(draft, key)
    else:
        _fire_join(draft, key)
    return True


def _fire_closer(draft: Draft, key: str) -> None:
    entry = draft.part("joins").pop(key)
    node = draft.graph.nodes[entry["t"]]
    prefix, got = entry["group"], entry["got"]
    if _rule(node).kind == "gather":
        ordered = sorted(got, key=lambda pair: item_index(pair[0], prefix))
        message: Packed = ["*", [packed for _, packed in ordered]]
    else:
        message = gather_outputs([packed for _, packed in got], entry.get("loose"))
    since = {scope: n for scope, n in draft.position["since"].items() if not scope.startswith(prefix)}
    draft.position["since"] = since
    draft.begin(draft.spawn(node, message, parent_scope(prefix), entry.get("rounds")))


def gather_outputs(outputs: list[Packed], loose: Packed | None) -> Packed:
    """Return a workflow's output: its one value, the list of several, the last value nobody took, or None."""
    if len(outputs) == 1:
        return outputs[0]
    return ["*", outputs] if outputs else (loose or [None, None])


def _can_come(draft: Draft, key: str, within: str, reach: frozenset[str], turn: int | None) -> bool:
    for step, scope, rounds in _tokens(draft, key):
        if step in reach and scope.startswith(within):
            node = draft.position["joins"][key]["t"]
            if turn is None or (rounds or {}).get(node, 0) == turn:
                return True
    return False


def _tokens(draft: Draft, but: str) -> Iterator[tuple[str, str, Rounds]]:
    for act in draft.position["live"].values():
        yield act["step"], act["scope"], act.get("rounds")
    for key, entry in draft.position["joins"].items():
        if key != but and not entry.get("fired"):
            yield entry["t"], entry["scope"], entry.get("rounds")
