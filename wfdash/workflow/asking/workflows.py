"""The workflow ``ask_people``: one question of another program to people. Loaded unless ``WFDASH_ASK_PEOPLE=0``."""

from __future__ import annotations

from wfdash.questions.card import Given
from wfdash.workflow import Context, Workflow
from wfdash.workflow.asking import PeopleAnswer, PeopleQuestion

ask_people = Workflow(
    "ask_people",
    title="Ask people",
    run_title="{subject}",
    doc="Asks people a question and returns their answer. Other programs start it: see Ask from anywhere in the docs.",
    examples=[PeopleQuestion(subject="Ship version 2.4 to all customers?")],
)


@ask_people.step(start=True, title="Ask")
async def ask(question: PeopleQuestion, ctx: Context) -> PeopleAnswer:
    """Ask, and wait for the answer."""
    said = await ctx.ask(question.card(), question.answer, due=question.moment(), policy=question.terms())
    given = ctx.answers[-1]
    lapsed = said.lapsed if isinstance(said, Given) else given.by is None
    return PeopleAnswer(value=given.value, by=given.by, at=given.at, lapsed=lapsed)
