"""What a worker replies is what the engine itself says, after it has crossed as JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from checkpoints.content.canonical_json import dumps, loads
from checkpoints.errors import Incompatible
from checkpoints.memory import MemoryStorage
from checkpoints.records import Checkpoint, Record
from tests.worker.graphs import chat, expense
from wfdash.contract import (
    ChecksAnswers,
    Continues,
    Edits,
    InvalidInput,
    LooksAhead,
    Migrates,
    NamesPeople,
    TakesEdits,
    TellsInFlight,
    Waiting,
)
from wfdash.engines.native import NativeEngine
from wfdash.engines.published import (
    ABILITIES,
    MOST_CODE,
    Published,
    WorkerReply,
    abilities_of,
    code_in,
    document_of,
    perform,
    published_engine,
    read_document,
    reply_with_code,
    result_of,
)
from wfdash.installation.workflow_sources import SourceFile
from wfdash.workflow import Workflow

NOW = datetime(2026, 1, 5, tzinfo=UTC)
ENGINE = NativeEngine()


def elsewhere(definition: Workflow) -> Any:
    """Return the engine of a process that has only what a worker publishes, and asks it."""
    described = ENGINE.describe(definition)
    full = Published(
        description=described, abilities=abilities_of(ENGINE), addressees=tuple(ENGINE.addressees(definition))
    )
    document, _ = document_of(full)

    def consult(workflow: str, version: str, ability: str, given: Record, *, required: bool) -> WorkerReply:
        assert (workflow, version) == (described.workflow, described.version)
        crossed = loads(dumps(given.model_dump(mode="json")))
        reply = perform(ENGINE, definition, ability, crossed)
        return WorkerReply.model_validate(loads(dumps(reply.model_dump(mode="json"))))

    return published_engine(read_document(document), described, consult)


async def waiting_at(definition: Workflow) -> Checkpoint:
    """Return the checkpoint at which a run of it waits for a person."""
    storage = MemoryStorage()
    outcome = await definition.run({"amount": 5}, storage=storage, run_id="r1")
    found = await storage.get_latest("r1")
    assert isinstance(outcome, Waiting)
    assert found is not None
    return found


async def test_what_is_asked_of_a_worker_is_what_the_engine_says() -> None:
    definition = expense(step="check", was=["review"])
    asked, found = elsewhere(definition), await waiting_at(definition)
    old = await waiting_at(expense())
    edits = Edits(messages={"2": {"amount": 7}}, state={"seen": 1})
    graph = ENGINE.describe(expense())
    for ability, *given in (
        ("check_input", {"amount": 5}),
        ("check_answer", found.requests[0], 7),
        ("in_flight", found),
        ("look_ahead", found, NOW),
        ("edit", found, edits),
        ("carry", old, graph),
        ("carry", old, None),
    ):
        assert getattr(asked, ability)(None, *given) == getattr(ENGINE, ability)(definition, *given), ability
    assert list(asked.addressees(None)) == ENGINE.addressees(definition)


async def test_a_refusal_of_the_engine_is_the_same_refusal_here() -> None:
    definition = expense(step="other")
    asked, found, old = elsewhere(definition), await waiting_at(definition), await waiting_at(expense())
    for ability, *given in (
        ("check_input", {"amount": "x"}),
        ("edit", found, Edits(messages={"2": {"amount": "x"}})),
        ("edit", found, Edits(messages={"77": 1})),
        ("edit", old, Edits(state={})),
        ("look_ahead", old, NOW),
        ("carry", old, None),
    ):
        with pytest.raises((InvalidInput, Incompatible)) as own:
            getattr(ENGINE, ability)(definition, *given)
        with pytest.raises(own.type) as theirs:
            getattr(asked, ability)(None, *given)
        assert (str(theirs.value), vars(theirs.value).get("errors")) == (str(own.value), vars(own.value).get("errors"))


async def test_a_follow_up_is_judged_by_the_code() -> None:
    definition, storage = chat(), MemoryStorage()
    await definition.run({"text": "one"}, storage=storage, run_id="r1")
    end = await storage.get_latest("r1")
    assert elsewhere(definition).check_follow_up(None, end, "two") == "two"
    with pytest.raises(InvalidInput):
        elsewhere(definition).check_follow_up(None, end, 2)
    with pytest.raises(Incompatible):
        elsewhere(expense()).check_follow_up(None, end, "two")


def test_a_newer_release_may_publish_more_than_this_one_reads() -> None:
    full = Published(description=ENGINE.describe(expense()), abilities=("edit",))
    document: Any = loads(dumps(full.model_dump(mode="json")))
    document |= {"later": 1, "description": document["description"] | {"later": 1}}
    assert read_document(document) == full


async def test_a_question_or_a_reply_of_another_release_is_not_taken_for_a_failure() -> None:
    definition, found = expense(), (await waiting_at(expense())).model_dump(mode="json")
    given = {"checkpoint": found | {"later": 1}, "now": NOW.isoformat()}
    assert perform(ENGINE, definition, "look_ahead", given) == WorkerReply(unread=True)
    assert perform(ENGINE, definition, "later", given) == WorkerReply(unread=True)
    with pytest.raises(Incompatible, match="another release"):
        result_of("look_ahead", WorkerReply(result={"later": 1}))


def test_code_of_a_worker_is_bounded_and_names_only_lines_that_it_has() -> None:
    long = SourceFile(path=Path("long.py"), text="x" * (MOST_CODE - 3), steps={})
    short = SourceFile(path=Path("short.py"), text="a\nb\n", steps={"review": (1, 2)}, changed_there=True)
    crossed = WorkerReply.model_validate(loads(dumps(reply_with_code([short]).model_dump(mode="json"))))
    assert code_in(crossed) == (short,)
    assert short.has_changed()
    assert [file.path.name for file in code_in(reply_with_code([long, short]))] == ["long.py"]
    forged = {"path": "f.py", "text": "a", "steps": {"a": [1, 10**12], "b": [0, 1], "c": [1, 1]}, "changed": False}
    assert code_in(WorkerReply(result=[forged]))[0].steps == {"c": (1, 1)}
    assert code_in(WorkerReply(result={"later": 1})) == code_in(WorkerReply(failure="KeyError")) == ()


def test_a_published_engine_has_the_abilities_of_the_workflows_own() -> None:
    protocols = (Continues, ChecksAnswers, TellsInFlight, LooksAhead, TakesEdits, Migrates)
    described = ENGINE.describe(expense())
    assert set(abilities_of(ENGINE)) == set(ABILITIES)
    for known in protocols:
        (ability,) = (name for name, one in ABILITIES.items() if one.protocol is known)
        made: Any = published_engine(Published(description=described, abilities=(ability,)), described, not_asked)
        assert [one for one in (*protocols, NamesPeople) if isinstance(made, one)] == [known]
    assert not isinstance(published_engine(Published(description=described), described, not_asked), protocols)


def not_asked(*_: Any, **__: Any) -> WorkerReply | None:
    raise AssertionError("a worker was asked")
