"""Workflows of the framework and its orchestrations are driven, answered and finished."""

from __future__ import annotations

import asyncio
import threading

import pytest

pytest.importorskip("agent_framework")
pytest.importorskip("agent_framework_orchestrations")

from pydantic import BaseModel

from checkpoints.errors import ClaimLost
from checkpoints.records import Phase, Reason
from tests.engines.agent_framework import orchestrations, samples
from tests.engines.agent_framework.desk import Desk
from tests.engines.agent_framework.samples import counting, nested_review, questionnaire, review_workflow
from tests.workflow.world import PowerCut
from wfdash.contract import Failed, Finished, Waiting
from wfdash.engines.agent_framework import AgentFrameworkEngine, commits, drive, encoding
from wfdash.engines.serving import NotServable, Served


async def test_a_question_is_asked_and_its_answer_finishes_the_run():
    desk = Desk(review_workflow())
    await desk.start("Spring")
    (request,) = desk.requests
    assert (request.step, request.card["subject"]) == ("reviewer", "Spring")
    assert request.card["proposal"] == {"amount": 3.5}
    assert request.answer_schema["properties"]["verdict"]["enum"] == ["publish", "reject"]
    await desk.answer({"verdict": "publish", "words": "fine"})
    assert desk.output == "Spring published after 1: fine"
    assert desk.kinds("reviewer") == ["started", "waiting", "finished"]
    assert desk.kinds("write") == ["started", "finished"]


async def test_each_checkpoint_says_why_it_was_written():
    desk = Desk(review_workflow())
    await desk.start("Spring")
    await desk.answer({"verdict": "reject"})
    written = [commit.checkpoint for commit in desk.recorder.commits if commit.checkpoint]
    assert [(one.n, one.reason, one.step) for one in written] == [
        (1, Reason.START, None),
        (2, Reason.STEP, "write"),
        (3, Reason.PAUSE, "reviewer"),
        (4, Reason.END, "reviewer"),
    ]
    assert desk.head.body["state"] == {"author": "ana", "reviewer": {"seen": 1}}
    assert await desk.resume() == desk.outcome, "a complete run that is driven again"
    assert desk.output == "Spring rejected"


def keeping(rows: int):
    async def save(_) -> dict:
        return {"count": 0, "rows": [{"n": n} for n in range(rows)]}

    return save


@pytest.mark.parametrize("rows", [10, 60_000])
async def test_only_large_values_are_converted_in_threads(rows: int, monkeypatch: pytest.MonkeyPatch):
    def noted(convert):
        return lambda *given: where.append(threading.current_thread() is threading.main_thread()) or convert(*given)

    where: list[bool] = []
    monkeypatch.setattr(samples.Counter, "on_checkpoint_save", keeping(rows))
    for module, name in ((commits, "packed"), (commits, "state_shown"), (drive, "unpacked")):
        monkeypatch.setattr(module, name, noted(getattr(module, name)))
    desk = Desk(counting(1))
    await desk.start("go")
    await desk.answer(1)
    assert (desk.output, set(where)) == (1, {rows == 10})


@pytest.mark.parametrize(("module", "name"), [(commits, "packed"), (drive, "unpacked")])
async def test_a_state_that_is_not_converted_in_time_fails_the_run(module, name, monkeypatch: pytest.MonkeyPatch):
    desk, release = Desk(counting(1)), threading.Event()
    monkeypatch.setattr(samples.Counter, "on_checkpoint_save", keeping(6_000))
    await desk.start("go")
    monkeypatch.setattr(encoding, "CONVERT_SECONDS", 1.0)
    monkeypatch.setattr(module, name, lambda *given: release.wait(20))
    await desk.answer(1)
    release.set()
    assert "took longer than 1 s to read or to store: keep large values elsewhere" in desk.error


async def test_questions_of_any_type_are_answered_one_by_one_over_restarts():
    desk = Desk(questionnaire())
    await desk.start("go")
    assert [one.card["subject"] for one in desk.requests] == ["Go ahead?", "Which colour?", "Which way?"]
    assert desk.requests[0].answer_schema["type"] == "boolean"
    assert desk.requests[1].answer_schema["enum"] == ["red", "blue"]
    assert desk.requests[2].card["proposal"] == {"map": "north"}
    keys = [one.key for one in desk.requests]
    await desk.resume({keys[1]: "blue"})
    assert [one.key for one in desk.requests] == [keys[0], keys[2]]
    await desk.resume({keys[2]: {"city": "Ulm", "stops": [1, 2]}})
    assert [one.key for one in desk.requests] == [keys[0]]
    await desk.resume({keys[0]: True})
    assert desk.output == "<Colour.BLUE: 'blue'> | Route(city='Ulm', stops=[1, 2]) | True"


async def test_restoring_asks_the_same_questions_again_and_takes_other_answers():
    desk = Desk(questionnaire())
    await desk.start("go")
    first, keys = desk.head, [one.key for one in desk.requests]
    await desk.resume({keys[0]: True, keys[1]: "red", keys[2]: {"city": "Ulm", "stops": []}})
    assert isinstance(desk.outcome, Finished)
    await desk.resume(at=first)
    assert [one.key for one in desk.requests] == keys
    await desk.resume({keys[0]: False, keys[1]: "blue", keys[2]: {"city": "Bonn", "stops": []}}, at=first)
    assert desk.output == "False | <Colour.BLUE: 'blue'> | Route(city='Bonn', stops=[])"


async def test_what_runs_next_is_known_at_each_checkpoint():
    desk = Desk(review_workflow())
    await desk.start("Spring")
    written = [commit.checkpoint for commit in desk.recorder.commits if commit.checkpoint]
    found = [desk.engine.in_flight(desk.served, one).steps for one in written]
    assert found == [("write",), ("reviewer",), ()]


async def test_a_run_that_waits_for_answers_is_left_as_it_is():
    desk = Desk(review_workflow())
    await desk.start("Spring")
    before = len(desk.recorder.commits)
    outcome = await desk.resume()
    assert isinstance(outcome, Waiting)
    (commit,) = desk.recorder.commits[before:]
    assert commit.checkpoint is None
    assert commit.standing is not None
    assert commit.standing.phase is Phase.WAITING


async def test_a_run_cut_off_at_any_commit_goes_on_from_there():
    whole = Desk(review_workflow())
    await whole.start("Spring")
    for cut in range(1, len(whole.recorder.commits)):
        desk = Desk(review_workflow())
        desk.recorder.dies_after = cut
        with pytest.raises(PowerCut):
            await desk.start("Spring")
        desk.recorder.dies_after = None
        await desk.resume()
        await desk.answer({"verdict": "publish"})
        assert desk.output == "Spring published after 1: "


async def test_a_lost_claim_ends_the_drive_at_every_commit(monkeypatch: pytest.MonkeyPatch):
    whole = Desk(questionnaire())
    await whole.start("go")
    for cut in range(len(whole.recorder.commits)):
        desk = Desk(questionnaire())
        commit, made = desk.recorder.commit, 0

        async def refused(given, commit=commit, cut=cut):
            nonlocal made
            if made == cut:
                raise ClaimLost
            made += 1
            await commit(given)

        monkeypatch.setattr(desk.recorder, "commit", refused)
        with pytest.raises(ClaimLost):
            await desk.start("go")
        assert len(desk.recorder.commits) == cut


async def test_fifty_runs_of_one_workflow_see_nothing_of_each_other():
    workflow = questionnaire()
    desks = [Desk(workflow) for _ in range(50)]
    await asyncio.gather(*(desk.start("go") for desk in desks))
    assert {len(desk.requests) for desk in desks} == {3}
    assert len({one.key for desk in desks for one in desk.requests}) == 150
    await asyncio.gather(*(desk.answer(True, "red", {"city": "Ulm", "stops": [n]}) for n, desk in enumerate(desks)))
    assert [f"stops=[{n}]" in desk.output for n, desk in enumerate(desks)] == [True] * 50


async def test_a_run_that_people_keep_alive_is_not_ended_by_the_limit_of_supersteps():
    desk = Desk(counting(150))
    await desk.start("go")
    for _ in range(150):
        await desk.answer(1)
    assert desk.output == 150


async def test_questions_of_a_sub_workflow_are_asked_by_the_step_it_runs_in():
    desk = Desk(nested_review())
    await desk.start("Spring")
    (request,) = desk.requests
    assert request.step == "desk"
    await desk.answer({"verdict": "publish", "words": "in"})
    assert desk.output == "archived: Spring published after 1: in"


async def test_an_answer_that_a_handler_fails_on_is_kept_for_the_retry(monkeypatch: pytest.MonkeyPatch):
    desk = Desk(samples.failing())
    await desk.start("go")
    key = desk.requests[0].key
    samples.BROKEN[:] = [True]
    await desk.resume({key: "yes"})
    assert isinstance(desk.outcome, Failed)
    assert (desk.error, desk.outcome.error.step, desk.outcome.error.type) == ("out of paper", "printer", "OSError")
    samples.BROKEN.clear()
    await desk.resume({key: "yes"})
    assert desk.output == "printed yes"
    assert desk.kinds("printer") == ["started", "waiting", "failed", "finished"]


@pytest.mark.parametrize(
    ("answers", "step"), [(("fail", "fine"), "first"), (("fine", "fail"), "second"), (("fail", "fail"), "first")]
)
async def test_an_error_is_that_of_the_executor_that_raised_it(answers: tuple[str, ...], step: str):
    desk = Desk(samples.two_askers())
    await desk.start("go")
    await desk.answer(*answers)
    assert isinstance(desk.outcome, Failed)
    assert (desk.outcome.error.step, desk.error) == (step, f"{step} fails")
    failed = [name for name, answer in zip(("first", "second"), answers, strict=True) if answer == "fail"]
    assert [event.step for event in desk.events if event.kind == "step.failed"] == failed


async def test_a_checkpoint_that_the_framework_cannot_make_ends_the_run(caplog: pytest.LogCaptureFixture):
    desk = Desk(samples.unkeepable())
    await desk.start("go")
    assert desk.error.startswith(
        "Agent Framework could make no checkpoint: Executor locksmith on_checkpoint_save failed"
    )
    assert isinstance(desk.outcome, Failed)
    assert desk.outcome.error.type == "NotStorable"
    assert "Failed to create checkpoint" in caplog.text


async def test_a_question_without_a_form_fails_the_run_and_names_the_type():
    desk = Desk(samples.formless())
    await desk.start("go")
    assert desk.error == (
        "formless asks for Formless, which no form can be made from: use plain types, a dataclass or a pydantic model"
    )


async def test_a_value_of_a_class_that_is_not_known_fails_the_run_and_says_what_to_do():
    desk = Desk(samples.unknown_class())
    await desk.start("go")
    assert "the state of collector.found: a value cannot be read: fractions.Fraction is no class" in desk.error
    assert "register_checkpoint_type" in desk.error


async def test_a_question_for_any_answer_offers_yes_or_no_first():
    desk = Desk(samples.open_question())
    await desk.start("go")
    assert [one["title"] for one in desk.requests[0].answer_schema["anyOf"]] == ["Yes or no", "Text", "JSON"]
    await desk.answer("yes, it is")
    assert desk.output == "yes, it is"


class Decided(BaseModel):
    ok: bool


async def test_a_question_for_any_answer_has_the_type_it_is_served_with():
    desk = Desk(samples.open_question(), answers={"listener": Decided})
    await desk.start("go")
    (request,) = desk.requests
    assert request.answer_schema["properties"]["ok"]["type"] == "boolean"
    assert desk.engine.check_answer(desk.served, request, {"ok": "perhaps"}) != []
    await desk.answer({"ok": True})
    assert desk.output == {"ok": True}


def test_an_answer_type_of_an_executor_that_there_is_not_is_refused():
    served = Served(target=samples.open_question(), variable="sample", answers={"listner": bool})
    with pytest.raises(NotServable, match="did you mean 'listener'"):
        AgentFrameworkEngine().describe(served)


async def test_agents_in_a_row_finish_with_what_the_last_says():
    desk = Desk(orchestrations.sequential())
    await desk.start("a text")
    assert desk.output == "edited (a text)"
    assert desk.speakers == ["writer", "editor"]


async def test_what_an_agent_wrote_is_approved_or_sent_back():
    desk = Desk(orchestrations.sequential(asks=True))
    await desk.start("a text")
    (request,) = desk.requests
    assert request.card["subject"] == "Approve what writer wrote?"
    assert [one["label"] for one in request.card["actions"]] == ["Approve", "Ask for changes"]
    await desk.answer({"action": "reject", "reason": "shorter"})
    assert "draft (shorter)" in desk.requests[0].card["body"]
    await desk.answer({"action": "approve"})
    await desk.answer({"action": "approve"})
    assert "edited" in desk.output


async def test_agents_side_by_side_give_what_each_says():
    desk = Desk(orchestrations.concurrent())
    await desk.start("a text")
    assert "legal (a text)" in str(desk.output)
    assert "taxed (a text)" in str(desk.output)


async def test_a_group_chat_talks_in_turn():
    desk = Desk(orchestrations.group_chat())
    await desk.start("a topic")
    assert desk.speakers[:3] == ["ana", "ben", "ana"]


async def test_a_plan_is_revised_and_then_approved_over_restarts():
    desk = Desk(orchestrations.magentic())
    await desk.start("find out")
    (request,) = desk.requests
    assert request.card["subject"] == "Approve the plan?"
    assert request.card["body"] == "1. research"
    assert [one["label"] for one in request.card["actions"]] == ["Approve", "Revise"]
    await desk.answer({"action": "reject", "reason": "check twice"})
    assert desk.requests[0].card["body"] == "1. research, 2. check twice"
    await desk.answer({"action": "approve"})
    assert desk.output == "the answer"


async def test_a_handoff_asks_for_the_next_message_until_it_is_left_empty():
    desk = Desk(orchestrations.handoff())
    await desk.start("hi")
    (request,) = desk.requests
    assert (request.card["subject"], request.card["body"]) == ("Front asks", "hello (hi)")
    assert "proposal" not in request.card
    assert "hello (hi)" not in str(request.card.get("evidence")), "what the card says already"
    assert request.answer_schema["anyOf"][0] == {"type": "string", "format": "textarea"}
    await desk.answer("and now?")
    assert "hello (and now?)" in str(desk.requests[0].card)
    await desk.answer(None)
    assert "hello (hi)" in str(desk.output)


async def test_the_result_of_a_tool_stands_before_the_words_that_followed_it():
    desk = Desk(orchestrations.handoff(at_once=True))
    await desk.start("hi")
    await desk.answer("and now?")
    said = desk.engine.show(desk.head).transcript
    assert [(one.role, one.text) for one in said] == [
        ("user", "hi"),
        ("user", "and now?"),
        ("tool", '{"handoff_to": "back"}'),
        ("assistant", "bye (and now?)"),
    ]
