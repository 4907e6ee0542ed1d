"""Carry a checkpoint of an older graph over to the present one, or say why that cannot be done. Writes nothing."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

from checkpoints.errors import Incompatible
from checkpoints.records import Checkpoint, EventDraft, Json
from wfdash.contract import Carried
from wfdash.skew import Skew
from wfdash.workflow.aliases import combinations, earlier_names, spelling_of
from wfdash.workflow.build import signature
from wfdash.workflow.codec import check_plain
from wfdash.workflow.draft import Draft
from wfdash.workflow.errors import NotStorable
from wfdash.workflow.fits import Fit
from wfdash.workflow.graph import Graph
from wfdash.workflow.joins import settle
from wfdash.workflow.levels import level_words, ways_below
from wfdash.workflow.migration import Migration, Way, find_way
from wfdash.workflow.reposition import Standpoint, apply_change, rename
from wfdash.workflow.ticks import Moment, Note


def carry(
    graph: Graph, ways: tuple[Way, ...], checkpoint: Checkpoint, skew: Skew | None, *, override: bool = False
) -> Carried:
    """Return the checkpoint under ``graph``: by hooks, by earlier names, or with ``override`` as it is.

    ``Incompatible`` says what has changed as far as it is known (``skew``), or what does not fit.
    """
    at = _standpoint(checkpoint)
    how, at = _override(graph, at) if override else _declared(graph, ways, checkpoint, skew, at)
    fit = Fit(graph, *_changes(skew))
    at = fit.fit(_marked(at, graph))
    if fit.problems:
        listed = "; ".join(dict.fromkeys(fit.problems))
        raise Incompatible(f"checkpoint {checkpoint.n} does not fit this graph: {listed}", problems=fit.problems)
    return _settled(graph, checkpoint, how, at)


def _marked(at: Standpoint, graph: Graph) -> Standpoint:
    """Return it remembering the versions of the graph's sub-workflows."""
    position = {name: part for name, part in at.position.items() if name != "levels"}
    return replace(at, position=position | ({"levels": graph.marks} if graph.levels else {}))


def _standpoint(checkpoint: Checkpoint) -> Standpoint:
    requests = {request.key: request for request in checkpoint.requests}
    return Standpoint(state=checkpoint.body["state"], position=checkpoint.body["position"], requests=requests)


def _declared(
    graph: Graph, ways: tuple[Way, ...], checkpoint: Checkpoint, skew: Skew | None, at: Standpoint
) -> tuple[str, Standpoint]:
    way = find_way(ways, checkpoint.version, graph.version)
    if way:
        return "hook", _run_hooks(way, at)
    below = ways_below(graph.levels, at.position.get("levels", {}))
    if below:
        for inside, inner in below.items():
            at = _run_hooks(inner, at, f"{inside}/")
        return "hook", at
    names = _exact_names(graph, checkpoint.version, skew)
    if names is None and skew is not None:
        names = _names_used(graph, at)
        touched = {names.get(step, step) for step in at.steps()} & {change.step for change in skew.retyped}
        names = None if touched else names
    if not names:
        raise _no_way(graph, checkpoint, skew, at)
    return "alias", _renamed(at, names)


def _override(graph: Graph, at: Standpoint) -> tuple[str, Standpoint]:
    return "override", _renamed(at, _names_used(graph, at))


def _renamed(at: Standpoint, names: Mapping[str, str]) -> Standpoint:
    used = sorted(at.steps() & names.keys())
    return rename(at, names).said(*(f"{step} is called {names[step]} now" for step in used))


def _exact_names(graph: Graph, version: str, skew: Skew | None) -> dict[str, str] | None:
    """Return old name -> name if the old graph is this one but for names: then its signature says so."""
    known = [spelling_of(graph, {change.new: change.old for change in skew.renamed})] if skew else []
    for spelt in chain(known, combinations(graph)) if graph.aliases else ():
        if signature(graph.nodes.values(), graph.edges, spelt) == version:
            return {old: name for name, old in spelt.items() if old != name}
    return None


def _names_used(graph: Graph, at: Standpoint) -> dict[str, str]:
    """Return old name -> name, if the run stands at a step by an earlier name; nothing otherwise."""
    known = {old: name for name, olds in earlier_names(graph).items() for old in olds if old not in graph.nodes}
    return known if at.steps() & known.keys() else {}


def _run_hooks(way: tuple[Way, ...], at: Standpoint, inside: str = "") -> Standpoint:
    """Run hooks one after the other; those of a sub-workflow see what is ``inside`` it, by its own names."""
    for one in way:
        live = [record["step"] for record in at.position["live"].values() if record["step"].startswith(inside)]
        own = {key.removeprefix(inside): value for key, value in at.state.items() if key.startswith(inside)}
        migration = Migration(own, Counter(step.removeprefix(inside) for step in live))
        outside = {key: value for key, value in at.state.items() if not key.startswith(inside)}
        state = outside | {inside + key: value for key, value in _call_hook(one, migration).items()}
        words = _state_words(at.state, state)
        at = replace(at, state=state)
        for change in migration.changes:
            at = apply_change(at, change.inside(inside))
        at = at.said(*words)
    return at


def _call_hook(way: Way, migration: Migration) -> dict[str, Json]:
    """Run one hook; whatever goes wrong in it leaves the run as it is."""
    what = f"the migration from version {way.from_version}"
    try:
        returned = way.hook(migration)
        state = migration.state if returned is None else returned
        if not isinstance(state, dict):
            if inspect.iscoroutine(state):
                state.close()
            raise TypeError(
                f"it must be a plain function that returns the state or nothing, not {type(state).__name__}"
            )
        check_plain(state, "state")
    except NotStorable as error:
        raise Incompatible(f"{what} left a state that cannot be stored: {error}") from error
    except Exception as error:
        raise Incompatible(f"{what} raised {type(error).__name__}: {error}") from error
    return state


def _state_words(before: Mapping[str, Json], after: Mapping[str, Json]) -> list[str]:
    changed = [key for key in before.keys() & after.keys() if before[key] != after[key]]
    parts = {"gets": after.keys() - before.keys(), "loses": before.keys() - after.keys(), "changes": changed}
    return [f"state {verb} {', '.join(sorted(keys))}" for verb, keys in parts.items() if keys]


def _changes(skew: Skew | None) -> tuple[dict[str, str], frozenset[str]]:
    if skew is None:
        return {}, frozenset()
    took = {change.step: change.before for change in skew.retyped if change.what == "takes"}
    return took, frozenset(change.step for change in skew.rerouted)


def _settled(graph: Graph, checkpoint: Checkpoint, how: str, at: Standpoint) -> Carried:
    """Start what was moved, and fire the joins that nothing more can reach."""
    draft = Draft(graph, Moment(at.state, at.position, at.requests), checkpoint.run)
    for act, record in at.position["live"].items():
        if not {"born", "queued"} & record.keys():
            draft.begin(act)
    for scope in sorted({entry["scope"] for entry in at.position["joins"].values()}, key=len, reverse=True):
        settle(draft, scope)
    moment, commands = draft.finish()
    withdrawn = [
        EventDraft(kind="request.withdrawn", step=_asker(checkpoint, key), data={"key": key}) for key in at.closed
    ]
    return Carried(
        how=how,
        body={**checkpoint.body, "state": moment.state, "position": moment.position},
        requests=tuple(moment.requests.values()),
        closed=at.closed,
        events=(*withdrawn, *(command.event for command in commands if isinstance(command, Note))),
        words=at.words,
        names=dict(at.names),
        ended=at.ended,
    )


def _asker(checkpoint: Checkpoint, key: str) -> str | None:
    return next((request.step for request in checkpoint.requests if request.key == key), None)


def _no_way(graph: Graph, checkpoint: Checkpoint, skew: Skew | None, at: Standpoint) -> Incompatible:
    gone = sorted(at.steps() - graph.nodes.keys())
    found = [f"; {skew.summary}"] if skew else []
    found += [f"; steps that are gone: {', '.join(gone)}"] if gone else []
    found += [f"; {words}" for words in level_words(graph.levels, at.position.get("levels", {}))]
    return Incompatible(
        f"workflow {graph.name!r} has changed since this checkpoint (graph {checkpoint.version}, now {graph.version})"
        f"{''.join(found)}. Run the old code, or declare @workflow.migrate(from_version={checkpoint.version!r})"
        " or the steps' old names (was=...)",
        removed=gone,
        was=checkpoint.version,
        now=graph.version,
    )
