"""Validation of a workflow before it runs: every problem, with the names of its steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pydantic.errors import PydanticUserError

from checkpoints.limits import problem_of
from wfdash.domain.search_attributes import ITEM
from wfdash.domain.search_attributes import problem_of as problem_of_template
from wfdash.values.codec import UNSTORABLE, can_carry, codec_for, is_any, is_list, item_type, type_name, unstorable_in
from wfdash.workflow.authoring import Join
from wfdash.workflow.compiler.graph import Edge, Node
from wfdash.workflow.compiler.plan import ENTRY, GraphPlan, PlannedEdge, PlannedStep, incoming, outgoing


def shown(name: str) -> str:
    """Return a place's name as its author knows it."""
    return repr(name.removesuffix(ENTRY))


def find_paths(plan: GraphPlan) -> dict[str, tuple[str, ...]]:
    """Return the maps and sub-workflows around each place; contradictions become problems."""
    links = outgoing(plan)
    paths = {name: () for name, place in plan.places.items() if _begins(place)}
    found: dict[str, tuple[str, ...]] = {**paths}
    pending = list(found)
    while pending:
        source = pending.pop()
        for link in links[source]:
            path = _path_through(plan, link, found[source])
            if link.target not in found:
                found[link.target] = path
                pending.append(link.target)
            elif found[link.target] != path:
                plan.problems.append(_mixed(link, found[link.target], path))
    for name, place in plan.places.items():
        if name not in found:
            found[name] = ()
            if not place.hidden:
                plan.problems.append(
                    f"step {shown(name)} can never be reached from a start step: give it after=..., or start=True"
                )
    return found


def _begins(place: PlannedStep) -> bool:
    return place.follow_up or (place.start and place.parent is None)


def _path_through(plan: GraphPlan, link: PlannedEdge, path: tuple[str, ...]) -> tuple[str, ...]:
    if link.opens is not None:
        return (*path, link.opens)
    if link.kind == "exit":
        return path[: path.index(f"sub:{link.target}")] if f"sub:{link.target}" in path else path
    if link.kind != "gather":
        return path
    if not path or not path[-1].startswith("each:"):
        plan.problems.append(f"step {shown(link.target)} gathers {shown(link.source)}, which is in no map")
        return path
    return path[:-1]


def _mixed(link: PlannedEdge, one: tuple[str, ...], other: tuple[str, ...]) -> str:
    words = [" in ".join(reversed([part.split(":", 1)[1] for part in path])) or "no map" for path in (one, other)]
    return (
        f"step {shown(link.target)} is reached both inside {words[0]} and inside {words[1]}"
        f" (after {shown(link.source)}): use gather(...) to leave a map first"
    )


def find_problems(plan: GraphPlan) -> None:
    """Add every problem to the plan."""
    links = outgoing(plan)
    for place in plan.places.values():
        plan.problems += _place_problems(plan, place)
        plan.problems += _way_problems(place.name, links[place.name])
    for link in plan.links:
        plan.problems += _type_problems(plan, link)


def _place_problems(plan: GraphPlan, place: PlannedStep) -> Iterator[str]:
    name, step = shown(place.name), place.step
    if problem := problem_of("step name", place.name):
        yield f"step {name}: {problem}"
    kinds = {link.kind for link in incoming(plan, place.name)}
    joins = bool(kinds & {"join", "gather"})
    if joins and _begins(place):
        yield f"step {name} cannot begin a run and wait for several others"
    if joins and step.otherwise:
        yield f"step {name}: otherwise= cannot be combined with a join"
    if step.when is not None and step.otherwise:
        yield f"step {name} has both when= and otherwise="
    if (step.when is not None or step.otherwise) and place.after is None and not place.hidden:
        yield f"step {name} has when= or otherwise= but no after="
    if step.concurrency is not None and step.concurrency < 1:
        yield f"step {name}: concurrency must be at least 1"
    if step.timeout is not None and step.timeout <= 0:
        yield f"step {name}: timeout must be more than 0 seconds"
    after = place.after
    if isinstance(after, Join) and after.need is not None and not 1 <= after.need <= len(after.sources):
        yield f"step {name} waits for {after.need} of {len(after.sources)}"
    for verb, kind in (("takes", place.signature.takes), ("returns", place.signature.gives)):
        if not place.hidden and (unstorable := unstorable_in(codec_for(kind))):
            yield f"step {name} {verb} {unstorable}, which {UNSTORABLE}"


def _way_problems(name: str, links: list[PlannedEdge]) -> Iterator[str]:
    for link in links:
        if link.otherwise and not any(other.when is not None for other in links):
            yield f"step {shown(link.target)} has otherwise=True, but nothing after {shown(name)} has when="
    switches: dict[str, int] = {}
    for link in links:
        if link.case is not None:
            switches[link.case.switch] = switches.get(link.case.switch, 0) + (not link.case.default)
    for switch, cases in switches.items():
        if cases == 0:
            yield f"switch {switch!r} after {shown(name)} has a default but no case"


def _type_problems(plan: GraphPlan, link: PlannedEdge) -> Iterator[str]:
    source, target = plan.places[link.source], plan.places[link.target]
    if source.hidden or target.hidden or "message" not in target.signature.order:
        return
    gives, takes = source.signature.gives, target.signature.takes
    if link.kind == "each":
        if not is_list(gives):
            yield f"step {shown(link.target)} maps over {shown(link.source)}, which returns {type_name(gives)}, no list"
        gives = item_type(gives)
    if link.kind in {"join", "gather"} and not (isinstance(target.after, Join) and target.after.single):
        if not is_list(takes):
            yield f"step {shown(link.target)} gets a list from its join but takes {type_name(takes)}"
        takes = item_type(takes)
    if not is_any(gives) and not can_carry(gives, takes):
        yield (
            f"nothing can pass from {shown(link.source)} to {shown(link.target)}:"
            f" one returns {type_name(gives)}, the other takes {type_name(takes)}"
        )


# -- what the items of maps are called: one template per map, checked against the type of its items


NO_TEMPLATE = 'write a text with fields of the item, such as "{name}: {amount}"'


def read_labels(plan: GraphPlan) -> dict[str, str]:
    """Return map -> the template that names its items. Problems are added to the plan.

    Several steps may be the first of one map: they share its items, and so their labels.
    """
    found: dict[str, str] = {}
    for link in plan.links:
        if link.opens is None or link.label == "":
            continue
        given: object = link.label
        problem = problem_of("item label", given) if isinstance(given, str) else NO_TEMPLATE
        if problem:
            plan.problems.append(f"{_place(link)}: {problem}")
        elif found.setdefault(link.opens, link.label) != link.label:
            plan.problems.append(
                f"{_place(link)}: another step calls the same items {found[link.opens]!r}: give both one label"
            )
    return found


def check_labels(nodes: Mapping[str, Node], edges: Iterable[Edge]) -> Iterator[str]:
    """Yield why labels cannot name the items they get."""
    for edge in edges:
        if edge.label and (problem := _template_problem(edge.label, nodes[edge.source], nodes[edge.target])):
            yield f"{_place(edge)}: {problem}"


def _template_problem(label: str, source: Node, target: Node) -> str:
    if not target.takes_message:
        return "the step takes no message, and so no item: give its function a parameter for it"
    kind = item_type(source.gives) if target.accepts is None else target.takes
    if is_any(kind):
        return problem_of_template(label, {}, ITEM)
    try:
        # Items are stored under the names of their fields, not under aliases.
        schema = codec_for(kind).adapter.json_schema(by_alias=False)
    except (PydanticUserError, ValueError, TypeError):
        return "the type of the items has no JSON Schema, so nothing is known of their fields: leave label= out"
    return problem_of_template(label, schema, ITEM)


def _place(edge: PlannedEdge | Edge) -> str:
    return f"step {shown(edge.target)}, label of each({shown(edge.source)})"
