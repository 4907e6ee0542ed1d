"""Records that this code itself makes are what checked ones would be."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from checkpoints.events import EventKind
from checkpoints.ids import CheckpointId, RunId, WorkflowId
from checkpoints.records import Checkpoint, Commit, EventDraft

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
FACTS = {"run": RunId("r"), "n": 1, "version": "v", "created": NOW, "body": {"state": {}}}


def checkpoint() -> Checkpoint:
    return Checkpoint.trusted(id=CheckpointId("c"), workflow=WorkflowId("w"), **FACTS)


def test_a_trusted_record_equals_the_checked_one() -> None:
    one, other = checkpoint(), Checkpoint(id=CheckpointId("c"), workflow=WorkflowId("w"), **FACTS)
    assert one == other
    assert one.model_dump_json() == other.model_dump_json()
    assert one.model_fields_set == other.model_fields_set
    assert pickle.loads(pickle.dumps(one)) == other
    assert one.model_copy(update={"n": 2}) == other.model_copy(update={"n": 2})


def test_a_trusted_record_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        checkpoint().n = 2


def test_trusted_records_share_no_default_that_can_be_changed() -> None:
    one, other = checkpoint(), checkpoint()
    one.facts["cost"] = 1
    assert other.facts == {}
    assert Commit.trusted(run=RunId("r")) == Commit(run=RunId("r"))


def test_an_event_of_a_foreign_step_name_or_time_is_checked() -> None:
    assert EventKind.STEP_STARTED.draft("s", activation="1") == EventDraft(
        kind="step.started", step="s", data={"activation": "1"}
    )
    with pytest.raises(ValidationError, match="step"):
        EventKind.STEP_STARTED.draft(7, activation="1")  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="at"):
        EventKind.STEP_STARTED.draft_of("s", {}, datetime(2026, 11, 23))
