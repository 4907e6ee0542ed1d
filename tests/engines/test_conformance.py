"""The checks that engines are put through find an engine that breaks a promise."""

from __future__ import annotations

import pytest

from checkpoints.errors import CheckpointsError
from tests.engines import broken
from tests.engines.samples import SAMPLES
from wfdash.engines.conformance import CHECKS, EngineWorld, Samples
from wfdash.engines.native import NativeEngine

BY_NAME = {check.__name__: check for check in CHECKS}
FOUND = {
    broken.SwallowsALostClaim: "a_crash_at_any_commit_repeats_at_most_the_steps_that_ran",
    broken.SwallowsAFullDisk: "a_crash_at_any_commit_repeats_at_most_the_steps_that_ran",
    broken.DoesNotWait: "a_crash_at_any_commit_repeats_at_most_the_steps_that_ran",
    broken.SavesOnlyPauses: "a_crash_at_any_commit_repeats_at_most_the_steps_that_ran",
    broken.ClosesNothing: "a_question_suspends_the_run_and_its_answer_continues_it",
    broken.ForgetsAnswers: "a_question_suspends_the_run_and_its_answer_continues_it",
    broken.DropsFalsyAnswers: "any_answer_arrives_as_it_was_given",
    broken.NamesQuestionsAgain: "a_drive_without_an_answer_asks_the_same_and_runs_nothing",
    broken.HidesQuestions: "a_question_suspends_the_run_and_its_answer_continues_it",
    broken.KeepsTheBody: "a_question_suspends_the_run_and_its_answer_continues_it",
    broken.WritesTuples: "a_run_finishes_with_its_output",
    broken.ChangesInPlace: "a_run_finishes_with_its_output",
    broken.CommitsAfterTheEnd: "a_run_finishes_with_its_output",
    broken.StaysReady: "a_question_suspends_the_run_and_its_answer_continues_it",
    broken.MixesRunsUp: "many_runs_of_one_definition_see_nothing_of_each_other",
    broken.SaysNothing: "events_say_what_happened_in_order",
    broken.SpeaksLate: "a_step_is_visible_while_it_runs_and_lasts_as_long_as_it_did",
    broken.AsksUnannounced: "events_say_what_happened_in_order",
    broken.HidesTheError: "a_failed_step_is_retried_with_the_answer_it_had",
    broken.IsAlwaysOfOneVersion: "another_graph_is_another_version",
    broken.IsOfAnotherVersionEachTime: "another_graph_is_another_version",
    broken.TakesEverything: "it_accepts_its_definitions_and_nothing_else",
    broken.ChecksNoInput: "wrong_input_is_refused_with_its_field",
    broken.AsksWithoutSchema: "a_wrong_answer_is_refused_before_it_is_used",
    broken.ShowsItsObjects: "what_is_shown_of_each_checkpoint_is_json",
    broken.EndsCancelledRuns: "a_drive_that_is_cancelled_ends_and_the_run_continues_later",
    broken.SaysNoStepEnds: "every_checkpoint_leads_to_the_same_output",
    broken.ForgetsWhatWasSaid: "a_finished_run_takes_a_follow_up_and_remembers_what_was_said",
    broken.CarriesNothing: "a_waiting_run_continues_in_a_changed_graph_only_where_it_can",
}


@pytest.mark.parametrize("engine", FOUND, ids=lambda engine: engine.__name__)
async def test_a_broken_promise_is_found(engine: type[NativeEngine]) -> None:
    world = EngineWorld(engine, SAMPLES, visible_within=0.3, tolerance=0.5)
    with pytest.raises((AssertionError, CheckpointsError, ValueError, LookupError, RuntimeError)):
        await BY_NAME[FOUND[engine]](world)


def test_each_check_says_what_it_lacks() -> None:
    world = EngineWorld(NativeEngine, Samples(asks=SAMPLES.asks))
    lacking = {check.__name__: world.lacks(check) for check in CHECKS}
    assert lacking["a_run_finishes_with_its_output"] == "Samples.steps is not given"
    assert lacking["a_wrong_answer_is_refused_before_it_is_used"] == ""
    assert sum(not reason for reason in lacking.values()) > 10
