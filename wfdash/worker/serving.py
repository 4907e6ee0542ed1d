"""What this worker serves, and what the workers beside it have loaded: it never claims a run whose code it lacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from checkpoints.claims import boottime, is_gone
from checkpoints.database.living_workers import others
from checkpoints.storage import Serves
from wfdash.engines import catalog
from wfdash.worker.db_thread import in_thread

NO_LIMITS: Mapping[str, int] = MappingProxyType({})


HOLD_SECONDS = 60.0
"""A run is held once no worker has had its version for so long: one that restarts may bring it back."""


class Serving:
    """The workflows of one worker: of those that are loaded the named ones (``only``; empty: all) in these ``queues``
    (empty: in any).
    """

    def __init__(
        self,
        worker: str,
        only: Collection[str] = (),
        queues: Collection[str] = (),
        *,
        among_others: bool = False,
        clock: Callable[[], float] = boottime,
    ) -> None:
        """``among_others``: workers run beside this one, which it may not have seen yet: any version may be one's."""
        self._worker = worker
        self._only = frozenset(only)
        self._queues = frozenset(queues)
        self._clock = clock
        self._elsewhere: Sequence[tuple[str, str]] | None = None
        self._begun = clock() if among_others else -math.inf
        self._seen: dict[tuple[str, str], float] = {}
        """Workflow and version -> when another worker had it."""
        self._left: frozenset[tuple[str, str]] = frozenset()
        """Workflows and versions from which nothing leads to what is loaded here, as the first of their runs showed."""
        self._others: Sequence[str] = ()

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
        self._left = frozenset(pair for pair in self._left if self._may_return(pair))
        return serves_of(self.loaded(), [*(self._elsewhere or ()), *self._left], self.limits())

    def holds(self, workflow: str, version: str) -> bool:
        """Return whether to hold a run of this version, from which nothing leads to what is loaded here.

        Otherwise its runs are left until a worker with it is back, or none has had it for ``HOLD_SECONDS``.
        """
        pair = (workflow, version)
        if not self._may_return(pair):
            return True
        self._left |= {pair}
        return False

    def _may_return(self, pair: tuple[str, str]) -> bool:
        return self._clock() - self._seen.get(pair, self._begun) < HOLD_SECONDS

    def look(self) -> None:
        """Look which other workers live and what they have loaded: with each heartbeat. It uses the ORM."""
        self.hear(*others(self._worker))

    def hear(self, workers: Sequence[str], loaded: Iterable[Mapping[str, str] | None]) -> None:
        """Take what such a look found: the other workers, and what each of them that lives has loaded."""
        self._others, now = workers, self._clock()
        self._elsewhere = [pair for one in loaded for pair in (one or {}).items()]
        self._seen.update(dict.fromkeys(self._elsewhere, now))

    def ended(self) -> list[str]:
        """Return the names of the other workers, at the last look, that ran on this machine and have ended."""
        return [name for name in self._others if is_gone(name)]

    def may_others_live(self) -> bool:
        """Return whether any of them may live: of some it is certain that they have ended."""
        return len(self.ended()) < len(self._others)

    @property
    def has_others(self) -> bool:
        """Whether there were other workers at the last look, also such as may have ended."""
        return bool(self._others)

    def forget(self, worker: str) -> None:
        """Do not return that worker again."""
        self._others = [name for name in self._others if name != worker]

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
