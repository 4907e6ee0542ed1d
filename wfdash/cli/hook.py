"""``wfdash hook``: a coding agent asks people before it calls a tool, and ``install`` adds that to its settings.

A client of the API in few imports, as it runs at each call. What goes wrong denies: no error here allows anything.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import sys
import time
import tomllib
import uuid
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from difflib import unified_diff
from fnmatch import fnmatchcase
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from wfdash.cli.commands import OK, USAGE, argument, family, flag, one_of, plain_command, print_error, seconds
from wfdash.domain.agent_calls import is_plain, path_of, target_of, touches_own_files

MOST_READ, MOST_POLICY, MOST_TRANSCRIPT, MOST_FILE = 600_000, 100_000, 400_000, 200_000
"""Bytes of a permission request, of a policy, of the end of a transcript, of a file that is about to be replaced."""
MOST_MESSAGES, LONGEST = 10, 2_000
WAIT, LONGEST_WAIT, LONGEST_RULE, POLL, PATIENCE = 3_600, 604_800, 43_200, 45, 10
"""Seconds until no answer denies, by default and at most; that a rule lasts at most; of one request; until a server
counts as unreachable.
"""
MARGIN = 240
"""Seconds that an agent waits longer for this command than it for people: who comes too late denies nothing."""
STRICT = ("allow", "ask", "deny")
RISKS = ("", "low", "medium", "high")
KEYS = {**dict.fromkeys(("url", "token", "wait", "similar"), str), **dict.fromkeys(("by", "not_by", "rule"), list)}
RULE = {"tool", "match", "do", "risk"}
SECRET = re.compile(
    r"\b(?:sk|gh[a-z]|github_pat|xox[a-z]|wfd|AKIA)[-_A-Za-z0-9]{12,}|(?<=Bearer )\S+"
    r"|(?i:(?P<name>(?:password|passwd|secret|token|api[_-]?key)\w*[\"']?\s*[:=]\s*[\"']?))[^\s\"',}]+"
)
EVENTS = {"claude": "PreToolUse", "codex": "PermissionRequest"}
MATCHERS = {"claude": {"matcher": "Bash|Edit|MultiEdit|Write|NotebookEdit|WebFetch|mcp__.*"}, "codex": {}}
SETTINGS = {"claude": ".claude/settings.json", "codex": ".codex/hooks.json"}
FIELDS = "hook_event_name", "tool_name", "tool_input", "session_id", "cwd", "tool_use_id", "transcript_path"
OURS = re.compile(r"wfdash\S* hook (claude|codex)\b")


BROKEN = (ValueError, RecursionError, LookupError, TypeError, AttributeError)
"""What is raised for JSON that is not as it should be."""


class Denied(Exception):
    """The tool must not be called; the message tells the agent why."""


@dataclass(frozen=True)
class HookCall:
    """A permission request, the same for every product. ``id``: empty where the product gives none."""

    agent: str
    event: str
    tool: str
    arguments: dict[str, Any]
    session: str
    folder: str
    id: str
    transcript: str


Verdict = tuple[dict[str, Any] | None, str]
"""The arguments with which a tool may be called, None if it may not; and why."""


def answer(agent: str, options: Namespace) -> int:
    """Read a permission request from standard input and print the answer. Return the exit status."""
    call, given = None, None
    signal.alarm(int(options.wait) + MARGIN // 2)  # Whatever hangs ends, with a status that the settings make a denial.
    try:
        call = read_call(agent, sys.stdin.buffer.read(MOST_READ + 1))
        do, terms = policy_for(call)
        given, words = (call.arguments if do == "allow" else None), "The policy of wfdash hook says so"
        if do == "ask":
            given, words = ask(call, terms, options)
    except Denied as error:
        words = str(error)
    except Exception as error:
        words = f"wfdash hook failed ({type(error).__name__}: {error})"
    signal.alarm(0)
    if call is None:
        return print_error(words, USAGE)
    sys.stdout.write(json.dumps(reply(call, given, words)) + "\n")
    return OK


def reply(call: HookCall, given: dict[str, Any] | None, words: str) -> dict[str, Any]:
    """Return the answer as a product reads it."""
    updated = {} if given in (None, call.arguments) else {"updatedInput": given}
    said = "deny" if given is None else "allow"
    more = {"permissionDecision": said, "permissionDecisionReason": words, **updated}
    if call.event == "PermissionRequest":
        more = {"decision": {"behavior": said, **({"message": words} if given is None else updated)}}
    elif call.agent == "codex" and given is not None and not updated:
        return {}  # Codex takes no plain permission here: its own rules decide.
    return {"hookSpecificOutput": {"hookEventName": call.event, **more}}


def read_call(agent: str, text: bytes) -> HookCall:
    """Return the call that a product asks about. Fields that are not known pass; ``Denied`` for an unknown shape."""
    if len(text) > MOST_READ:
        raise Denied(f"The call has more than {MOST_READ:,} bytes, which no person can review: make it smaller")
    try:
        found = json.loads(text)
    except BROKEN as error:
        raise Denied(f"wfdash hook was given no JSON: {error}") from error
    given = found if isinstance(found, dict) else {}
    values: list[Any] = ["" if given.get(name) is None else given[name] for name in FIELDS]
    event, tool, arguments, *texts = values
    known = event in EVENTS.values() and tool and isinstance(arguments, dict)
    if not known or not all(isinstance(one, str) for one in (tool, *texts)):
        raise Denied(
            f"wfdash hook does not know this request of {agent}: hook_event_name, tool_name and tool_input must be "
            "those of PreToolUse or PermissionRequest. Is wfdash older than the agent?"
        )
    return HookCall(agent, *values)


# Policies: one of the person, which may allow, and those of repositories, which may only be stricter.


def policy_for(call: HookCall) -> tuple[str, dict[str, Any]]:
    """Return whether the policies allow, deny or ask, and the terms of a question.

    An agent can change those of its repository: they count where they are stricter.
    """
    path = path_of(call.arguments)
    named = os.path.join(call.folder, path)
    target = os.path.realpath(named) if path else target_of(call.arguments)
    own = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "wfdash" / "hook.toml"
    said = [read_policy(one) if one.exists() else {} for one in (own, *policies_of(call.folder, path))]
    fitting = [fitting_rule(one, call, target) for one in said]
    asks = touches_own_files({**call.arguments, "": target})
    do = [fitting[0].get("do", "ask"), *(one.get("do", "allow") for one in fitting[1:]), *(["ask"] if asks else [])]
    return max(do, key=STRICT.index), {
        "by": next((one["by"] for one in said if one.get("by")), []),
        "not_by": [name for one in said for name in one.get("not_by", [])],
        "risk": max((one.get("risk", "") for one in fitting), key=RISKS.index) or None,
        "wait": min(_span(one, "wait", LONGEST_WAIT) for one in said),
        "rule": 0
        if asks or (path and target != os.path.normpath(named))
        else min(_span(one, "similar", WAIT if one is said[0] else LONGEST_RULE) for one in said),
        "server": said[0],
    }


def policies_of(*places: str) -> list[Path]:
    """Return where the project's folder, the agent's, that of the call's file, and those above have a policy."""
    starts = [os.environ.get("CLAUDE_PROJECT_DIR", ""), places[0], os.path.join(*places)]
    paths = [Path(os.path.realpath(one)) / ".wfdash" for one in starts]
    return sorted({folder / ".wfdash" / "hook.toml" for path in paths for folder in path.parents})


def read_policy(path: Path) -> dict[str, Any]:
    """Return a policy. ``Denied`` where it cannot be read or says something unknown: that may be a restriction."""
    try:
        if not path.is_file() or path.stat().st_size > MOST_POLICY:
            raise OSError("it is no file, or too large")
        said = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise Denied(f"The policy {path} cannot be read: {error}") from error
    wrong = [name for name, one in said.items() if KEYS.get(name) is not type(one)]
    for rule in said.get("rule", []) if not wrong else []:
        if not (isinstance(rule, dict) and rule.keys() <= RULE and {*map(type, rule.values())} == {str}):
            wrong.append("rule")
        elif rule.get("do") not in STRICT or rule.get("risk", "") not in RISKS:
            wrong.append("do, or risk, of a rule")
    if wrong:
        raise Denied(f"The policy {path} has no valid {', '.join(wrong)}: see Coding agents in the docs")
    return said


def fitting_rule(said: dict[str, Any], call: HookCall, target: str) -> dict[str, str]:
    """Return the first rule that fits a call, empty without one. A permission fits no chain of commands."""
    chained = "command" in call.arguments and not is_plain(call.arguments)
    for rule in said.get("rule", []):
        if fnmatchcase(call.tool, rule.get("tool", "*")) and fnmatchcase(target, rule.get("match", "*")):
            return {**rule, "do": "ask"} if chained and rule["do"] == "allow" else rule
    return {}


def _span(said: dict[str, Any], name: str, most: float) -> int:
    try:
        return int(min(seconds(str(said.get(name, most))), most))
    except ArgumentTypeError as error:
        raise Denied(f"{name} in hook.toml: {error}") from error


# The question: a run of ``coding_agent``, found again by its key.


def ask(call: HookCall, terms: dict[str, Any], options: Namespace) -> Verdict:
    """Ask people and wait for the answer. A killed hook that is repeated finds the same question."""
    import httpx

    server = terms.pop("server")
    url = options.url or os.environ.get("WFDASH_URL") or server.get("url")
    token = os.environ.get("WFDASH_TOKEN") or server.get("token")
    if not (url and token):
        raise Denied("wfdash hook has no server: set WFDASH_URL and WFDASH_TOKEN, or url and token in hook.toml")
    terms["wait"] = min(terms["wait"], int(options.wait))
    named = [call.agent, call.session, call.id or uuid.uuid4().hex, call.tool, call.arguments]
    key = sha256(json.dumps(named).encode()).hexdigest()
    message = {
        "agent": call.agent,
        "tool": call.tool,
        "input": call.arguments,
        "folder": call.folder,
        "session": call.session,
        "editable": (call.agent, call.event) != ("codex", "PermissionRequest"),
        **terms,
        **shown_beside(key, call),
    }
    end = time.monotonic() + terms["wait"] + 5
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": f"hook:{key}"}
    start = {"workflow": "coding_agent", "message": message}
    with httpx.Client(base_url=url, headers=headers, timeout=POLL + 15) as http:
        run = _call(http, time.monotonic() + PATIENCE, "POST", "runs", json=start)["id"]
        return await_answer(partial(_call, http, end, "GET"), run, call, end)


def await_answer(read: Callable[..., Any], run: str, call: HookCall, end: float) -> Verdict:
    """Return what people answered, or what a rule of theirs allows. ``Denied`` where it ended without an answer."""
    while time.monotonic() < end:
        found = read(f"runs/{run}", params={"wait": 1})
        if found["status"] == "completed":
            return (found["output"]["input"] if found["output"]["allowed"] else None), found["output"]["words"]
        if found["status"] == "sleeping":
            return call.arguments, "Allowed by people, with all similar ones"  # It is a rule by now.
        if found["status"] in {"failed", "cancelled"}:
            raise Denied(f"The question was {found['status']}")
        for one in found["requests"]:
            read(f"requests/{one['id']}", params={"wait": POLL})
        time.sleep(0.1)
    raise Denied("No one answered in time")


def _call(http: Any, end: float, method: str, path: str, **given: Any) -> Any:
    """Return what the API answers, however often the server is away until then. ``Denied`` for a refusal."""
    import httpx

    while True:
        try:
            response = http.request(method, f"api/v1/{path}", **given)
            if response.is_success:
                return response.json()
            why = f"wfdash refused ({response.status_code}): {response.text}"[:LONGEST]
            if response.status_code not in {429, 502, 503, 504}:
                break
        except httpx.TransportError as error:
            why = f"wfdash cannot be reached: {error}"
        if time.monotonic() >= end:
            break
        time.sleep(1)
    raise Denied(why)


def shown_beside(key: str, call: HookCall) -> dict[str, Any]:
    """Return what the card shows beside the call, the same for a hook that is repeated: transcripts grow."""
    path = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wfdash" / "hook" / f"{key}.json"
    with suppress(OSError, ValueError):
        return dict(json.loads(path.read_text()))
    shown: dict[str, Any] = {"conversation": conversation_in(call.transcript)}
    if "content" in call.arguments:
        text = _end_of(Path(call.folder, path_of(call.arguments)), MOST_FILE).decode(errors="replace")
        shown["current"] = hidden(text)
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(json.dumps(shown))
        for old in path.parent.glob("*.json"):
            if time.time() - old.stat().st_mtime > LONGEST_WAIT:
                old.unlink()
    return shown


def conversation_in(transcript: str) -> list[dict[str, Any]]:
    """Return the last messages of a session, without what looks like a secret."""
    lines = _end_of(Path(transcript), MOST_TRANSCRIPT).splitlines() if transcript.endswith(".jsonl") else []
    return [one for line in lines if (one := message_in(line))][-MOST_MESSAGES:]


def _end_of(path: Path, most: int) -> bytes:
    with suppress(OSError):
        if path.is_file():
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - most))
                return file.read(most)
    return b""


def hidden(text: str) -> str:
    """Return a text without what looks like a secret."""
    return SECRET.sub(lambda found: f"{found['name'] or ''}•••", text)


def message_in(line: bytes) -> dict[str, Any] | None:
    """Return a line of a transcript as a message; None for any other line."""
    try:
        said = json.loads(line)
        said = said["payload" if said["type"] == "response_item" else "message"]
        content = said["content"]
        parts = [{"text": content}] if isinstance(content, str) else content
        texts = [part.get("text") or f"{part['name']} {json.dumps(part['input'])}" for part in parts]
    except BROKEN:
        return None
    text = hidden("\n\n".join(map(str, texts)))
    return {"role": said["role"], "text": text[:LONGEST]} if said.get("role") in {"user", "assistant"} else None


# Settings of the products.


def install(options: Namespace) -> int:
    """Add the hook to the settings of a product, or remove it, and show the difference."""
    path = (Path.cwd() if options.project else Path.home()) / SETTINGS[options.agent]
    before = path.read_text() if path.exists() else ""
    try:
        settings = json.loads(before or "{}")
        events = settings.setdefault("hooks", {})
        for groups in events.values():
            for group in groups:
                group["hooks"] = [hook for hook in group["hooks"] if not OURS.search(str(hook))]
            groups[:] = [group for group in groups if group["hooks"]]
        if not options.remove:
            events.setdefault(options.event or EVENTS[options.agent], []).append(hook_entry(options))
        settings["hooks"] = {name: groups for name, groups in events.items() if groups}
    except BROKEN as error:
        return print_error(f"{path} is not as {options.agent} writes it ({error}): correct it, or add the hook by hand")
    after = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
    sys.stdout.writelines(unified_diff(before.splitlines(True), after.splitlines(True), str(path), str(path)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(after)
    return OK


def hook_entry(options: Namespace) -> dict[str, Any]:
    """Return the entry. Whatever ends the command without an answer denies, as both products do with status 2."""
    program = "wfdash" if options.project else shutil.which("wfdash") or "wfdash"
    parts = shlex.join([program, "hook", options.agent, f"--wait={options.wait:g}", f"--url={options.url}"])
    command = f"{parts} || {{ echo 'Denied: wfdash hook gave no answer' >&2; exit 2; }}"
    hook = {"type": "command", "command": command, "timeout": int(options.wait) + MARGIN}
    return {**MATCHERS[options.agent], "hooks": [hook]}


URL = argument("--url", "address of the server (default: $WFDASH_URL, or url of hook.toml)", default="")
WAITS = argument(
    "--wait", "deny without an answer after: 90s, 5m, 2h (default: 1h)", type=seconds, default=WAIT, metavar="TIME"
)
HOOK = family(
    "hook",
    "let a coding agent ask people before it calls a tool",
    plain_command("claude", "answer a hook of Claude Code", partial(answer, "claude"), URL, WAITS, needs_data=False),
    plain_command("codex", "answer a hook of Codex", partial(answer, "codex"), URL, WAITS, needs_data=False),
    plain_command(
        "install",
        "add the hook to the settings of an agent, and show the difference",
        install,
        argument("agent", choices=sorted(SETTINGS)),
        one_of(
            flag("--project", "in the settings of this folder's project"),
            flag("--user", "in your own settings (default)"),
        ),
        argument(
            "--event",
            "hook to use (default: PreToolUse of Claude Code, PermissionRequest of Codex)",
            choices=["PreToolUse", "PermissionRequest"],
        ),
        flag("--remove", "remove it again"),
        URL,
        WAITS,
        needs_data=False,
    ),
)
