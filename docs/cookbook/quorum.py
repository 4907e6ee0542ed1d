"""A release needs two people who did not ask for it. No answer within eight hours is a no."""

from pydantic import BaseModel

from wfdash.workflow import Approval, Context, Policy, Workflow
from wfdash.workflow.evidence import Link


class Release(BaseModel):
    service: str
    version: str
    notes: str = ""


def by_service(release: Release) -> Policy | None:
    """Return what is special for a service: payments need a third person, and no operator decides alone."""
    return Policy(need=3, override=False) if release.service == "payments" else None


releases = Workflow(
    "releases",
    title="Release",
    run_title="Release {service} {version}",
    policy=Policy(
        by="release",
        need=2,
        not_by="requester",
        due="4h",
        remind="1h",
        escalate="cto",
        on_timeout="reject",
        tiers=by_service,
    ),
)


@releases.step(start=True)
async def approve(release: Release, ctx: Context) -> str:
    card = Approval(
        subject=f"Release {release.service} {release.version}?",
        proposal=release,
        evidence=[Link(url=f"https://git.example.org/{release.service}/tree/{release.version}", title="The code")],
        consequence={"approve": "Deployed as soon as enough have approved", "reject": "Not deployed"},
        risk="high",
        undo="Deploy the version before",
        require_reason=True,
    )
    decision = await ctx.ask(card)
    if decision.approved:
        return await ctx.call(deploy, release, once=True)
    return "too late" if decision.lapsed else f"rejected: {decision.reason}"


def deploy(release: Release) -> str:
    return f"{release.service} {release.version} is live"
