"""The workflow ``coding_agent``: whether a coding agent may call a tool. ``wfdash hook`` starts a run of it per call.

A rule, *allow similar in this session*, is the run of the call that a person allowed so: it sleeps until the rule
expires, and who cancels it revokes the rule. Loaded unless ``WFDASH_ASK_PEOPLE=0``.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from checkpoints.models import Run
from checkpoints.records import JsonObject, Phase
from wfdash.domain.agent_calls import path_of, similar_to, target_of
from wfdash.questions.card import one_line
from wfdash.questions.tools import Verb, conversation
from wfdash.workflow import Context, Policy, ToolCall, Workflow
from wfdash.workflow.asking import ProgramQuestion
from wfdash.workflow.evidence import Code, Diff, Evidence, Message

MOST_RULES = 200
"""Rules in effect among which one is looked for."""
MOST_DIFFS = 60
AGENTS = {"claude": "Claude Code", "codex": "Codex"}


class PermissionQuestion(ProgramQuestion):
    """A tool that an agent wants to call. ``input``: its arguments; ``current``: the text of the file it replaces."""

    agent: Literal["claude", "codex"]
    tool: str = Field(min_length=1, max_length=200)
    input: JsonObject
    folder: str = Field("", max_length=4_000)
    session: str = Field("", max_length=200)
    editable: bool = True
    current: str = ""
    conversation: list[Message] = Field([], max_length=20)
    by: list[str] = []
    not_by: list[str] = []
    risk: Literal["low", "medium", "high"] | None = None
    wait: int = Field(ge=1, le=604_800)
    """Seconds until no answer is a denial."""
    rule: int = Field(ge=0, le=43_200)
    """Seconds for which people may allow calls like it; 0: not at all."""

    def similar(self) -> str:
        """Return which calls a rule would allow, empty where there is to be none."""
        wanted = self.session and self.rule and self.risk != "high"
        return similar_to(self.tool, self.input, self.folder) if wanted else ""


class PermissionAnswer(BaseModel):
    """Whether the tool may be called, and with which arguments. ``rule``: the run of the rule that allows it."""

    allowed: bool
    input: JsonObject = {}
    words: str
    rule: str = ""


coding_agent = Workflow(
    "coding_agent",
    title="Coding agents",
    doc="Asks people whether a coding agent may call a tool: see Coding agents in the docs.",
)


@coding_agent.step(start=True, title="Ask")
async def ask(call: PermissionQuestion, ctx: Context) -> PermissionAnswer:
    """Allow what a rule allows, else ask. The run of a new rule sleeps until that expires."""
    similar = call.similar()
    ctx.title(f"{AGENTS[call.agent]}: {headline_of(call)}")
    if similar and (rule := await ctx.call(rule_for, ctx.run_id)):
        return PermissionAnswer(allowed=True, input=call.input, words="Allowed by a rule of this session", rule=rule)
    policy = Policy(due=call.wait, on_timeout="reject", rules=False)
    said = await ctx.ask(card_of(call, similar), by=call.by, not_by=call.not_by, policy=policy)
    if said.action == "approve_similar":
        ctx.title(f"Rule in session {call.session[:8]}: {similar}")
        await ctx.sleep(call.rule)
    by = f"by {said.by}" if said.by else "because no one answered in time"
    if said.approved:
        return PermissionAnswer(allowed=True, input=said.arguments, words=f"Allowed {by}")
    return PermissionAnswer(allowed=False, words=f"Denied {by}{f': {said.feedback}' if said.feedback else ''}")


def rule_for(run_id: str) -> str:
    """Return the run that is a rule for the call of this one: of the same account, agent and session. Empty: none is.

    A run of this workflow sleeps only after a person has answered so.
    """
    mine = Run.objects.get(pk=run_id)
    call = PermissionQuestion.model_validate(mine.input)
    rules = Run.objects.filter(workflow=mine.workflow, phase=Phase.SLEEPING.value, created_by=mine.created_by_id)
    for one in rules.exclude(created_by=None).order_by("-created")[:MOST_RULES]:
        given = PermissionQuestion.model_validate(one.input)
        if (given.agent, given.session, given.similar()) == (call.agent, call.session, call.similar()):
            return str(one.pk)
    return ""


def headline_of(call: PermissionQuestion) -> str:
    """Return what is asked in one line."""
    return f"{call.tool} {one_line(target_of(call.input), 100)}"


def card_of(call: PermissionQuestion, similar: str) -> ToolCall:
    """Return the card. ``similar``: which calls a rule would allow; empty: none is offered."""
    verbs: list[Verb] = ["approve", "approve_similar", "edit", "reject"]
    left_out = {*([] if similar else ["approve_similar"]), *([] if call.editable else ["edit"])}
    consequence = {"approve": f"Runs {call.tool} once", "reject": "Not run; the agent reads your words"}
    if similar:
        consequence["approve_similar"] = (
            f"Runs it, and for {call.rule / 60:g} min in this session without asking: {similar}"
        )
    return ToolCall(
        subject=headline_of(call),
        tool=call.tool,
        arguments=call.input,
        allow=tuple(verb for verb in verbs if verb not in left_out),
        labels={
            "approve": "Allow once",
            "approve_similar": "Allow similar in this session",
            "edit": "Allow with changes",
            "reject": "Deny",
        },
        consequence=consequence,
        risk=call.risk,
        context={"agent": AGENTS[call.agent], "folder": call.folder, "session": call.session},
        evidence=[*changes_in(call), *conversation(call.conversation, most=20)],
    )


def changes_in(call: PermissionQuestion) -> list[Evidence]:
    """Return what the call changes."""
    given: dict[str, Any] = call.input
    title = path_of(given) or "Change"
    parts = [given, *(given["edits"] if isinstance(given.get("edits"), list) else [])]
    found: list[Evidence] = [
        Diff(title=title, before=one["old_string"], after=one["new_string"])
        for one in parts[:MOST_DIFFS]
        if isinstance(one, dict) and {"old_string", "new_string"} <= one.keys()
    ]
    if "content" in given:
        found.append(Diff(title=title, before=call.current, after=given["content"]))
    if str(given.get("command")).startswith("*** Begin Patch"):
        found.append(Code(title="Patch", value=given["command"], language="diff"))
    return found
