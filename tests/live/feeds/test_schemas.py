"""The schemas of messages, as programs read them."""

from __future__ import annotations

import json

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, ValidationError

from checkpoints.events import STORED
from tests.live.feeds.schemas import check_socket, check_stream
from wfdash.web.live.feeds import EventBatch


def test_anyone_reads_them_without_a_token(client: Client, transactional_db: None) -> None:
    found = client.get("/api/v1/messages.json")
    assert found.status_code == 200
    document = found.json()
    Draft202012Validator.check_schema(document)
    assert (document["$id"], document["version"]) == ("urn:wfdash:messages:1", 1)
    assert document["kinds"].keys() == STORED.keys()
    assert {"1000", "4401", "4403", "4404", "4408", "4429"} <= document["closes"].keys()
    named = {one["$ref"] for group in ("streams", "sockets") for of in document[group].values() for one in of.values()}
    named |= {document["takes"]["$ref"], "#/$defs/EventRecord"}
    assert named == {f"#/$defs/{name}" for name in document["$defs"]}


def test_the_document_of_the_api_leads_to_them(client: Client, transactional_db: None) -> None:
    paths = client.get("/api/v1/openapi.json").json()["paths"]
    for path in "/api/v1/runs/{run_id}/events", "/api/v1/workflows/{name}/events":
        stream = paths[path]["get"]["responses"]["200"]["content"]["text/event-stream"]
        assert "/api/v1/messages.json" in stream["schema"]["description"]


def test_what_is_no_message_is_told_from_one() -> None:
    check_stream("/api/v1/runs/r1/events?after=1", {"event": "end", "data": {"seq": 1, "status": "failed"}})
    check_socket("/live/lists/?format=json", {"v": 1, "type": "changed", "what": ["runs"]})
    with pytest.raises(ValidationError):
        check_stream("/api/v1/runs/r1/events", {"event": "end", "data": {"seq": "1", "status": "failed"}})
    with pytest.raises(ValidationError):
        check_socket("/live/lists/", {"v": 2, "type": "changed", "what": ["runs"]})
    with pytest.raises(ValidationError):
        check_socket("/live/lists/", {"v": 1, "type": "changed", "what": ["runs"], "more": 1})


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
