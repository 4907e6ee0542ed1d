import migration
import migration_before

from checkpoints.records import Checkpoint
from wfdash.workflow import Waiting


async def handed_over(answers: int) -> Checkpoint:
    """Return what the old version leaves behind after so many answers, as JSON would carry it."""
    waiting = await migration_before.purchases.run(message="tea")
    for _ in range(answers):
        assert isinstance(waiting, Waiting)
        key = waiting.requests[0].key
        waiting = await migration_before.purchases.run(
            checkpoint=waiting.checkpoint, answers={key: {"action": "approve"}}
        )
    return Checkpoint.model_validate_json(waiting.checkpoint.model_dump_json())


async def test_a_question_that_was_open_is_still_the_same_question() -> None:
    old = await handed_over(0)
    answers = {old.requests[0].key: {"action": "approve"}}
    finished = await migration.purchases.run(checkpoint=old, answers=answers)
    assert finished.result() == "tea: ok (CHF)"


async def test_a_run_that_waited_in_the_removed_step_ends_in_the_new_one() -> None:
    finished = await migration.purchases.run(checkpoint=await handed_over(1))
    assert finished.result() == "tea: ok (CHF)"
