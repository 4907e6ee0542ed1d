"""What an engine says of its definitions and checkpoints, without running a step."""

from __future__ import annotations

import json

from checkpoints.conformance.worlds import checks_in, refused
from wfdash.contract import (
    ChecksAnswers,
    Edits,
    InvalidInput,
    LooksAhead,
    NamesSecrets,
    Shows,
    TakesEdits,
    TellsInFlight,
)
from wfdash.engines.conformance.worlds import EngineWorld, needs
from wfdash.engines.serving import Served
from wfdash.values.schemas.validate import problems_of


class Touchy:
    """An object that does not like to be looked at."""

    def __getattr__(self, name: str) -> object:
        """Raise, whatever is asked for."""
        raise RuntimeError(f"do not touch {name}")


async def it_accepts_its_definitions_and_nothing_else(world: EngineWorld) -> None:
    engine, definition = world.engine(), world.definition(world.samples.asks)
    assert engine.accepts(definition.make() if isinstance(definition, Served) else definition)
    for other in (None, 3, "text", object(), Touchy(), Touchy, json, lambda: None, world):
        assert not engine.accepts(other), f"{engine.name} accepts {other!r}"


async def a_description_is_json_and_its_edges_lead_to_its_steps(world: EngineWorld) -> None:
    engine = world.engine()
    for sample in (one for one in (world.samples.asks, world.samples.steps) if one is not None):
        found = engine.describe(world.definition(sample))
        assert found == type(found).model_validate_json(found.model_dump_json())
        assert found.engine == engine.name
        assert found.workflow, "a description has no name"
        assert found.version, "a description has no version"
        names = [step.name for step in found.steps]
        assert names, "a description has no steps"
        assert len(names) == len(set(names)), f"steps with one name: {names}"
        ends = {end for edge in found.edges for end in (edge.source, edge.target)}
        assert ends <= set(names), f"edges lead to what is no step: {sorted(ends - set(names))}"
        assert {step.parent for step in found.steps} - {None} <= set(names) | {step.parent for step in found.steps}
    asks = engine.describe(world.definition(world.samples.asks))
    assert any(step.person for step in asks.steps), "no step of Samples.asks is marked as one that asks people"


async def wrong_input_is_refused_with_its_field(world: EngineWorld) -> None:
    engine, definition = world.engine(), world.definition(world.samples.asks)
    given = world.samples.asks.message("paper")
    engine.check_input(definition, engine.check_input(definition, given))
    assert not problems_of(engine.describe(definition).input_schema, given), "the form refuses the sample's message"
    with refused(InvalidInput) as caught:
        engine.check_input(definition, world.samples.wrong_input)
    assert caught[0].errors, "InvalidInput without errors"
    for error in caught[0].errors:
        assert isinstance(error["loc"], list), error
        assert error["msg"], error


async def a_wrong_answer_is_refused_before_it_is_used(world: EngineWorld) -> None:
    run = await world.begin(world.samples.asks)
    (request,) = (await run.drive()).requests
    engine, definition = world.engine(), world.definition(world.samples.asks)
    right, wrong = world.samples.asks.answer("yes"), world.samples.wrong_answer
    assert not problems_of(request.answer_schema, right), f"the form refuses {right!r}"
    problems = list(problems_of(request.answer_schema, wrong))
    if isinstance(engine, ChecksAnswers):
        assert not engine.check_answer(definition, request, right), f"check_answer() refuses {right!r}"
        problems += problems or engine.check_answer(definition, request, wrong) or []
    assert problems, f"the answer {wrong!r} is refused neither by its schema nor by check_answer()"
    assert all(problem["msg"] for problem in problems), problems
    json.dumps(request.card, allow_nan=False)
    assert request.card.get("subject"), "the card of a question has no subject"


@needs(Shows)
async def what_is_shown_of_each_checkpoint_is_json(world: EngineWorld) -> None:
    engine = world.engine()
    assert isinstance(engine, Shows)
    samples = (world.samples.asks, world.samples.steps, world.samples.asks_two)
    for sample in (one for one in samples if one is not None):
        run = await world.begin(sample)
        await run.finish()
        for checkpoint in await run.checkpoints():
            before = checkpoint.model_copy(deep=True)
            shown = engine.show(checkpoint)
            assert checkpoint == before, "show() changed the checkpoint"
            assert shown == type(shown).model_validate_json(shown.model_dump_json())
            json.dumps(shown.state, allow_nan=False)
            assert engine.show(type(checkpoint).model_validate_json(checkpoint.model_dump_json())) == shown


@needs("steps", TellsInFlight)
async def what_is_in_flight_is_known_at_each_checkpoint(world: EngineWorld) -> None:
    assert world.samples.steps is not None
    engine, definition = world.engine(), world.definition(world.samples.steps)
    assert isinstance(engine, TellsInFlight)
    run = await world.begin(world.samples.steps)
    await run.finish()
    known = {step.name for step in run.description().steps}
    for checkpoint in await run.checkpoints():
        found = engine.in_flight(definition, checkpoint)
        assert set(found.steps) <= known, found
    assert engine.in_flight(definition, await run.head()).steps == (), "a finished run has steps in flight"
    assert run.ledger.counts.most_common(1)[0][1] == 1


@needs(LooksAhead)
async def looking_ahead_runs_nothing(world: EngineWorld) -> None:
    engine, definition = world.engine(), world.definition(world.samples.asks)
    assert isinstance(engine, LooksAhead)
    run = await world.begin(world.samples.asks)
    await run.drive()
    head, notes = await run.head(), list(run.ledger.notes)
    ahead = engine.look_ahead(world.definition(world.samples.asks, run.ledger), head, head.created)
    assert any(head.requests[0].key in one.asks for one in ahead.doing) or not ahead.doing, ahead
    assert run.ledger.notes == notes
    assert engine.look_ahead(definition, head, head.created) == ahead


@needs(TakesEdits)
async def an_edit_that_changes_nothing_leaves_the_checkpoint(world: EngineWorld) -> None:
    engine, definition = world.engine(), world.definition(world.samples.asks)
    assert isinstance(engine, TakesEdits)
    run = await world.begin(world.samples.asks)
    await run.drive()
    head = await run.head()
    edited = engine.edit(definition, head, Edits())
    assert edited.body == head.body
    assert edited.requests == head.requests
    run.refuse_notes_but("before")
    with refused(InvalidInput) as caught:
        engine.edit(definition, head, Edits(messages={"there is none of this name": 1}))
    assert caught[0].errors


@needs("secret", NamesSecrets)
async def secrets_of_a_definition_are_named(world: EngineWorld) -> None:
    engine = world.engine()
    assert isinstance(engine, NamesSecrets)
    assert world.samples.secret is not None
    sample, names = world.samples.secret
    assert names <= engine.secret_names(world.definition(sample))


DEFINITIONS = checks_in(globals())
