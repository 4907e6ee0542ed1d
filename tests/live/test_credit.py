from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wfdash.web.live.database import Limits
from wfdash.web.live.sockets import Credit

LIMITS = Limits(
    unacked_events=10, unacked_bytes=1_000, batch_events=4, batch_bytes=500, ack_timeout=60, unheard_text=50
)


def credit() -> Credit:
    return Credit(LIMITS, now=0)


def test_a_message_is_bounded_in_events_and_bytes() -> None:
    assert credit().fit([1] * 9) == 4
    assert credit().fit([200, 200, 200]) == 2
    assert credit().fit([]) == 0


def test_one_event_larger_than_all_limits_still_goes_alone() -> None:
    owing = credit()
    assert owing.fit([5_000]) == 1
    owing.send(1, [5_000], now=0)
    assert owing.full()
    assert owing.fit([1]) == 0
    owing.ack(1, now=0)
    assert owing.fit([1]) == 1


def test_acknowledging_in_the_middle_frees_that_much() -> None:
    owing = credit()
    owing.send(1, [1] * 10, now=0)
    assert owing.full()
    owing.ack(3, now=0)
    assert owing.fit([1] * 9) == 3


def test_only_a_debt_without_payment_is_overdue() -> None:
    owing = credit()
    assert not owing.overdue(now=1_000)
    owing.send(1, [1, 1], now=1_000)
    assert not owing.overdue(now=1_060)
    assert owing.overdue(now=1_061)
    owing.ack(1, now=1_061)
    assert not owing.overdue(now=1_100)
    owing.ack(1, now=1_120)
    assert owing.overdue(now=1_122)
    owing.ack(2, now=1_122)
    assert not owing.overdue(now=9_999)


def test_text_is_dropped_until_the_client_is_heard_again() -> None:
    owing = credit()
    assert owing.take_text(50)
    assert not owing.take_text(1)
    owing.ack(0, now=0)
    assert owing.take_text(1)


@given(st.lists(st.tuples(st.lists(st.integers(1, 400), max_size=12), st.integers(0, 12)), max_size=30))
def test_no_order_of_sending_and_acknowledging_owes_more_than_the_limits(moves: list[tuple[list[int], int]]) -> None:
    owing, owed, seq = credit(), {}, 0
    for sizes, paid in moves:
        sent = sizes[: owing.fit(sizes)]
        seqs = range(seq + 1, seq + 1 + len(sent))
        seq += len(sent)
        owing.send(seqs.start, sent, now=0)
        owed |= dict(zip(seqs, sent, strict=True))
        assert len(owed) <= LIMITS.unacked_events
        assert sum(owed.values()) <= LIMITS.unacked_bytes
        upto = max(seq - paid, 0)
        owing.ack(upto, now=0)
        owed = {number: size for number, size in owed.items() if number > upto}
