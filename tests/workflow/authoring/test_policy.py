"""Policies and durations are said as people say them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from checkpoints.records import Request
from tests.workflow.world import flow
from wfdash.questions.policy import DefaultAnswer, default_answer, sentence, span_of
from wfdash.testing import RunFailed, run_step
from wfdash.workflow import Approval, Context, Failed, Policy, Question, Retry, Waiting, Workflow
from wfdash.workflow.errors import InvalidCall, InvalidWorkflow

NOW = datetime(2026, 1, 5, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("4h", 4 * HOUR),
        ("30m", HOUR / 2),
        ("1d 12h", 36 * HOUR),
        ("1.5h", 1.5 * HOUR),
        ("2w", 14 * 24 * HOUR),
        (90, timedelta(seconds=90)),
        (HOUR, HOUR),
    ],
)
def test_durations_are_said_as_people_say_them(said: Any, meant: timedelta) -> None:
    assert Policy(due=said).due == meant


@pytest.mark.parametrize("said", ["soon", "4", "4 hours", "h", "", "-4h", 0, -1])
def test_what_is_no_duration_is_refused(said: Any) -> None:
    with pytest.raises(ValidationError):
        Policy(due=said)


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        ({"remind": "1h"}, "remind"),
        ({"remind": "4h", "due": "4h"}, "remind"),
        ({"escalate": "cfo"}, "escalate"),
        ({"escalate_after": "1h"}, "escalate_after"),
        ({"on_timeout": "reject"}, "on_timeout"),
        ({"need": 0}, "need"),
        ({"nede": 2}, "nede"),
    ],
)
def test_a_policy_that_cannot_be_carried_out_is_refused_by_the_name_of_its_field(
    policy: dict[str, Any], field: str
) -> None:
    with pytest.raises(ValidationError, match=field):
        Policy(**policy)


FULL = Policy(by="finance", need=2, not_by="requester", due="4h", remind="1h", escalate="cfo", on_timeout="reject")


def test_a_policy_survives_being_stored() -> None:
    assert Policy.model_validate(FULL.stored()) == FULL
    assert Policy().stored() == {}


def test_its_moments_are_in_order_and_follow_the_deadline() -> None:
    due = NOW + 4 * HOUR
    assert list(FULL.moments(NOW, due)) == [
        (NOW + 3 * HOUR, "remind"),
        (NOW + 4 * HOUR, "escalate"),
        (NOW + 8 * HOUR, "timeout"),
    ]
    assert FULL.next_alarm(NOW, due, NOW + 4 * HOUR) == NOW + 8 * HOUR
    assert FULL.next_alarm(NOW, due, NOW + 8 * HOUR) is None
    later = Policy(by="ana", escalate="cfo", escalate_after="30m", due="4h", on_timeout="fail")
    assert list(later.moments(NOW, due)) == [(NOW + HOUR / 2, "escalate"), (due, "timeout")]


def test_a_policy_is_one_sentence() -> None:
    assert sentence(FULL) == (
        "Needs 2 votes from finance. Excluded: the requester. One rejection rejects."
        " Due in 4 h; reminder 1 h before. Then cfo can also decide."
        " Rejected automatically after 8 h."
    )
    assert sentence(Policy()) == ""
    assert sentence(Policy(need=3, veto=False)) == "Needs 3 votes from reviewers."
    assert sentence(Policy(by=["ana", "ben", "requester"])) == "Decided by ana, ben or the requester."


def test_what_a_policy_leaves_unsaid_is_the_base_s() -> None:
    base = Policy(by="finance", due="4h", need=2)
    assert Policy(need=1).over(base) == Policy(by="finance", due="4h", need=1)
    assert Policy(by="ana").over(None) == Policy(by="ana")


def test_tiers_choose_by_what_is_proposed() -> None:
    policy = Policy(by="team", due="1d", tiers=lambda amount: Policy(by="cfo", need=2) if amount > 1000 else None)
    assert policy.resolved(500).stored() == {"by": ["team"], "due": 86400.0}
    assert policy.resolved(5000).stored() == {"by": ["cfo"], "need": 2, "due": 86400.0}


def test_the_default_answer_is_an_action_with_its_reason_or_the_answer_itself() -> None:
    schema = {"properties": {"action": {"enum": ["approve", "reject"]}, "reason": {}}}
    assert default_answer("reject", schema) == {"action": "reject", "reason": "Not answered in time."}
    assert default_answer("blue", {"type": "string"}) == "blue"
    assert default_answer(DefaultAnswer(answer="fail").model_dump(), {"type": "string"}) == "fail"


async def asked(policy: Policy | None = None, own: Policy | None = None, **said: Any) -> Any:
    workflow = Workflow("ask", policy=own)

    @workflow.step(start=True)
    async def ask(ctx: Context) -> str:
        await ctx.ask(Approval(subject="Pay?", proposal={"amount": 7}), policy=policy, **said)
        return "done"

    outcome = await workflow.run(None)
    return outcome.requests[0] if isinstance(outcome, Waiting) else outcome


async def test_a_step_asks_with_its_policy_and_the_workflow_s_for_what_that_leaves_unsaid() -> None:
    request = await asked(Policy(need=2), Policy(by="finance", due="4h", remind="1h"), not_by="requester")
    assert isinstance(request, Request)
    assert (request.by, request.not_by) == (("finance",), ("requester",))
    assert request.policy["need"] == 2
    assert request.due is not None
    assert request.alarm == request.due - HOUR


async def test_tiers_see_the_proposal() -> None:
    request = await asked(Policy(tiers=lambda proposal: Policy(by=f"level {proposal['amount']}")))
    assert request.by == ("level 7",)


async def test_a_deadline_given_as_a_time_is_kept() -> None:
    request = await asked(due=NOW)
    assert (request.due, request.alarm) == (NOW, None)


async def test_what_is_said_twice_is_refused() -> None:
    outcome = await asked(Policy(by="ana"), by="ben")
    assert isinstance(outcome, Failed)
    assert "by= twice" in outcome.error.message


async def test_a_default_that_is_no_answer_fails_the_step_that_asks() -> None:
    outcome = await asked(Policy(due="1h", on_timeout="dance"))
    assert isinstance(outcome, Failed)
    assert "dance" in outcome.error.message


async def test_a_question_s_default_is_its_text() -> None:
    async def ask(ctx: Context) -> str:
        return await ctx.ask(Question(subject="Colour?"), str, policy=Policy(due="1h", on_timeout="blue"))

    outcome = await flow(ask).run(None)
    assert isinstance(outcome, Waiting)
    assert outcome.requests[0].policy["on_timeout"] == "blue"


HALF_A_DAY = timedelta(hours=12)


@pytest.mark.parametrize("written", ["12h", "11h 60m", "0.5d", 43_200, 43_200.0, HALF_A_DAY])
async def test_policy_retry_timeout_and_sleep_take_the_same_durations(written: str | float | timedelta) -> None:
    wf = Workflow("flow")

    @wf.step(start=True, timeout=written, retry=Retry(delay=written, longest="1d"))
    async def doze(ctx: Context) -> str:
        await ctx.sleep(written)
        return "awake"

    assert (doze.timeout, doze.retry.delay, Policy(due=written).due) == (43_200, 43_200, HALF_A_DAY)
    sleeping = await wf.run(None)
    assert isinstance(sleeping, Waiting)
    assert sleeping.until is not None
    assert abs(sleeping.until - sleeping.checkpoint.created - HALF_A_DAY) < timedelta(seconds=5)


async def test_how_long_a_run_waits_for_a_sleep_is_a_duration_too() -> None:
    async def doze(ctx: Context) -> str:
        await ctx.sleep("0.01s")
        return "awake"

    wf = flow(doze)
    assert isinstance(await wf.run(None, park_after="0s"), Waiting)
    assert (await wf.run(None, park_after="1m")).output == "awake"
    with pytest.raises(InvalidCall, match=r"park_after: .* is no duration"):
        await wf.run(None, park_after="a while")


@pytest.mark.parametrize("written", ["12 hours", "", "h", "-1h", "1h nonsense", float("nan"), True, None])
async def test_what_is_no_duration_is_refused_where_it_is_written(written: object) -> None:
    flow = Workflow("flow")
    with pytest.raises(ValueError, match="write 30m"):
        span_of(written)  # type: ignore[arg-type]
    if written is not None:
        with pytest.raises(InvalidWorkflow, match=r"timeout: .* is no duration"):
            flow.step(start=True, timeout=written)(lambda: None)  # type: ignore[arg-type]
    if isinstance(written, str):
        with pytest.raises(ValidationError, match="is no duration"):
            Retry(delay=written)

        @flow.step(start=True)
        async def doze(ctx: Context) -> None:
            await ctx.sleep(written)

        with pytest.raises(RunFailed, match=r"ctx\.sleep: .* is no duration"):
            await run_step(doze)


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=4000)))
def test_a_timedelta_and_its_seconds_are_the_same_duration(span: timedelta) -> None:
    assert span_of(span) == span
    assert abs(span_of(span.total_seconds()) - span) < timedelta(milliseconds=1)
