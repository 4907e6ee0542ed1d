"""What this worker serves, and what the workers beside it have loaded: it never claims a run whose code it lacks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from checkpoints.database.living_workers import served
from checkpoints.storage import Serves
from wfdash import catalog
from wfdash.worker.version_holds import in_thread

NO_LIMITS: Mapping[str, int] = MappingProxyType({})


class Serving:
    """The workflows of one worker: of those that are loaded the named ones (``only``; empty: all) in these ``queues``
    (empty: in any).
    """

    def __init__(self, worker: str, only: Collection[str] = (), queues: Collection[str] = ()) -> None:
        self._worker = worker
        self._only = frozenset(only)
        self._queues = frozenset(queues)
        self._elsewhere: Sequence[tuple[str, str]] | None = None

    def loaded(self) -> dict[str, str]:
        """Return workflow -> version of what this worker runs."""
        return {one.name: one.description.version for one in self.entries()}

    def limits(self) -> dict[str, int]:
        """Return workflow -> how many of its runs may execute at once, of those that have a limit."""
        return {one.name: one.description.limit for one in self.entries() if one.description.limit is not None}

    def entries(self) -> list[catalog.Entry]:
        """Return the workflows of which it takes runs."""
        return [one for one in catalog.load().entries.values() if self._takes(one)]

    def _takes(self, entry: catalog.Entry) -> bool:
        named, queue = not self._only or entry.name in self._only, entry.description.queue
        return named and (not self._queues or queue in self._queues)

    def serves(self) -> Serves:
        """Return which runs it claims."""
        return serves_of(self.loaded(), self._elsewhere or (), self.limits())

    def look(self) -> None:
        """Look which other workers live and what they have loaded: with each heartbeat. It uses the ORM."""
        others = served(but=self._worker)
        self._elsewhere = [pair for one in others for pair in (one or {}).items()]

    @property
    def looked(self) -> bool:
        """Whether it is known what the other workers have: before, hints wait for the first look for due runs."""
        return self._elsewhere is not None

    async def look_first(self) -> None:
        """Look, unless it has: a worker that claimed before would hold runs whose version another worker has."""
        if not self.looked:
            await in_thread(self.look)


def serves_of(
    loaded: Mapping[str, str], elsewhere: Iterable[tuple[str, str]], limits: Mapping[str, int] = NO_LIMITS
) -> Serves:
    """Return what a worker claims that has ``loaded`` (workflow -> version) beside workers that have ``elsewhere``.

    A run of another version is left to a worker that has it. Where there is none, this one claims it, too, to migrate
    it as declared or to hold it.
    """
    theirs = {(name, version) for name, version in elsewhere if loaded.get(name, version) != version}
    return Serves(workflows=tuple(sorted(loaded)), others=tuple(sorted(theirs)), limits=limits)
