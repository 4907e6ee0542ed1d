"""The difference of two graphs of one workflow, as structure and as text; and the checkpoint of a migration. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from checkpoints.ids import new_checkpoint_id
from checkpoints.records import Checkpoint, JsonObject, Reason, Record
from wfdash.contract import Carried, Description, StepInfo

UNSEEN = "something not shown in the graph changed"


class Renamed(Record):
    """A step that its author says had another name before."""

    old: str
    new: str


class Rerouted(Record):
    """A step that has other incoming edges now. ``before`` and ``after``: its edges as text."""

    step: str
    before: tuple[str, ...]
    after: tuple[str, ...]


class Retyped(Record):
    """A step whose message or result has another type. ``what``: takes or gives."""

    step: str
    what: str
    before: str
    after: str


class Kept(Record):
    """A value between steps that is kept in another way; one that is new, or gone, is kept as nothing on one side."""

    name: str
    before: str
    after: str


class GraphDiff(Record):
    """The difference of two graphs. Steps have their new names, removed ones their old."""

    old: str
    new: str
    """The two versions."""
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    renamed: tuple[Renamed, ...] = ()
    rerouted: tuple[Rerouted, ...] = ()
    retyped: tuple[Retyped, ...] = ()
    kept: tuple[Kept, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """Return one sentence per change; empty only if both are the same version."""
        found = tuple(_sentences(self))
        return found or (() if self.old == self.new else (UNSEEN,))

    @property
    def summary(self) -> str:
        """Return all changes in one line."""
        return "; ".join(self.words)


def compare(old: Description, new: Description) -> GraphDiff:
    """Return what changed. A step counts as renamed only where the new graph declares its old name (``was``)."""
    before, after = _by_name(old), _by_name(new)
    names = old_names(old, new)
    kept = [(was, name) for was, name in names.items() if name in after]
    return GraphDiff(
        old=old.version,
        new=new.version,
        added=tuple(name for name in after if name not in names.values()),
        removed=tuple(name for name in before if name not in names),
        renamed=tuple(Renamed(old=was, new=name) for was, name in kept if was != name),
        rerouted=tuple(_rerouted(old, new, names)),
        retyped=tuple(change for was, name in kept for change in _retyped(before[was], after[name])),
        kept=tuple(_kept(old, new)) if old.channels and new.channels else (),
    )


def old_names(old: Description, new: Description) -> dict[str, str]:
    """Return old name -> new name of every step that is in both graphs."""
    before, after = _by_name(old), _by_name(new)
    names = {name: name for name in before if name in after}
    for name, step in after.items():
        was = next((alias for alias in step.was if alias in before and alias not in names), None)
        if name not in names and was is not None:
            names[was] = name
    return names


def arrows_into(described: Description, step: str, names: dict[str, str] | None = None) -> tuple[str, ...]:
    """Return the edges into a step as text, in the order of declaration; sources by ``names``."""
    edges = [edge for edge in described.edges if edge.target == step]
    return tuple(
        _arrow((names or {}).get(e.source, e.source), e.kind, e.label if e.kind == "join" else "") for e in edges
    )


def _arrow(source: str, kind: str, label: str) -> str:
    detail = " ".join(part for part in (kind if kind != "plain" else "", label) if part)
    return f"{source} ({detail})" if detail else source


def _by_name(described: Description) -> dict[str, StepInfo]:
    return {step.name: step for step in described.steps}


def _rerouted(old: Description, new: Description, names: dict[str, str]) -> Iterator[Rerouted]:
    for was, name in names.items():
        before, after = arrows_into(old, was, names), arrows_into(new, name)
        if sorted(before) != sorted(after):
            yield Rerouted(step=name, before=before, after=after)


def _retyped(before: StepInfo, after: StepInfo) -> Iterator[Retyped]:
    for what in ("takes", "gives"):
        was, now = getattr(before, what), getattr(after, what)
        if was != now:
            yield Retyped(step=after.name, what=what, before=was, after=now)


def _kept(old: Description, new: Description) -> Iterator[Kept]:
    """Yield the values that are not kept in both graphs alike, without those of steps that only one of them has."""
    shared = {one.parent for one in old.channels} & {one.parent for one in new.channels}
    before, after = (
        {
            f"{one.parent}/{one.name}".removeprefix("/"): one.kind
            for one in graph.channels
            if not one.hidden and one.parent in shared
        }
        for graph in (old, new)
    )
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield Kept(name=name, before=before.get(name, ""), after=after.get(name, ""))


def _sentences(difference: GraphDiff) -> Iterator[str]:
    if difference.added:
        yield f"added: {', '.join(difference.added)}"
    if difference.removed:
        yield f"removed: {', '.join(difference.removed)}"
    for name in difference.renamed:
        yield f"{name.old} was renamed {name.new}"
    for route in difference.rerouted:
        yield f"{route.step} comes {_after(route.after)}, {_after(route.before)} before"
    for kind in difference.retyped:
        yield f"{kind.step} {kind.what} {kind.after or 'anything'}, {kind.before or 'anything'} before"
    for one in difference.kept:
        if one.before and one.after:
            yield f"{one.name} of the state is kept as {one.after}, as {one.before} before"
        else:
            yield f"the state {'no longer has' if one.before else 'has also'} {one.name}"


def _after(sources: tuple[str, ...]) -> str:
    return f"after {', '.join(sources)}" if sources else "first"


def migrated_checkpoint(old: Checkpoint, carried: Carried, *, version: str, created: datetime) -> Checkpoint:
    """Return the checkpoint that follows ``old`` and belongs to the current graph."""
    changes = {
        "id": new_checkpoint_id(),
        "n": old.n + 1,
        "parent": old.id,
        "version": version,
        "reason": Reason.MIGRATE,
        "created": created,
        "label": None,
        "body": carried.body,
        "requests": carried.requests,
        "waiting": len(carried.requests),
    }
    return old.model_copy(update=changes)


def facts_of(carried: Carried, old: str, new: str) -> JsonObject:
    """Return the facts of a migration's event. ``old``, ``new``: the versions."""
    moved = {"names": carried.names, "ended": list(carried.ended)}
    facts = {"how": carried.how, "from": old, "to": new, "words": list(carried.words)}
    return facts | {name: value for name, value in moved.items() if value}
