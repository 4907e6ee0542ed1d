from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from wfdash.web.live.feeds import EventBatch


@given(st.integers(1, 10_000), st.lists(st.integers(0, 99), min_size=1, max_size=9), st.data())
def test_the_first_so_many_are_one_message_that_ends_with_their_last(
    first: int, values: list[int], data: st.DataObject
) -> None:
    packet = EventBatch(first, [json.dumps({"seq": first + place, "v": v}) for place, v in enumerate(values)])
    count = data.draw(st.integers(1, len(values)))
    message = json.loads(packet.message(count))
    assert message["type"] == "events"
    assert [event["v"] for event in message["events"]] == values[:count]
    assert message["last"] == message["events"][-1]["seq"] == packet.last(count)
    assert packet.sizes[0] == len(json.dumps({"seq": first, "v": values[0]}))


def test_the_whole_is_put_together_once() -> None:
    packet = EventBatch(1, ["{}", "{}"])
    assert packet.message(2) is packet.message(2)
