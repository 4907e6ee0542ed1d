"""A duration is written the same way wherever one is meant."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from wfdash.contract import Waiting
from wfdash.questions.policy import span_of
from wfdash.testing import RunFailed, run_step
from wfdash.workflow import Context, Policy, Retry, Workflow
from wfdash.workflow.errors import InvalidCall, InvalidWorkflow

HALF_A_DAY = timedelta(hours=12)


@pytest.mark.parametrize("written", ["12h", "11h 60m", "0.5d", 43_200, 43_200.0, HALF_A_DAY])
async def test_policy_retry_timeout_and_sleep_take_the_same_durations(written: str | float | timedelta) -> None:
    flow = Workflow("flow")

    @flow.step(start=True, timeout=written, retry=Retry(delay=written, longest="1d"))
    async def doze(ctx: Context) -> str:
        await ctx.sleep(written)
        return "awake"

    assert (doze.timeout, doze.retry.delay, Policy(due=written).due) == (43_200, 43_200, HALF_A_DAY)
    sleeping = await flow.run(None)
    assert isinstance(sleeping, Waiting)
    assert sleeping.until is not None
    assert abs(sleeping.until - sleeping.checkpoint.created - HALF_A_DAY) < timedelta(seconds=5)


async def test_how_long_a_run_waits_for_a_sleep_is_a_duration_too() -> None:
    flow = Workflow("flow")

    @flow.step(start=True)
    async def doze(ctx: Context) -> str:
        await ctx.sleep("0.01s")
        return "awake"

    assert isinstance(await flow.run(None, park_after="0s"), Waiting)
    assert (await flow.run(None, park_after="1m")).output == "awake"
    with pytest.raises(InvalidCall, match=r"park_after: .* is no duration"):
        await flow.run(None, park_after="a while")


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
