"""Which checkpoints of a thread may go, decided without a database.

A channel that only stores changes (LangGraph's ``DeltaChannel``) has its value in the writes of earlier checkpoints,
back to one with a whole value. Those are kept with the checkpoint that needs them, or a removal is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from checkpoints.errors import Conflict


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A checkpoint of a thread without its values.

    ``deltas``: channels of which it says that they store changes. ``values``: channels with a whole value in it, read
    only in namespaces with such channels. ``caller``: the checkpoint of the root graph that a nested one began from.
    """

    row: int
    ns: str
    checkpoint: str
    parent: str | None
    caller: str | None
    deltas: frozenset[str]
    values: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Removal:
    """What a pruning removes. ``orphans`` stay and lose their parent; ``calls`` are namespaces that go as a whole."""

    everything: bool = False
    removed: Sequence[Outline] = ()
    orphans: Sequence[Outline] = ()
    calls: Sequence[str] = ()

    @property
    def rows(self) -> frozenset[int]:
        """Return the rows that go."""
        return frozenset(one.row for one in self.removed)

    @property
    def names(self) -> frozenset[tuple[str, str]]:
        """Return namespace and id of the checkpoints that go."""
        return frozenset((one.ns, one.checkpoint) for one in self.removed)


def keep_latest(outlines: Sequence[Outline]) -> Removal:
    """Keep the newest checkpoint of each namespace, and those that its value is made of.

    A call of a nested graph goes with the checkpoint of the root graph that it began from.
    """
    spaces = by_namespace(outlines)
    kept: set[int] = set()
    for ns, inside in spaces.items():
        newest = max(inside, key=lambda one: one.checkpoint)
        if not _is_over(newest, ns, spaces.get("", ())):
            kept.update(one.row for one in needed_by(newest, inside))
    removed = [one for one in outlines if one.row not in kept]
    names = {(one.ns, one.checkpoint) for one in outlines if one.row in kept}
    orphans = [one for one in outlines if one.row in kept and one.parent and (one.ns, one.parent) not in names]
    calls = [ns for ns, inside in spaces.items() if kept.isdisjoint(one.row for one in inside)]
    return Removal(removed=removed, orphans=orphans, calls=calls)


def _is_over(newest: Outline, ns: str, root: Collection[Outline]) -> bool:
    """Say whether a namespace is of a call that the root graph has left behind.

    The namespace of a graph that keeps its state over calls has no colon.
    """
    ids = [one.checkpoint for one in root]
    return ":" in ns and newest.caller in ids and newest.caller != max(ids)


def needed_by(newest: Outline, inside: Iterable[Outline]) -> list[Outline]:
    """Return a checkpoint and those before it that its value is made of."""
    by_id = {one.checkpoint: one for one in inside}
    missing = frozenset[str]().union(*(one.deltas for one in by_id.values())) - newest.values
    needed = [newest]
    # Not more than there are: a damaged chain may lead in a circle.
    while missing and len(needed) < len(by_id) and (older := by_id.get(needed[-1].parent or "")) is not None:
        needed.append(older)
        missing -= older.values
    return needed


def refuse_needed(outlines: Iterable[Outline], removed: Collection[Outline], thread: str) -> None:
    """Raise ``Conflict`` if the value of a checkpoint that stays is partly in one that would go."""
    gone = {one.row for one in removed}
    for inside in by_namespace(outlines).values():
        if not any(one.deltas for one in inside) or gone.isdisjoint(one.row for one in inside):
            continue
        for one in inside:
            if one.row in gone or not one.deltas:
                continue
            lost = [needed for needed in needed_by(one, inside) if needed.row in gone]
            if lost:
                raise Conflict(
                    f"checkpoint {one.checkpoint} of thread {thread!r} needs {lost[0].checkpoint}, which holds changes "
                    "of a DeltaChannel: nothing was removed. Delete the thread, or remove the later runs too",
                    thread=thread,
                    checkpoint=one.checkpoint,
                )


def by_namespace(outlines: Iterable[Outline]) -> dict[str, list[Outline]]:
    """Return outlines by namespace."""
    found: dict[str, list[Outline]] = {}
    for one in outlines:
        found.setdefault(one.ns, []).append(one)
    return found


def deltas_in(metadata: Mapping[str, object]) -> frozenset[str]:
    """Return the channels of which metadata says that they store changes."""
    counters = metadata.get("counters_since_delta_snapshot")
    return frozenset(counters) if isinstance(counters, Mapping) else frozenset()
