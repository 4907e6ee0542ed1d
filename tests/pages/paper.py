"""A workflow on paper and the engine that describes it: enough for the doors, which never drive anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from checkpoints.ids import WorkflowId
from checkpoints.records import Json
from checkpoints.storage import Recorder
from wfdash.contract import Description, EdgeInfo, InvalidInput, Outcome, RunInput, StepInfo
from wfdash.values.schemas.validate import problems_of


@dataclass(frozen=True)
class Paper:
    """A definition: nothing but its description."""

    description: Description


class PaperEngine:
    """Describes paper workflows and checks their input."""

    name = "paper"

    def accepts(self, definition: object) -> bool:
        return isinstance(definition, Paper)

    def describe(self, definition: Any) -> Description:
        return definition.description

    def check_input(self, definition: Any, message: Json) -> Json:
        problems = problems_of(definition.description.input_schema, message)
        if problems:
            raise InvalidInput(problems)
        return message

    async def drive(self, definition: object, given: RunInput, recorder: Recorder) -> Outcome:
        raise NotImplementedError("paper does not move")


STEPS = (
    StepInfo(name="read", title="Read claims", doc="Reads the CSV."),
    StepInfo(name="review", title="Review", person=True),
    StepInfo(name="pay", title="Pay"),
    StepInfo(name="report", title="Report"),
)
EDGES = (
    EdgeInfo(source="read", target="review", kind="each", label="large"),
    EdgeInfo(source="read", target="pay", kind="otherwise"),
    EdgeInfo(source="review", target="pay"),
    EdgeInfo(source="pay", target="report", kind="gather"),
)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "Batch",
    "properties": {
        "claims": {"type": "string", "title": "Claims", "minLength": 1, "format": "textarea"},
        "limit": {"type": "integer", "title": "Ask above", "minimum": 0, "maximum": 1000, "default": 100},
    },
    "required": ["claims"],
    "additionalProperties": False,
}
expenses = Paper(
    Description(
        workflow=WorkflowId("expense_batch"),
        title="Expense batch",
        doc="Pays a month of expense claims; asks finance for the large ones.",
        engine="paper",
        version="v1",
        input_schema=SCHEMA,
        examples=({"claims": "ana,taxi,30", "limit": 50},),
        steps=STEPS,
        edges=EDGES,
    )
)
