"""What a model or a tool says may be anything: its page is drawn, nothing of it runs, calls home or is a secret."""

from __future__ import annotations

import json
import re

import pytest
from django.urls import reverse

from tests import people
from wfdash.contract import Message, Shown, ToolUse
from wfdash.engines import catalog
from wfdash.engines.native import NativeEngine


class EchoEngine(NativeEngine):
    """Shows what its bodies say was said."""

    name = "echo"

    def show(self, checkpoint):
        return Shown(
            state=checkpoint.body.get("state", {}),
            transcript=tuple(Message.model_validate(one) for one in checkpoint.body["said"]),
        )


@pytest.fixture
def shows(run, as_, monkeypatch):
    catalog.load().engines += (EchoEngine(),)
    monkeypatch.setattr("wfdash.engines.catalog.Entry.secrets", frozenset({"pin"}))

    def show(*said, state=None):
        people.happen(run, *people.step("review", "started"))
        body = {"said": [json.loads(one.model_dump_json()) for one in said], "state": state or {}}
        chosen = people.save(run, body=body, engine="echo")
        client, pages = as_("otto"), []
        at = reverse("wfdash:checkpoint", args=[run.pk, chosen.pk])
        for address in (at, f"/runs/{run.pk}/", f"/api/v1/runs/{run.pk}/checkpoints/{chosen.pk}"):
            page = client.get(address)
            assert page.status_code == 200, address
            pages.append(page.content.decode())
        return pages

    return show


def nested(depth, inner):
    return '{"a":' * depth + inner + "}" * depth


@pytest.mark.parametrize("depth", [31, 200, 985, 5000])
def test_json_of_any_depth_is_drawn_and_holds_no_secret(depth, shows):
    text = nested(depth, '{"pin": "hush-hush"}')
    said = (
        Message(role="assistant", calls=(ToolUse(id="c", name="x", arguments=text),)),
        Message(role="tool", call="c", text=text),
        Message(role="assistant", text=text),
    )
    for page in shows(*said):
        assert "hush-hush" not in page


EVIL = """
[a](javascript:alert(1)) ![b](https://evil.example/x.png?d=1) <img src=https://evil.example/y onerror=alert(1)>
[c](data:text/html,<script>alert(1)</script>) <a href='JaVaScRiPt:alert(2)'>x</a> ![r][r] <svg onload=alert(1)>

[r]: https://evil.example/z.png

<style>*{background:url(https://evil.example/q)}</style><form action=https://evil.example><input name=csrf></form>
\x1b[31m \u202e
"""


def test_markup_of_anyone_neither_runs_nor_calls_home(shows):
    said = [Message(role=role, text=EVIL, name=EVIL, model=EVIL) for role in ("assistant", "user", "system", "tool")]
    said.append(Message(role="assistant", calls=(ToolUse(id="c", name=EVIL, arguments={EVIL: EVIL}),)))
    said.append(Message(role="tool", call="c", text=json.dumps([EVIL])))
    for page in shows(*said)[:2]:
        tags = re.findall(r"<[a-z]+\b[^>]*(?:evil|javascript:|data:text|onload|onerror)[^>]*>", page, re.IGNORECASE)
        loading = re.compile(
            r"<(?!a\b)\w+[^>]*\s(?:src|srcset|action|data)=|\son\w+=|javascript:|data:text", re.IGNORECASE
        )
        assert not [
            tag for tag in tags if loading.search(re.sub(r'\s(?:title|value|aria-label|data-[\w-]+)="[^"]*"', "", tag))
        ]
        assert "evil.example" in page
        assert "\u202e" not in page
        assert "\x1b" not in page


def test_secrets_of_the_state_and_numbers_are_hidden_in_what_is_said(shows):
    said = (
        Message(role="assistant", calls=(ToolUse(id="c", name="x", arguments={"pin": 918273}),)),
        Message(role="tool", call="c", text='took 918273, then "top\\"secret"', failed=True),
    )
    for page in shows(*said, state={"pin": 'top"secret'}):
        assert "918273" not in page
        assert "took" in page
        assert "secret" not in page.partition("took")[2][:80]
