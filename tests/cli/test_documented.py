"""The page of the command line: its tables follow from the parser and from the exit statuses."""

from __future__ import annotations

import argparse
import inspect
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wfdash import cli
from wfdash.cli import commands as statuses
from wfdash.client.client import Calls

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
FIRST = "## Commands\n"
SHARED = {"help", "json", "url", "token", "data", "person"}
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


def commands(parser: argparse.ArgumentParser, name: str = "wfdash") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield every command with its whole name."""
    families = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not families:
        yield name, parser
    for family in families:
        for verb, below in family.choices.items():
            yield from commands(below, f"{name} {verb}")


def documented() -> str:
    found = [(name, parser) for name, parser in commands(cli._parser()) if parser.get_default("uses_api")]
    rows = [f"| `{name}{arguments(parser)}` | {says(parser)} |" for name, parser in found]
    ends = [f"| {status} | {text} |" for status, text in STATUSES.items()]
    heads = (
        [FIRST, "| command | what it does |", "|---|---|"],
        ["\n## Exit status\n", "| status | meaning |", "|---|---|"],
    )
    return "\n".join([*heads[0], *rows, *heads[1], *ends, ""])


def arguments(parser: argparse.ArgumentParser) -> str:
    """Return what a command takes, in the order of its help."""
    own = [action for action in parser._actions if action.dest not in SHARED]
    return "".join(f" {shown(action)}" for action in sorted(own, key=lambda action: bool(action.option_strings)))


def shown(action: argparse.Action) -> str:
    """Return one argument as a usage line has it, without characters that end a cell."""
    value: Any = action.metavar or (",".join(map(str, action.choices)) if action.choices else action.dest.upper())
    if action.option_strings:
        return f"[{action.option_strings[-1]}{'' if action.nargs == 0 else f' {value}'}]"
    return {"?": f"[{value}]", "*": f"[{value} ...]"}.get(str(action.nargs), str(value))


def says(parser: argparse.ArgumentParser) -> str:
    """Return the first sentence of a command's help."""
    return str(parser.description).split(":", 1)[0].rstrip(".")


def test_the_page_of_the_command_line_names_every_command_and_exit_status() -> None:
    prose, first, tables = PAGE.read_text().partition(FIRST)
    if os.environ.get("WRITE_DOCS"):
        PAGE.write_text(prose + documented())
        return
    assert first + tables == documented(), "WRITE_DOCS=1 and this test again write the page"


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_every_family(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in ("runs", "requests", "checkpoints", "schedules", "workflows", "restore"))


@pytest.mark.parametrize(("typed", "offered"), [("wfdash ru", "runs"), ("wfdash runs wai", "wait")])
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
