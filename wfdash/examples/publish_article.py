"""Takes an article through review: editor and author revise it until the editor approves.

After the approval there is a cool-down. Cancel the run during it and nothing is published.
"""

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from wfdash.examples import articles
from wfdash.examples.articles import Article, Draft, Markdown, Text
from wfdash.workflow import Approval, Context, Form, Workflow, evidence


class SentBack(BaseModel):
    draft: Draft
    comment: str


class History(BaseModel):
    previous: str = ""
    comments: list[str] = []


publish_article = Workflow(
    "publish_article", title="Publish an article", run_title="Publish “{title}”", doc=__doc__ or "", state=History
)


@publish_article.step(start=True, after="revise")
async def review(draft: Draft, ctx: Context) -> Draft | SentBack:
    """Ask an editor to approve, edit or send it back."""
    question = Approval(
        subject=f"Publish {draft.title!r}?",
        body=articles.proofread(draft.text),
        current=ctx.state.previous or None,
        proposal=draft.text,
        edit=Markdown,
        evidence=[
            evidence.Markdown(title="As readers see it", value=draft.text),
            evidence.File(name="article.html", data=articles.typeset(draft, comments=[]).html.encode()),
        ],
        consequence={
            "approve": f"Published after {draft.cool_down} seconds",
            "edit": "Your version is published instead",
            "reject": "The author receives your comment and revises the text",
        },
        risk="medium",
        undo="Cancel the run during the cool-down",
        labels={"reject": "Send back"},
        require_reason=True,
    )
    decision = await ctx.ask(question, by=("editors",))
    if decision.action == "reject":
        return SentBack(draft=draft, comment=decision.reason)
    return draft.model_copy(update={"text": decision.edited}) if decision.edited else draft


@publish_article.step(after=review)
async def revise(back: SentBack, ctx: Context) -> Draft:
    """Ask the author for a revised text."""
    ctx.state.previous = back.draft.text
    ctx.state.comments = [*ctx.state.comments, back.comment]
    question = Form(subject=f"Revise {back.draft.title!r}", body=back.comment, current=Text(text=back.draft.text))
    new = await ctx.ask(question, answer=Text)
    return back.draft.model_copy(update={"text": new.text})


@publish_article.step(after=review)
async def cool_down(draft: Draft, ctx: Context) -> Draft:
    """Wait before publishing; cancelling now still stops it."""
    await ctx.sleep(draft.cool_down)
    return draft


@publish_article.step(after=cool_down)
async def publish(draft: Draft, ctx: Context) -> Article:
    """Publish the text and show its progress."""
    words = draft.text.split()
    for number, word in enumerate(words, start=1):
        ctx.stream(f"{word} ")
        if number % 25 == 0 or number == len(words):
            ctx.progress(number / len(words), f"{number} of {len(words)} words set")
        await asyncio.sleep(0.01)  # as fast as one can read it
    return articles.typeset(draft, comments=ctx.state.comments)
