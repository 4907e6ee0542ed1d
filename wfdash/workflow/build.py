"""Second half of the compiler: checks the plan, computes what does not depend on a run, freezes the graph."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, product
from typing import Annotated, Any

from pydantic import BaseModel
from pydantic.errors import PydanticUserError

from checkpoints.limits import problem_of
from wfdash.domain.search_attributes import ITEM
from wfdash.domain.search_attributes import problem_of as problem_of_template
from wfdash.questions.policy import Policy
from wfdash.values.codec import (
    UNSTORABLE,
    Codec,
    can_carry,
    codec_for,
    either,
    is_any,
    is_list,
    item_type,
    members,
    type_name,
    unstorable_in,
)
from wfdash.workflow.authoring import Gather, Join, Step, read_hints
from wfdash.workflow.errors import InvalidWorkflow
from wfdash.workflow.graph import (
    ENTRY,
    Definition,
    Edge,
    Graph,
    GraphPlan,
    JoinRule,
    Level,
    Node,
    PlannedEdge,
    PlannedStep,
    StateRule,
    Sub,
    draw_plan,
    incoming,
    outgoing,
)


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


UNCHANGED: Mapping[str, str] = types.MappingProxyType({})


def build(definition: Definition) -> Graph:
    """Return the graph of a definition; ``InvalidWorkflow`` lists everything that is wrong with it."""
    plan = draw_plan(definition)
    state = read_state(plan)
    paths = find_paths(plan)
    find_problems(plan)
    aliases = read_aliases(definition, plan)
    labels = read_labels(plan)
    _refuse(definition, plan.problems)
    edges = [_edge(index, link, labels) for index, link in enumerate(plan.links)]
    nodes = {name: _node(plan, place, edges, paths) for name, place in plan.places.items()}
    _refuse(definition, list(check_labels(nodes, edges)))
    return Graph(
        name=definition.name,
        nodes=nodes,
        edges=tuple(edges),
        state=state,
        version=signature(nodes.values(), edges),
        max_steps=definition.max_steps,
        starts=tuple(name for name, node in nodes.items() if node.start),
        follow_ups=tuple(name for name, node in nodes.items() if node.follow_up),
        closers=_closers(nodes.values()),
        aliases=aliases,
        levels=_levels(plan, nodes.values(), edges),
    )


def _refuse(definition: Definition, problems: list[str]) -> None:
    if problems:
        listed = "\n".join(f"- {problem}" for problem in dict.fromkeys(problems))
        raise InvalidWorkflow(f"workflow {definition.name!r} is not valid:\n{listed}", problems=problems)


def _levels(plan: GraphPlan, nodes: Iterable[Node], edges: Iterable[Edge]) -> dict[str, Level]:
    """Return the workflow and its sub-workflows by name; empty where there is one level only."""
    inner = {prefix.removesuffix("/"): definition for prefix, definition in plan.namespaces.items() if prefix}
    if not inner:
        return {}
    built = {name: (definition, build(definition)) for name, definition in inner.items()}
    subs = {name: _level(definition, graph.nodes.values(), graph.edges) for name, (definition, graph) in built.items()}
    return {"": _level(plan.namespaces[""], nodes, edges), **subs}


def _level(definition: Definition, nodes: Iterable[Node], edges: Iterable[Edge]) -> Level:
    here = [node for node in nodes if "/" not in node.name]
    names = {node.name for node in here}
    between = [edge for edge in edges if edge.source in names and edge.target in names]
    return Level(definition=definition, version=signature(nodes, edges), own=signature(here, between))


def _edge(index: int, link: PlannedEdge, labels: Mapping[str, str]) -> Edge:
    case = link.case
    return Edge(
        index=index,
        source=link.source,
        target=link.target,
        kind=link.kind,
        place=link.place,
        when=link.when,
        otherwise=link.otherwise,
        switch=case.switch if case else None,
        key=case.key if case else None,
        case=case.value if case else None,
        default=bool(case and case.default),
        opens=link.opens,
        label=labels.get(link.opens or "", ""),
    )


def _node(plan: GraphPlan, place: PlannedStep, edges: list[Edge], paths: dict[str, tuple[str, ...]]) -> Node:
    gives = gives_of(plan, place.name)
    join = _join(plan, place, paths)
    return Node(
        name=place.name,
        function=place.step.function,
        order=place.signature.order,
        is_async=place.signature.is_async,
        takes=place.signature.takes,
        gives=gives,
        accepts=_accepts(place.signature.takes, join),
        produces=_codecs(gives),
        start=place.start and place.parent is None,
        follow_up=place.follow_up,
        retry=place.step.retry,
        timeout=place.step.timeout,
        concurrency=place.step.concurrency,
        rate=place.step.rate,
        title=place.step.title,
        people=place.step.people,
        context=place.signature.context,
        message=place.signature.message,
        policy=_policy(plan, place.name),
        parent=place.parent,
        hidden=place.hidden,
        looped=place.name in reached(plan, place.name, set(plan.places)),
        path=paths[place.name],
        join=join,
        out=tuple(edge for edge in edges if edge.source == place.name),
    )


def _policy(plan: GraphPlan, name: str) -> Policy | None:
    """Return the policy of the workflow that declares the step; a sub-workflow without one has its parent's."""
    prefix = name.rpartition("/")[0]
    while prefix:
        found = plan.namespaces.get(f"{prefix}/")
        if found is not None and found.policy is not None:
            return found.policy
        prefix = prefix.rpartition("/")[0]
    return plan.namespaces[""].policy


def _codecs(kind: Any) -> tuple[Codec, ...] | None:
    return None if is_any(kind) else tuple(codec_for(member) for member in members(kind))


def _accepts(takes: Any, join: JoinRule | None) -> tuple[Codec, ...] | None:
    if join is None or join.single or join.kind == "exit":
        return _codecs(takes)
    return _codecs(item_type(takes))


def gives_of(plan: GraphPlan, name: str, seen: frozenset[str] = frozenset()) -> Any:
    """Return the output type of a place; hidden places pass on their input."""
    place = plan.places[name]
    if not place.hidden:
        return place.signature.gives
    links = [link for link in incoming(plan, name) if link.source not in seen]
    if name in seen or not links or any(link.kind in {"join", "gather", "each"} for link in links):
        return Any
    found = [gives_of(plan, link.source, seen | {name}) for link in links]
    if any(is_any(kind) for kind in found):
        return Any
    one = either(found)
    return either([one, types.GenericAlias(list, (one,))]) if links[0].kind == "exit" else one


def _join(plan: GraphPlan, place: PlannedStep, paths: dict[str, tuple[str, ...]]) -> JoinRule | None:
    links = sorted(incoming(plan, place.name), key=lambda link: link.place)
    if not links or links[0].kind not in {"join", "gather", "exit"}:
        return None
    kind, path = links[0].kind, paths[links[0].source]
    if kind == "exit":
        path = (*paths[place.name], f"sub:{place.name}")
    inside = {name for name, found in paths.items() if found[: len(path)] == path} - {place.name}
    reach = tuple(frozenset(reaching(plan, link.source, inside)) for link in links)
    after = place.after
    return JoinRule(
        kind=kind,
        places=len(links),
        need=after.need if isinstance(after, Join) else None,
        single=after.single if isinstance(after, Join) else False,
        when=place.step.when if isinstance(after, (Join, Gather)) else None,
        reach=reach,
        reach_any=frozenset().union(*reach),
        cyclic=kind == "join" and place.name in reached(plan, place.name, set(plan.places)),
        closes=None if kind == "join" else path[-1],
    )


def reaching(plan: GraphPlan, goal: str, inside: set[str]) -> set[str]:
    """Return the places from which ``goal`` can be reached within ``inside``, itself included."""
    found, pending = {goal} & inside, [goal]
    while pending:
        current = pending.pop()
        fresh = {link.source for link in incoming(plan, current)} & inside - found
        found |= fresh
        pending += fresh
    return found


def reached(plan: GraphPlan, origin: str, inside: set[str]) -> set[str]:
    """Return the places that can be reached from ``origin``; itself only if it lies on a loop."""
    links, found, pending = outgoing(plan), set[str](), [origin]
    while pending:
        fresh = {link.target for link in links[pending.pop()]} & inside - found
        found |= fresh
        pending += fresh
    return found


def _closers(nodes: Iterable[Node]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        if node.join is not None and node.join.closes is not None:
            found[node.join.closes] = (*found.get(node.join.closes, ()), node.name)
    return found


def signature(nodes: Iterable[Node], edges: Iterable[Edge], names: Mapping[str, str] = UNCHANGED) -> str:
    """Return the graph's signature: names, edges and types; neither titles nor code. ``names``: others to use."""
    nodes = list(nodes)
    call = {node.name: names.get(node.name, node.name) for node in nodes}
    shape = {
        "nodes": sorted(
            [
                call[n.name],
                list(n.order),
                type_name(n.takes),
                type_name(n.gives),
                [n.start, True] if n.follow_up else n.start,
                [n.join.kind, n.join.need or 0, n.join.single] if n.join else [],
            ]
            for n in nodes
        ),
        "edges": sorted(
            [
                call[e.source],
                call[e.target],
                e.kind,
                e.place,
                e.when is not None,
                e.otherwise,
                e.switch or "",
                repr(e.case),
            ]
            for e in edges
        ),
    }
    return hashlib.sha256(json.dumps(shape, sort_keys=True).encode()).hexdigest()[:16]


# -- earlier names of steps (``was=``): the current node of each name of an older graph

MOST_COMBINATIONS = 512
"""Combinations of earlier names that are tried for the one that gives a version."""


def read_aliases(definition: Definition, plan: GraphPlan, prefix: str = "") -> dict[str, tuple[str, ...]]:
    """Return step or sub-workflow -> its earlier last name parts; problems go to the plan."""
    if any(problem.endswith("contains itself") for problem in plan.problems):
        return {}
    items: list[tuple[str, Step | Sub]] = [*definition.steps.items(), *definition.subs.items()]
    found = {prefix + name: item.was for name, item in items if item.was}
    taken = Counter(name for name, _ in items)
    taken.update(old for _, item in items for old in set(item.was))
    for name, item in items:
        for old in (old for old in item.was if taken[old] > 1):
            plan.problems.append(f"step {prefix + name!r}: was={old!r} is a name that another step has or had")
    for name, sub in definition.subs.items():
        found |= read_aliases(sub.child, plan, f"{prefix}{name}/")
    return found


def earlier_names(graph: Graph) -> dict[str, tuple[str, ...]]:
    """Return node -> all names it may have had before, sub-workflow prefixes included; nodes without any are left
    out.
    """
    found = {name: tuple(old for old in _spellings(graph, name) if old != name) for name in graph.nodes}
    return {name: olds for name, olds in found.items() if olds}


def _spellings(graph: Graph, name: str) -> Iterator[str]:
    parts = name.removesuffix(ENTRY).split("/")
    paths = ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
    choices = [(part, *graph.aliases.get(path, ())) for part, path in zip(parts, paths, strict=True)]
    tail = ENTRY if name.endswith(ENTRY) else ""
    return ("/".join(chosen) + tail for chosen in product(*choices))


def combinations(graph: Graph) -> Iterator[dict[str, str]]:
    """Yield node -> earlier name: everything by its earlier name first, ``MOST_COMBINATIONS`` at most."""
    paths = list(graph.aliases)
    choices = [(*graph.aliases[path], path.rsplit("/", 1)[-1]) for path in paths]
    for chosen in islice(product(*choices), MOST_COMBINATIONS):
        yield spell_nodes(graph, dict(zip(paths, chosen, strict=True)))


def spelling_of(graph: Graph, renamed: Mapping[str, str]) -> dict[str, str]:
    """Return node -> earlier name, given which steps were renamed (name -> earlier name)."""
    parts = {}
    for path in graph.aliases:
        for name, old in renamed.items():
            if f"{name}/".startswith(f"{path}/"):
                parts[path] = old.split("/")[path.count("/")]
    return spell_nodes(graph, parts)


def spell_nodes(graph: Graph, parts: Mapping[str, str]) -> dict[str, str]:
    """Return node -> its name with other last parts for some steps and sub-workflows."""
    return {name: _spell(name, parts) for name in graph.nodes}


def _spell(name: str, parts: Mapping[str, str]) -> str:
    path, tail = name.removesuffix(ENTRY), ENTRY if name.endswith(ENTRY) else ""
    own = path.split("/")
    spelt = [parts.get("/".join(own[: depth + 1]), part) for depth, part in enumerate(own)]
    return "/".join(spelt) + tail


# -- the declared state of a workflow and its sub-workflows as one flat set of keys

Default = Callable[[], Any]


def read_state(plan: GraphPlan) -> StateRule:
    """Return the rules of every namespace; problems are added to the plan."""
    codecs: dict[str, Codec] = {}
    defaults: dict[str, Default] = {}
    reducers: dict[str, Callable[[Any, Any], Any]] = {}
    typed = set()
    for prefix, level in plan.namespaces.items():
        if level.state is not None:
            typed.add(prefix)
            for key, kind, default in _fields(plan, level.name, level.state):
                codecs[prefix + key] = codec_for(kind)
                if default is not None:
                    defaults[prefix + key] = default
        for key, reducer in level.reducers.items():
            if level.state is not None and prefix + key not in codecs:
                plan.problems.append(f"workflow {level.name!r}: reducer for {key!r}, which its state does not have")
            reducers[prefix + key] = reducer
    return StateRule(codecs=codecs, defaults=defaults, reducers=reducers, typed=frozenset(typed))


def _fields(plan: GraphPlan, name: str, model: Any) -> Iterator[tuple[str, Any, Default | None]]:
    if isinstance(model, type) and issubclass(model, BaseModel):
        return _model_fields(model)
    if dataclasses.is_dataclass(model):
        return _dataclass_fields(model)
    plan.problems.append(f"workflow {name!r}: state= must be a pydantic model or a dataclass, not {model!r}")
    return iter(())


def _model_fields(model: type[BaseModel]) -> Iterator[tuple[str, Any, Default | None]]:
    for key, info in model.model_fields.items():
        kind: Any = info.annotation
        for extra in info.metadata:
            kind = Annotated[kind, extra]
        default = None if info.is_required() else (lambda info=info: info.get_default(call_default_factory=True))
        yield key, kind, default


def _dataclass_fields(model: Any) -> Iterator[tuple[str, Any, Default | None]]:
    hints = read_hints(model, {})
    for item in dataclasses.fields(model):
        default: Default | None = None
        if item.default_factory is not dataclasses.MISSING:
            default = item.default_factory
        elif item.default is not dataclasses.MISSING:
            default = lambda item=item: item.default  # noqa: E731
        yield item.name, hints[item.name], default
