"""The native engine: workflows in plain Python. These names are its public face.

```python
from wfdash.workflow import Approval, Context, Workflow

wf = Workflow("expense")

@wf.step(start=True)
async def assess(claim: Claim) -> Assessment: ...
```
"""

from __future__ import annotations

from checkpoints.errors import Incompatible
from checkpoints.records import Answer, Checkpoint, Request
from wfdash.contract import Failed, Finished, InvalidInput, Outcome, Waiting
from wfdash.workflow.cards import Approval, Decision, Form, Question
from wfdash.workflow.choices import Choice, Option
from wfdash.workflow.context import Context
from wfdash.workflow.errors import (
    CallStopped,
    InvalidCall,
    InvalidWorkflow,
    NotStorable,
    ReplayMismatch,
    Runaway,
    StateConflict,
    StepTimeout,
    WorkflowError,
    WrongType,
)
from wfdash.workflow.evidence import (
    Code,
    Diff,
    Evidence,
    File,
    Image,
    JsonValue,
    Link,
    Markdown,
    Table,
    Text,
)
from wfdash.workflow.migration import Migration
from wfdash.workflow.policy import DefaultAnswer, Policy
from wfdash.workflow.retry import Retry
from wfdash.workflow.stream import RunStream
from wfdash.workflow.tools import ToolCall, ToolDecision
from wfdash.workflow.wiring import all_of, any_of, each, gather, n_of
from wfdash.workflow.workflow import Workflow

__all__ = [
    "Answer",
    "Approval",
    "CallStopped",
    "Checkpoint",
    "Choice",
    "Code",
    "Context",
    "Decision",
    "DefaultAnswer",
    "Diff",
    "Evidence",
    "Failed",
    "File",
    "Finished",
    "Form",
    "Image",
    "Incompatible",
    "InvalidCall",
    "InvalidInput",
    "InvalidWorkflow",
    "JsonValue",
    "Link",
    "Markdown",
    "Migration",
    "NotStorable",
    "Option",
    "Outcome",
    "Policy",
    "Question",
    "ReplayMismatch",
    "Request",
    "Retry",
    "RunStream",
    "Runaway",
    "StateConflict",
    "StepTimeout",
    "Table",
    "Text",
    "ToolCall",
    "ToolDecision",
    "Waiting",
    "Workflow",
    "WorkflowError",
    "WrongType",
    "all_of",
    "any_of",
    "each",
    "gather",
    "n_of",
]
