"""What a coding agent's call of a tool is like, and what it touches. Pure and light: a hook imports it at each call."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Mapping
from typing import Any

OPERATORS = re.compile(r"[;&|<>`$(){}\n\r\\*?~#!]")
"""What makes more of a command than a program and its arguments."""
INDIRECT = re.compile(r"sudo|su|doas|env|\w*sh|python\w*|perl|ruby|node|eval|exec|xargs|rm|mv|dd|kill|docker|npx|uvx?")
"""Programs whose arguments are what is executed, or what is gone: no call is similar to one of them."""
ADDRESS = re.compile(r"https?://([\w.-]+)(?=[:/?#]|$)")
OWN_FILES = re.compile(
    r"\.(claude|codex|wfdash|mcp\.json|git[/\\]+(hooks|config))\b|config[/\\]+wfdash|hook\.toml", re.IGNORECASE
)
"""The files that decide what an agent may do: people are always asked about calls that name one."""
PLAIN = frozenset({"command", "description", "timeout"})
PATHS = ("file_path", "notebook_path", "path")


def touches_own_files(arguments: Mapping[str, Any]) -> bool:
    """Return whether a call names a file that decides what the agent may do."""
    return OWN_FILES.search(json.dumps(arguments, ensure_ascii=False)) is not None


def target_of(arguments: Mapping[str, Any]) -> str:
    """Return what a call is about: its command, file or address; else its arguments as JSON."""
    return _first(arguments, "command", *PATHS, "url") or json.dumps(arguments, sort_keys=True, ensure_ascii=False)


def path_of(arguments: Mapping[str, Any]) -> str:
    """Return the file that a call reads or changes, empty without one."""
    return _first(arguments, *PATHS)


def _first(arguments: Mapping[str, Any], *names: str) -> str:
    return next((one for name in names if isinstance(one := arguments.get(name), str) and one.strip()), "")


def similar_to(tool: str, arguments: Mapping[str, Any], folder: str) -> str:
    """Return in words which calls are like this one: two are similar if these words are equal. Empty: none is."""
    if touches_own_files(arguments):
        return ""
    path = path_of(arguments)
    if is_plain(arguments) and (start := beginning(_first(arguments, "command"))):
        return f"{tool} commands that begin with “{start}”"
    if path:
        return f"{tool} of files directly in {posixpath.dirname(posixpath.normpath(posixpath.join(folder, path)))}"
    if address := ADDRESS.match(_first(arguments, "url")):
        return f"{tool} from {address[1]}"
    return f"{tool} with exactly these arguments: {json.dumps(arguments, sort_keys=True, ensure_ascii=False)}"


def is_plain(arguments: Mapping[str, Any]) -> bool:
    """Return whether a command is one program with its arguments, and nothing is said of how it runs."""
    return not (OPERATORS.search(_first(arguments, "command")) or arguments.keys() - PLAIN)


def beginning(command: str) -> str:
    """Return program and verb of a command, ``git status``: what similar ones begin with. Empty for any other."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    plain = len(words) > 1 and not INDIRECT.fullmatch(words[0]) and words[:2] != ["git", "config"]
    return " ".join(words[:2]) if plain and all(re.fullmatch(r"[a-z][a-z0-9_-]*", w) for w in words[:2]) else ""
