"""``wfdash hook`` without a server: what products send, what policies say, what is denied, and settings of products."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from wfdash import cli
from wfdash.cli.hook import conversation_in
from wfdash.domain.agent_calls import is_plain, similar_to

RECORDED = [
    (path.name.split("-")[0], one)
    for path in sorted((Path(__file__).parent / "hooks").glob("*.json"))
    for one in json.loads(path.read_text())["requests"]
]
BASH = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "git push"}, "session_id": "s"}
Hook = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("WFDASH_URL", "WFDASH_TOKEN", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "CLAUDE_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path / "shop")
    return tmp_path


@pytest.fixture
def hook(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Hook:
    """Give what answers a request as a product sends it: status, the answer as JSON, errors."""

    def run(given: Any, *options: str, agent: str = "claude") -> tuple[int, Any, str]:
        text = given if isinstance(given, bytes) else json.dumps(given).encode()
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text)))
        status = cli.main(["hook", agent, *options])
        out, error = capsys.readouterr()
        return status, json.loads(out) if out else None, error

    return run


def policy(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hook.toml").write_text(text)


def said(found: tuple[int, Any, str]) -> tuple[str, str]:
    """Return the decision of an answer and its words."""
    own = found[1].get("hookSpecificOutput", {})
    decision = own.get("decision", {})
    return own.get("permissionDecision", decision.get("behavior")), own.get(
        "permissionDecisionReason", decision.get("message", "")
    )


@pytest.mark.parametrize(("agent", "given"), RECORDED)
def test_every_recorded_request_is_answered_in_its_own_form(hook: Hook, home: Path, agent: str, given: Any) -> None:
    decision, words = said(hook({**given, "new_field": {"of": "later"}}, agent=agent))
    assert decision == "deny"
    assert "WFDASH_URL" in words
    policy(home / ".config/wfdash", '[[rule]]\ndo = "allow"\n')
    status, found, error = hook(given, agent=agent)
    own = found.get("hookSpecificOutput", {})
    if not is_plain(given["tool_input"]) and "command" in given["tool_input"]:
        assert said((status, found, error))[0] == "deny"
    elif agent == "codex" and given["hook_event_name"] == "PreToolUse":
        assert found == {}
    elif given["hook_event_name"] == "PermissionRequest":
        assert own == {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}
    else:
        assert own["permissionDecision"] == "allow"
        assert own.keys() == {"hookEventName", "permissionDecision", "permissionDecisionReason"}
    assert (status, error) == (0, "")


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"nonsense",
        b"[]",
        b"null",
        b"[" * 100_000,
        {**BASH, "hook_event_name": "PostToolUse"},
        {**BASH, "tool_name": ["Bash"]},
        {**BASH, "tool_name": ""},
        {**BASH, "tool_input": "git push"},
        {**BASH, "session_id": 1},
        {**BASH, "transcript_path": {"a": 1}},
        {**BASH, "tool_input": {"command": "x" * 700_000}},
        b"\xff\xfe",
    ],
)
def test_an_unknown_shape_denies_with_a_word(hook: Hook, given: Any) -> None:
    began = time.monotonic()
    status, found, error = hook(given)
    assert (status, found) == (2, None)
    assert error.strip()
    assert "Traceback" not in error
    assert time.monotonic() - began < 5


def test_no_server_denies(hook: Hook, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wfdash.cli.hook.PATIENCE", 0)
    monkeypatch.setenv("WFDASH_TOKEN", "wfd_1_x")
    cache = home / ".cache/wfdash/hook"
    cache.mkdir(parents=True)
    (cache / "old.json").write_text("{}")
    os.utime(cache / "old.json", (0, 0))
    assert said(hook(BASH, "--url", "http://127.0.0.1:9"))[0] == "deny"
    assert said(hook(BASH, "--url", "no address"))[0] == "deny"
    assert said(hook(BASH, "--url", "http://127.0.0.1:9", "--wait", "1s"))[0] == "deny"
    assert "old.json" not in {one.name for one in cache.iterdir()}


@pytest.mark.parametrize(
    ("own", "theirs", "decision"),
    [
        ('[[rule]]\ntool = "Bash"\nmatch = "git *"\ndo = "allow"', "", "allow"),
        ("", '[[rule]]\ndo = "allow"', "ask"),
        ('[[rule]]\ndo = "allow"', '[[rule]]\ntool = "Bash"\ndo = "ask"', "ask"),
        ('[[rule]]\ndo = "allow"', '[[rule]]\nmatch = "git push*"\ndo = "deny"', "deny"),
        ('[[rule]]\ndo = "deny"', '[[rule]]\ndo = "allow"', "deny"),
        ('[[rule]]\nmatch = "git pull*"\ndo = "allow"', "", "ask"),
        ('[[rule]]\ndo = "allow"', "nonsense", "deny"),
        ('[[rule]]\ndo = "allow"', 'dennied = "Bash"', "deny"),
        ('[[rule]]\ndo = "always"', "", "deny"),
        ('wait = "soon"', "", "deny"),
    ],
)
def test_a_repository_can_only_be_stricter(hook: Hook, home: Path, own: str, theirs: str, decision: str) -> None:
    policy(home / ".config/wfdash", own)
    policy(home / "shop/.wfdash", theirs)
    found, words = said(hook({**BASH, "cwd": str(home / "shop")}))
    assert found == ("allow" if decision == "allow" else "deny")
    assert ("has no server" in words) == (decision == "ask"), words


def test_what_decides_about_the_agent_is_always_asked(hook: Hook, home: Path) -> None:
    policy(home / ".config/wfdash", '[[rule]]\ndo = "allow"\n')
    (home / "shop/.claude").mkdir()
    (home / "shop/innocent").symlink_to(home / "shop/.claude")
    here = {**BASH, "cwd": str(home / "shop")}
    for path in (".claude/settings.json", "../.config/wfdash/hook.toml", ".codex/hooks.json", "innocent/settings.json"):
        edit = {"tool_name": "Edit", "tool_input": {"file_path": path, "old_string": "a", "new_string": "b"}}
        assert "has no server" in said(hook({**here, **edit}))[1], path
    for command in ("cat .claude/settings.json", "git push; rm -rf /", "git push $(x)", "git push\nrm x"):
        assert "has no server" in said(hook({**here, "tool_input": {"command": command}}))[1], command
    free = {"command": "git push", "dangerouslyDisableSandbox": True}
    assert "has no server" in said(hook({**here, "tool_input": free}))[1]
    plain = {"tool_name": "Edit", "tool_input": {"file_path": "a.txt", "old_string": "a", "new_string": "b"}}
    assert said(hook({**here, **plain}))[0] == "allow"


def test_a_policy_that_never_ends_denies(hook: Hook, home: Path) -> None:
    (home / "shop/.wfdash").mkdir()
    os.mkfifo(home / "shop/.wfdash/hook.toml")
    decision, words = said(hook({**BASH, "cwd": str(home / "shop")}))
    assert decision == "deny"
    assert "cannot be read" in words


def test_a_project_is_not_left_by_changing_the_folder(hook: Hook, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy(home / "shop/.wfdash", '[[rule]]\ndo = "deny"')
    policy(home / ".config/wfdash", '[[rule]]\ndo = "allow"')
    assert said(hook({**BASH, "cwd": "/tmp"}))[0] == "deny"
    monkeypatch.chdir("/tmp")
    assert said(hook({**BASH, "cwd": "/tmp"}))[0] == "allow"
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(home / "shop"))
    assert said(hook({**BASH, "cwd": "/tmp"}))[0] == "deny"


@pytest.mark.parametrize(
    ("tool", "arguments", "similar"),
    [
        ("Bash", {"command": "git config user.name ana"}, "exactly"),
        ("Bash", {"command": "git status -s"}, "Bash commands that begin with “git status”"),
        ("Bash", {"command": "git status && rm x"}, "exactly"),
        ("Bash", {"command": "python run"}, "exactly"),
        ("Bash", {"command": "git status", "dangerouslyDisableSandbox": True}, "exactly"),
        ("Bash", {"command": "X=1 git status"}, "exactly"),
        ("Bash", {"command": "git 'unclosed"}, "exactly"),
        ("Edit", {"file_path": "src/../lib/a.py"}, "Edit of files directly in /repo/lib"),
        ("Edit", {"file_path": ".claude/settings.json"}, ""),
        ("WebFetch", {"url": "https://example.org/a"}, "WebFetch from example.org"),
        ("WebFetch", {"url": "https://example.org@evil.org/a"}, "exactly"),
        ("WebFetch", {"url": "http://[broken"}, "exactly"),
        ("mcp__db__query", {"sql": "select 1"}, "exactly"),
    ],
)
def test_what_is_alike_is_said_in_words(tool: str, arguments: dict[str, Any], similar: str) -> None:
    found = similar_to(tool, arguments, "/repo")
    assert found == similar if similar != "exactly" else found.startswith(f"{tool} with exactly these arguments: ")


def test_the_last_messages_are_shown_without_what_looks_like_a_secret(tmp_path: Path) -> None:
    lines = [
        {"type": "user", "message": {"role": "user", "content": 'My api_key="abc123" and sk-ant-0123456789abcdef'}},
        {"type": "system", "content": "no message"},
        {
            "type": "assistant",
            "message": {"role": "assistant", "content": [{"type": "tool_use", "name": "Bash", "input": {"a": 1}}]},
        },
        {"type": "response_item", "payload": {"role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}},
    ]
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join([*map(json.dumps, lines), "broken", "[1]", '{"type": "user", "message": {}}']))
    told = conversation_in(str(path))
    assert [one["text"] for one in told] == ['My api_key="•••" and •••', 'Bash {"a": 1}', "Hi"]
    path.write_text(json.dumps(lines[0]) + "\n" + "x" * 500_000)
    assert conversation_in(str(path)) == []
    assert conversation_in(str(tmp_path)) == conversation_in("/etc/passwd") == conversation_in("") == []


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_install_is_repeatable_keeps_what_is_there_and_is_removed(
    home: Path, capsys: pytest.CaptureFixture[str], agent: str
) -> None:
    path = home / {"claude": ".claude/settings.json", "codex": ".codex/hooks.json"}[agent]
    path.parent.mkdir()
    mine = {"hooks": [{"type": "command", "command": "mine"}]}
    before = {"model": "x", "hooks": {"PreToolUse": [mine]}}
    path.write_text(json.dumps(before, indent=2) + "\n")
    assert cli.main(["hook", "install", agent, "--wait", "30m"]) == 0
    shown, once = capsys.readouterr().out, path.read_text()
    assert "+" in shown
    assert cli.main(["hook", "install", agent, "--wait", "30m"]) == 0
    assert (capsys.readouterr().out, path.read_text()) == ("", once)
    event = {"claude": "PreToolUse", "codex": "PermissionRequest"}[agent]
    entry = json.loads(once)["hooks"][event][-1]["hooks"][0]
    assert f" hook {agent} --wait=1800 " in entry["command"]
    assert entry["command"].endswith("exit 2; }")
    assert entry["timeout"] > 1800 + 60
    assert json.loads(once)["hooks"]["PreToolUse"][0] == mine
    assert cli.main(["hook", "install", agent, "--remove"]) == 0
    assert json.loads(path.read_text()) == before


@pytest.mark.parametrize("text", ["{", "[]", '{"hooks": []}', '{"hooks": {"PreToolUse": 1}}', '{"hooks": null}'])
def test_settings_that_are_not_understood_stay(home: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    path = home / "shop/.claude/settings.json"
    path.parent.mkdir()
    path.write_text(text)
    assert cli.main(["hook", "install", "claude", "--project"]) == 1
    assert "by hand" in capsys.readouterr().err
    assert path.read_text() == text
