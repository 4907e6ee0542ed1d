"""A workflow whose every title, key and text is a word of 60 characters, as German has them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field, create_model

from wfdash.workflow import Approval, Context, Workflow
from wfdash.workflow.evidence import Diff, Table

WORD = "Donaudampfschifffahrtselektrizitaetenhauptbetriebswerkbauten"
Part: Any = create_model("Part", **{"k" * 60: (str, Field(WORD, title=WORD))})
words = Workflow("w" * 60, title=f"{WORD} {WORD}", run_title="{name}")


class Given(BaseModel):
    name: str = Field(WORD, title=WORD, description=WORD)
    sure: bool = Field(True, title=f"{WORD}1")
    parts: list[Part] = Field(default_factory=lambda: [Part()], title=f"{WORD}2")


@words.step(start=True, title=WORD)
async def ask(given: Given, ctx: Context) -> str:
    pieces = [Table(title=WORD, rows=[{WORD: WORD}]), Diff(title=WORD, before=WORD, after=WORD[::-1])]
    await ctx.ask(Approval(subject=WORD, body=f"# {WORD}", proposal=given, context={WORD: WORD}, evidence=pieces))
    return WORD
