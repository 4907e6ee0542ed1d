from __future__ import annotations

import ast
import shlex

from django.test import RequestFactory

from wfdash.web.pages.ui.commands import MAX_BODY_CHARACTERS, commands

BODY = {"workflow": "w", "message": {"who": "O'Brien $(id) `x`", "key": "•••", "more": [{"key": "•••"}], "none": None}}


def made(body=BODY, **headers):
    return commands(RequestFactory().get("/", **headers), "start", "Start", "/api/v1/runs", body)


def test_a_secret_becomes_a_placeholder_and_the_page_says_so():
    found = made()
    assert '"key": "<key>"' in found.curl
    assert "'key': '<key>'" in found.python
    assert "•••" not in found.curl + found.python
    assert found.hides
    assert not made({"x": 1}).hides


def test_the_shell_changes_nothing_in_the_body():
    lines = made().curl.split("\n")
    begin, end = next(n for n, line in enumerate(lines) if "<<'JSON'" in line), lines.index("JSON")
    assert "O'Brien $(id) `x`" in "\n".join(lines[begin + 1 : end])
    assert shlex.split("\n".join(lines[: begin + 1]).replace("\\\n", " "))[0] == "curl"


def test_no_text_of_the_body_can_end_it_or_write_to_the_terminal():
    found = made({"message": "a\nJSON\nrm -rf /\x1b[201~\u202e\x9b"})
    assert found.curl.count("\nJSON") == 1
    assert not {"\x1b", "\u202e", "\x9b"} & set(found.curl + found.python)


def test_the_python_is_python_and_holds_the_same_body():
    tree = ast.parse(made().python)
    body = next(node for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "body")
    assert ast.literal_eval(body.value)["message"]["who"] == BODY["message"]["who"]


def test_a_session_is_named_never_shown():
    found = made(HTTP_COOKIE="sessionid=abcdef")
    assert "abcdef" not in found.curl + found.python
    assert "$WFDASH_TOKEN" in found.curl
    assert 'os.environ["WFDASH_TOKEN"]' in found.python


def test_a_question_without_a_body_is_a_get():
    found = made(None)
    assert "--data-binary" not in found.curl
    assert "data=" not in found.python
    ast.parse(found.python)


def test_what_is_too_large_is_left_out():
    found = made({"message": "x" * MAX_BODY_CHARACTERS})
    assert found.curl == found.python == ""
