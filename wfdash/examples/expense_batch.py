"""Turns a CSV of expense claims into a CSV of payments.

Small claims are paid automatically; each large one waits for its own approval by finance, very large ones for two.
"""

from __future__ import annotations

from decimal import Decimal

from pydantic import BaseModel, Field

from wfdash.examples import claims
from wfdash.examples.claims import Claim, Csv
from wfdash.questions.evidence import Table
from wfdash.workflow import Approval, Context, Workflow, each, gather

SHOWN = ["id", "date", "category", "description", "amount", "currency"]


class Batch(BaseModel):
    claims: Csv = Field(claims.SAMPLE, title="Claims", description="CSV with the same columns as the sample")
    ask_above: int = Field(
        500, ge=0, title="Ask finance above", description="Euros. Claims up to this amount are paid without review"
    )
    ask_two_above: int = Field(2500, ge=0, title="Ask two people above", description="Euros")


class Decided(BaseModel):
    claim: Claim
    rejected: str | None = None


class Notes(BaseModel):
    claims: list[Claim] = []
    limits: list[int] = []
    dirty: list[str] = []


class Payments(BaseModel):
    payments: Csv
    total: Decimal
    rejected: list[str]
    dirty: list[str]


expense_batch = Workflow("expense_batch", title="Expense batch", doc=__doc__ or "", state=Notes)


@expense_batch.step(start=True)
def read(batch: Batch, ctx: Context) -> list[Claim]:
    """Read the rows; invalid ones are reported and skipped."""
    found, dirty = claims.read_claims(batch.claims)
    ctx.state.limits = [batch.ask_above, batch.ask_two_above]
    ctx.state.claims, ctx.state.dirty = found, dirty
    ctx.title(f"{len(found)} expense claims, {sum(claim.euros for claim in found):,.2f} €")
    ctx.emit("claims_read", {"claims": len(found), "dirty": dirty})
    return found


@expense_batch.step(after=each(read))
async def decide(claim: Claim, ctx: Context) -> Decided:
    """Ask one person for each limit the claim exceeds; the first rejection is final."""
    people = sum(claim.euros > limit for limit in ctx.state.limits)
    for left in range(people, 0, -1):
        asked = tuple(name for answer in ctx.answers for name in answer.voters)
        others = [other for other in ctx.state.claims if other.employee == claim.employee and other.id != claim.id]
        decision = await ctx.ask(question(claim, others, left), by=("finance",), not_by=asked)
        if not decision.approved:
            return Decided(claim=claim, rejected=decision.reason or "")
    return Decided(claim=claim)


def question(claim: Claim, others: list[Claim], left: int) -> Approval:
    """Return the card of a claim; ``left`` people have yet to agree."""
    return Approval(
        subject=f"{claim.employee}: {claim.description}, {claim.euros} EUR",
        proposal=f"Pay {claim.euros} EUR to {claim.employee}",
        context=claim.model_dump(mode="json"),
        evidence=[Table(title=f"Other claims of {claim.employee}", rows=others, columns=SHOWN)],
        consequence={
            "approve": "A second person in finance must approve" if left > 1 else "Paid with the batch",
            "reject": "Excluded; others are paid",
        },
        risk="high" if left > 1 else "medium",
        undo="Cancel the run before the batch is complete",
        require_reason=True,
    )


@expense_batch.step(after=gather(decide))
def pay(decided: list[Decided], ctx: Context) -> Payments:
    """Combine the decisions: one payment per employee."""
    paid = [one.claim for one in decided if one.rejected is None]
    return Payments(
        payments=claims.write_payments(paid),
        total=sum((claim.euros for claim in paid), Decimal(0)),
        rejected=[f"{one.claim.id}: {one.rejected}" for one in decided if one.rejected is not None],
        dirty=ctx.state.dirty,
    )
