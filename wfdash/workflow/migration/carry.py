"""Migration of a checkpoint from an older graph to the current one, or the reasons against it. Pure."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain

from checkpoints.errors import Incompatible
from checkpoints.events import EventKind
from checkpoints.records import Checkpoint, EventDraft, Json
from wfdash.contract import Carried
from wfdash.domain.graph_diff import GraphDiff
from wfdash.values.codec import check_plain
from wfdash.workflow.authoring import Migration, MigrationHook, find_path
from wfdash.workflow.compiler.build import combinations, earlier_names, signature, spelling_of
from wfdash.workflow.compiler.graph import Graph, Level
from wfdash.workflow.errors import InvalidCall, NotStorable
from wfdash.workflow.migration.migrating_run import MigratingRun, MigrationCheck, apply_change, rename, state_problems
from wfdash.workflow.reducer.moment import MomentBuilder, moment_of, scopes_in
from wfdash.workflow.reducer.reduce import settle
from wfdash.workflow.reducer.ticks import Moment
from wfdash.workflow.stored import Marks, position_in


def carry(
    graph: Graph,
    hooks: tuple[MigrationHook, ...],
    checkpoint: Checkpoint,
    difference: GraphDiff | None,
    *,
    override: bool = False,
) -> Carried:
    """Return the checkpoint under ``graph``: by hooks, by earlier names, or with ``override`` unchanged.

    ``Incompatible`` says what has changed as far as known (``graph_diff``), or what is not valid.
    """
    before = moment_of(checkpoint)
    run = MigratingRun(state=before.state, position=before.position, requests=before.requests)
    if override:
        how, run = "override", _renamed(run, _names_used(graph, run))
    else:
        how, run = _declared(graph, hooks, checkpoint, difference, run)
    check = MigrationCheck(graph, *_changes(difference))
    position = run.position.copy()
    position.pop("levels", None)
    if graph.levels:
        position["levels"] = graph.marks
    run = check.fitted(replace(run, position=position))
    if check.problems:
        listed = "; ".join(dict.fromkeys(check.problems))
        raise Incompatible(f"checkpoint {checkpoint.n} does not match this graph: {listed}", problems=check.problems)
    return _settled(graph, checkpoint, how, run)


def _declared(
    graph: Graph,
    hooks: tuple[MigrationHook, ...],
    checkpoint: Checkpoint,
    difference: GraphDiff | None,
    run: MigratingRun,
) -> tuple[str, MigratingRun]:
    path = find_path(hooks, checkpoint.version, graph.version)
    if path:
        return "hook", _run_hooks(path, run)
    below = hooks_below(graph.levels, run.position.get("levels", {}))
    if below:
        for inside, inner in below.items():
            run = _run_hooks(inner, run, f"{inside}/")
        return "hook", run
    names = _exact_names(graph, checkpoint.version, difference)
    if names is None and difference is not None:
        names = _names_used(graph, run)
        touched = {names.get(step, step) for step in run.steps()} & {change.step for change in difference.retyped}
        names = None if touched else names
    if not names:
        raise _no_way(graph, checkpoint, difference, run)
    return "alias", _renamed(run, names)


def _renamed(run: MigratingRun, names: Mapping[str, str]) -> MigratingRun:
    used = sorted(run.steps() & names.keys())
    return rename(run, names).noting(*(f"{step} was renamed {names[step]}" for step in used))


def _exact_names(graph: Graph, version: str, difference: GraphDiff | None) -> dict[str, str] | None:
    """Return old name -> name if the old graph differs from this one only in names, which its signature proves."""
    known = [spelling_of(graph, {change.new: change.old for change in difference.renamed})] if difference else []
    for spelt in chain(known, combinations(graph)) if graph.aliases else ():
        if signature(graph.nodes.values(), graph.edges, spelt) == version:
            return {old: name for name, old in spelt.items() if old != name}
    return None


def _names_used(graph: Graph, run: MigratingRun) -> dict[str, str]:
    """Return old name -> name, if a step in progress has an earlier name; else an empty dict."""
    known = {old: name for name, olds in earlier_names(graph).items() for old in olds if old not in graph.nodes}
    return known if run.steps() & known.keys() else {}


def _run_hooks(path: tuple[MigrationHook, ...], run: MigratingRun, inside: str = "") -> MigratingRun:
    """Return the run after hooks, one after the other; those of a sub-workflow see its ``inside``, by its own names."""
    for hook in path:
        live = [record["step"] for record in run.position["live"].values() if record["step"].startswith(inside)]
        own = {key.removeprefix(inside): value for key, value in run.state.items() if key.startswith(inside)}
        migration = Migration(own, Counter(step.removeprefix(inside) for step in live))
        outside = {key: value for key, value in run.state.items() if not key.startswith(inside)}
        state = outside | {inside + key: value for key, value in _call_hook(hook, migration).items()}
        words = _state_words(run.state, state)
        run = replace(run, state=state)
        for change in migration.changes:
            run = apply_change(run, change.inside(inside))
        run = run.noting(*words)
    return run


def _call_hook(hook: MigrationHook, migration: Migration) -> dict[str, Json]:
    """Return the changed state of one hook; the run is not changed if it raises."""
    what = f"the migration from version {hook.from_version}"
    try:
        returned = hook.hook(migration)
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


def _changes(difference: GraphDiff | None) -> tuple[dict[str, str], frozenset[str]]:
    if difference is None:
        return {}, frozenset()
    took = {change.step: change.before for change in difference.retyped if change.what == "takes"}
    return took, frozenset(change.step for change in difference.rerouted)


def _settled(graph: Graph, checkpoint: Checkpoint, how: str, run: MigratingRun) -> Carried:
    """Return the result after starting moved steps and firing joins that nothing more can reach."""
    builder = MomentBuilder(graph, Moment(run.state, run.position, run.requests), checkpoint.run)
    for activation, record in run.position["live"].items():
        if not {"born", "queued"} & record.keys():
            builder.start(activation)
    for scope in sorted({entry["scope"] for entry in run.position["joins"].values()}, key=len, reverse=True):
        settle(builder, scope)
    for scope in {*scopes_in(checkpoint.body["position"])} - {*scopes_in(builder.position)}:
        builder.forget_items(scope)
    moment, commands = builder.build()
    askers = {request.key: request.step for request in checkpoint.requests}
    withdrawn = [EventKind.REQUEST_WITHDRAWN.draft(askers.get(key), key=key) for key in run.closed]
    return Carried(
        how=how,
        body={**checkpoint.body, "state": moment.state, "position": moment.position},
        requests=tuple(moment.requests.values()),
        closed=run.closed,
        events=(*withdrawn, *(command for command in commands if isinstance(command, EventDraft))),
        words=run.words,
        names=dict(run.names),
        ended=run.ended,
    )


def _no_way(graph: Graph, checkpoint: Checkpoint, difference: GraphDiff | None, run: MigratingRun) -> Incompatible:
    gone = sorted(run.steps() - graph.nodes.keys())
    found = [f"; {difference.summary}"] if difference else []
    named = f"; steps that are gone: {', '.join(gone)}"
    found += [named] if gone and not (difference and set(gone) <= set(difference.removed)) else []
    found += [f"; {words}" for words in changed_below(graph.levels, run.position.get("levels", {}))]
    return Incompatible(
        f"workflow {graph.name!r} has changed since this checkpoint{''.join(found)}. Run the old code, or declare the"
        f" steps' old names (was=...), or @workflow.migrate(from_version={checkpoint.version!r}); now {graph.version}",
        removed=gone,
        was=checkpoint.version,
        now=graph.version,
    )


# -- sub-workflows that have changed since a run started, and the migration hooks to their current versions


def hooks_below(levels: Mapping[str, Level], marks: Marks) -> dict[str, tuple[MigrationHook, ...]]:
    """Return sub-workflow -> its hooks to run. Empty unless they account for everything that has changed."""
    found: dict[str, tuple[MigrationHook, ...]] = {}
    return found if levels and _lead(levels, marks, "", found) else {}


def _lead(levels: Mapping[str, Level], marks: Marks, name: str, found: dict[str, tuple[MigrationHook, ...]]) -> bool:
    if name not in marks:
        return False
    level, (version, own) = levels[name], marks[name]
    if version == level.version:
        return True
    path = find_path(level.definition.hooks, version, level.version) if name else ()
    if path:
        found[name] = path
        return True
    inner = [below for below in levels if below and below.rpartition("/")[0] == name]
    return own == level.own and all(_lead(levels, marks, below, found) for below in inner)


def changed_below(levels: Mapping[str, Level], marks: Marks) -> Iterator[str]:
    """Yield which sub-workflows have changed, with the version that a hook of theirs would name."""
    for name, level in levels.items():
        if name and name in marks and marks[name][0] != level.version:
            yield f"sub-workflow {name!r} was version {marks[name][0]}, is {level.version} now"


# -- a run that follows a completed one: it begins with that run's state, at the steps that take its message


def state_after(graph: Graph, follows: Checkpoint | None) -> dict[str, Json]:
    """Return the state that a run begins with: its defaults, and over them what a completed run has left.

    ``InvalidCall`` if no step takes a follow-up or that run has not ended; ``Incompatible`` if its state is not valid
    in this graph.
    """
    rule = graph.state
    if follows is None:
        return rule.fresh()
    if not graph.follow_ups:
        raise InvalidCall(f"workflow {graph.name!r} has no step with follow_up=True: start a new run instead")
    position = position_in(follows.body)
    if position is None or position["live"] or follows.requests:
        raise InvalidCall("follows= must be the last checkpoint of a completed run: let that run end first")
    kept = follows.body["state"]
    state = {**rule.fresh(but=kept), **kept}
    if problems := list(state_problems(rule, state)):
        text = f"the state of run {follows.run} cannot be continued by the current workflow: {'; '.join(problems)}"
        raise Incompatible(text, run=follows.run, checkpoint=follows.id)
    return state
