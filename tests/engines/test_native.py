"""The engine of this package: its conformance, and what it says of workflows."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, Field

from checkpoints.ids import RunId
from checkpoints.records import Answer
from tests.conformance.worlds import AnyWorld
from tests.engines.samples import SAMPLES
from tests.workflow.runtime.test_run_claim import Proxy
from tests.workflow.runtime.test_run_claim import static_lookups as static_lookups
from tests.workflow.world import ListRecorder, finished, handed_over
from wfdash import contract
from wfdash.contract import Engine, InvalidInput, Resume, Shows, Start
from wfdash.engines.conformance import CHECKS, Check, EngineWorld
from wfdash.engines.native import NativeEngine
from wfdash.workflow import Context, Workflow, each, gather


@pytest.mark.usefixtures("static_lookups")
def test_a_proxy_around_an_engine_keeps_its_abilities() -> None:
    abilities = [kind for kind in vars(contract).values() if getattr(kind, "_is_runtime_protocol", False)]
    abilities = [kind for kind in abilities if isinstance(NativeEngine(), kind)]
    assert {Shows, contract.Migrates, contract.TakesEdits} <= {*abilities}
    for kind in abilities:
        assert isinstance(Proxy(NativeEngine()), kind)
        assert not isinstance(Proxy(object()), kind)


class Batch(BaseModel):
    amounts: list[int] = Field(min_length=1)


child = Workflow("child")
child.step(start=True, name="inner")(lambda n: n)

wf = Workflow("expenses", title="Expenses", doc="Pays them.", examples=[{"amounts": [1]}])


@wf.step(start=True)
async def read(batch: Batch) -> list[int]:
    """Read the file."""
    return batch.amounts


@wf.step(after=each(read), when=lambda n: n > 100)
async def review(n: int, ctx: Context) -> int:
    return int(await ctx.ask("how much?", answer=int))


@wf.step(after=each(read), otherwise=True)
async def automatic(n: int) -> int:
    return n


@wf.step(after=gather(review, automatic), title="Pay out")
async def pay(amounts: list[int]) -> int:
    return sum(amounts)


wf.sub("archive", child, after=pay)

engine: Engine = NativeEngine()


def test_it_describes_steps_people_types_and_arrows():
    found = engine.describe(wf)
    assert (found.title, found.doc, found.engine, found.version) == ("Expenses", "Pays them.", "native", wf.version)
    assert found.input_schema["properties"]["amounts"]["minItems"] == 1
    steps = {step.name: step for step in found.steps}
    assert list(steps) == ["read", "review", "automatic", "pay", "archive/inner"]
    assert [name for name, step in steps.items() if step.person] == ["review"]
    assert (steps["read"].takes, steps["read"].gives, steps["read"].doc) == ("Batch", "list[int]", "Read the file.")
    assert (steps["archive/inner"].parent, steps["pay"].title) == ("archive", "Pay out")
    assert [(e.source, e.target, e.kind, e.label) for e in found.edges] == [
        ("read", "review", "each", "each: n > 100"),
        ("read", "automatic", "each", "otherwise"),
        ("review", "pay", "gather", "gather"),
        ("automatic", "pay", "gather", "gather"),
        ("pay", "archive/inner", "plain", ""),
    ]


def test_it_accepts_only_native_workflows():
    assert engine.accepts(wf)
    assert not engine.accepts(object())


def test_input_is_checked_per_field():
    assert engine.check_input(wf, {"amounts": [1]}) == {"amounts": [1]}
    with pytest.raises(InvalidInput) as caught:
        engine.check_input(wf, {"amounts": ["x"]})
    assert caught.value.errors[0]["loc"] == ["amounts", 0]


async def test_it_starts_parks_and_resumes_with_the_answers_that_fit():
    recorder = ListRecorder()
    outcome = await engine.drive(wf, Start(run=RunId("r"), message={"amounts": [5, 500]}), recorder)
    key = outcome.requests[0].key
    stale = {"gone": Answer(key="gone", value=1), key: Answer(key=key, value=70)}
    given = Resume(run=RunId("r"), checkpoint=handed_over(outcome.checkpoint), answers=stale)
    assert finished(await engine.drive(wf, given, recorder)) == 75
    numbers = [c.checkpoint.n for c in recorder.commits if c.checkpoint]
    assert numbers == list(range(1, len(numbers) + 1))
    assert recorder.commits[-1].standing.output == 75


async def test_it_shows_a_checkpoints_state_and_the_inputs_of_steps_in_progress():
    assert isinstance(engine, Shows)
    outcome = await engine.drive(wf, Start(run=RunId("r"), message={"amounts": [5, 500]}), ListRecorder())
    shown = engine.show(handed_over(outcome.checkpoint))
    assert (shown.state, list(shown.inputs.values()), shown.transcript) == ({}, [500], ())


@pytest.mark.parametrize("body", [{}, {"answered": []}, {"state": 1, "position": {"live": {}}}])
async def test_it_says_that_it_cannot_show_another_engines_checkpoint(body):
    outcome = await engine.drive(wf, Start(run=RunId("r"), message={"amounts": [500]}), ListRecorder())
    with pytest.raises(ValueError, match="no state of a workflow"):
        engine.show(outcome.checkpoint.model_copy(update={"body": body}))


applying = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)


@applying
async def test_the_native_engine_keeps_its_promises_in_memory(check: Check):
    await check(EngineWorld(NativeEngine, SAMPLES, visible_within=5.0, tolerance=0.5))


@applying
async def test_the_native_engine_keeps_its_promises(check: Check, engine_place: AnyWorld):
    await check(EngineWorld(NativeEngine, SAMPLES, engine_place, visible_within=5.0, tolerance=0.5))


def test_all_checks_apply_to_it():
    world = EngineWorld(NativeEngine, SAMPLES)
    assert {check.__name__: world.lacks(check) for check in CHECKS if world.lacks(check)} == {}


@pytest.mark.alone
async def test_a_running_step_is_visible_within_300_ms_and_its_length_is_right_to_30_ms():
    (check,) = (check for check in CHECKS if check.__name__.startswith("a_step_is_visible_while_it_runs"))
    await check(EngineWorld(NativeEngine, SAMPLES))
