"""The native engine: workflows in plain Python. These names are what an author needs at first sight.

```python
from wfdash.workflow import Approval, Context, Workflow

wf = Workflow("expense")

@wf.step(start=True)
async def assess(claim: Claim) -> Assessment: ...
```

The rest has its own modules: what a card shows beside its text is in ``evidence``, what can go wrong in ``errors``.
"""

from __future__ import annotations

from wfdash.contract import Failed, Finished, Waiting
from wfdash.questions.cards import Approval, Decision, Form, Question
from wfdash.questions.choices import Choice, Option
from wfdash.questions.policy import Policy
from wfdash.questions.tools import ToolCall, ToolDecision
from wfdash.workflow.authoring import Retry, all_of, any_of, each, gather, n_of
from wfdash.workflow.runtime.context import Context
from wfdash.workflow.workflow import Workflow

__all__ = [
    "Approval",
    "Choice",
    "Context",
    "Decision",
    "Failed",
    "Finished",
    "Form",
    "Option",
    "Policy",
    "Question",
    "Retry",
    "ToolCall",
    "ToolDecision",
    "Waiting",
    "Workflow",
    "all_of",
    "any_of",
    "each",
    "gather",
    "n_of",
]
