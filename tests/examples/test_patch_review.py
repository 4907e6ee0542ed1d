from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.examples.runs import answer_one, cut_after_each_checkpoint, output, waiting
from wfdash.contract import Outcome
from wfdash.examples import repository
from wfdash.examples.patch_review import patch_review
from wfdash.examples.patches import Patch, Result

APPROVE = {"action": "approve"}
REJECT = {"action": "reject", "reason": "not now"}


async def start(shop: Path, diff: str) -> Outcome:
    return await patch_review.run({"repository": str(shop), "diff": diff})


def without_requirements(patch: str) -> str:
    pieces = patch.split("diff --git ")
    return "diff --git ".join(piece for piece in pieces if "requirements.txt" not in piece)


async def test_a_person_sees_the_patch_its_files_and_what_each_answer_does(shop: Path, patch: str):
    (request,) = waiting(await start(shop, patch))
    card = request.card
    assert card["subject"] == "Apply a patch to 5 files of shop?"
    assert card["risk"] == "medium"
    assert card["proposal"] == patch
    assert [item["kind"] for item in card["evidence"]] == ["table", "file"]
    files = {row["file"]: row["notes"] for row in card["evidence"][0]["value"]}
    assert files["requirements.txt"] == "changes what is installed"
    assert set(card["consequence"]) == {"approve", "edit", "reject"}
    assert [action["name"] for action in card["actions"]] == ["approve", "edit", "reject"]


async def test_nothing_changes_while_the_run_waits(shop: Path, patch: str, contents):
    before = contents()
    waiting(await start(shop, patch))
    assert contents() == before
    assert repository.git("worktree", "list", cwd=shop).stdout.count("\n") == 1


async def test_an_approval_changes_the_repository(shop: Path, patch: str, contents):
    outcome = await answer_one(patch_review, await start(shop, patch), APPROVE)
    assert output(outcome)["applied"] is True
    assert "5 files changed" in output(outcome)["summary"]
    assert "ROUND_HALF_UP" in contents()["prices.py"]
    assert contents()["requirements.txt"] == "pytest==9.0.1\n"
    assert repository.git("diff", cwd=shop).stdout == patch


async def test_a_rejection_changes_nothing_and_keeps_the_reason(shop: Path, patch: str, contents):
    before = contents()
    outcome = await answer_one(patch_review, await start(shop, patch), REJECT)
    assert output(outcome) == {"applied": False, "summary": "Rejected: not now"}
    assert contents() == before


async def test_comments_on_lines_of_a_rejected_patch_come_back_to_the_author(shop: Path, patch: str, contents):
    before = contents()
    said = {"file": "prices.py", "line": 3, "side": "new", "text": "Why half up?"}
    outcome = await answer_one(patch_review, await start(shop, patch), {**REJECT, "line_comments": [said]})
    (request,) = waiting(outcome)
    assert request.by == ("requester",)
    assert request.card["body"] == "not now\n\n* `prices.py`, line 3: Why half up?"
    assert request.card["current"] == {"diff": patch}
    again = await answer_one(patch_review, outcome, {"diff": without_requirements(patch)})
    (request,) = waiting(again)
    assert request.card["proposal"] == without_requirements(patch)
    assert contents() == before


async def test_an_edited_patch_comes_back_and_only_it_is_applied(shop: Path, patch: str, contents):
    edited = without_requirements(patch)
    outcome = await answer_one(patch_review, await start(shop, patch), {"action": "edit", "edited": edited})
    (request,) = waiting(outcome)
    assert request.card["subject"] == "Apply a patch to 4 files of shop?"
    assert request.card["proposal"] == edited
    outcome = await answer_one(patch_review, outcome, APPROVE)
    assert output(outcome)["applied"] is True
    assert contents()["requirements.txt"] == "pytest==8.4.2\n"
    assert "ROUND_HALF_UP" in contents()["prices.py"]


async def test_an_edit_that_does_not_apply_is_not_lost(shop: Path, patch: str, contents):
    before = contents()
    edited = patch.replace("self.lines)", "self.rows)")
    outcome = await answer_one(patch_review, await start(shop, patch), {"action": "edit", "edited": edited})
    (request,) = waiting(outcome)
    assert "hunk 2 of cart.py (line 15) does not apply" in request.card["body"]
    assert request.card["proposal"] == edited
    assert request.card["risk"] == "high"
    outcome = await answer_one(patch_review, outcome, APPROVE)
    assert "hunk 2 of cart.py" in waiting(outcome)[0].card["body"]
    assert output(await answer_one(patch_review, outcome, REJECT))["applied"] is False
    assert contents() == before


async def test_a_patch_that_does_not_apply_is_sent_back_without_asking_anyone(shop: Path, patch: str, contents):
    before = contents()
    result = output(await start(shop, patch.replace("self.lines)", "self.rows)")))
    assert result["applied"] is False
    assert "hunk 2 of cart.py (line 15) does not apply" in result["summary"]
    assert contents() == before


async def test_a_path_that_is_no_repository_is_sent_back(tmp_path: Path, patch: str):
    result = output(await start(tmp_path, patch))
    assert result["applied"] is False
    assert "is not the top of a git repository" in result["summary"]


async def test_complaints_of_the_checks_reach_the_reviewer(shop: Path, patch: str):
    (request,) = waiting(await start(shop, patch.replace("+    if not 0 <=", "+    if not 0 < =")))
    assert "compile: prices.py:16: SyntaxError" in request.card["body"]
    assert "SyntaxError" in request.card["body"]
    assert request.card["risk"] == "high"


async def test_a_repository_that_changed_since_is_looked_at_again(shop: Path, patch: str, contents):
    outcome = await start(shop, patch)
    (shop / "prices.py").write_text("VAT = 0.25\n")
    outcome = await answer_one(patch_review, outcome, APPROVE)
    assert "hunk 1 of prices.py" in waiting(outcome)[0].card["body"]
    assert contents()["prices.py"] == "VAT = 0.25\n"
    repository.git("checkout", "prices.py", cwd=shop)
    again = await answer_one(patch_review, outcome, APPROVE)
    assert output(again)["applied"] is True


async def test_a_crash_while_it_is_applied_asks_a_person_instead_of_applying_it_twice(
    shop: Path, patch: str, monkeypatch: pytest.MonkeyPatch
):
    applied, apply = asyncio.Event(), repository.apply

    async def die_after(patch: Patch) -> Result:
        apply(patch)
        applied.set()
        return await asyncio.Event().wait()

    outcome = await start(shop, patch)
    (request,) = waiting(outcome)
    monkeypatch.setattr(repository, "apply", die_after)
    async with patch_review.run_stream(checkpoint=outcome.checkpoint, answers={request.key: APPROVE}) as stream:
        async for event in stream:
            if event.kind == "call.intended":
                await applied.wait()
                break
    monkeypatch.undo()

    outcome = await patch_review.run(checkpoint=stream.checkpoint)
    (request,) = waiting(outcome)
    assert request.card["subject"] == "Did 'git apply' succeed?"
    result = {"applied": True, "summary": "I looked: it is there"}
    outcome = await answer_one(patch_review, outcome, {"action": "happened", "result": result})
    assert output(outcome) == result
    assert repository.git("diff", cwd=shop).stdout == patch


async def test_a_crash_after_every_checkpoint_changes_nothing_else(shop: Path, patch: str):
    outcome = await cut_after_each_checkpoint(patch_review, message={"repository": str(shop), "diff": patch})
    (request,) = waiting(outcome)
    assert request.card["subject"] == "Apply a patch to 5 files of shop?"
    assert output(await answer_one(patch_review, outcome, APPROVE))["applied"] is True


async def test_it_says_what_it_did(shop: Path, patch: str):
    outcome = await start(shop, patch)
    (request,) = waiting(outcome)
    stream = patch_review.run_stream(checkpoint=outcome.checkpoint, answers={request.key: APPROVE})
    said = [event.data async for event in stream if event.kind == "custom"]
    assert [(data["name"], data["data"]["applied"]) for data in said] == [("patch_applied", True)]
