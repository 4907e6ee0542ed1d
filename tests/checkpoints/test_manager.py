from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from checkpoints.errors import Damaged, InvalidConfig
from checkpoints.ids import RunId, new_run_id
from checkpoints.manager import CheckpointConfig, CheckpointManager
from checkpoints.memory import MemoryStorage
from checkpoints.records import Commit, Effect, EventDraft, Phase, Reason, Standing
from checkpoints.storage import CheckpointStorage, Journal
from tests.conformance.worlds import asking, checkpoint


def manager(**config: Any) -> CheckpointManager:
    """Return a manager over an empty storage."""
    return CheckpointManager(MemoryStorage(), CheckpointConfig(**config))


async def steps(given: CheckpointManager, run: RunId, count: int) -> None:
    """Commit plain steps 1 to ``count``, each with an event."""
    parent = None
    for n in range(1, count + 1):
        made = checkpoint(run, n, parent=parent, reason=Reason.START if n == 1 else Reason.STEP)
        await given.commit(Commit(run=run, checkpoint=made, events=(EventDraft(kind="custom"),)))
        parent = made.id


async def kept(given: CheckpointManager, run: RunId) -> list[int]:
    """Return the n of the stored checkpoints, oldest first."""
    return [info.n for info in reversed(await given.list_checkpoints(run))]


async def test_a_manager_stands_wherever_a_storage_does() -> None:
    assert isinstance(manager(), CheckpointStorage)
    assert isinstance(manager(), Journal)


@pytest.mark.parametrize(("when", "expected"), [("step", [1, 2, 3, 4, 5, 6, 7]), ("pause", [1]), (3, [1, 4, 7])])
async def test_the_policy_says_which_steps_are_saved(when: Any, expected: list[int]) -> None:
    given, run = manager(when=when), new_run_id()
    await steps(given, run, 7)
    assert await kept(given, run) == expected
    assert len(await given.read_events(run)) == 7


async def test_a_parent_is_always_a_stored_checkpoint() -> None:
    given, run = manager(when=3), new_run_id()
    await steps(given, run, 7)
    infos = await given.list_checkpoints(run)
    assert [info.parent for info in infos] == [infos[1].id, infos[2].id, None]


async def test_what_a_resume_needs_is_saved_whatever_the_policy() -> None:
    given, run = manager(when="pause"), new_run_id()
    await steps(given, run, 3)
    await given.commit(asking(run, "k", n=4))
    effect = Effect(key="e", step="s", name="f")
    await given.commit(Commit(run=run, checkpoint=checkpoint(run, 5), effects=(effect,)))
    end = Standing(phase=Phase.COMPLETED)
    await given.commit(Commit(run=run, checkpoint=checkpoint(run, 6), standing=end))
    assert await kept(given, run) == [1, 4, 5, 6]


async def test_only_the_newest_and_labelled_are_kept() -> None:
    given, run = manager(keep=2), new_run_id()
    await given.save(checkpoint(run, 1, label="before the audit"))
    for n in range(2, 6):
        await given.save(checkpoint(run, n))
    assert await given.prune(run) == 2
    assert await kept(given, run) == [1, 4, 5]


async def test_the_newest_is_kept_however_old_it_is() -> None:
    given, run = manager(keep_age=timedelta(hours=1)), new_run_id()
    for n in range(1, 4):
        await given.save(checkpoint(run, n))
    assert await given.prune(run, now=datetime.now(UTC) + timedelta(days=1)) == 2
    assert await kept(given, run) == [3]


async def test_ending_a_run_prunes_it() -> None:
    given, run = manager(keep=1), new_run_id()
    await steps(given, run, 5)
    end = Standing(phase=Phase.COMPLETED)
    await given.commit(Commit(run=run, checkpoint=checkpoint(run, 6), standing=end))
    assert await kept(given, run) == [6]


async def test_recovery_takes_the_newest_good_one_and_tells_of_the_damaged() -> None:
    storage, run = BrokenStorage(), new_run_id()
    given = CheckpointManager(storage)
    assert await given.recover(run) is None
    await steps(given, run, 5)
    storage.broken = {4, 5}
    recovered = await given.recover(run)
    assert recovered is not None
    assert recovered.checkpoint.n == 3
    assert [info.n for info in recovered.damaged] == [5, 4]


async def test_recovery_never_falls_back_to_the_start() -> None:
    storage, run = BrokenStorage(), new_run_id()
    given = CheckpointManager(storage)
    await steps(given, run, 3)
    storage.broken = {1, 2, 3}
    with pytest.raises(Damaged):
        await given.recover(run)


@pytest.mark.parametrize("config", [{"when": 0}, {"keep": 0}, {"keep_age": timedelta()}])
def test_a_contradiction_names_its_field(config: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfig, match=next(iter(config))):
        CheckpointConfig(**config)


class BrokenStorage(MemoryStorage):
    """Memory in which chosen checkpoints cannot be read."""

    broken: set[int] = set()

    async def load(self, run: RunId, checkpoint: Any) -> Any:
        """Refuse the broken ones."""
        loaded = await super().load(run, checkpoint)
        if loaded.n in self.broken:
            raise Damaged(run=run)
        return loaded

    async def list_checkpoints(self, run: RunId, *, before: int | None = None, limit: int = 50) -> Any:
        """Read metadata, which is never broken."""
        broken, self.broken = self.broken, set()
        try:
            return await super().list_checkpoints(run, before=before, limit=limit)
        finally:
            self.broken = broken
