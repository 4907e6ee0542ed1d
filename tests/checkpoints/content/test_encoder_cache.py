from __future__ import annotations

from checkpoints.content.encoder import EncoderCache, encode
from checkpoints.ids import RunId, new_run_id
from checkpoints.records import Commit, Phase, Standing
from tests.conformance.worlds import checkpoint


def update(heads: EncoderCache, run: RunId, size: int = 10_000, **commit: object) -> None:
    """Have a checkpoint of about that size remembered."""
    made = checkpoint(run, body={"state": {"a": "x" * size, "b": "y"}})
    heads.update(Commit(run=run, checkpoint=made, **commit), encode({"body": made.body}))  # type: ignore[arg-type]


def test_the_run_written_longest_ago_is_forgotten_first() -> None:
    heads, runs = EncoderCache(runs=2), [new_run_id() for _ in range(3)]
    for run in (runs[0], runs[1], runs[0], runs[2]):
        update(heads, run)
    assert [heads.get(run) is None for run in runs] == [False, True, False]


def test_memory_is_bounded_by_bytes_too() -> None:
    heads, runs = EncoderCache(max_bytes=50_000), [new_run_id() for _ in range(10)]
    for run in runs:
        update(heads, run)
    assert len(heads) == 4
    update(heads, new_run_id(), size=60_000)
    assert len(heads) == 0


def test_small_content_is_not_remembered() -> None:
    heads, run = EncoderCache(), new_run_id()
    update(heads, run)
    update(heads, run, size=100)
    assert heads.get(run) is None


def test_a_run_that_is_let_go_of_is_forgotten() -> None:
    heads, run = EncoderCache(), new_run_id()
    update(heads, run)
    update(heads, run, standing=Standing(phase=Phase.WAITING))
    assert len(heads) == 0


def test_events_alone_change_nothing() -> None:
    heads, run = EncoderCache(), new_run_id()
    update(heads, run)
    heads.update(Commit(run=run), None)
    assert heads.get(run) is not None
