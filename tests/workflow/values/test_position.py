"""The stored keys of a position are pinned: a database of an earlier version holds them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, NotRequired, get_origin, get_type_hints

import pytest

from checkpoints.records import Checkpoint
from tests.workflow.test_cut_anywhere import BLOCKS, Witness, make, play
from wfdash.workflow.reducer.moment import new_moment
from wfdash.workflow.stored import (
    Activation,
    GroupState,
    JoinState,
    JournalEntry,
    Position,
    RecordedAnswer,
    RecordedError,
    StoredTranscript,
    position_in,
    unsure_calls,
)

STORED = {
    Position: "next v live joins asked outputs loose since past wrote levels labels transcripts",
    Activation: "step message scope journal rounds born attempt attempts retry_at queued parked called",
    JournalEntry: "k name t o again request prints seen renewed answer once schema args at differed result raised"
    " failed unknown stopped until label done",
    RecordedAnswer: "value by at n acting_for others lapsed",
    RecordedError: "type args facts at",
    JoinState: "t scope turn got rounds fired",
    StoredTranscript: "step messages",
    GroupState: "t scope group got rounds loose",
}
KEPT = Path(__file__).parent / "positions.json"
"""Checkpoints in the middle of every kind of block, as version 0.1.0 wrote them. Never written again."""


@pytest.mark.parametrize("kind", STORED, ids=lambda kind: kind.__name__)
def test_the_stored_keys_are_the_ones_that_databases_hold(kind: Any):
    assert set(kind.__annotations__) == set(STORED[kind].split())


def keys_fit(value: dict[str, Any], kind: Any) -> None:
    hints = get_type_hints(kind, include_extras=True)
    assert value.keys() <= hints.keys()
    assert {key for key, hint in hints.items() if get_origin(hint) is not NotRequired} <= value.keys()


def check_keys(position: Any) -> None:
    keys_fit(position, Position)
    for record in position["live"].values():
        keys_fit(record, Activation)
        for entry in record["journal"]:
            keys_fit(entry, JournalEntry)
    for entry in position["joins"].values():
        keys_fit(entry, GroupState if "group" in entry else JoinState)


def test_every_checkpoint_of_a_run_with_every_kind_of_block_has_these_keys_alone():
    seen: list[Checkpoint] = []
    for cuts in ([], [9, 3], [14]):
        witness = Witness()
        seen += asyncio.run(play(make(list(BLOCKS), witness), {"message": 3}, cuts, witness.truth))[1]
    for checkpoint in seen:
        check_keys(checkpoint.body["position"])
        assert position_in(checkpoint.body) is checkpoint.body["position"]


@pytest.mark.parametrize("n", range(7))
def test_a_checkpoint_that_was_stored_before_is_carried_on_to_the_same_end(n: int):
    kept = Checkpoint.model_validate(json.loads(KEPT.read_text())[n])
    check_keys(kept.body["position"])
    wf, witness = make(list(BLOCKS), Witness()), Witness()
    output, _, _ = asyncio.run(play(wf, {"checkpoint": kept}, [], _truth))
    expected, _, _ = asyncio.run(play(make(list(BLOCKS), witness), {"message": 3}, [], witness.truth))
    assert output == expected


def _truth(request: Any) -> Any:
    return 2 if request.kind != "effect" else {"action": "again"}


def test_a_position_before_the_start_has_every_key_but_those_of_sub_workflows():
    check_keys(new_moment().position)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"position": None},
        {"position": {"at": "second"}},
        {"position": {"live": [1]}},
        {"position": {"live": {"1": {"step": "a"}}}},
    ],
)
def test_a_body_of_another_engine_has_no_position_here(body: dict[str, Any]):
    assert position_in(body) is None


def test_a_call_is_unsure_until_it_has_a_result_or_the_run_was_stopped_for_it():
    journal: list[JournalEntry] = [
        {"k": "call", "name": "read"},
        {"k": "call", "name": "pay", "once": True, "unknown": True},
        {"k": "call", "name": "book", "once": True, "result": [None, 1]},
        {"k": "call", "name": "post", "once": True, "stopped": "ana"},
    ]
    record: Activation = {"step": "a", "message": [None, 1], "scope": "", "journal": journal}
    assert unsure_calls(record) == ["pay"]
