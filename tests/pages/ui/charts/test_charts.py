"""Charts are data: what they draw, and what they say to those who do not see them."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from wfdash.web.pages.ui.charts import (
    HEIGHT,
    WIDTH,
    Cell,
    Series,
    bar_chart,
    line_chart,
    nice_count,
    nice_seconds,
    share,
    sparkline,
)

COUNTS = st.lists(st.integers(min_value=0, max_value=10**9), min_size=1, max_size=40)
SECONDS = st.lists(st.none() | st.floats(min_value=1e-4, max_value=1e8), min_size=1, max_size=40)


@given(COUNTS)
def test_bars_stay_within_their_drawing_and_say_what_they_stand_for(counts: list[int]) -> None:
    links = [f"/{n}" for n in range(len(counts))]
    series = [Series(name="Started", counts=counts, links=links)]
    chart = bar_chart("started", "Started", series, [f"d{n}" for n in range(len(counts))], to="/*")
    (_, rest), *bars = chart.paths
    assert rest.count("M") == len(counts)
    ends = [tuple(map(float, end)) for _, path in bars for end in re.findall(r"M([0-9.]+) 95V([0-9.]+)", path)]
    assert len(ends) == sum(map(bool, counts))
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in ends)
    assert [chart.row_of(n)[1] for n in range(len(counts))] == [
        (Cell(text=f"{count:,}", href=f"/{n}" if count else ""),) for n, count in enumerate(counts)
    ]
    assert chart.said == tuple(f"{count:,}" if count else "" for count in counts)
    assert (chart.total, chart.to) == (f"{sum(counts):,}", "/*" if any(counts) else "")


@given(SECONDS)
def test_lines_stay_within_their_drawing_and_break_where_nothing_was_measured(values: list[float | None]) -> None:
    chart = line_chart("run", "Runs", [("half", "half", values)], [f"d{n}" for n in range(len(values))])
    (_, path), (_, dots) = chart.paths
    known = [value for value in values if value is not None]
    points = [tuple(map(float, point)) for point in re.findall(r"[ML]([0-9.]+) ([0-9.]+)", path)]
    assert len(points) == len(known)
    assert all(0 <= y <= HEIGHT and 0 <= x <= WIDTH for x, y in points)
    starts = sum(value is not None and (n == 0 or values[n - 1] is None) for n, value in enumerate(values))
    assert path.count("M") == starts
    alone = [
        n
        for n, value in enumerate(values)
        if value is not None and {None} == {*values[max(n - 1, 0) : n], *values[n + 1 : n + 2], None}
    ]
    assert dots.count("M") == len(alone)
    assert chart.table.count("<tr>") == len(values)
    assert chart.summary.startswith("half from" if known else "No data")


@given(st.floats(min_value=0, max_value=1e12))
def test_an_axis_ends_at_a_round_number_not_below_what_it_shows(most: float) -> None:
    assert nice_count(most) >= most
    assert nice_count(most) % 2 == 0
    assert nice_seconds(most) >= most
    assert nice_count(most) <= max(2.5 * most, 2)


def test_no_value_that_is_one_gets_a_bar_too_short_to_be_seen() -> None:
    assert [share(value, 1_000_000) for value in (0, None, 1, 1_000_000)] == [0, 0, 6, WIDTH]
    assert share(5, 0) == share(5, None) == 0


def test_the_same_bars_are_told_in_a_sentence() -> None:
    chart = bar_chart("failed", "Failed", [Series(name="Failed", counts=[1, 7, 2])], ["Mon", "Tue", "Wed"])
    assert chart.summary == "10 in total, peak at Tue: 7"
    assert chart.axis == ("8", "4", "0")
    none = bar_chart("failed", "Failed", [Series(name="Failed", counts=[0])], ["Mon"], href="/all")
    assert (none.summary, none.href, len(none.paths)) == ("None in this period", "", 1)


def test_the_parts_of_a_bar_lie_on_each_other_and_are_named_in_its_text() -> None:
    parts = [Series(name="Approved", counts=[3, 0], style="a"), Series(name="Rejected", counts=[1, 0], style="b")]
    chart = bar_chart("gate", "Review", parts, ["Mon", "Tue"], links=["/mon", "/tue"])
    assert (chart.said, chart.row_of(0)[0], chart.row_of(1)[0]) == (("approved 3, rejected 1", ""), "/mon", "")
    assert chart.paths[1:] == (("bar b", "M250 95V5"), ("bar a", "M250 95V27.5"))
    assert [one.name for one in chart.keys] == ["Approved", "Rejected"]


def test_a_slot_of_a_line_leads_somewhere_only_where_something_was_measured() -> None:
    lines = [("median", "half", [1.0, None]), ("p95", "most", [2.0, None])]
    chart = line_chart("run", "Runs", lines, ["Mon", "Tue"], links=["/mon", "/tue"])
    assert (chart.said, [chart.row_of(n)[0] for n in (0, 1)]) == (("median 1 s, p95 2 s", ""), ["/mon", ""])


def test_a_sparkline_has_a_bar_for_each_value_and_says_it_under_the_pointer() -> None:
    drawn = sparkline("5 <runs>", (0, 4, 1), ("1:00", "2:00: 4 & 1 failed", "3:00: 1"), bad=(0, 1, 0))
    assert 'aria-label="5 &lt;runs&gt;"' in drawn
    assert 'class="spark-all" d="M7.5 18.5V1.50M12.5 18.5V14.25"' in drawn
    assert 'class="spark-bad" d="M7.5 18.5V14.25"' in drawn
    assert drawn.count("<title>") == 2
    assert "2:00: 4 &amp; 1 failed" in drawn
    assert "spark-all" not in sparkline("None", (0, 0), ("a", "b"))
