"""Bars per step, from what the steps did."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from wfdash.contract import EdgeInfo
from wfdash.pages.runs.intervals import union
from wfdash.pages.runs.timeline import MAX_ROWS, MIN_WINDOW, WIDTH, timeline, window_of
from wfdash.pages.ui.graph import travelled
from wfdash.queries import StepTransition

BEGIN = datetime(2026, 11, 21, 6, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def move(step: str, state: str, seconds: float = 0, activation: str = "1") -> StepTransition:
    return StepTransition(step=step, activation=activation, state=state, at=at(seconds))


def test_a_run_that_did_nothing_has_no_timeline() -> None:
    assert timeline([], at(0)) is None


def test_each_step_has_a_row_with_what_it_did_and_for_how_long() -> None:
    moves = [
        move("try_out", "running", 0),
        move("try_out", "done", 10),
        move("part/review", "running", 10),
        move("part/review", "waiting", 20),
        move("part/review", "done", 100),
    ]
    drawn = timeline(moves, at(100), {"try_out": "Try it"})
    assert drawn is not None
    assert [(row.title, row.busy) for row in drawn.rows] == [("Try it", "10 s"), ("Review", "1 min 30 s")]
    assert drawn.rows[1].words == "Waiting for people 1 min 20 s, Running 10 s"
    assert [(bar.state, bar.x, bar.width) for bar in drawn.rows[1].bars] == [
        ("waiting", 200, 800),
        ("running", 100, 100),
    ]
    assert [after for _, after in drawn.ticks] == ["0", "+25 s", "+50 s", "+1 min 15 s", "+1 min 40 s"]
    assert [clock for clock, _ in drawn.ticks][:2] == ["06:00:00", "06:00:25"]
    assert drawn.keys == (("running", "Running"), ("waiting", "Waiting for people"))


def test_what_goes_on_is_drawn_up_to_now_and_failures_are_marked() -> None:
    drawn = timeline([move("a", "running", 0), move("a", "failed", 5), move("b", "running", 5)], at(10))
    assert drawn is not None
    assert drawn.rows[0].words == "Running 5.0 s, failed"
    assert drawn.rows[1].bars[0].width == WIDTH / 2


def test_many_activations_at_once_are_few_bars_and_no_time_counts_twice() -> None:
    moves = [
        move("map", state, n / 1000 + add, str(n)) for n in range(500) for state, add in (("running", 0), ("done", 2))
    ]
    drawn = timeline(sorted(moves, key=lambda one: one.at), at(3))
    assert drawn is not None
    assert len(drawn.rows[0].bars) == 1
    assert drawn.rows[0].busy == "2.5 s"


def test_a_part_of_the_time_can_be_looked_at_and_nothing_outside_of_it_is_drawn() -> None:
    moves = [move("a", "running", 0), move("a", "done", 10), move("b", "running", 10), move("b", "done", 100)]
    drawn = timeline(moves, at(100), shown=(20, 60))
    assert drawn is not None
    assert [(row.step, row.busy) for row in drawn.rows] == [("b", "40 s")]
    assert drawn.rows[0].bars[0].width == WIDTH
    assert (drawn.window.closer, drawn.window.farther) == ((30, 50), (0, 80))
    assert (drawn.window.moved(1), drawn.window.moved(-1)) == ((40, 80), (0, 40))


@given(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), st.floats(MIN_WINDOW, 1e5))
def test_whatever_is_asked_for_the_window_lies_within_the_whole(shown: tuple[float, float], whole: float) -> None:
    window = window_of(shown, whole)
    for low, high in ((window.low, window.high), window.closer, window.farther, window.moved(1), window.moved(-1)):
        assert -1e-6 <= low < high <= whole + 1e-6


def test_the_activations_of_a_step_have_rows_of_their_own() -> None:
    moves = [move("map", state, n, str(n)) for n in range(3) for state in ("running", "waiting")]
    drawn = timeline([*moves, move("other", "running", 1)], at(10), {"1": "Item 1", "2": "Item 2"}, apart="map")
    assert drawn is not None
    assert [row.step for row in drawn.rows] == ["1", "2"]
    assert drawn.rows[0].title == "Item 1"


def test_more_steps_than_fit_are_counted() -> None:
    drawn = timeline([move(f"s{n}", "running", n) for n in range(MAX_ROWS + 3)], at(100))
    assert drawn is not None
    assert drawn.left_out == 3
    assert all(bar.x >= 0 and bar.x + bar.width <= WIDTH + 0.01 for row in drawn.rows for bar in row.bars)


def test_stretches_that_touch_are_one() -> None:
    assert union([(at(3), at(4)), (at(0), at(1)), (at(1), at(2))]) == [(at(0), at(2)), (at(3), at(4))]


def test_only_the_arrows_a_run_went_along_are_taken() -> None:
    edges = [EdgeInfo(source=a, target=b) for a, b in (("try", "report"), ("try", "review"), ("review", "report"))]
    moves = [move("try", "running"), move("try", "done"), move("review", "running")]
    assert travelled(edges, moves) == {("try", "review")}
    moves += [move("review", "done"), move("report", "running")]
    assert travelled(edges, moves) == {("try", "review"), ("review", "report")}


def test_where_arrows_meet_all_of_them_were_taken() -> None:
    edges = [EdgeInfo(source="a", target="c", kind="join"), EdgeInfo(source="b", target="c", kind="join")]
    moves = [move("a", "done"), move("b", "done"), move("c", "running")]
    assert travelled(edges, moves) == {("a", "c"), ("b", "c")}
