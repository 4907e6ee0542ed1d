"""Whom a workflow's questions are addressed to, as far as its source says."""

from __future__ import annotations

from wfdash.contract import Addressees, NamesPeople
from wfdash.engines.native import NativeEngine
from wfdash.workflow import Approval, Context, Policy, Workflow

LAWYERS = "legal"
STRICT = Policy(by="board", need=2, override=False)


def asked(workflow: Workflow) -> dict[str, list[Addressees]]:
    engine = NativeEngine()
    assert isinstance(engine, NamesPeople)
    found: dict[str, list[Addressees]] = {}
    for one in engine.addressees(workflow):
        found.setdefault(one.step, []).append(one)
    return found


def written() -> Workflow:
    flow = Workflow("payments", policy=Policy(not_by="requester", due="4h", escalate="cfo"))

    @flow.step(start=True)
    async def text(message: str, ctx: Context) -> str:
        await ctx.ask(Approval(subject="1"), by="finance")
        await ctx.ask(Approval(subject="2"), by="finance")
        await ctx.ask(Approval(subject="3"), by=("finance", LAWYERS), not_by=["interns"])
        return message

    @flow.step(after=text)
    async def policy(message: str, ctx: Context) -> str:
        await ctx.ask(Approval(subject="1"), policy=STRICT)
        await ctx.ask(Approval(subject="2"), policy=Policy(by=LAWYERS, need=3))
        return message

    @flow.step(after=policy)
    async def computed(message: str, ctx: Context) -> str:
        group = message
        await ctx.ask(Approval(subject="1"), by=group)
        await ctx.ask(Approval(subject="2"), policy=Policy(by=group))
        await ctx.ask(Approval(subject="3"), by=f"{message}s", not_by="interns")
        return message

    @flow.step(after=computed)
    async def silent(message: str, ctx: Context) -> str:
        return message

    @flow.step(after=silent)
    async def plain(message: str, ctx: Context) -> None:
        await ctx.ask("Sure?")

    return flow


def test_names_that_are_written_or_constant_are_known_and_each_way_is_given_once() -> None:
    first, second = asked(written())["text"]
    assert (first.by, first.not_by, first.escalate, first.certain) == (("finance",), ("requester",), ("cfo",), True)
    assert (second.by, second.not_by, second.certain) == (("finance", "legal"), ("interns",), True)


def test_a_policy_counts_whether_it_is_written_there_or_has_a_name() -> None:
    strict, lawyers = asked(written())["policy"]
    assert (strict.by, strict.need, strict.override, strict.certain) == (("board",), 2, False, True)
    assert (lawyers.by, lawyers.need, lawyers.not_by) == (("legal",), 3, ("requester",))


def test_what_only_a_running_step_knows_is_not_guessed() -> None:
    assert [(one.by, one.not_by, one.certain) for one in asked(written())["computed"]] == [
        ((), ("requester",), False),
        ((), ("interns",), False),
    ]


def test_a_step_that_says_nothing_has_the_workflow_s_policy_and_one_that_asks_nothing_is_missing() -> None:
    found = asked(written())
    assert [(one.by, one.not_by, one.certain) for one in found["plain"]] == [((), ("requester",), True)]
    assert "silent" not in found


def test_tiers_are_decided_when_it_is_asked() -> None:
    flow = Workflow("tiers", policy=Policy(by="finance", tiers=lambda proposal: None))

    @flow.step(start=True)
    async def review(message: str, ctx: Context) -> None:
        await ctx.ask(Approval(subject="1"))

    (one,) = asked(flow)["review"]
    assert (one.by, one.certain) == (("finance",), False)


def test_a_step_for_people_whose_source_is_missing_is_not_certain() -> None:
    flow = Workflow("evaluated")
    names: dict[str, object] = {"Context": Context}
    exec("async def review(message: str, ctx: Context) -> None:\n    await ctx.ask('Sure?', by='finance')", names)
    flow.step(start=True, people=True)(names["review"])
    (one,) = asked(flow)["review"]
    assert (one.by, one.certain) == ((), False)
