"""A coding agent asks two people before it calls a tool: its hook is killed and repeated, and cannot answer."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.client.scripted_model import scripted_model
from tests.client.serving import server_for_agents as server_for_agents
from tests.e2e.server import Server, wait_until
from wfdash.client import Client, ClientError, Invalid

pytestmark = pytest.mark.process
TOKENS = """
from django.contrib.auth import get_user_model
from wfdash.access.viewer import viewer_for
from wfdash.actions.account import create_token
from wfdash.actions.people.accounts import create_service_account
admin = viewer_for(get_user_model().objects.get(username="admin"))
create_service_account(admin, "agent", roles=[("operator", "coding_agent"), ("operator", "ask_people")])
print(create_token(admin, "hook", rights=["see", "inspect", "start"], owner="agent").text)
ana = get_user_model().objects.create_superuser("ana", "ana@example.com")
for person in (admin, viewer_for(ana)):
    print(create_token(person, "person", rights=["see", "inspect", "start", "operate", "answer"]).text)
"""
_SDK = importlib.util.find_spec("claude_agent_sdk")
CLAUDE = os.environ.get("WFDASH_CLAUDE") or (_SDK and Path(str(_SDK.origin)).parent / "_bundled" / "claude")
CODEX = os.environ.get("WFDASH_CODEX")
"""The real command lines, driven by a scripted model: one is in the wheel of claude-agent-sdk (400 MB), one in the
package @openai/codex of npm. Neither is installed for the other tests.
"""
GIT = {"command": "git push origin main"}


@pytest.fixture(scope="module")
def tokens(server: Server) -> list[str]:
    return server.shell(TOKENS).split()


@pytest.fixture
def people(server: Server, tokens: list[str]) -> Iterator[list[Client]]:
    with Client(server.url, tokens[1], patience=60) as bo, Client(server.url, tokens[2], patience=60) as ana:
        yield [bo, ana]


class Agent:
    """An agent with its hook as a process, in a home of its own."""

    def __init__(self, server: Server, token: str, home: Path) -> None:
        self.env = {"HOME": str(home), "WFDASH_URL": server.url, "WFDASH_TOKEN": token}
        self.home, self.threads = home, ThreadPoolExecutor(8)

    def start(self, call: dict[str, Any], *options: str, agent: str = "claude") -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "wfdash", "hook", agent, *options]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        hook = subprocess.Popen(command, env=self.env, text=True, **pipes)
        given = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "session_id": "s1", "cwd": str(self.home)}
        assert hook.stdin is not None
        hook.stdin.write(json.dumps({**given, **call}))
        hook.stdin.close()
        hook.stdin = None
        return hook

    def call(self, call: dict[str, Any], *options: str, agent: str = "claude") -> Future[dict[str, Any]]:
        def answered() -> dict[str, Any]:
            out, error = self.start(call, *options, agent=agent).communicate(timeout=60)
            assert not error, error
            found: dict[str, Any] = json.loads(out)
            return dict(found.get("hookSpecificOutput", found))

        return self.threads.submit(answered)


@pytest.fixture
def agent(server: Server, tokens: list[str], tmp_path: Path) -> Agent:
    return Agent(server, tokens[0], tmp_path)


def asked(person: Client, subject: str) -> str:
    """Return the open request with this subject once there is one."""
    return wait_until(
        lambda: next((one.id for one in person.requests().items if subject in one.subject), ""), what=subject
    )


def test_a_hook_that_is_killed_and_repeated_finds_its_question_and_its_answer_is_bound_to_the_call(
    agent: Agent, people: list[Client]
) -> None:
    call = {"tool_input": GIT, "tool_use_id": "toolu_1"}
    first = agent.start(call)
    request = asked(people[0], "Bash git push origin main")
    first.kill()
    first.communicate()
    again = agent.call(call)
    time.sleep(1)
    assert [one.id for one in people[0].requests("workflow:coding_agent").items] == [request]
    people[1].answer(request, {"action": "approve"})
    assert again.result()["permissionDecision"] == "allow"
    assert agent.call(call).result()["permissionDecisionReason"] == "Allowed by ana"
    forged = agent.call({**call, "tool_input": {"command": "git push --force"}})
    people[0].answer(asked(people[0], "Bash git push --force"), {"action": "reject", "feedback": "Not with force"})
    denied = forged.result()
    assert denied["permissionDecision"] == "deny"
    assert denied["permissionDecisionReason"] == "Denied by admin: Not with force"


def test_a_rule_of_people_allows_alike_calls_of_its_session_until_it_is_revoked(
    agent: Agent, people: list[Client]
) -> None:
    made = agent.call({"tool_input": GIT, "tool_use_id": "r1", "session_id": "s2"})
    request = asked(people[0], "Bash git push origin main")
    card = people[0].request(request).card
    assert "for 60 min in this session without asking: Bash commands that begin with “git push”" in str(
        card["consequence"]
    )
    people[0].answer(request, {"action": "approve_similar"})
    assert made.result()["permissionDecision"] == "allow"
    similar = agent.call({"tool_input": {"command": "git push origin next"}, "tool_use_id": "r2", "session_id": "s2"})
    assert similar.result()["permissionDecisionReason"] == "Allowed by a rule of this session"
    rules = people[1].runs("workflow:coding_agent status:sleeping").items
    assert [one.title for one in rules] == ["Rule in session s2: Bash commands that begin with “git push”"]
    others = [
        {"tool_input": {"command": "git push; rm -rf /"}, "session_id": "s2"},
        {"tool_input": {"command": "git push origin next"}, "session_id": "s3"},
        {"tool_input": {"command": "git pull"}, "session_id": "s2"},
        {"tool_name": "Edit", "tool_input": {"file_path": "git push"}, "session_id": "s2"},
    ]
    waiting = [agent.call({**call, "tool_use_id": f"o{place}"}) for place, call in enumerate(others)]
    open_ones = wait_until(lambda: found if len(found := people[0].requests().items) == len(others) else [], what="all")
    people[1].cancel(rules[0].id)
    revoked = agent.call({"tool_input": {"command": "git push origin next"}, "tool_use_id": "r3", "session_id": "s2"})
    wait_until(lambda: len(people[0].requests().items) == len(others) + 1, what="the revoked rule asks")
    for one in people[0].requests().items:
        people[0].answer(one.id, {"action": "reject"})
    assert {one.result()["permissionDecision"] for one in [*waiting, revoked]} == {"deny"}
    assert len(open_ones) == len(others)
    told = {(one.verb, one.actor) for one in people[0].audit(limit=50).items}
    assert {("answer", "admin"), ("cancel", "ana"), ("start", "agent")} <= told, told


def test_a_rule_expires_and_silence_denies(agent: Agent, people: list[Client], tmp_path: Path) -> None:
    policy = tmp_path / ".config" / "wfdash" / "hook.toml"
    policy.parent.mkdir(parents=True)
    policy.write_text('similar = "1s"\n')
    made = agent.call({"tool_input": GIT, "tool_use_id": "e1", "session_id": "s4"})
    people[0].answer(asked(people[0], "Bash git push origin main"), {"action": "approve_similar"})
    assert made.result()["permissionDecision"] == "allow"
    wait_until(lambda: not people[0].runs("workflow:coding_agent status:sleeping").items, what="the end of the rule")
    late = agent.call({"tool_input": GIT, "tool_use_id": "e2", "session_id": "s4"}, "--wait", "2s").result()
    assert (late["permissionDecision"], late["permissionDecisionReason"]) == (
        "deny",
        "Denied because no one answered in time",
    )


def test_no_agent_answers_and_no_agent_makes_a_rule(
    agent: Agent, people: list[Client], server: Server, tokens: list[str]
) -> None:
    waiting = agent.call({"tool_input": GIT, "tool_use_id": "n1", "session_id": "s5"})
    request = asked(people[0], "Bash git push origin main")
    run = people[0].request(request).run
    with Client(server.url, tokens[0], patience=5) as own:
        for action in ("approve", "approve_similar"):
            with pytest.raises(ClientError):
                own.answer(request, {"action": action})
        with pytest.raises(ClientError):
            own.cancel(run)
        assert own.requests().items
        call = {"agent": "claude", "tool": "Bash", "input": GIT, "wait": 60, "rule": 60}
        for more in ({"rule": 10**9}, {"wait": 0}, {"agent": "me"}, {"allowed": True}, {"input": {"x": [1] * 20_000}}):
            with pytest.raises(Invalid):
                own.start("coding_agent", {**call, **more})
    people[0].answer(request, {"action": "edit", "arguments": {"command": "git push --dry-run"}})
    said = waiting.result()
    assert (said["permissionDecision"], said["updatedInput"]) == ("allow", {"command": "git push --dry-run"})


def test_a_card_offers_what_its_product_can_do_and_shows_what_changes(agent: Agent, people: list[Client]) -> None:
    policy = agent.home / ".config" / "wfdash" / "hook.toml"
    policy.parent.mkdir(parents=True)
    policy.write_text('by = ["ana"]\n[[rule]]\ntool = "Write"\ndo = "ask"\nrisk = "high"\n')
    (agent.home / "a.txt").write_text("one\n")
    write = {
        "tool_name": "Write",
        "tool_input": {"file_path": "a.txt", "content": "two\u001b[2J\n"},
        "tool_use_id": "c1",
    }
    patch = {"command": "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n*** End Patch"}
    asks = {"hook_event_name": "PermissionRequest", "tool_name": "apply_patch", "tool_input": patch}
    waiting = [agent.call(write), agent.call({**asks, "transcript_path": None, "turn_id": "1"}, agent="codex")]
    risky = people[1].request(asked(people[1], "Write a.txt"))
    patched = people[1].request(asked(people[1], "apply_patch"))
    assert [one["name"] for one in risky.card["actions"]] == ["approve", "edit", "reject"]
    assert (risky.card["risk"], risky.by) == ("high", ("ana",))
    assert risky.card["evidence"][0]["value"] == {"before": "one\n", "after": "two\u001b[2J\n"}
    assert [one["name"] for one in patched.card["actions"]] == ["approve", "approve_similar", "reject"]
    assert patched.card["evidence"][0]["language"] == "diff"
    people[1].answer(risky.id, {"action": "approve"})
    people[1].answer(patched.id, {"action": "reject", "feedback": "Not now"})
    assert waiting[0].result()["permissionDecision"] == "allow"
    assert waiting[1].result()["decision"] == {"behavior": "deny", "message": "Denied by ana: Not now"}


def test_requests_of_one_session_are_decided_together(agent: Agent, people: list[Client]) -> None:
    calls = [{"tool_input": {"command": f"make part{n}"}, "tool_use_id": f"b{n}"} for n in range(3)]
    waiting = [agent.call(call) for call in calls]
    wait_until(lambda: len(people[0].requests().items) == len(calls), what="the batch")
    batch = [people[0].request(one.id) for one in people[0].requests().items]
    done = people[0].answer_many(batch, {"action": "approve"})
    assert [one.problem for one in done] == ["", "", ""]
    assert {one.result()["permissionDecision"] for one in waiting} == {"allow"}


async def test_the_documented_permission_callback_outlives_its_time_limit(
    server: Server, tokens: list[str], people: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    sdk: Any = ModuleType("claude_agent_sdk")
    sdk.PermissionResultAllow, sdk.PermissionResultDeny = (lambda: "allow"), (lambda message: message)
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", sdk)
    monkeypatch.setenv("WFDASH_URL", server.url)
    monkeypatch.setenv("WFDASH_TOKEN", tokens[0])
    page = (Path(__file__).parents[2] / "docs/coding-agents.md").read_text()
    recipe: dict[str, Any] = {"SESSION": "s9"}
    block = page.split("```python\n")[1].split("```")[0]
    exec(block.replace("timeout=240", "timeout=0.5"), recipe)
    assert "not answered yet" in await recipe["can_use_tool"]("Bash", GIT, None)
    request = await asyncio.to_thread(asked, people[0], "Bash?")
    people[0].answer(request, {"action": "approve"})
    while (said := await recipe["can_use_tool"]("Bash", GIT, None)) != "allow":
        assert "not answered yet" in said
    recipe["questions"].clear()  # The agent's process has started again.
    while (said := await recipe["can_use_tool"]("Bash", GIT, None)) != "allow":
        assert "not answered yet" in said
    assert len(people[0].requests().items) == 0


def installed(home: Path) -> str:
    """Make a program ``wfdash``, and return the path on which it is found."""
    program = home / "wfdash"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={Path(__file__).parents[2]} exec {sys.executable} -m wfdash "$@"\n')
    program.chmod(0o755)
    return f"{home}:/usr/bin:/bin"


@pytest.mark.nightly
@pytest.mark.parametrize("event", ["PreToolUse", "PermissionRequest"])
def test_the_real_command_line_asks_and_does_what_people_say(agent: Agent, people: list[Client], event: str) -> None:
    work = agent.home / "work"
    work.mkdir()
    path = installed(agent.home)
    install = [sys.executable, "-m", "wfdash", "hook", "install", "claude", "--event", event, "--wait", "40s"]
    subprocess.run(install, env={**agent.env, "PATH": path}, cwd=work, check=True, capture_output=True)
    calls = [
        {"name": "Bash", "input": {"command": "touch allowed", "description": "Make a file"}},
        {"name": "Bash", "input": {"command": "touch denied", "description": "Make another"}},
        {"name": "Bash", "input": {"command": "touch asked", "description": "Make a third"}},
        {"name": "Write", "input": {"file_path": str(work / "b.txt"), "content": "new\n"}},
    ]
    with scripted_model(calls) as (url, told):
        own = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        session = agent.threads.submit(
            subprocess.run, [str(CLAUDE), "-p", "Make files"], cwd=work, env={**agent.env, **own, "PATH": path}
        )
        people[0].answer(asked(people[0], "touch allowed"), {"action": "approve"})
        people[1].answer(asked(people[0], "touch denied"), {"action": "reject", "feedback": "Not this one"})
        changed = {"command": "touch changed", "description": "Make a third"}
        people[0].answer(asked(people[0], "touch asked"), {"action": "edit", "arguments": changed})
        request = people[0].request(asked(people[0], "Write "))
        people[0].answer(request.id, {"action": "approve"})
        assert session.result(timeout=60).returncode == 0
    assert {one.name for one in work.iterdir()} == {"allowed", "changed", "b.txt"}
    assert "Denied by ana: Not this one" in str(told[1]["content"])
    kinds = [one["kind"] for one in request.card["evidence"]]
    assert kinds == ["diff", "transcript"], kinds


@pytest.mark.nightly
def test_the_real_codex_asks_and_does_what_people_say(agent: Agent, people: list[Client]) -> None:
    work, settings = agent.home / "work", agent.home / ".codex" / "config.toml"
    work.mkdir()
    settings.parent.mkdir()
    env = {**agent.env, "PATH": installed(agent.home)}
    install = [sys.executable, "-m", "wfdash", "hook", "install", "codex", "--event", "PreToolUse", "--wait", "40s"]
    subprocess.run(install, env=env, cwd=work, check=True, capture_output=True)
    called = [{"name": "exec_command", "arguments": json.dumps({"cmd": f"echo {word}"})} for word in ("one", "two")]
    with scripted_model(called) as (url, told):
        model = f'[model_providers.here]\nname = "here"\nbase_url = "{url}/v1"\nwire_api = "responses"\n'
        settings.write_text(f'model = "scripted"\nmodel_provider = "here"\nsandbox_mode = "read-only"\n{model}')
        command = [str(CODEX), "exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust", "Say it"]
        nothing = subprocess.DEVNULL
        session = agent.threads.submit(subprocess.run, command, cwd=work, env=env, stdin=nothing, capture_output=True)
        people[0].answer(asked(people[0], "echo one"), {"action": "edit", "arguments": {"command": "echo changed"}})
        people[1].answer(asked(people[0], "echo two"), {"action": "reject", "feedback": "Not this one"})
        assert session.result(timeout=60).returncode == 0
    assert "changed" in told[0]["output"]
    assert "Denied by ana: Not this one" in told[1]["output"]


vars(test_the_real_command_line_asks_and_does_what_people_say)["__test__"] = CLAUDE is not None
vars(test_the_real_codex_asks_and_does_what_people_say)["__test__"] = CODEX is not None
