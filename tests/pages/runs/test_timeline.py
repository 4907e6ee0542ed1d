"""Bars per step, from what the steps did."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from wfdash.contract import EdgeInfo
from wfdash.queries.step_states import StepTransition
from wfdash.web.pages.runs.timeline import (
    FOLDED_FROM,
    MAX_ROWS,
    MOST_FOLDS,
    WIDTH,
    Fold,
    folded,
    intervals_by_state,
    timeline,
    to_scale,
    union,
)
from wfdash.web.pages.ui.graph import travelled

BEGIN = datetime(2026, 11, 21, 6, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def move(step: str, state: str, seconds: float = 0, activation: str = "1") -> StepTransition:
    return StepTransition(step=step, activation=activation, state=state, at=at(seconds))


def story(step: str, *then: tuple[str, float]) -> list[StepTransition]:
    """The states of one step, each with its second."""
    return [move(step, state, seconds) for state, seconds in then]


def test_a_run_that_did_nothing_has_no_timeline() -> None:
    assert timeline([], at(0)) is None


def test_each_step_has_a_row_with_what_it_did_and_for_how_long() -> None:
    moves = [
        *story("try_out", ("running", 0), ("done", 10)),
        *story("part/review", ("running", 10), ("waiting", 20), ("done", 100)),
    ]
    drawn = timeline(moves, at(100), {"try_out": "Try it"})
    assert drawn is not None
    assert [(row.title, row.busy) for row in drawn.rows] == [("Try it", "10 s"), ("Review", "1 min 30 s")]
    assert drawn.rows[1].words == "Waiting for people 1 min 20 s, Running 10 s"
    assert [(bar.state, bar.x, bar.width) for bar in drawn.rows[1].bars] == [
        ("waiting", 200, 800),
        ("running", 100, 100),
    ]
    assert [tick.below for tick in drawn.ticks] == ["0", "+25 s", "+50 s", "+1 min 15 s", "+1 min 40 s"]
    assert [tick.words for tick in drawn.ticks][:2] == ["06:00:00", "06:00:25"]
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


SPANS = st.lists(st.tuples(st.floats(0, 1e5), st.floats(0, 1e4)), min_size=1, max_size=30)


def asked(spans: list[tuple[float, float]]) -> list[StepTransition]:
    """Return steps that run at these times, and wait for people in between."""
    moves = []
    for n, (begin, lasts) in enumerate(spans):
        moves += [move(f"s{n % 5}", "running", begin, str(n)), move(f"s{n % 5}", "waiting", begin + lasts, str(n))]
    return sorted(moves, key=lambda one: one.at)


@given(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), SPANS, st.booleans())
def test_whatever_is_asked_for_the_window_lies_within_the_whole(
    shown: tuple[float, float], spans: list[tuple[float, float]], fold: bool
) -> None:
    drawn = timeline(asked(spans), at(2e5), shown=shown, fold=fold)
    assert drawn is not None
    window = drawn.window
    for low, high in ((window.low, window.high), window.closer, window.farther, window.moved(1), window.moved(-1)):
        assert -1e-6 <= low < high <= window.whole + 1e-6


@given(SPANS, st.tuples(st.floats(0, 2e5), st.floats(0, 2e5)))
def test_the_axis_keeps_the_order_of_times_and_leads_back_to_them(
    spans: list[tuple[float, float]], shown: tuple[float, float]
) -> None:
    drawn = timeline(asked(spans), at(2e5), shown=sorted(shown), fold=True)
    assert drawn is not None
    axis = drawn.axis
    places = [axis.place(axis.seconds[0] + (axis.seconds[-1] - axis.seconds[0]) * n / 50) for n in range(51)]
    assert places == sorted(places)
    assert (axis.place(axis.seconds[0]), axis.place(axis.seconds[-1])) == (0, WIDTH)
    assert len(axis.folds) <= MOST_FOLDS
    assert all(abs(axis.time(axis.place(at)) - at) < 1e-3 for at in axis.seconds)
    for row in drawn.rows:
        assert all(bar.x >= 0 and bar.x + bar.width <= WIDTH + 0.02 for bar in row.bars)
    for texts in (drawn.ticks, drawn.texts):
        assert [text.x for text in texts] == sorted(text.x for text in texts)


def test_waiting_is_folded_so_that_steps_of_milliseconds_are_seen() -> None:
    moves = [
        *story("build", ("running", 0), ("done", 0.555)),
        *story("approve", ("running", 0.6), ("waiting", 0.61), ("done", 2700.61)),
        *story("deploy", ("running", 2700.61), ("done", 2701.2)),
    ]
    drawn = timeline(moves, at(2701.2), fold=True)
    assert drawn is not None
    build, approve, deploy = drawn.rows
    assert build.bars[0].width > 150
    assert deploy.bars[0].width > 150
    waiting = next(bar for bar in approve.bars if bar.state == "waiting")
    assert (waiting.thin, waiting.words) == (True, "waiting for 45 min")
    assert waiting.width > 500, "it waited for most of its time"
    assert [text.words for text in drawn.texts] == ["45 min waiting"]
    assert [(tick.words, tick.below) for tick in drawn.ticks] == [
        ("06:00:00.000", "0"),
        ("06:45:01.200", "+45 min 1 s"),
    ]
    assert "folded: 45 min waiting" in drawn.summary
    wall = timeline(moves, at(2701.2))
    assert wall is not None
    assert wall.foldable
    assert (wall.axis.folds, wall.texts) == ((), ())
    assert wall.rows[0].bars[0].width < 10


def test_what_leaves_the_rest_legible_is_not_folded() -> None:
    moves = [move("a", "running", 0), move("a", "retrying", 100), move("a", "running", 120), move("a", "done", 200)]
    drawn = timeline(moves, at(200), fold=True)
    assert drawn is not None
    assert not drawn.foldable
    short = story("a", ("running", 0), ("retrying", 0.01), ("running", FOLDED_FROM), ("done", 1.1))
    assert not timeline(short, at(1.1), fold=True).foldable  # type: ignore[union-attr]


def test_a_window_within_a_fold_is_drawn_to_scale() -> None:
    folds = [Fold(low=10, high=1000, word="waiting")]
    assert folded(20, 40, folds) == to_scale(20, 40)
    assert folded(5, 40, folds).place(10) == WIDTH - 640
    assert folded(0, 2000, folds).folds == tuple(folds)


def test_a_fold_that_still_grows_is_counted_on() -> None:
    moves = [move("ask", "running", 0), move("ask", "waiting", 1)]
    drawn = timeline(moves, at(61), fold=True)
    assert drawn is not None
    (text,) = drawn.texts
    assert (text.words, text.growing, text.rest) == ("1 min waiting", timedelta(seconds=60), " waiting")


def test_what_a_run_does_in_a_fold_is_said_and_the_wait_of_a_person_comes_first() -> None:
    moves = [
        *story("a", ("running", 0), ("sleeping", 1), ("done", 100)),
        *story("b", ("running", 500), ("done", 501)),
        *story("c", ("running", 501), ("sleeping", 502)),
        *story("d", ("running", 502), ("waiting", 503)),
    ]
    drawn = timeline(moves, at(4000), fold=True)
    assert drawn is not None
    assert [fold.word for fold in drawn.axis.folds] == ["idle", "waiting"]
    known = intervals_by_state(moves, at(4000))
    alone = timeline([*moves], at(4000), {"1": "Item 1"}, apart="b", known=known, fold=True)
    assert alone is not None
    assert [fold.word for fold in alone.axis.folds] == ["idle", "waiting"], "what the run did, not the step"
    assert len(timeline([*moves[:2], move("a", "done", 90), move("b", "running", 90)], at(91), fold=True).texts) == 1  # type: ignore[union-attr]


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
