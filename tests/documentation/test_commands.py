"""The commands in README and docs: each exists, with the options it is given."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

from django.core.management import get_commands

from wfdash import cli

ROOT = Path(__file__).parents[2]
SHOWN = re.compile(r"```(?:sh|bash|console)\n(.*?)```|^((?:    .*\n)+)", re.DOTALL | re.MULTILINE)
BEFORE = r"(?:export )?\w+=\$\(|eval .\$\(|[A-Z_]+=\S+ |\.venv/bin/|python -m "
LINE = re.compile(rf"^ *(?:\$ )?(?:{BEFORE})*wfdash ([a-z].*)$", re.MULTILINE)
MAKE = re.compile(r"^ *make ([a-z-]+)", re.MULTILINE)


def shown_in(page: Path) -> str:
    """Return what a page shows as typed: fences of a shell and indented lines."""
    text = re.sub(r"```python.*?```", "", page.read_text(), flags=re.DOTALL)
    return "\n".join("".join(parts) for parts in SHOWN.findall(text))


def documented() -> list[tuple[str, list[str]]]:
    """Return each command line of the documentation with its page, without ``wfdash``."""
    found = []
    for page in (*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))):
        for line in LINE.findall(shown_in(page)):
            command = re.split(r" #| \| |;", line)[0]
            words = shlex.split(re.sub(r'\)"?', "", command), posix=True)
            found.append((page.name, words))
    return found


def children(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    actions = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(actions[0].choices) if actions else {}


def problem(words: list[str]) -> str:
    """Return what is wrong with a command line, empty if its commands and options exist."""
    if words[0] == "manage":
        return "" if words[1] in get_commands() else f"no command {words[1]}"
    parser, path = cli._parser(), ["wfdash"]
    for word in words:
        known = children(parser)
        if not known:
            break
        if word not in known:
            return f"{' '.join(path)} has no command {word}"
        parser, path = known[word], [*path, word]
    given = {word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)}
    unknown = given - set(parser._option_string_actions)
    return f"{' '.join(path)} has no option {', '.join(sorted(unknown))}" if unknown else ""


def test_every_command_that_the_documentation_shows_exists() -> None:
    lines = documented()
    assert len(lines) > 15
    wrong = [(page, " ".join(words), what) for page, words in lines if words and (what := problem(words))]
    assert wrong == []


def test_every_target_of_make_that_the_documentation_shows_exists() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    shown = {target for page in pages for target in MAKE.findall(shown_in(page))}
    assert shown - set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)) == set()
