"""Tests a patch in a scratch index, reviews it file by file and applies it after approval.

Edits are tested again; a rejection with comments on lines goes back to the author. Before approval nothing is changed
and none of its code runs; it is applied at most once.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from wfdash.examples import patches, repository
from wfdash.examples.patches import FileChange, Finding, Patch, Remarks, Result
from wfdash.workflow import Context, Workflow, each, gather


class Trial(BaseModel):
    """The results of trying a patch."""

    patch: Patch | None = None
    complaints: list[str] = []
    reviewed: bool = False


class Approved(BaseModel):
    patch: Patch


patch_review = Workflow("patch_review", title="Patch review", doc=__doc__ or "", state=Trial)


@patch_review.step(start=True, after=["review", "rework", "carry_out"], timeout=300)
def try_out(patch: Patch, ctx: Context) -> list[FileChange] | Result:
    """Apply the patch in a scratch index; compile and lint the resulting text."""
    ctx.state.patch = patch
    ctx.title(f"Patch of {Path(patch.repository).name}")
    try:
        changes, checks = repository.try_out(patch)
    except repository.Refused as refusal:
        if not ctx.state.reviewed:
            return Result(applied=False, summary=f"Sent back without a review: {refusal}")
        changes, checks = [], {"git apply": str(refusal)}
    ctx.state.complaints = [f"{name}: {text}" for name, text in checks.items() if text]
    return changes


@patch_review.step(after=each(try_out))
def look(change: FileChange) -> Finding:
    """List what a reviewer should know about one file."""
    return patches.look_at(change)


@patch_review.step(after=gather(look))
async def review(findings: list[Finding], ctx: Context) -> Patch | Approved | Remarks | Result:
    """Ask a person to approve, edit or reject the patch."""
    ctx.state.reviewed = True
    patch: Patch = ctx.state.patch
    decision = await ctx.ask(patches.question(patch, findings, ctx.state.complaints))
    if decision.action == "edit":
        return patch.model_copy(update={"diff": decision.edited})
    if decision.line_comments and not decision.approved:
        return Remarks(patch=patch, reason=decision.reason or "", lines=decision.line_comments)
    return Approved(patch=patch) if decision.approved else Result(applied=False, summary=f"Rejected: {decision.reason}")


@patch_review.step(after=review)
async def rework(remarks: Remarks, ctx: Context) -> Patch:
    """Bring the reviewer's line comments back to the author, and take the next version."""
    changed = await ctx.ask(patches.rework_of(remarks), answer=patches.NextVersion, by="requester")
    return remarks.patch.model_copy(update={"diff": changed.diff})


@patch_review.step(after=review)
async def carry_out(approved: Approved, ctx: Context) -> Patch | Result:
    """Apply the patch; if the repository changed since the test, review it again."""
    result = await ctx.call(repository.apply, approved.patch, once=True, name="git apply")
    return result if result.applied else approved.patch


@patch_review.step(after=[try_out, review, carry_out])
def report(result: Result, ctx: Context) -> Result:
    """Report the result."""
    ctx.emit("patch_applied" if result.applied else "patch_left", result.model_dump())
    return result
