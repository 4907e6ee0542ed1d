"""The page of the command line: the site makes its list from the parser; its exit statuses are those of commands."""

from __future__ import annotations

import argparse
import inspect
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest

from wfdash import cli
from wfdash.cli import commands as statuses
from wfdash.client.client import Calls

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/command-line.md"
LISTS = runpy.run_path(str(ROOT / ".ci/docs_lists.py"))
commands = LISTS["parsers"]
STATUSES = {
    statuses.OK: "it was done",
    statuses.FAILED: "it failed: the server has an error, or something unexpected happened",
    statuses.USAGE: "wrong arguments, or a value that is not valid. Nothing was changed",
    statuses.NOT_FOUND: "not found, or you do not have access",
    statuses.REFUSED: "not signed in, or not allowed",
    statuses.CONFLICT: "the state does not allow it: someone answered first, the run has ended",
    statuses.TIMED_OUT: "what was waited for did not happen within --timeout",
    statuses.UNREACHABLE: "the server cannot be reached",
    statuses.UNSUCCESSFUL: "the run that was waited for failed or was cancelled",
    statuses.REJECTED: "the people who were asked said no",
    statuses.INTERRUPTED: "interrupted by Ctrl-C",
}


def test_the_site_lists_every_command_that_acts_through_the_api() -> None:
    acting = [name for name, parser in commands(cli._parser()) if parser.get_default("uses_api")]
    rows = LISTS["commands"]().splitlines()[2:]
    assert len(rows) == len(acting)
    assert all(row.startswith(f"| `{name}") for row, name in zip(rows, acting, strict=True))
    assert "<!-- commands -->" in PAGE.read_text()


def test_the_page_of_the_command_line_names_every_exit_status() -> None:
    ends = "".join(f"| {status} | {text} |\n" for status, text in STATUSES.items())
    assert PAGE.read_text().endswith(f"| status | meaning |\n|---|---|\n{ends}")


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_every_family(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in ("runs", "requests", "checkpoints", "schedules", "workflows", "restore"))


@pytest.mark.parametrize(("typed", "offered"), [("wfdash run", "runs"), ("wfdash runs wai", "wait")])
def test_bash_completes_what_is_typed(typed: str, offered: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "bash"]) == 0
    words = typed.split()
    complete = f"""
COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}
$(complete -p wfdash | grep -o -- "-F [^ ]*" | cut -c 4-) wfdash {words[-1]} {words[-2]}
echo "${{COMPREPLY[@]}}"
"""
    bash = ["bash", "-c", capsys.readouterr().out + complete]
    assert subprocess.run(bash, capture_output=True, text=True, check=True).stdout == f"{offered}\n"


def test_no_command_but_up_creates_a_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("WFDASH_DATA", "WFDASH_DATABASE", "WFDASH_URL", "WFDASH_TOKEN", "WFDASH_AUDIT_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name, parser in commands(cli._parser()):
        words = name.split()[1:]
        if words[0] in {"up", "demo", "completion", "manage", "check", "new", "mcp", "hook"}:
            continue
        given = [example(action) for action in parser._actions if required(action)]
        try:
            status = cli.main([*words, *given])
        except SystemExit as ended:
            pytest.fail(f"{name} {given}: {ended} {capsys.readouterr().err}")
        problem = capsys.readouterr().err
        assert status == 1, (name, problem)
        assert "No wfdash data in ./wfdash-data. 'wfdash up' creates it; --data" in problem, name
        assert list(tmp_path.iterdir()) == [], name


class Taken(Exception):
    """A call takes what a command has given to it."""


class Signatures:
    """A client whose every call takes what its row of the table takes, and does nothing."""

    def __enter__(self) -> Signatures:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any, **named: Any) -> None:
            inspect.signature(vars(Calls)[name]._script).bind(*given, **named)
            raise Taken

        return call


MORE = {"runs bulk": ["1"], "requests ask": ["--no-wait"], "schedules change": ["--name", "1"]}
"""What a command needs before it makes a call."""


def test_every_command_makes_a_call_of_the_client_s_table_that_takes_what_was_given(monkeypatch) -> None:
    monkeypatch.setattr("wfdash.cli.connection.connect", lambda options: Signatures())
    made = 0
    for name, parser in commands(cli._parser()):
        if not parser.get_default("uses_api") or name == "wfdash completion":
            continue
        words = name.removeprefix("wfdash ")
        given = [example(action) for action in parser._actions if required(action)]
        with pytest.raises(Taken):
            cli.main([*words.split(), *given, *MORE.get(words, [])])
        made += 1
    assert made > 50


def required(action: argparse.Action) -> bool:
    """Return whether a command cannot do without it."""
    optional = action.nargs in {argparse.ZERO_OR_MORE, argparse.OPTIONAL}
    return action.required and not optional and not isinstance(action, argparse._SubParsersAction)


def example(action: argparse.Action) -> str:
    """Return a value that the argument accepts."""
    return str(next(iter(action.choices))) if action.choices else "1"
