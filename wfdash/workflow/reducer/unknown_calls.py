"""The question to people whether a recorded call of unknown outcome has happened."""

from __future__ import annotations

from dataclasses import dataclass

from checkpoints.ids import RequestKey
from checkpoints.records import Json, Request
from wfdash.questions.card import action, only_with, when_action
from wfdash.questions.policy import Policy
from wfdash.questions.tools import distinguishing
from wfdash.workflow.stored.position import JournalEntry


@dataclass(frozen=True, kw_only=True)
class CallDetails:
    """Identifies a call. ``effect``: the key the other side may know it by (``ctx.effect_key``); ``item``: of a map,
    from 0. ``message``: the step's message; ``arguments``: those of the call, None if not recorded.
    """

    effect: str
    item: int | None = None
    message: Json = None
    arguments: Json = None

    @property
    def distinguishing(self) -> str:
        """Return what distinguishes the calls of a map in a headline: a space and plain arguments in brackets."""
        parts = distinguishing(self.arguments) if isinstance(self.arguments, dict) else ""
        return f" ({parts})" if parts else ""

    def evidence(self) -> list[Json]:
        """Return what a card shows of it."""
        pieces = {"Call arguments": self.arguments, "Step input": self.message}
        return [
            {"kind": "json", "title": title, "value": value} for title, value in pieces.items() if value is not None
        ]


def _outcome(result: dict[str, Json]) -> tuple[dict[str, Json], list[str]]:
    """Return the schema of the answer, and what has to be said of a call that happened. ``result``: of its result."""
    defs = result.pop("$defs", None)
    schema: dict[str, Json] = {
        "type": "object",
        "title": "Outcome",
        "properties": {
            "action": {"title": "Action", "enum": ["happened", "again", "stop"], "type": "string"},
            "result": {"title": "Result", **result},
        },
        "required": ["action"],
        "additionalProperties": False,
        "allOf": [],
    }
    needed = ["result"] if result and result.get("type") != "null" else []
    if needed:
        schema["allOf"] = [when_action("happened", {"required": needed})]
    schema["allOf"].append(only_with("happened", "result"))
    if defs:
        schema["$defs"] = defs
    return schema, needed


def unknown_call(
    key: RequestKey,
    step: str,
    entry: JournalEntry,
    which: CallDetails,
    policy: Policy,
    running: tuple[str, ...] = (),
) -> Request:
    """Return the question to people whether a call of unknown outcome happened.

    It is addressed to those whom the workflow's own policy names. ``running``: functions of the run that still run.
    """
    name, (schema, needed) = entry["name"], _outcome(dict(entry.get("schema") or {}))
    why = entry.get("failed")
    body = f"The step was interrupted while calling **{name}**. Check the external system first."
    if running:
        body += (
            f" **When this was asked, functions of the run still ran: {', '.join(running)}.** Wait until they ended."
        )
    card: dict[str, Json] = {
        "subject": f"Did {name!r} succeed{which.distinguishing}?",
        "body": body,
        "risk": "high",
        "consequence": {
            "happened": "Not repeated; continues with the result you enter.",
            "again": "The call is repeated.",
            "stop": "The run fails here and can be retried.",
        },
        "evidence": [*which.evidence(), *([{"kind": "text", "title": "The call raised", "value": why}] if why else [])],
        "context": {"step": step, "call": name}
        | ({} if which.item is None else {"item": which.item + 1})
        | ({"begun": entry["at"]} if "at" in entry else {})
        | {"effect key": which.effect},
        "actions": [
            action("happened", "primary", ["result"], needed, "It succeeded"),
            action("again", "danger", [], [], "It did not: run again"),
            action("stop", "quiet", [], [], "Stop"),
        ],
    }
    return Request(
        key=key, step=step, kind="effect", card=card, answer_schema=schema, by=policy.by, not_by=policy.not_by
    )
