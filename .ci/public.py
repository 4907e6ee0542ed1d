"""Compare what is public with ``.ci/public.txt``, so that none of it changes without a line in CHANGELOG.md.

Public are names that programs import, numbers of stored formats, operations of the HTTP API and commands with their
options: what docs/releases.md promises. A difference is a failure that shows it; until the first release only what is
gone is one. ``python .ci/public.py --renew`` writes the file, after the first release only if CHANGELOG.md has changed
since the file was last written.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import docs_openapi

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

RECORD, CHANGELOG = ROOT / ".ci/public.txt", ROOT / "CHANGELOG.md"
MODULES = (
    *("wfdash.workflow", "wfdash.workflow.evidence", "wfdash.testing", "wfdash.client", "wfdash.contract"),
    *("checkpoints", "checkpoints.errors", "checkpoints.file", "checkpoints.manager", "checkpoints.memory"),
    *("checkpoints.orm", "checkpoints.records", "checkpoints.storage"),
)
FORMATS = {
    "checkpoint": "checkpoints.records.FORMAT",
    "storage file": "checkpoints.sql.sqlite_schema.VERSION",
    "thread of LangGraph": "checkpoints.langgraph.encoding.FORMAT",
    "run of LangGraph": "wfdash.engines.langgraph.thread.FORMAT",
    "run of Agent Framework": "wfdash.engines.agent_framework.position.FORMAT",
    "archive of a run": "wfdash.actions.retention.FORMAT",
    "message of a stream": "wfdash.records.messages.VERSION",
}


def main() -> int:
    """Compare or renew; return the exit status."""
    changelog = hashlib.sha256(CHANGELOG.read_bytes()).hexdigest()
    head, *before = RECORD.read_text().splitlines() if RECORD.exists() else [""]
    now = sorted({*names(), *formats(), *operations(), *commands()})
    released = CHANGELOG.read_text().count("\n## ") > 1
    changes = [f"- {line}" for line in before if line not in now]
    changes += [f"+ {line}" for line in now if line not in before and released]
    if "--renew" in sys.argv and (changelog != head or not released):
        RECORD.write_text("\n".join([changelog, *now, ""]))
        return 0
    if changes:
        said = "What is public has changed. Add a line to CHANGELOG.md, then run python .ci/public.py --renew"
        sys.stderr.write("\n".join([*changes, said, ""]))
    return 1 if changes else 0


def names() -> Iterator[str]:
    """Yield what each public module offers: its ``__all__``, or what it defines without an underscore."""
    for module in MODULES:
        path = ROOT / module.replace(".", "/")
        tree = ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text())
        defined = [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
        listed = [ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign) and is_all(node)]
        yield from (f"name {module}.{name}" for name in (listed[0] if listed else defined) if name[0] != "_")


def is_all(node: ast.Assign) -> bool:
    """Say whether a statement sets ``__all__``."""
    return isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__"


def formats() -> Iterator[str]:
    """Yield the number of each stored format, and the newest migration of each app."""
    docs_openapi.document()  # it sets Django up
    for what, place in FORMATS.items():
        module, _, name = place.rpartition(".")
        yield f"format {what}: {getattr(importlib.import_module(module), name)}"
    for app in ("checkpoints", "checkpoints/langgraph"):
        yield f"format tables of {app}: {max(path.stem for path in (ROOT / app / 'migrations').glob('0*.py'))}"


def operations() -> Iterator[str]:
    """Yield each operation of the HTTP API."""
    for path, item in docs_openapi.document()["paths"].items():
        yield from (f"http {verb.upper()} {path}" for verb in docs_openapi.VERBS if verb in item)


def commands() -> Iterator[str]:
    """Yield each command of ``wfdash`` with its options."""
    from wfdash import cli

    yield from _of(cli._parser(), "wfdash")


def _of(parser: argparse.ArgumentParser, path: str) -> Iterator[str]:
    inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for action in inner:
        for name, child in action.choices.items():
            yield from _of(child, f"{path} {name}")
    if not inner:
        options = sorted(name for name in parser._option_string_actions if name.startswith("--"))
        yield " ".join(["command", path, *options])


if __name__ == "__main__":
    sys.exit(main())
