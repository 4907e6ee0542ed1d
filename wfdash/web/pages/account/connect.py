"""The page *Connect an agent*: choose where the agent runs, copy what connects it, see its first question arrive."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from checkpoints.records import frozen
from wfdash.actions.account import create_token
from wfdash.domain.errors import Invalid
from wfdash.notifications.rendering import absolute, render
from wfdash.queries.runs.listing import read_runs
from wfdash.web.pages.site.decorators import form_page, key_of, show_once, shown_once, viewer_of
from wfdash.web.pages.site.list_page import runs_address
from wfdash.web.pages.ui.fragments import guide

PLACE = "wfd_..."
"""Printed where no token was made."""


@frozen
class AgentHost:
    """Where an agent runs. ``lines``: what connects it, with ``{url}`` (it ends with a slash) and ``{token}``."""

    key: str
    name: str
    about: str
    lines: str
    page: str = "ask-from-anywhere"
    """The page of the documentation that has more."""
    workflow: str = "ask_people"
    """The workflow whose runs are its questions."""


HOSTS = (
    AgentHost(
        key="claude-code",
        name="Claude Code",
        about="Asks before it calls a tool. In a shell of your project, with wfdash installed:",
        lines="export WFDASH_URL={url} WFDASH_TOKEN={token}\nwfdash hook install claude",
        page="coding-agents",
        workflow="coding_agent",
    ),
    AgentHost(
        key="codex",
        name="Codex",
        about="Asks before it calls a tool. In a shell of your project, with wfdash installed:",
        lines="export WFDASH_URL={url} WFDASH_TOKEN={token}\nwfdash hook install codex",
        page="coding-agents",
        workflow="coding_agent",
    ),
    AgentHost(
        key="mcp",
        name="Cursor, VS Code",
        about="In ~/.cursor/mcp.json, and most hosts of MCP (in VS Code the first key is servers):",
        lines='{{"mcpServers": {{"wfdash": {{"type": "http", "url": "{url}mcp",\n'
        '  "headers": {{"Authorization": "Bearer {token}"}}}}}}}}',
        page="mcp",
    ),
    AgentHost(
        key="claude-desktop",
        name="Claude Desktop",
        about="In claude_desktop_config.json, with wfdash on that machine. Other hosts that start programs, too:",
        lines='{{"mcpServers": {{"wfdash": {{"command": "wfdash", "args": ["mcp"],\n'
        '  "env": {{"WFDASH_URL": "{url}", "WFDASH_TOKEN": "{token}"}}}}}}}}',
        page="mcp",
    ),
    AgentHost(
        key="agent-sdk",
        name="Claude Agent SDK",
        about="The agent gets the tools of the door for agents:",
        lines="from claude_agent_sdk import ClaudeAgentOptions\n\noptions = ClaudeAgentOptions(\n"
        '    mcp_servers={{"wfdash": {{"type": "http", "url": "{url}mcp",\n'
        '                            "headers": {{"Authorization": "Bearer {token}"}}}}}},\n'
        '    allowed_tools=["mcp__wfdash__ask_people", "mcp__wfdash__wait_for_answer"],\n)',
        page="coding-agents",
    ),
    AgentHost(
        key="pydantic-ai",
        name="pydantic-ai",
        about="The agent gets the tools of the door for agents. Behind AG-UI as well:",
        lines="from pydantic_ai import Agent\nfrom pydantic_ai.mcp import MCPToolset\n\n"
        'people = MCPToolset("{url}mcp", headers={{"Authorization": "Bearer {token}"}})\n'
        'agent = Agent("anthropic:claude-sonnet-4-5", toolsets=[people])',
        page="mcp",
    ),
    AgentHost(
        key="python",
        name="Python, LangGraph",
        about="In any function, such as a node of a graph that runs elsewhere. WFDASH_URL and WFDASH_TOKEN are read:",
        lines="# export WFDASH_URL={url} WFDASH_TOKEN={token}\nfrom wfdash.client import Approval, ask\n\n"
        'decision = await ask(Approval(subject="Ship it?"), ref="release-2.4")\n'
        "if decision.approved:\n    ...",
    ),
    AgentHost(
        key="n8n",
        name="n8n, Zapier",
        about="A node that sends an HTTP request, and a webhook node that waits for the answer, which comes signed:",
        lines="POST {url}api/v1/runs\nAuthorization: Bearer {token}\nContent-Type: application/json\n\n"
        '{{"workflow": "ask_people", "message": {{"subject": "Ship it?"}},\n'
        ' "callback": {{"url": "https://your-webhook.example/answer", "secret": "whsec_..."}}}}',
    ),
    AgentHost(
        key="curl",
        name="curl",
        about="Ask, find the request of that RUN, then wait for its answer, a minute at a time:",
        lines="curl -sS {url}api/v1/runs -H 'Authorization: Bearer {token}' -H 'Content-Type: application/json' \\\n"
        '  -d \'{{"workflow": "ask_people", "message": {{"subject": "Ship it?"}}}}\'\n'
        "curl -sS '{url}api/v1/runs/RUN?wait=60' -H 'Authorization: Bearer {token}'\n"
        "curl -sS '{url}api/v1/requests/REQUEST?wait=60' -H 'Authorization: Bearer {token}'",
    ),
)
BY_KEY = {host.key: host for host in HOSTS}
RIGHTS = ("see", "inspect", "start", "operate")
"""What an agent needs to ask, to read the answer, and to take a question back; never to answer."""


@form_page
def connect(request: HttpRequest) -> HttpResponse:
    """Show how to connect an agent; a POST makes a token for it, which is shown once, in its lines."""
    viewer, host = viewer_of(request), BY_KEY.get(request.GET.get("host", ""), HOSTS[0])
    here, problems = f"{reverse('wfdash:connect')}?host={host.key}", dict[str, str]()
    if request.method == "POST":
        name = f"{host.name}, {timezone.now():%Y-%m-%d %H:%M:%S}"
        try:
            made = create_token(viewer, name, rights=RIGHTS, workflows=[host.workflow], key=key_of(request))
            return show_once(request, {"token": made.text}, here)
        except Invalid as error:
            problems = error.by_field
    token = shown_once(request).get("token", "")
    found = read_runs(viewer, f"by:me workflow:{host.workflow} started:<1h", limit=1).items
    context: dict[str, Any] = {
        "hosts": [(one.name, f"?host={one.key}", one is host) for one in HOSTS],
        "host": host,
        "lines": host.lines.format(url=absolute(reverse("wfdash:inbox")), token=token or PLACE),
        "token": token,
        "guide": guide(host.page),
        "problem": " ".join(problems.values()),
        "may": viewer.may("start", host.workflow),
        "first": next(iter(found), None),
        "every": runs_address("by:me", workflow=host.workflow),
        "here": "connect",
    }
    template = "first" if request.GET.get("fragment") == "first" else "page"
    return render(request, f"account/connect/{template}.html", context, status=422 if problems else 200)
