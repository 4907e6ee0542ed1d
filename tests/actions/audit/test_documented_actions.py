"""What the audit records, and what its documentation says it does, are the same."""

from __future__ import annotations

import ast
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

from wfdash.domain.hash_chain import ACCOUNTS, BROKEN

ROOT = Path(__file__).resolve().parents[3]
RECORDERS = {"record", "record_run", "record_request"}
EARLIER = {"run schedule", "second factor: turn off"}
"""Verbs of entries that earlier versions wrote."""
WORDS = re.compile(r"[a-z][a-z ]+")
SAID = {"comment", "ask", "reply", BROKEN, *ACCOUNTS}
"""Verbs that are not written where they are recorded: kinds of a comment, and what signals tell of accounts."""


def texts(expression: ast.expr) -> set[str]:
    """Return the verbs in an expression: a text, one of two, or the first of several."""
    match expression:
        case ast.Constant(value=str(text)):
            return {text}
        case ast.IfExp(body=one, orelse=other):
            return texts(one) | texts(other)
        case ast.Tuple(elts=[first, *_]):
            return texts(first)
    return set()


def named(module: ast.Module, verb: ast.expr) -> set[str]:
    """Return the verbs an argument stands for: what it is, what the name was set to or is imported as, or what callers
    gave for it.
    """
    if isinstance(verb, ast.Subscript):
        verb = verb.value
    if not isinstance(verb, ast.Name):
        return texts(verb)
    found: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == verb.id for t in node.targets):
            found |= texts(node.value)
        if isinstance(node, ast.ImportFrom) and verb.id in {alias.name for alias in node.names}:
            found |= named(ast.parse((ROOT / f"{str(node.module).replace('.', '/')}.py").read_text()), verb)
        if isinstance(node, ast.FunctionDef) and verb.id in (names := [each.arg for each in node.args.args]):
            found |= given(module, node.name, names.index(verb.id))
    return found


def given(module: ast.Module, function: str, place: int) -> set[str]:
    """Return what callers in this module give for one argument of a function."""
    return {text for call in calls(module, {function}) if len(call.args) > place for text in texts(call.args[place])}


def calls(module: ast.Module, names: set[str]) -> Iterator[ast.Call]:
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in names:
                yield node


def recorded() -> set[str]:
    """Return every verb that the code records."""
    found = set(SAID)
    for path in (ROOT / "wfdash").rglob("*.py"):
        module = ast.parse(path.read_text())
        for call in calls(module, RECORDERS):
            if isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") == "audit":
                verbs = named(module, call.args[1])
                assert verbs or path.name == "collaboration.py", (
                    f"{path.name}: no verb was found in {ast.unparse(call)}"
                )
                found |= verbs
    return found


def test_the_documentation_names_every_verb_that_is_recorded_and_no_other() -> None:
    page = (ROOT / "docs" / "audit.md").read_text().split("\n## Verbs\n")[1]
    made = runpy.run_path(str(ROOT / ".ci/docs_lists.py"))["verbs"]()
    assert "<!-- verbs -->" in page
    told = {verb for text in (page, made) for verb in re.findall(r"`([^`]+)`", text)}
    assert told - EARLIER == recorded()
