"""One workflow inside two others: the same legal sign-off for contracts and for advertisements."""

from pydantic import BaseModel

from wfdash.workflow import Approval, Context, Policy, Workflow


class Text(BaseModel):
    title: str
    text: str


class Signed(BaseModel):
    title: str
    by: str


sign_off = Workflow("sign_off", title="Legal sign-off", policy=Policy(by="legal", due="3d"))


@sign_off.step(start=True)
async def review(text: Text, ctx: Context) -> Signed:
    decision = await ctx.ask(Approval(subject=f"Sign {text.title}?", body=text.text, require_reason=True))
    if not decision.approved:
        raise PermissionError(f"not signed: {decision.reason}")
    return Signed(title=text.title, by=decision.by or "")


contracts = Workflow("contracts", title="Contract")


@contracts.step(start=True)
async def draft(customer: str) -> Text:
    return Text(title=f"Contract with {customer}", text=f"{customer} buys tea.")


sign = contracts.sub("sign", sign_off, after=draft)


@contracts.step(after=sign)
async def send(signed: Signed) -> str:
    return f"{signed.title}: sent"


advertisements = Workflow("advertisements", title="Advertisement")
checked = advertisements.sub("checked", sign_off, start=True)


@advertisements.step(after=checked)
async def publish(signed: Signed) -> str:
    return f"{signed.title}: published"
