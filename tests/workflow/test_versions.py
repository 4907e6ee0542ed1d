"""A run that meets a changed graph or file: names, migration hooks, overrides, and what is refused."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from checkpoints.errors import Incompatible
from checkpoints.memory import MemoryStorage
from checkpoints.records import Answer, Checkpoint, Reason
from tests.worker.graphs import Claim, ask
from tests.worker.graphs import expense as chain
from tests.workflow.world import ListRecorder, answered, failed, finished, flow, handed_over
from wfdash.contract import InvalidInput
from wfdash.engines import catalog
from wfdash.engines.native import NativeEngine
from wfdash.web.pages.ui.card import asked_again
from wfdash.workflow import Approval, Context, Question, Waiting, Workflow, all_of, each, gather
from wfdash.workflow.answers import MARK, check_answer
from wfdash.workflow.authoring import Migration
from wfdash.workflow.errors import InvalidWorkflow

engine = NativeEngine()


class Totals(BaseModel):
    total: int = 0


async def parked(wf: Workflow, message: Any = None) -> Checkpoint:
    """The checkpoint of a run that waits for its first answer, after a journey through JSON."""
    outcome = await wf.run({"amount": 5} if message is None else message)
    assert isinstance(outcome, Waiting)
    return handed_over(outcome.checkpoint)


async def goes_on(wf: Workflow, checkpoint: Checkpoint, value: Any = 7, **options: Any) -> Any:
    answers = {request.key: value for request in checkpoint.requests}
    return finished(await wf.run(checkpoint=checkpoint, answers=answers, **options))


def carried(wf: Workflow, old: Workflow, checkpoint: Checkpoint, **options: Any):
    return engine.carry(wf, checkpoint, engine.describe(old), **options)


async def test_a_renamed_step_is_found_under_its_old_name_and_keeps_its_question():
    checkpoint = await parked(chain())
    new = chain(step="check", was="review")
    assert new.version != checkpoint.version
    recorder = ListRecorder()
    assert await goes_on(new, checkpoint, storage=recorder) == "paid 7"
    first = recorder.commits[0]
    assert [event.kind for event in first.events] == ["run.migrated"]
    assert first.events[0].data["how"] == "alias"
    assert first.events[0].data["words"] == ["review was renamed check"]
    migrated = first.checkpoint
    assert (migrated.reason, migrated.parent, migrated.version) == (Reason.MIGRATE, checkpoint.id, new.version)
    assert [request.step for request in migrated.requests] == ["check"]


async def test_one_of_several_old_names_is_enough():
    checkpoint = await parked(chain(step="b"))
    assert await goes_on(chain(step="c", was=("a", "b")), checkpoint) == "paid 7"


async def test_without_a_declared_name_the_library_says_what_is_gone_and_what_to_declare():
    checkpoint = await parked(chain())
    with pytest.raises(Incompatible, match="steps that are gone: review") as caught:
        await chain(step="check").run(checkpoint=checkpoint)
    assert f"from_version='{checkpoint.version}'" in str(caught.value)
    assert caught.value.facts["was"] == checkpoint.version


async def test_a_step_whose_type_changed_is_not_the_same_by_its_old_name():
    old = chain()
    checkpoint = await parked(old)
    new = Workflow("chain")
    new.step(start=True, name="read")(lambda claim: claim)

    @new.step(after="read", was="review")
    async def check(text: str, ctx: Context) -> int:
        return int(await ctx.ask("how much?", answer=int))

    with pytest.raises(Incompatible, match="check takes str, Claim before"):
        carried(new, old, checkpoint)
    with pytest.raises(Incompatible, match="its input does not match"):
        carried(new, old, checkpoint, override=True)


async def test_an_old_name_holds_also_where_the_rest_of_the_graph_changed():
    old = chain()
    checkpoint = await parked(old)
    new = chain(step="check", was="review", extra=True)
    assert carried(new, old, checkpoint).how == "alias"
    with pytest.raises(Incompatible):
        await new.run(checkpoint=checkpoint)


@pytest.mark.parametrize("was", ["read", "pay"])
def test_an_old_name_that_another_step_has_is_refused(was):
    with pytest.raises(InvalidWorkflow, match="is a name that another step has or had"):
        assert chain(step="check", was=was).graph


async def test_a_renamed_sub_workflow_takes_its_steps_and_its_state_along():
    def parent(name: str, **facts: Any) -> Workflow:
        wf = Workflow("parent")
        wf.sub(name, chain(), start=True, **facts)
        return wf

    checkpoint = await parked(parent("old"))
    new = parent("new", was="old")
    recorder = ListRecorder()
    assert await goes_on(new, checkpoint, storage=recorder) == "paid 7"
    assert recorder.latest.body["state"] == {"new/seen": 7}


async def test_a_hook_changes_the_state_and_says_what_became_of_its_steps():
    old = chain()
    checkpoint = await parked(old)
    new = chain(step="decide", extra=True, state=Totals)

    @new.migrate(from_version=old.version)
    def widen(run: Migration) -> None:
        assert dict(run.steps) == {"review": 1}
        run.rename("review", "decide")
        run.state["total"] = 3
        assert dict(run.steps) == {"decide": 1}

    recorder = ListRecorder()
    with pytest.raises(InvalidWorkflow, match="two migrations"):
        new.migrate(from_version=old.version)(widen)
    outcome = await new.run(checkpoint=checkpoint, storage=recorder)
    assert isinstance(outcome, Waiting)
    assert recorder.commits[0].checkpoint.body["state"] == {"total": 3}
    assert recorder.commits[0].events[0].data["words"] == ["review was renamed decide", "state gets total"]


async def test_hooks_chain_in_the_order_in_which_they_are_declared():
    first, second, last = chain(), chain(step="b"), chain(step="c")
    checkpoint = await parked(first)
    seen = []

    @last.migrate(from_version=first.version)
    def one(run: Migration) -> None:
        seen.append("one")
        run.rename("review", "b")

    @last.migrate(from_version=second.version)
    def two(run: Migration) -> dict[str, Any]:
        seen.append("two")
        run.rename("b", "c")
        return {**run.state, "moved": True}

    assert await goes_on(last, checkpoint) == "paid 7"
    assert seen == ["one", "two"]
    assert await goes_on(last, await parked(second)) == "paid 7"
    assert seen == ["one", "two", "two"]


async def test_a_hook_that_leads_nowhere_is_no_way():
    old = chain()
    new = chain(step="b")
    new.migrate(from_version=old.version, to_version="lost")(lambda run: None)
    with pytest.raises(Incompatible, match="has changed since"):
        await new.run(checkpoint=await parked(old))


def raises(run: Migration) -> None:
    raise KeyError("colour")


def forgets(run: Migration) -> None:
    run.state["x"] = 1


def mistypes(run: Migration) -> None:
    run.rename("review", "pay")


def stores_a_set(run: Migration) -> None:
    run.state["x"] = {1}


async def waits(run: Migration) -> None:
    raise AssertionError


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        (raises, "raised KeyError: 'colour'"),
        (forgets, "step 'review' is running and is not in this graph"),
        (mistypes, "step 'pay': its input does not match"),
        (stores_a_set, "cannot be stored: state.x"),
        (waits, "plain function"),
    ],
)
async def test_a_migration_that_does_not_hold_changes_nothing(hook: Callable[[Migration], Any], words: str):
    old, new = chain(), chain(step="other")
    new.migrate(from_version=old.version)(hook)
    checkpoint = await parked(old)
    before, recorder = checkpoint.model_dump_json(), ListRecorder()
    with pytest.raises(Incompatible, match=words):
        await new.run(checkpoint=checkpoint, storage=recorder)
    assert recorder.commits == []
    assert checkpoint.model_dump_json() == before
    assert await goes_on(old, checkpoint) == "paid 7"


async def test_answers_that_do_not_fit_are_refused_before_anything_is_migrated():
    checkpoint = await parked(chain())
    recorder = ListRecorder()
    with pytest.raises(Exception, match="no such pending request"):
        await chain(step="b", was="review").run(checkpoint=checkpoint, answers={"x": 1}, storage=recorder)
    assert recorder.commits == []


async def test_a_moved_step_starts_afresh_and_its_question_is_withdrawn():
    old, new = chain(), chain(step="other")
    new.migrate(from_version=old.version)(lambda run: run.move("review", "other"))
    checkpoint, recorder = await parked(old), ListRecorder()
    outcome = await new.run(checkpoint=checkpoint, storage=recorder)
    first = recorder.commits[0]
    assert [event.kind for event in first.events] == ["run.migrated", "request.withdrawn", "step.started"]
    assert first.closed == (checkpoint.requests[0].key,)
    assert finished(await answered(new, outcome, 9)) == "paid 9"


def mapped(name: str = "large", *, collects: bool = True) -> Workflow:
    wf = Workflow("mapped")

    @wf.step(start=True)
    async def split(amounts: list[int]) -> list[int]:
        return amounts

    @wf.step(after=each(split), when=lambda n: n > 10, name=name)
    async def large(n: int, ctx: Context) -> int:
        return int(await ctx.ask(f"how much of {n}?", answer=int))

    @wf.step(after=each(split), otherwise=True)
    async def small(n: int) -> int:
        return n

    if collects:

        @wf.step(after=gather(large, small))
        async def add(amounts: list[int]) -> int:
            return sum(amounts)

    return wf


async def test_dropping_the_last_item_lets_its_gather_go_on():
    old, new = mapped(), mapped("huge")
    new.migrate(from_version=old.version)(lambda run: run.drop("large"))
    checkpoint = await parked(old, [1, 2, 30])
    assert finished(await new.run(checkpoint=checkpoint)) == 3


async def test_items_under_way_keep_their_places_under_another_name():
    checkpoint = await parked(mapped(), [1, 20, 30])
    renamed = mapped("huge")
    renamed.migrate(from_version=checkpoint.version)(lambda run: run.rename("large", "huge"))
    assert await goes_on(renamed, checkpoint, 5) == 11


async def test_a_gather_that_was_added_behind_an_open_map_is_refused():
    old, new = mapped(collects=False), mapped()
    checkpoint = await parked(old, [1, 20])
    with pytest.raises(Incompatible, match="collects from 'large' now, but not when this run came there"):
        carried(new, old, checkpoint, override=True)


def joined(*, third: bool = False) -> Workflow:
    wf = Workflow("joined")
    one = wf.step(start=True, name="one")(ask)
    sources = [wf.step(start=True, name=name)(plain_amount) for name in (("zero", "two") if third else ("two",))]

    @wf.step(after=all_of(*sources, one))
    async def add(amounts: list[int]) -> int:
        return sum(amounts)

    return wf


async def plain_amount(claim: Claim) -> int:
    return claim.amount


async def test_a_join_that_has_collected_and_has_other_sources_now_is_refused():
    old, new = joined(), joined(third=True)
    checkpoint = await parked(old)
    with pytest.raises(Incompatible, match="'add' has collected values and comes after other steps now"):
        carried(new, old, checkpoint, override=True)


async def test_an_override_goes_on_under_a_graph_in_which_the_place_is_valid():
    old, new = chain(), chain(extra=True)
    checkpoint = await parked(old)
    with pytest.raises(Incompatible, match="added: archive"):
        carried(new, old, checkpoint)
    found = carried(new, old, checkpoint, override=True)
    assert (found.how, found.words, found.closed) == ("override", (), ())
    here = checkpoint.model_copy(update={"body": found.body, "version": new.version})
    assert await goes_on(new, here) == "paid 7, filed"


async def test_an_override_is_refused_where_a_step_under_way_is_gone():
    old = chain()
    with pytest.raises(Incompatible, match="'review' is running and is not in this graph"):
        carried(chain(step="other"), old, await parked(old), override=True)


async def test_new_state_fields_get_their_defaults_and_unknown_ones_are_refused():
    old = chain()
    checkpoint = await parked(old)
    found = carried(chain(extra=True, state=Totals), old, checkpoint, override=True)
    assert found.body["state"] == {"total": 0}
    assert found.words == ("state gets total at its default",)
    strange = checkpoint.model_copy(update={"body": {**checkpoint.body, "state": {"colour": "red"}}})
    with pytest.raises(Incompatible, match="state has 'colour'"):
        carried(chain(extra=True, state=Totals), old, strange, override=True)


async def test_a_call_of_which_no_one_knows_keeps_its_step():
    wf, new = Workflow("w"), Workflow("w")

    async def pay(claim: Claim, ctx: Context) -> int:
        return await ctx.call(lambda: 1, once=True, name="charge")

    wf.step(start=True, name="pay")(pay)
    new.step(start=True, name="bill")(pay)
    new.migrate(from_version=wf.version)(lambda run: run.move("pay", "bill"))
    recorder = ListRecorder(dies_after=2)
    with pytest.raises(BaseException):  # noqa: B017 - the power is cut
        await wf.run({"amount": 1}, storage=recorder)
    with pytest.raises(Incompatible, match="the outcome of 'charge' is unknown"):
        await new.run(checkpoint=recorder.latest)


async def test_a_migrated_run_is_found_migrated_in_its_storage():
    storage = MemoryStorage()
    outcome = await chain().run({"amount": 5}, storage=storage, run_id="r")
    key = outcome.requests[0].key
    new = chain(step="check", was="review")
    assert finished(await new.run(run_id="r", storage=storage, answers={key: 4})) == "paid 4"
    reasons = [info.reason for info in await storage.list_checkpoints("r")]
    assert Reason.MIGRATE in reasons


async def test_a_call_keeps_its_key_when_its_step_is_renamed():
    keys: list[str] = []

    async def pay(claim: Claim, ctx: Context) -> int:
        keys.append(ctx.effect_key)
        await ctx.call(lambda: 1, once=True, name="charge")
        return int(await ctx.ask("well?", answer=int))

    old, new = Workflow("w"), Workflow("w")
    old.step(start=True, name="pay")(pay)
    new.step(start=True, name="bill", was="pay")(pay)
    first = ListRecorder()
    outcome = await old.run({"amount": 1}, storage=first)
    assert await goes_on(new, handed_over(outcome.checkpoint), 3) == 3
    assert len(set(keys)) == 1
    cut, last = ListRecorder(dies_after=2), ListRecorder()
    with pytest.raises(BaseException):  # noqa: B017 - the power is cut
        await old.run({"amount": 1}, storage=cut)
    await new.run(checkpoint=cut.latest, storage=last)
    intended = {effect.key for commit in cut.commits for effect in commit.effects}
    assert intended == {effect.key for commit in last.commits for effect in commit.effects} != set()


SOURCE = """
from pydantic import BaseModel, field_validator
from wfdash.workflow import Context, Question, Workflow

class Refused(Exception):
    pass

class Vendor(BaseModel):
    iban: str

    @field_validator("iban")
    @classmethod
    def _known(cls, value):
        if not value.startswith("DE"):
            raise ValueError("must be a German account")
        return value

def charge():
    raise Refused("no")

child = Workflow("child")

@child.step(start=True)
async def inner(message: str, ctx: Context) -> str:
    try:
        await ctx.call(charge)
    except Refused as refused:
        told = str(refused)
    vendor = await ctx.ask(Question(subject="Which?"), answer=Vendor)
    return f"{told} {vendor.iban}"

wf = Workflow("moving")
wf.sub("payment", child, start=True)
"""


@pytest.fixture
def serve(settings, tmp_path: Path) -> Callable[[str], Workflow]:
    """Serve the file from a folder, in a process that has never seen it elsewhere."""
    settings.WFDASH_APPS = []

    def load(folder: str, name: str = "flows.py") -> Workflow:
        for module in [name for name in sys.modules if name.startswith("wfdash_served_flows")]:
            del sys.modules[module]
        path = tmp_path / folder / name
        path.parent.mkdir()
        path.write_text(SOURCE)
        settings.WFDASH_WORKFLOWS = [str(path)]
        catalog.load.cache_clear()
        found = catalog.get("moving").definition
        assert isinstance(found, Workflow)
        return found

    yield load
    catalog.load.cache_clear()


async def started(wf: Workflow) -> Waiting:
    outcome = await wf.run("go")
    assert isinstance(outcome, Waiting), outcome
    return outcome


async def test_validators_still_judge_and_calls_still_raise_after_a_file_moved(serve) -> None:
    before = await started(serve("one"))
    (request,) = before.requests
    assert "flows" not in str(request.answer_schema[MARK])
    after = serve("two")
    assert after.version == before.checkpoint.version
    assert check_answer(after.graph, request, {"iban": "FR1"})[0]["msg"] == "Must be a German account"
    checkpoint = handed_over(before.checkpoint)
    with pytest.raises(InvalidInput):
        await after.run(answers={request.key: {"iban": "FR1"}}, checkpoint=checkpoint)
    done = await after.run(answers={request.key: {"iban": "DE1"}}, checkpoint=checkpoint)
    assert finished(done) == "no DE1"


async def test_requests_that_name_the_folder_of_a_file_still_find_their_type(serve) -> None:
    before = await started(serve("one"))
    (request,) = before.requests
    named = {**request.answer_schema, MARK: "wfdash_served_flows_0123456789ab:Vendor"}
    old = request.model_copy(update={"answer_schema": named})
    for after in (serve("two"), serve("three", "renamed.py")):
        assert check_answer(after.graph, old, {"iban": "FR1"})
        assert not check_answer(after.graph, old, {"iban": "DE1"})


async def test_a_type_that_is_gone_is_told_of(serve, caplog) -> None:
    wf = serve("one")
    (request,) = (await started(wf)).requests
    gone = request.model_copy(update={"answer_schema": {**request.answer_schema, MARK: ":Supplier"}})
    with caplog.at_level(logging.WARNING, "wfdash.workflow.answers"):
        assert check_answer(wf.graph, gone, {"iban": "FR1"}) == []
    assert ":Supplier of an answer no longer exists" in caplog.text


class Wide(BaseModel):
    iban: str


class Narrow(BaseModel):
    iban: str

    @field_validator("iban")
    @classmethod
    def _known(cls, value: str) -> str:
        if not value.startswith("DE"):
            raise ValueError("must be a German account")
        return value


def asking(kind: Any, ask: Callable[[Context], Any] | None = None) -> Workflow:
    async def buy(ctx: Context) -> str:
        vendor = await (ask(ctx) if ask else ctx.ask(Question(subject="Which?"), answer=kind))
        await ctx.call(str, name="after")
        return str(vendor.iban)

    return flow(buy)


async def resumed(wf: Workflow, checkpoint: Checkpoint, value: Any, recorder: ListRecorder | None = None) -> Any:
    """Go on as a worker does, to which an answer comes that someone else accepted."""
    (request,) = checkpoint.requests
    answers = {request.key: Answer(key=request.key, value=value, by="ana")}
    return await wf.run(answers=answers, checkpoint=handed_over(checkpoint), storage=recorder or ListRecorder())


async def test_an_answer_that_the_step_cannot_take_any_more_is_asked_for_again() -> None:
    before, recorder = await asking(Wide).run(None), ListRecorder()
    again = await resumed(asking(Narrow), before.checkpoint, {"iban": "FR1"}, recorder)
    assert isinstance(again, Waiting), again
    (request,) = again.requests
    note = request.card["asked_again"]
    assert (note["parts"], note["answered"]) == (["answer"], True)
    assert "must be a German account" in note["problem"]
    (event,) = [e for commit in recorder.commits for e in commit.events if e.kind == "request.replaced"]
    assert event.data["parts"] == ["answer"]
    right = await asking(Narrow).run(answers={request.key: {"iban": "DE1"}}, checkpoint=handed_over(again.checkpoint))
    assert finished(right) == "DE1"


async def test_an_answer_that_the_step_went_on_from_is_not_asked_for_again() -> None:
    def twice(ctx: Context) -> Any:
        async def ask() -> Any:
            vendor = await ctx.ask(Question(subject="Which?"), answer=kinds[-1])
            await ctx.ask("Sure?")
            return vendor

        return ask()

    kinds: list[Any] = [Wide]
    wf = asking(None, twice)
    first = await wf.run(None)
    (request,) = first.requests
    second = await wf.run(answers={request.key: {"iban": "FR1"}}, checkpoint=handed_over(first.checkpoint))
    assert isinstance(second, Waiting)
    kinds.append(Narrow)
    (request,) = second.requests
    outcome = await wf.run(answers={request.key: "yes"}, checkpoint=handed_over(second.checkpoint))
    assert failed(outcome).startswith("WrongType")


async def test_it_is_not_asked_for_without_end() -> None:
    async def ask(ctx: Context) -> Any:
        return await ctx.ask(Approval(subject="Which?", edit=Narrow, proposal={"iban": "DE1"}))

    wf = flow(ask)
    outcome = await wf.run(None)
    bad = {"action": "edit", "edited": {"iban": "FR1"}}
    for _ in range(4):
        assert isinstance(outcome, Waiting), outcome
        outcome = await resumed(wf, outcome.checkpoint, bad)
    assert failed(outcome).startswith("WrongType")


def test_the_card_says_what_is_wrong_with_the_earlier_answer() -> None:
    note = {"parts": ["answer"], "was": "ask-1.0", "answered": True, "problem": "answer.iban: must be German"}
    again = asked_again({"asked_again": note}, {"asked_again": {}})
    assert again is not None
    assert again.reason == "the step can no longer use the earlier answer (answer.iban: must be German)"
    assert not again.changes
