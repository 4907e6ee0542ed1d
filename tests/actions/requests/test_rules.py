"""A rule answers what its rehearsal said, leaves a sample to people, and ends with the first that they decide
otherwise.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone
from pydantic import BaseModel

from checkpoints.models import AuditEntry, Notice, Reply, Rule, RuleUse
from wfdash.actions.requests.rules import create_rule, move_rule
from wfdash.queries.requests.rules import read_rule
from wfdash.records.requests import CreateRule
from wfdash.testing import Bench, BenchRun, NotAllowed, WrongState, bench
from wfdash.workflow import Approval, Context, Decision, Policy, Workflow


class Refund(BaseModel):
    amount: int
    country: str = "IT"
    note: str = ""


def refunds(policy: Policy | None = None, risk: Any = "low") -> Workflow:
    made = Workflow("refunds")

    @made.step(start=True)
    async def review(refund: Refund, ctx: Context) -> str:
        card = Approval(subject=f"Refund {refund.amount}", proposal=refund, edit=Refund, risk=risk)
        said: Decision = await ctx.ask(card, policy=policy)
        return f"{said.action} by {said.by}"

    return made


def small(**changes: Any) -> CreateRule:
    given = {"workflow": "refunds", "step": "review", "condition": "proposal.amount:<100 proposal.country:IT"}
    return CreateRule(**{**given, **changes})


async def act(t: Bench, name: str, do: Any, *args: Any, **options: Any) -> Any:
    """Let a person do something that the bench has no method for."""
    found = await t._thread.call(lambda: do(t._viewer(name), *args, **options))
    await t._settle()
    return found


async def look(t: Bench, read: Any) -> Any:
    return await t._thread.call(read)


async def decided(t: Bench, refund: dict[str, Any], verdict: str = "approve", *, by: str = "ben") -> BenchRun:
    """Start a run, and let a person decide it if no rule has."""
    run = await t.start(refund)
    if run.requests and not await look(t, lambda: Reply.objects.filter(request__run=run.id, undone=None).exists()):
        await t.answer(run, verdict, by=by)
    return run


ROLES = {"ana": "operator", "ben": "reviewer", "cai": "operator", "dee": "viewer"}


async def test_ten_weeks_from_a_habit_to_a_rule_that_its_sample_ends(settings: Any) -> None:
    settings.WFDASH_UNDO = 10
    async with bench(refunds(), people=["ana", "ben", "cai", "dee"], roles=ROLES) as t:
        # Weeks 1 to 4: people decide. One that fits was rejected, one was edited, and a large one is rejected.
        for week in range(4):
            for amount in (20, 30, 40):
                await decided(t, {"amount": amount + week}, "reject" if (week, amount) == (1, 20) else "approve")
            await t.advance("7d")
        await decided(t, {"amount": 500}, "reject")
        run = await t.start({"amount": 60})
        await t.answer(run, "edit", by="ben", edited={"amount": 50, "country": "IT", "note": ""})
        rule = await act(t, "ana", create_rule, small(days=7, quota=5))
        with pytest.raises(WrongState, match="rehearsed"):
            await act(t, "ana", move_rule, rule.pk, "shadow")
        rule = await act(t, "ana", move_rule, rule.pk, "rehearsed")
        told = (await look(t, lambda: read_rule(t._viewer("ana"), rule.pk))).rehearsal
        assert (told.looked, told.fitting, told.agreed) == (14, {"approve": 11, "reject": 1, "edit": 1}, 11)
        assert {one.verdict for one in told.against} == {"reject", "edit"}
        assert told.field == "proposal.amount"
        assert told.money == (3 * 6 + 4 * 90 - 21, 21 + 60)
        # Week 5: it runs beside people and answers nothing.
        await act(t, "ana", move_rule, rule.pk, "shadow")
        for day in range(3):
            with pytest.raises(WrongState, match="beside people until"):
                await act(t, "cai", move_rule, rule.pk, "on")
            run = await t.start({"amount": 30 + day})
            assert run.status == "waiting"
            await t.answer(run, "reject" if day == 2 else "approve", by="ben")
        await t.advance("7d")
        shown = await look(t, lambda: read_rule(t._viewer("dee"), rule.pk))
        assert (shown.answered, shown.agreed, shown.differed) == (0, 2, 1)
        # People differed, so another person than its maker has to want it.
        with pytest.raises(NotAllowed, match="another person"):
            await act(t, "ana", move_rule, rule.pk, "on")
        await act(t, "cai", move_rule, rule.pk, "on")
        # Weeks 6 to 9: it answers, and each day it does something goes to people as before.
        for _ in range(4):
            for amount in (10, 20, 30):
                await decided(t, {"amount": amount})
            await t.advance("7d")
        large = await t.start({"amount": 5000})
        assert large.status == "waiting"
        by_rule = await look(t, lambda: Reply.objects.filter(rule=rule.pk).count())
        samples = await look(t, lambda: RuleUse.objects.filter(kind="sample", agrees=True).count())
        assert by_rule + samples == 12
        assert 4 <= samples < 12
        # Week 10: what is asked has changed, and the first sample that a person rejects ends the rule.
        for number in range(10):
            run = await decided(t, {"amount": 50 + number}, "reject")
            if run.output == "reject by ben":
                break
        await t.advance("1m")
        state, problem = await look(t, lambda: Rule.objects.values_list("state", "problem").get())
        assert (state, problem) == (
            "suspended",
            "In its sample a person decided otherwise: reject instead of approve",
        )
        assert await look(t, lambda: Notice.objects.filter(kind="rule", user__username="ana").exists())
        answered = await look(t, lambda: Reply.objects.filter(rule=rule.pk, undone=None).count())
        run = await t.start({"amount": 50})
        await t.advance("1h")
        assert run.status == "waiting"
        assert await look(t, lambda: Reply.objects.filter(rule=rule.pk, undone=None).count()) == answered
        verbs = await look(
            t, lambda: list(AuditEntry.objects.filter(verb__endswith="rule").values_list("actor", "verb"))
        )
        assert verbs == [
            ("ana", "make rule"),
            ("ana", "rehearsed rule"),
            ("ana", "shadow rule"),
            ("cai", "switch on rule"),
            ("rule r1", "suspend rule"),
        ]
        entry = await look(t, lambda: AuditEntry.objects.filter(actor="rule r1", verb="answer").first())
        assert entry.right == f"by rule r1, made by ana, on since {timezone.now():%Y}-{entry.at:%m-%d}"
