from __future__ import annotations

import csv
import io
from decimal import Decimal

import pytest

from checkpoints.records import Answer
from tests.examples.runs import answer, cut_after_each_checkpoint, output, waiting
from wfdash.contract import InvalidInput, Outcome
from wfdash.examples.claims import SAMPLE, read_claims
from wfdash.examples.expense_batch import expense_batch

APPROVE = {"action": "approve"}
HEAD = "id,employee,date,category,amount,currency,description\n"
ROWS = """E-1,Kofi,2026-10-05,meals,12.50,EUR,Lunch
E-2,Nora,2026-10-06,travel,800.00,EUR,Flight
E-3,Rosa,2026-10-07,training,4000.00,EUR,Course
E-4,Kofi,2026-10-08,office,oops,EUR,Desk
E-5,Kofi,2026-10-09,office,20.00,GBP,Lamp
"""


async def start(rows: str = ROWS) -> Outcome:
    return await expense_batch.run({"claims": HEAD + rows})


def keys(outcome: Outcome) -> dict[str, str]:
    """Return claim id -> request key."""
    return {request.card["context"]["id"]: request.key for request in waiting(outcome)}


async def approve(outcome: Outcome, *claims: str, by: str) -> Outcome:
    return await answer(expense_batch, outcome, {keys(outcome)[claim]: APPROVE for claim in claims}, by=by)


async def test_all_questions_are_open_at_once_and_only_for_finance():
    outcome = await start()
    assert set(keys(outcome)) == {"E-2", "E-3"}
    assert all(request.by == ("finance",) for request in waiting(outcome))


async def test_the_other_claims_of_the_same_person_are_shown():
    outcome = await start(ROWS + "E-6,Nora,2026-10-06,meals,9.00,EUR,Coffee\n")
    evidence = {request.card["context"]["id"]: request.card.get("evidence") for request in waiting(outcome)}
    assert [row["id"] for row in evidence["E-2"][0]["value"]] == ["E-6"]


async def test_the_payments_are_exact():
    outcome = await approve(await start(), "E-2", "E-3", by="ana")
    outcome = await approve(outcome, "E-3", by="ben")
    result = output(outcome)
    assert result["payments"] == "employee,euros,claims\nKofi,35.50,E-1 E-5\nNora,800.00,E-2\nRosa,4000.00,E-3\n"
    assert result["total"] == "4835.50"
    assert result["rejected"] == []
    assert result["dirty"] == ["line 5: amount 'oops': input should be a valid decimal"]


async def test_a_very_large_claim_needs_a_second_person():
    outcome = await approve(await start(), "E-3", by="ana")
    second = next(request for request in waiting(outcome) if request.card["context"]["id"] == "E-3")
    assert second.not_by == ("ana",)
    assert set(keys(outcome)) == {"E-2", "E-3"}


async def test_a_rejected_claim_is_left_out_and_the_reason_is_kept():
    outcome = await start()
    values = {keys(outcome)["E-2"]: APPROVE, keys(outcome)["E-3"]: {"action": "reject", "reason": "no invoice"}}
    result = output(await answer(expense_batch, outcome, values, by="ana"))
    assert "Rosa" not in result["payments"]
    assert result["rejected"] == ["E-3: no invoice"]


async def test_answers_may_come_one_by_one_in_any_order():
    outcome = await approve(await start(), "E-3", by="ana")
    outcome = await approve(outcome, "E-2", by="ben")
    outcome = await approve(outcome, "E-3", by="ben")
    assert output(outcome)["total"] == "4835.50"


async def test_the_limits_are_the_batches_own():
    outcome = await expense_batch.run({"claims": HEAD + ROWS, "ask_above": 5000, "ask_two_above": 5000})
    assert output(outcome)["total"] == "4835.50"


async def test_a_batch_of_nothing_pays_nothing():
    assert output(await start(""))["payments"] == "employee,euros,claims\n"


async def test_the_shipped_sample_runs_to_its_end():
    outcome = await expense_batch.run({})
    assert len(keys(outcome)) == 10
    outcome = await approve(outcome, *keys(outcome), by="ana")
    assert len(keys(outcome)) == 3
    result = output(await approve(outcome, *keys(outcome), by="ben"))
    claims, dirty = read_claims(SAMPLE)
    paid = list(csv.DictReader(io.StringIO(result["payments"])))
    assert sum(Decimal(row["euros"]) for row in paid) == Decimal(result["total"]) == sum(c.euros for c in claims)
    assert sorted(" ".join(row["claims"] for row in paid).split()) == sorted(claim.id for claim in claims)
    assert result["dirty"] == dirty


async def test_a_crash_after_every_checkpoint_changes_nothing():
    outcome = await cut_after_each_checkpoint(expense_batch, message={"claims": HEAD + ROWS})
    for by in ("ana", "ben"):
        answers = {key: Answer(key=key, value=APPROVE, by=by) for key in keys(outcome).values()}
        outcome = await cut_after_each_checkpoint(expense_batch, checkpoint=outcome.checkpoint, answers=answers)
    assert output(outcome)["total"] == "4835.50"


async def test_a_rejection_must_say_why():
    outcome = await start("E-2,Nora,2026-10-06,travel,800.00,EUR,Flight\n")
    with pytest.raises(InvalidInput, match="reason"):
        await answer(expense_batch, outcome, {keys(outcome)["E-2"]: {"action": "reject"}})
