"""A workflow for every type of answer: it asks once, and ends."""

from __future__ import annotations

import re
from typing import Any

from tests.forms.schemas import KINDS
from wfdash.workflow import Context, Question, Workflow


def asking(name: str, kind: Any) -> Workflow:
    """A workflow that wants an answer of this type."""
    wf = Workflow(re.sub(r"[^\w.-]", "_", name), title=name)

    @wf.step(start=True)
    async def ask(ctx: Context) -> str:
        return repr(await ctx.ask(Question(subject="What?"), answer=kind))

    return wf


ALL = {name: asking(name, kind) for name, kind in KINDS.items()}
ANY = ALL["anything goes"] = asking("anything goes", object)
globals().update({f"workflow_{number}": workflow for number, workflow in enumerate(ALL.values())})
