"""A manager saves what its policy says, prunes, and recovers."""

from __future__ import annotations

import ast
import inspect
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.config import Needs, PrunePlan, decide
from checkpoints.errors import CheckpointsError, Conflict, Damaged, Incompatible, InvalidConfig
from checkpoints.events import EventKind
from checkpoints.ids import CheckpointId, RunId, WorkflowId, new_run_id
from checkpoints.manager import PRUNE_EVERY, CheckpointConfig, CheckpointManager
from checkpoints.memory import MemoryStorage
from checkpoints.records import CheckpointInfo, Commit, Effect, Phase, Reason, Standing
from checkpoints.storage import CheckpointStorage, Journal, Runs
from tests.conformance.worlds import asking, checkpoint


def manager(**config: Any) -> CheckpointManager:
    return CheckpointManager(MemoryStorage(), CheckpointConfig(**config))


async def steps(given: CheckpointManager, run: RunId, count: int) -> None:
    """Commit plain steps 1 to ``count``, each with an event."""
    parent = None
    for n in range(1, count + 1):
        made = checkpoint(run, n, parent=parent, reason=Reason.START if n == 1 else Reason.STEP)
        await given.commit(Commit(run=run, checkpoint=made, events=(EventKind.CUSTOM.draft(),)))
        parent = made.id


async def kept(given: CheckpointManager, run: RunId) -> list[int]:
    """Return the n of the stored checkpoints, oldest first."""
    return [info.n for info in reversed(await given.list_checkpoints(run))]


async def test_a_manager_stands_wherever_a_storage_does() -> None:
    assert isinstance(manager(), CheckpointStorage)
    assert isinstance(manager(), Journal)
    assert isinstance(manager(), Runs)


def test_a_manager_over_a_manager_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"manager\.storage"):
        CheckpointManager(manager())


async def test_a_manager_lists_and_deletes_the_runs_of_its_storage() -> None:
    given, run = manager(), new_run_id()
    await steps(given, run, 2)
    assert [found.id for found in await given.list_runs()] == [run]
    assert await given.delete_run(run, force=True)
    assert await given.list_runs() == []


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


async def test_a_good_run_is_recovered_from_its_newest_checkpoint() -> None:
    given, run = manager(), new_run_id()
    assert await given.recover(run) is None
    await steps(given, run, 3)
    recovery = await given.recover(run)
    assert recovery is not None
    assert (recovery.checkpoint.n, recovery.skipped) == (3, ())


async def test_recovery_never_falls_back_silently() -> None:
    storage, run = BrokenStorage(), new_run_id()
    given = CheckpointManager(storage)
    await steps(given, run, 5)
    storage.broken = {4, 5}
    with pytest.raises(Damaged, match="5, 4 cannot be read, 3 can") as raised:
        await given.recover(run)
    assert [(one.n, one.why) for one in raised.value.facts["skipped"]] == [(5, "rotten"), (4, "rotten")]
    assert [(info.n, info.clean) for info in await given.list_checkpoints(run)][:3] == [
        (5, False),
        (4, False),
        (3, True),
    ]


async def test_accepting_an_older_one_makes_it_the_head_again() -> None:
    storage, run = BrokenStorage(), new_run_id()
    given = CheckpointManager(storage)
    await steps(given, run, 5)
    storage.broken = {4, 5}
    recovery = await given.recover(run, accept_older=True)
    assert recovery is not None
    assert [one.n for one in recovery.skipped] == [5, 4]
    third = (await given.list_checkpoints(run))[3]
    head = recovery.checkpoint
    assert (head.n, head.parent, head.reason, head.body["state"]) == (6, third.id, Reason.RESTORE, {"n": 3})
    assert await given.get_latest(run) == head
    assert (await given.read_events(run))[-1].kind == "run.restored"
    again = await given.recover(run)
    assert again is not None
    assert (again.checkpoint, again.skipped) == (head, ())


async def test_recovery_never_falls_back_to_the_start() -> None:
    storage, run = BrokenStorage(), new_run_id()
    given = CheckpointManager(storage)
    await steps(given, run, 3)
    storage.broken = {1, 2, 3}
    with pytest.raises(Damaged, match="backup"):
        await given.recover(run, accept_older=True)


async def test_a_newer_format_is_no_reason_to_go_back() -> None:
    storage, run = BrokenStorage(), new_run_id()
    given = CheckpointManager(storage)
    await steps(given, run, 2)
    storage.broken, storage.error = {2}, Incompatible
    with pytest.raises(Incompatible):
        await given.recover(run, accept_older=True)


async def test_a_dry_run_says_what_goes_and_why_and_removes_nothing() -> None:
    given, run = manager(keep=2), new_run_id()
    for n in range(1, 5):
        await given.save(checkpoint(run, n, label="pin" if n == 1 else None))
    plan = await given.plan(run)
    assert [(d.checkpoint.n, d.why) for d in plan.removed] == [(2, "not among the newest 2")]
    assert [d.checkpoint.n for d in plan.kept] == [4, 3, 1]
    assert await kept(given, run) == [1, 2, 3, 4]
    assert await given.prune(run) == 1
    assert await kept(given, run) == [1, 3, 4]


async def test_while_it_is_open_a_run_may_keep_everything() -> None:
    given, run = manager(keep=1, while_open="keep"), new_run_id()
    await steps(given, run, 20)
    await given.commit(asking(run, "k", n=21))
    assert len(await kept(given, run)) == 21
    await given.commit(Commit(run=run, checkpoint=checkpoint(run, 22), standing=Standing(phase=Phase.COMPLETED)))
    assert await kept(given, run) == [22]


async def test_where_a_run_was_forked_from_is_kept() -> None:
    given, run = manager(keep=1), new_run_id()
    first = await given.save(checkpoint(run, 1))
    await given.save(checkpoint(run, 2))
    await given.fork(run, first, new_run_id())
    await given.save(checkpoint(run, 3))
    assert await given.prune(run) == 1
    assert await kept(given, run) == [1, 3]


async def test_a_long_run_is_pruned_while_it_goes_on() -> None:
    given, run = manager(keep=3), new_run_id()
    await steps(given, run, 40)
    assert len(await kept(given, run)) < 3 + PRUNE_EVERY


async def test_a_failing_prune_does_not_fail_what_was_saved(caplog: pytest.LogCaptureFixture) -> None:
    class Stubborn(MemoryStorage):
        async def prune(self, run: RunId, checkpoints: Any) -> int:
            raise OSError("disk gone")

    given, run = CheckpointManager(Stubborn(), CheckpointConfig(keep=1)), new_run_id()
    await steps(given, run, PRUNE_EVERY)
    assert len(await kept(given, run)) == PRUNE_EVERY
    assert "disk gone" in caplog.text


async def test_after_a_failed_commit_the_next_checkpoint_is_saved() -> None:
    given, run = manager(when="pause"), new_run_id()
    await steps(given, run, 2)
    with pytest.raises(Conflict):
        await given.commit(Commit(run=run, checkpoint=checkpoint(run, 1, reason=Reason.END)))
    await given.commit(Commit(run=run, checkpoint=checkpoint(run, 3)))
    assert await kept(given, run) == [1, 3]


class BrokenStorage(MemoryStorage):
    """Memory in which chosen checkpoints cannot be read."""

    broken: set[int] = set()
    error: type[CheckpointsError] = Damaged

    async def load(self, run: RunId, checkpoint: Any) -> Any:
        """Refuse the broken ones."""
        loaded = await super().load(run, checkpoint)
        if loaded.n in self.broken:
            raise self.error("rotten", run=run)
        return loaded

    async def list_checkpoints(self, run: RunId, **chosen: Any) -> Any:
        broken, self.broken = self.broken, set()
        try:
            return await super().list_checkpoints(run, **chosen)
        finally:
            self.broken = broken


async def test_a_manager_that_prunes_after_each_save_never_keeps_more() -> None:
    for keep in (1, 3):
        given, run = CheckpointManager(MemoryStorage(), CheckpointConfig.lean(keep), prune_every=1), new_run_id()
        for n in range(1, 11):
            await given.save(checkpoint(run, n))
            assert len(await given.list_checkpoints(run)) == min(n, keep)


NOW = datetime(2026, 1, 31, tzinfo=UTC)


def info(n: int, **changes: Any) -> CheckpointInfo:
    """Return checkpoint ``n`` of 100 bytes, as many hours old as ``n`` is below 100."""
    plain: dict[str, Any] = {
        "id": CheckpointId(f"c{n}"),
        "run": RunId("r"),
        "workflow": WorkflowId("w"),
        "n": n,
        "version": "v",
        "created": NOW - timedelta(hours=100 - n),
        "size": 100,
    }
    return CheckpointInfo(**{**plain, **changes})


def history(count: int, **changes: dict[str, Any]) -> list[CheckpointInfo]:
    """Return checkpoints ``count`` to 1; ``c3={...}`` changes the third."""
    return [info(n, **changes.get(f"c{n}", {})) for n in range(count, 0, -1)]


def kept_by(plan: PrunePlan) -> list[int]:
    """Return the n of what stays, newest first."""
    return [decision.checkpoint.n for decision in plan.kept]


def plan(infos: list[CheckpointInfo], *, needs: Needs | None = None, **config: Any) -> PrunePlan:
    """Decide about a run that has ended, unless the needs say otherwise."""
    return decide(infos, CheckpointConfig(**config), needs or Needs(ended=True), NOW)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, [5, 4, 3, 2, 1]),
        ({"keep": 1}, [5]),
        ({"keep": 3}, [5, 4, 3]),
        ({"keep": 9}, [5, 4, 3, 2, 1]),
        ({"keep_age": timedelta(hours=97)}, [5, 4, 3]),
        ({"keep_bytes": 250}, [5, 4]),
        ({"keep_bytes": 1}, [5]),
        ({"keep": 4, "keep_bytes": 350, "keep_age": timedelta(days=40)}, [5, 4, 3]),
    ],
)
def test_the_limits_say_what_stays(config: dict[str, Any], expected: list[int]) -> None:
    assert kept_by(plan(history(5), **config)) == expected


def test_every_decision_says_why() -> None:
    infos = history(6, c4={"label": "audit"}, c3={"reason": Reason.PAUSE})
    found = plan(infos, needs=Needs(ended=True, origins=frozenset({CheckpointId("c2")})), keep=2, keep_pauses=True)
    assert [(d.checkpoint.n, d.keep, d.why) for d in found.decisions] == [
        (6, True, "the newest: the run continues from it, and its requests are pending in it"),
        (5, True, "within the limits"),
        (4, True, "labelled 'audit'"),
        (3, True, "people were asked here"),
        (2, True, "another run was forked from it"),
        (1, False, "not among the newest 2"),
    ]


def test_every_limit_that_is_passed_is_named() -> None:
    found = plan(history(2), keep=1, keep_age=timedelta(hours=2), keep_bytes=150).removed
    assert [d.why for d in found] == [
        "not among the newest 1; older than 2:00:00; with it the newest are more than 150 bytes"
    ]


def test_labels_origins_and_pauses_go_if_the_policy_says_so() -> None:
    infos = history(4, c3={"label": "audit"}, c2={"reason": Reason.PAUSE})
    needs = Needs(ended=True, origins=frozenset({CheckpointId("c1")}))
    assert kept_by(plan(infos, needs=needs, keep=1, keep_labelled=False, keep_origins=False)) == [4]


def test_the_newest_good_one_stays_when_newer_ones_are_damaged() -> None:
    assert kept_by(plan(history(5, c5={"clean": False}, c4={"clean": False}), keep=1)) == [5, 3]


def test_a_run_that_has_not_ended_keeps_everything_if_the_policy_says_so() -> None:
    config: dict[str, Any] = {"keep": 1, "while_open": "keep"}
    assert kept_by(plan(history(3), needs=Needs(ended=False), **config)) == [3, 2, 1]
    assert kept_by(plan(history(3), needs=Needs(ended=True), **config)) == [3]


@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 10_000)), min_size=1, max_size=30),
    st.none() | st.integers(1, 5),
    st.none() | st.timedeltas(timedelta(seconds=1), timedelta(days=9)),
    st.none() | st.integers(1, 20_000),
    st.booleans(),
)
def test_whatever_the_policy_a_run_can_always_go_on(
    rows: list[tuple[bool, bool, int]], keep: Any, age: Any, size: Any, ended: bool
) -> None:
    count = len(rows)
    infos = [
        info(count - place, clean=clean, label="pin" if label else None, size=bytes_)
        for place, (clean, label, bytes_) in enumerate(rows)
    ]
    config = CheckpointConfig(keep=keep, keep_age=age, keep_bytes=size)
    found = decide(infos, config, Needs(ended=ended), NOW)
    assert [d.checkpoint for d in found.decisions] == infos
    stays = {d.checkpoint.id for d in found.kept}
    assert infos[0].id in stays
    assert {i.id for i in infos if i.label} <= stays
    assert all(i.id in stays for i in [next((i for i in infos if i.clean), infos[0])])


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"when": 0}, "when"),
        ({"when": "often"}, "when"),
        ({"keep": 0}, "keep"),
        ({"keep": "many"}, "keep"),
        ({"keep_age": timedelta()}, "keep_age"),
        ({"keep_bytes": 0}, "keep_bytes"),
        ({"while_open": "keep"}, "while_open"),
        ({"kept": 3}, "kept"),
        ({"when": True}, "when"),
        ({"keep": True}, "keep"),
        ({"keep": "3"}, "keep"),
        ({"keep_bytes": 2.0}, "keep_bytes"),
    ],
)
def test_a_contradiction_names_its_field(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidConfig, match=f"^{field}"):
        CheckpointConfig(**settings)


def test_a_policy_is_read_from_json() -> None:
    config = CheckpointConfig.read('{"keep": 50, "keep_age": "P30D", "when": 5}')
    assert config == CheckpointConfig(keep=50, keep_age=timedelta(days=30), when=5)
    assert CheckpointConfig.read(config.model_dump_json()) == config


@pytest.mark.parametrize("text", ["", "[]", "{", '"keep"', '{"keep": -1}'])
def test_what_is_no_policy_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfig):
        CheckpointConfig.read(text)


def test_presets_are_policies() -> None:
    assert CheckpointConfig.every_step() == CheckpointConfig()
    assert CheckpointConfig.pauses().when == "pause"
    assert CheckpointConfig.lean(7).keep == 7
    assert CheckpointConfig.dashboard().while_open == "keep"


PAGE = Path(__file__).parents[2] / "docs" / "checkpointing.md"


async def test_the_page_about_checkpointing_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "guide"}
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL), 1):
        code = compile(block, f"{PAGE.name} block {number}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if inspect.isawaitable(done := eval(code, names)):
            await done
    await names["storage"].aclose()
