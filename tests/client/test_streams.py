from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.client.serving import Cut, Served, event_record, problem
from wfdash.client import NotAllowed, Unauthorized, Unreachable
from wfdash.client.client import LineSplitter

STREAM = {"content-type": "text/event-stream; charset=utf-8"}


@pytest.fixture(autouse=True, scope="module")
def naps() -> Iterator[list[float]]:
    slept: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wfdash.client.client.time.sleep", slept.append)
        patch.setattr("wfdash.client.client.time.monotonic", lambda: sum(slept))
        yield slept


def message(seq: int) -> str:
    return f"id: {seq}\nevent: step.finished\ndata: {json.dumps(event_record(seq))}\n\n"


def text(after: int, last: int) -> str:
    """Return a stream of everything after a number, with a heartbeat and something without a place between."""
    rest = [f": still here\n\n{message(seq)}event: text\ndata: 1\n\n" for seq in range(after + 1, last + 1)]
    return f"retry: 1000\n\n{''.join(rest)}event: end\ndata: {{}}\n\n"


class Stream:
    """Serves events 1 to ``last``, and cuts each answer where it is told to."""

    def __init__(self, last: int, cuts: list[tuple[int, bool]]) -> None:
        self.last, self.cuts, self.asked = last, cuts, []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        after = int(request.headers.get("last-event-id") or 0)
        self.asked.append(after)
        return self.cut(text(after, self.last).encode())

    def cut(self, body: bytes) -> httpx.Response:
        at, broken = self.cuts.pop(0) if self.cuts else (len(body), False)
        return httpx.Response(200, headers=STREAM, stream=Cut(body, at % (len(body) + 1), broken=broken))


def seqs(served: object, **more: int) -> list[int]:
    with Served(served).client() as client:
        return [event.seq for event in client.watch("r1", **more)]


def of_workflow(place: int) -> dict[str, object]:
    return {**event_record(place), "run": "r1", "cursor": f"c{place}"}


class Workflow(Stream):
    """Serves the events of a workflow from a cursor on, a heartbeat with an id behind each, and cuts each answer."""

    def __call__(self, request: httpx.Request) -> httpx.Response:
        cursor = request.headers.get("last-event-id", "c0")
        self.asked.append(cursor)
        events = [
            f"id: c{n}\nevent: step.finished\ndata: {json.dumps(of_workflow(n))}\n\n:\nid: c{n}.\n\n"
            for n in range(int(cursor.strip("c.")) + 1, self.last + 1)
        ]
        return self.cut(f"retry: 1000\n\n:\nid: {cursor}\n\n{''.join(events)}".encode())


@given(st.lists(st.tuples(st.integers(0, 2000), st.booleans()), max_size=6))
def test_wherever_it_is_cut_every_event_of_a_workflow_comes_once(cuts: list[tuple[int, bool]]) -> None:
    served = Workflow(5, cuts)
    with Served(served).client() as client:
        found = list(itertools.islice(client.watch_workflow("w", after="c0"), 5))
    assert [event.cursor for event in found] == ["c1", "c2", "c3", "c4", "c5"]
    assert served.asked[0] == "c0"


def test_a_heartbeat_of_a_workflow_s_stream_moves_the_cursor() -> None:
    silent = httpx.Response(200, headers=STREAM, text="retry: 1000\n\n:\nid: c7\n\n")
    served = Served(silent, problem(403, "not_allowed"))
    with served.client() as client, pytest.raises(NotAllowed):
        next(client.watch_workflow("w", after="now"))
    assert [request.headers["last-event-id"] for request in served.got] == ["now", "c7"]


def test_pages_of_a_workflow_are_read_on_where_one_is_empty() -> None:
    pages = [
        {"items": [of_workflow(1)], "next": "c1", "more": True},
        {"items": [], "next": "c9", "more": True},
        {"items": [of_workflow(10)], "next": "c10", "more": False},
    ]
    served = Served(*(httpx.Response(200, json=page) for page in pages))
    with served.client() as client:
        assert [event.cursor for event in client.workflow_events("w")] == ["c1", "c10"]
    assert [request.url.params.get("after") for request in served.got] == [None, "c1", "c9"]


@given(st.lists(st.tuples(st.integers(0, 2000), st.booleans()), max_size=6))
def test_wherever_the_connection_is_cut_every_event_comes_once_and_in_order(cuts: list[tuple[int, bool]]) -> None:
    assert seqs(Stream(5, cuts)) == [1, 2, 3, 4, 5]


def test_a_watch_may_begin_behind_an_event() -> None:
    assert seqs(Stream(5, []), after=3) == [4, 5]


def test_a_watch_ends_where_the_token_is_revoked_in_the_meantime() -> None:
    served = Served(Stream(3, [(300, True)]), problem(401, "unauthenticated"))
    with served.client() as client, pytest.raises(Unauthorized):
        list(client.watch("r1"))


def test_a_watch_gives_up_after_its_patience() -> None:
    served = Served(Stream(3, [(300, True)]), httpx.ConnectError("refused"))
    with served.client() as client, pytest.raises(Unreachable):
        list(client.watch("r1", patience=2))


def page(request: httpx.Request) -> httpx.Response:
    """Serve pages of two events, up to the fifth, to a client that would rather have a stream."""
    after = int(request.url.params.get("after") or 0)
    found = list(range(after + 1, min(after + 3, 6)))
    items = [event_record(seq) for seq in found]
    return httpx.Response(200, json={"items": items, "next": found[-1] if found else after, "ended": after >= 4})


def test_a_server_without_streams_is_read_page_by_page() -> None:
    assert seqs(page) == [1, 2, 3, 4, 5]


async def test_an_asynchronous_watch_brings_the_same() -> None:
    served = Served(httpx.Response(200, headers=STREAM, text=text(0, 4)))
    async with served.async_client() as client:
        assert [event.seq async for event in client.watch("r1")] == [1, 2, 3, 4]


def test_what_a_stream_leaves_out_is_read_from_the_pages() -> None:
    def serve(request: httpx.Request) -> httpx.Response:
        if "text/event-stream" not in request.headers["accept"]:
            return page(request)
        return httpx.Response(200, headers=STREAM, text=f'event: snapshot\ndata: {{"seq": 3}}\n\n{text(3, 5)}')

    assert seqs(serve) == [1, 2, 3, 4, 5]


def test_a_stream_that_ends_because_of_ones_rights_is_an_error_and_one_that_broke_is_opened_again() -> None:
    def refused(status: int, code: str) -> httpx.Response:
        facts = json.dumps({"status": status, "code": code, "title": code})
        return httpx.Response(200, headers=STREAM, text=f"{message(1)}event: problem\ndata: {facts}\n\n")

    with Served(refused(403, "not_allowed")).client() as client, pytest.raises(NotAllowed):
        list(client.watch("r1"))
    assert seqs(Served(refused(500, "server_error"), Stream(3, []))) == [1, 2, 3]


def test_a_server_that_cannot_stream_is_read_page_by_page() -> None:
    assert seqs(Served(problem(501, "unsupported"), page, page, page, page)) == [1, 2, 3, 4, 5]


@given(st.lists(st.text()), st.lists(st.integers(0, 400)), st.sampled_from(["\n", "\r\n", "\r"]))
def test_only_line_ends_end_a_line_wherever_it_is_cut(lines: list[str], cuts: list[int], end: str) -> None:
    lines = [line.replace("\r", "").replace("\n", "") for line in lines]
    text = "".join(f"{line}{end}" for line in lines).encode("utf-8", "replace")
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    splitter = LineSplitter()
    found = [line for a, b in itertools.pairwise(places) for line in splitter.feed(text[a:b])]
    assert found == [line.encode("utf-8", "replace").decode() for line in lines]


def test_what_people_wrote_may_hold_characters_that_other_texts_end_lines_with() -> None:
    item = json.dumps(event_record(1) | {"step": "a\u2028b\x85c"}, ensure_ascii=False)
    body = f"id: 1\nevent: step.finished\ndata: {item}\n\nevent: end\ndata: {{}}\n\n"
    with Served(httpx.Response(200, headers=STREAM, text=body)).client() as client:
        assert [event.step for event in client.watch("r1")] == ["a\u2028b\x85c"]
