"""Check a new vendor, let purchasing correct and approve the record, then create it in the accounting system."""

from pydantic import BaseModel, Field

from wfdash.workflow import Approval, Context, Policy, Workflow, all_of
from wfdash.workflow.evidence import Table


class Vendor(BaseModel):
    name: str
    country: str = Field(min_length=2, max_length=2, title="Country (two letters)")
    iban: str = Field(title="IBAN")


class Finding(BaseModel):
    check: str
    passed: bool
    note: str = ""


class Notes(BaseModel):
    vendor: Vendor | None = None


class Rejected(BaseModel):
    name: str
    reason: str


vendor_onboarding = Workflow(
    "vendor_onboarding",
    title="Vendor onboarding",
    run_title="Vendor {name}",
    state=Notes,
    policy=Policy(by="purchasing", not_by="requester", due="2d", remind="4h"),
)


@vendor_onboarding.step(start=True)
async def receive(vendor: Vendor, ctx: Context) -> Vendor:
    ctx.state.vendor = vendor
    return vendor


@vendor_onboarding.step(after=receive)
async def screen(vendor: Vendor, ctx: Context) -> Finding:
    listed = await ctx.call(on_sanctions_list, vendor.name)
    return Finding(check="Sanctions list", passed=not listed)


@vendor_onboarding.step(after=receive)
async def check_bank(vendor: Vendor) -> Finding:
    same = vendor.iban.startswith(vendor.country)
    return Finding(check="Bank account", passed=same, note="" if same else "The account is in another country")


@vendor_onboarding.step(after=all_of(screen, check_bank))
async def approve(findings: list[Finding], ctx: Context) -> Vendor | Rejected:
    vendor = ctx.state.vendor
    failed = [finding.check for finding in findings if not finding.passed]
    card = Approval(
        subject=f"Create vendor {vendor.name}?",
        proposal=vendor,
        edit=Vendor,
        evidence=[Table(title="Checks", rows=[finding.model_dump() for finding in findings])],
        risk="high" if failed else "low",
        consequence={
            "approve": "Created in the accounting system; invoices can be paid",
            "reject": "Nothing is created",
        },
        undo="Block the vendor in the accounting system",
        require_reason=True,
    )
    decision = await ctx.ask(card)
    return decision.value if decision.approved else Rejected(name=vendor.name, reason=decision.reason or "")


@vendor_onboarding.step(after=approve)
async def create(vendor: Vendor, ctx: Context) -> str:
    return await ctx.call(create_in_accounting, vendor, once=True)


@vendor_onboarding.step(after=approve)
async def decline(rejected: Rejected) -> str:
    return f"{rejected.name} was declined: {rejected.reason}"


def on_sanctions_list(name: str) -> bool:
    return name.lower() in {"acme weapons"}


def create_in_accounting(vendor: Vendor) -> str:
    return f"V-{vendor.iban[-4:]}"
