from __future__ import annotations

from checkpoints.models import Event
from wfdash.web.live.feeds import CachedEvent, EventForm, RecentEvents, Style


def lines(*seqs: int, text: str = "x") -> list[CachedEvent]:
    return [CachedEvent(event=Event(seq=seq), texts={EventForm(Style.HTML, True): text}) for seq in seqs]


def seqs(found: list[CachedEvent]) -> list[int]:
    return [line.seq for line in found]


def test_gives_the_unbroken_row_after_a_cursor() -> None:
    window = RecentEvents(lines=10, chars=100)
    window.keep(lines(3, 4, 5, 7))
    assert seqs(window.after(2, 10)) == [3, 4, 5]
    assert seqs(window.after(2, 2)) == [3, 4]
    assert seqs(window.after(6, 10)) == [7]
    assert window.after(5, 10) == window.after(7, 10) == []


def test_the_oldest_go_first_whatever_order_they_came_in() -> None:
    window = RecentEvents(lines=3, chars=100)
    window.keep(lines(8, 9, 10))
    window.keep(lines(1, 2, 11))
    assert window.after(0, 10) == []
    assert seqs(window.after(8, 10)) == [9, 10, 11]


def test_is_bounded_in_size_too() -> None:
    window = RecentEvents(lines=100, chars=10)
    window.keep(lines(1, 2, 3, text="four"))
    assert seqs(window.after(1, 10)) == [2, 3]
    window.keep(lines(4, text="far too long for it"))
    assert window.after(3, 10) == []


def test_keeping_a_line_twice_keeps_the_first() -> None:
    window = RecentEvents(lines=100, chars=10)
    first, again = lines(1, text="four")[0], lines(1, text="four")[0]
    window.keep([first])
    window.keep([again])
    assert window.after(0, 1) == [first]
    window.keep(lines(2, text="four"))
    assert seqs(window.after(0, 10)) == [1, 2]
