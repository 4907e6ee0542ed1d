"""wfdash as a server of the Model Context Protocol: the tools with which an agent asks people. Needs ``wfdash[mcp]``.

Each tool is a call of ``wfdash.client`` with the caller's token: the server decides what the token may do. An answer
is passed on only with a person's own token that is made for that, and never to what was asked in that person's name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import version
from importlib.resources import files
from typing import Annotated, Any, Literal

from mcp.server import MCPServer
from mcp.server.apps import Apps, ResourceCsp
from mcp.server.mcpserver.exceptions import ResourceError, ToolError
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from wfdash.client.calls.runs import ENDED, WORKFLOW
from wfdash.client.client import AsyncClient
from wfdash.client.errors import ClientError, NotAllowed, TimedOut
from wfdash.records.requests import AcceptedAnswer, RequestDetail, RequestPage
from wfdash.records.runs import RunDetail
from wfdash.workflow.asking import PeopleAnswer

LONGEST_WAIT = 45
"""Seconds that one call of a tool waits: hosts give up after a minute."""
SOON = 3.0
"""Seconds in which a worker has opened a question, so that its link leads to the request."""
Ref = Annotated[
    str | None,
    Field(description="Your own name for it. The same ref finds the same one again, also after a restart."),
]
Wait = Annotated[
    float, Field(ge=0, le=LONGEST_WAIT, description=f"Seconds to wait before this returns, at most {LONGEST_WAIT}.")
]
CARD = "ui://wfdash/request.html"
ASKS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=True)
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ENDS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)
HINTS = {"ask_people": ASKS, "start_run": ASKS, "cancel_question": ENDS, "answer_request": ENDS}
INSTRUCTIONS = """\
Ask people with ask_people before anything that a person should decide, and continue only with their answer. People
answer in their own time: while the status is "waiting", call wait_for_answer again, or do other work first. Always
give a ref, so that you find the same question after a restart. You never decide: answer_request passes on what the
person whose token you use has decided, in their words."""
STILL = "No one has answered yet: call wait_for_answer again, or ask later with the same ref."


class AskedQuestion(BaseModel):
    """A question to people and what became of it."""

    question: str = Field(description="Its id: for wait_for_answer and cancel_question.")
    status: Literal["waiting", "answered", "failed", "cancelled"]
    answer: Any = Field(None, description='What people answered: {"action": "approve"} for an approval.')
    by: str | None = Field(None, description="Who answered.")
    at: datetime | None = None
    lapsed: bool = Field(False, description="No person answered in time: this is the answer that was set for that.")
    link: str = Field(description="Where a person reads and answers it.")
    note: str = ""


class ShownRequest(BaseModel):
    """What the card in a host shows. ``decides``: whether it may have buttons; the server decides what they do."""

    request: RequestDetail
    link: str
    decides: bool


def mcp_server(client: Callable[[], AsyncClient], home: Callable[[], str]) -> MCPServer[Any]:
    """Return the server. ``client`` gives that of the caller, whose token decides what each tool may do; ``home`` the
    address of the dashboard as people open it.
    """
    handlers, tools = logging.root.handlers[:], AgentTools(client, home)
    server: MCPServer[Any] = MCPServer(
        "wfdash",
        title="wfdash",
        version=version("wfdash"),
        instructions=INSTRUCTIONS,
        log_level="WARNING",
        extensions=[_card(tools)],
    )
    logging.root.handlers[:] = handlers  # It adds one to a process that has a log already.
    logging.getLogger("mcp").setLevel(logging.WARNING)
    for tool in (tools.ask_people, tools.wait_for_answer, tools.cancel_question):
        server.add_tool(tool, annotations=HINTS.get(tool.__name__, READS))
    for record in (tools.list_requests, tools.start_run, tools.run_status, tools.answer_request):
        server.add_tool(record, annotations=HINTS.get(record.__name__, READS), structured_output=False)
    server.resource("wfdash://requests/{request}", mime_type="application/json")(tools.request)
    server.resource("wfdash://runs/{run}", mime_type="application/json")(tools.run)
    server.resource("wfdash://runs/{run}/conversation", mime_type="text/markdown")(tools.conversation)
    server.prompt(title="Ask a person first")(ask_first)
    return server


def _card(tools: AgentTools) -> Apps:
    """Return the card of a request as an MCP App: a page in the host, which decides as the tools do."""
    apps, page = Apps(), files("wfdash.client").joinpath("card.html").read_text("utf-8")
    apps.add_html_resource(CARD, page, title="A request", csp=ResourceCsp(), prefers_border=True)
    apps.tool(resource_uri=CARD, annotations=READS, structured_output=False)(tools.show_request)
    return apps


def ask_first(task: str) -> str:
    """Do a task, and ask a person before each step that cannot be undone."""
    return (
        f"{task}\n\nBefore each step that cannot be undone, costs money or is seen by others, call ask_people with "
        "what you are about to do as the proposal, its consequence and a ref. Continue only with the answer; if people "
        "reject it, do not look for a way around."
    )


def serve_stdio(url: str, token: str) -> None:
    """Serve an agent over standard input and output until it closes them, as a client of the server at ``url``."""
    client = AsyncClient(url, token)
    mcp_server(lambda: client, lambda: url.rstrip("/") + "/").run("stdio")


class AgentTools:
    """What an agent may call. Docstrings are what its model reads."""

    def __init__(self, client: Callable[[], AsyncClient], home: Callable[[], str]) -> None:
        self._client, self._home = client, home

    async def ask_people(
        self,
        subject: Annotated[str, Field(description="What is to be decided, in one line.")],
        ref: Ref = None,
        kind: Literal["approval", "choice", "question", "form"] = "approval",
        body: Annotated[str, Field(description="Markdown: all that a person needs to know to decide.")] = "",
        proposal: Annotated[Any, Field(description="The value to decide on; people see it as a table or text.")] = None,
        current: Annotated[Any, Field(description="The value of today: the difference is then shown.")] = None,
        options: Annotated[list[str] | None, Field(description="Of a choice.")] = None,
        answer: Annotated[dict[str, Any] | None, Field(description="JSON Schema of the answer to a form.")] = None,
        edit: Annotated[
            dict[str, Any] | None, Field(description="JSON Schema of the proposal, if people may change it.")
        ] = None,
        evidence: Annotated[
            Sequence[dict[str, Any]], Field(description="{kind, title, value}; kind: text, markdown, code, table ...")
        ] = (),
        consequence: Annotated[dict[str, str] | str | None, Field(description="Action -> what happens then.")] = None,
        risk: Literal["low", "medium", "high"] | None = None,
        by: Annotated[Sequence[str], Field(description="Users or groups that may answer; empty: reviewers.")] = (),
        due: Annotated[str | None, Field(description="By when: 4h, 2d, or a time with an offset.")] = None,
        wait: Wait = 0,
    ) -> AskedQuestion:
        """Ask people a question and return its state, with a link for them.

        People answer minutes or days later. Without a ref each call is a question of its own.
        """
        more = {"proposal": proposal, "current": current, "options": options, "answer": answer, "edit": edit}
        terms = {"consequence": consequence, "risk": risk, "by": [*by], "due": due, "evidence": [*evidence]}
        given = {"subject": subject, "kind": kind, "body": body, **more, **terms}
        message = {name: value for name, value in given.items() if value not in (None, "", [])}
        with _explained(ToolError):
            run = await self._client().start(WORKFLOW, message, key=f"ask:{ref}" if ref else None)
            await _waited(self._client(), run.id, SOON, for_people=True)
            return await self._state(run.id, wait)

    async def wait_for_answer(self, question: str, wait: Wait = LONGEST_WAIT) -> AskedQuestion:
        """Wait until people have answered a question, and return its state. Call it again while it is waiting."""
        with _explained(ToolError):
            return await self._state(question, wait)

    async def cancel_question(self, question: str) -> AskedQuestion:
        """Take a question back that is no longer needed: it cannot be answered afterwards."""
        with _explained(ToolError):
            if (await self._state(question, 0)).status == "waiting":
                await self._client().cancel(question)
            return await self._state(question, 1)

    async def list_requests(
        self,
        filter: Annotated[str, Field(description="As in the inbox: is:open, workflow:refund, by:ana, a word.")] = "",  # noqa: A002
        limit: Annotated[int, Field(ge=1, le=100)] = 20,
    ) -> RequestPage:
        """List what people are asked, of all that you may see."""
        with _explained(ToolError):
            return await self._client().requests(filter, limit=limit)

    async def start_run(
        self,
        workflow: str,
        message: Annotated[Any, Field(description="The workflow's input, as its input schema has it.")] = None,
        ref: Ref = None,
        wait: Wait = 0,
    ) -> RunDetail:
        """Start a run of a workflow and return it. It may wait for people: run_status says for whom."""
        with _explained(ToolError):
            run = await self._client().start(workflow, message, key=f"mcp:{ref}" if ref else None)
            return await _waited(self._client(), run.id, wait) if wait else run

    async def run_status(self, run: str, wait: Wait = 0) -> RunDetail:
        """Return a run: its status, what it waits for, its output. ``wait``: until it has ended or needs people."""
        with _explained(ToolError):
            return await self._client().run(run, wait=wait)

    async def show_request(self, request: str) -> ShownRequest:
        """Show a request to the person whose token you use, as a card where the host has cards."""
        with _explained(ToolError):
            found, me = await self._client().request(request), await self._client().me()
        decides = me.through_agents and found.state == "open" and not found.refusal and found.card.get("risk") != "high"
        return ShownRequest(request=found, link=f"{self._home()}requests/{request}/", decides=decides)

    async def answer_request(
        self,
        request: str,
        answer: Annotated[Any, Field(description='As its answer_schema has it: {"action": "approve"}.')],
        seen: Annotated[str, Field(description="The ``seen`` of the resource wfdash://requests/{id} that was shown.")],
        reason: str = "",
    ) -> AcceptedAnswer:
        """Pass on the answer of the person whose token this is, once they have seen the request and said so."""
        link = f"{self._home()}requests/{request}/"
        with _explained(ToolError):
            if not (await self._client().me()).through_agents:
                words = "This token passes on no answer. Its person makes another one under Settings, Tokens, or opens"
                raise ToolError(f"{words} {link}")
            try:
                return await self._client().answer(request, answer, reason=reason, seen=seen)
            except NotAllowed as refused:
                raise ToolError(f"{refused}: {link}") from refused

    async def request(self, request: str) -> RequestDetail:
        """Return a request: its card, what it may be answered with, and its votes."""
        with _explained(ResourceError):
            return await self._client().request(request)

    async def run(self, run: str) -> RunDetail:
        """Return a run: its status, what it waits for, its input and output."""
        with _explained(ResourceError):
            return await self._client().run(run)

    async def conversation(self, run: str) -> str:
        """Return the conversation with a model that a run has had, as Markdown."""
        with _explained(ResourceError):
            return str((await self._client().values(run, "transcript.md")).value)

    async def _state(self, run: str, seconds: float) -> AskedQuestion:
        """Return a question after these seconds, or once it is answered or closed."""
        found = await _waited(self._client(), run, seconds)
        if found.workflow != WORKFLOW:
            raise ToolError(f"{run} is a run of {found.workflow}, not a question: use run_status")
        link = next((f"requests/{one.id}/" for one in found.requests), f"runs/{run}/")
        state = AskedQuestion(question=run, status="waiting", note=STILL, link=self._home() + link)
        if found.status not in ENDED:
            return state
        if found.status == "completed":
            said = PeopleAnswer.model_validate(found.output)
            given: dict[str, Any] = {"answer": said.value, "by": said.by, "at": said.at, "lapsed": said.lapsed}
            return state.model_copy(update={"status": "answered", "note": "", **given})
        why = found.error.message if found.error else ""
        return state.model_copy(update={"status": found.status, "note": why})


async def _waited(client: AsyncClient, run: str, seconds: float, *, for_people: bool = False) -> RunDetail:
    """Return a run once it has ended (or waits for people), or after these seconds as it is then."""
    if seconds:
        try:
            return await client.wait(run, timeout=seconds, for_people=for_people)
        except TimedOut:
            pass
    return await client.run(run)


@contextmanager
def _explained(error: type[Exception]) -> Iterator[None]:
    """Tell the agent what the server said of a call that was refused: it names field and remedy."""
    try:
        yield
    except ClientError as refused:
        raise error(str(refused)) from refused
