"""A token within its limits: what they leave out is not read, counted, named or changed through any call of the API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from checkpoints.models import (
    Absence,
    Bulk,
    Comment,
    Draft,
    HumanRequest,
    Notice,
    Reply,
    Run,
    RunFact,
    SavedView,
    Schedule,
    Token,
)
from checkpoints.models.user_model import User
from tests import people
from tests.api.openapi import operations
from wfdash.access.viewer import TokenScope
from wfdash.actions import audit
from wfdash.actions.account import create_token
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs.bulk import tag_run
from wfdash.actions.schedules import SchedulePlan, create_schedule
from wfdash.web.live.sockets import concerns

API = reverse("wfdash:api:openapi-json").removesuffix("openapi.json")
RIGHTS = ("see", "inspect", "answer", "start", "code", "operate", "admin")
NAMED, VALUE = "Zinnober", "Karmesin"
"""In everything that may be called by a name; in everything that only those who may inspect or answer may read."""
BODIES: dict[str, Any] = {
    "answer": {"value": {"action": "approve"}},
    "comments": {"text": "x"},
    "assign": {"to": "ana"},
    "snooze": {"until": None},
    "deadline": {"due": "2030-01-01T00:00:00Z"},
    "amend": {"body": "x"},
    "draft": {"fields": {"reason": ["x"]}},
    "tags": {"add": ["x"]},
    "label": {"label": "x"},
    "follow-up": {"message": "x"},
    "signals": {"name": "go", "value": 1},
    "fork": {},
    "preview": {},
    "restore": {},
}


@pytest.fixture
def ids(everybody: dict[str, User], run: Run, history, question: HumanRequest) -> dict[str, list[str]]:
    """Everything that there is of a workflow, most of it of the token's owner."""
    otto = people.viewer("otto")
    adam, now = everybody["adam"], timezone.now()
    Run.objects.filter(pk=run.pk).update(created_by=adam, title=NAMED, input={"claims": VALUE}, output=VALUE)
    HumanRequest.objects.filter(pk=question.pk).update(
        card={**question.card, "subject": NAMED, "body": VALUE}, assignee=adam, asked=now, by=["adam"]
    )
    Comment.objects.create(id="c", request=question, by=adam, kind="ask", text=VALUE, at=now)
    Draft.objects.create(request=question, user=adam, fields={"reason": [VALUE]}, at=now)
    people.happen(run, *people.step("pay", "failed", error={"type": "E", "message": VALUE}))
    tag_run(otto, run.pk, [NAMED.lower()], [])
    plan = SchedulePlan(name=NAMED, cron="0 9 * * *", message={"claims": VALUE})
    schedule = create_schedule(people.viewer("adam"), run.workflow, plan)
    view = SavedView.objects.create(id="v", owner=adam, name=NAMED, query="q=x", page="runs", created=now)
    Absence.objects.create(user=adam, delegate=everybody["ben"], since=now, until=now + timedelta(days=2))
    refused = {"why": {"It is waiting": 1}, "some": [[run.pk, NAMED, "It is waiting"]]}
    bulk = Bulk.objects.create(id="b", verb="retry", facts={}, runs=[run.pk], refused=refused, by=adam, at=now, done=1)
    sent = {"channel": "browser", "created": now, "due": now, "payload": {"subject": NAMED}, "request": question}
    Notice.objects.create(id="n", user=adam, kind="opened", **sent)
    audit.record_request(people.viewer("adam"), "answer", question, {"value": VALUE})
    return {
        "run_id": [run.pk],
        "checkpoint_id": [one.pk for one in history],
        "request_id": [question.pk],
        "schedule_id": [schedule.pk],
        "view_id": [view.pk],
        "bulk_id": [bulk.pk],
        "workflow": [run.workflow],
        "n": ["1"],
        "name": [run.workflow],
        "part": ["input", "output", "state"],
        "seq": ["3"],
        "a": [history[0].pk],
        "b": [history[1].pk],
        "q": [NAMED, VALUE, f"workflow:{run.workflow}"],
        "cron": ["0 9 * * *"],
        "tab": ["all", "mine", "asked", "answered"],
        "page": ["inbox", "runs"],
    }


def program(**limits: Any) -> Client:
    name = f"ci {Token.objects.count()}"
    text = create_token(people.viewer("adam"), name, **{"rights": RIGHTS, **limits}).text
    return Client(headers={"Authorization": f"Bearer {text}"}, raise_request_exception=False)


def addresses(ids: dict[str, list[str]], method: str) -> list[str]:
    """Return every address of the document that has this method, with ids that exist."""
    found = []
    for path, methods in operations().items():
        if method not in methods:
            continue
        names = re.findall(r"{(\w+)}", path)
        filled = [path]
        for name in names:
            filled = [one.replace(f"{{{name}}}", value) for one in filled for value in ids.get(name, ["x"])]
        queries = [""]
        for query in methods[method].get("parameters", []):
            if query["in"] == "query" and query["name"] in ids:
                pairs = [f"{query['name']}={value}" for value in ids[query["name"]]]
                required = query.get("required", False)
                queries = [f"{q}&{pair}" for q in queries for pair in pairs] + ([] if required else queries)
        found += [f"{one}?{query.strip('&')}" for one in filled for query in queries]
    return found


def test_a_token_of_another_workflow_reads_nothing_of_this_one(ids):
    narrow, wide = program(rights=RIGHTS[:-1], workflows=["another"]), program()
    secret = (NAMED, NAMED.lower(), VALUE, ids["run_id"][0], ids["request_id"][0], "expense_batch", '"ben"')
    asked = [address for address in addresses(ids, "get") if "q=" not in address]
    said = {address: found(read(narrow, address), secret) for address in asked}
    assert {address: words for address, words in said.items() if words} == {}
    assert sum(bool(found(read(wide, address), secret)) for address in asked) > 30, "the test asks for what is there"


def test_a_filter_of_a_token_of_another_workflow_finds_nothing(ids):
    client = program(rights=RIGHTS[:-1], workflows=["another"])
    asked = [address for address in addresses(ids, "get") if "q=" in address]
    echoed = {address: read(client, address).replace(NAMED, "", 1).replace(VALUE, "", 1) for address in asked}
    assert {address: text for address, text in echoed.items() if NAMED in text or VALUE in text} == {}
    assert {address for address, text in echoed.items() if ids["run_id"][0] in text} == set()


def test_a_token_of_another_workflow_changes_nothing_of_this_one(ids):
    client = program(workflows=["another"])
    before = stored()
    for method in ("post", "put", "delete"):
        for address in addresses(ids, method):
            body = BODIES.get(address.split("?")[0].rstrip("/").rpartition("/")[2], {})
            answer = getattr(client, method)(address, body, content_type="application/json")
            assert answer.status_code in {400, 401, 403, 404, 405, 409, 422, 428}, (method, address, answer.content)
            cache.clear()
    assert stored() == before


def test_a_token_that_may_neither_inspect_nor_answer_reads_no_value(ids):
    client = program(rights=["start", "code", "operate"])
    said = {address: read(client, address) for address in addresses(ids, "get") if VALUE not in address}
    assert {address: text for address, text in said.items() if VALUE in text} == {}


def test_a_token_that_only_operates_decides_nothing(ids, question):
    client = program(rights=["operate"])
    address = f"{API}requests/{question.pk}/"
    for more in {}, {"override": True, "reason": "x"}, {"on_behalf_of": "ana", "reason": "x"}:
        body = {"value": {"action": "approve"}, **more}
        assert client.post(f"{address}answer", body, content_type="application/json").status_code == 403
    answer_request(people.viewer("adam"), question.pk, {"action": "approve"}, undo=True)
    assert client.post(f"{address}undo", {}, content_type="application/json").status_code == 403
    assert Reply.objects.get().undone is None


def test_a_socket_of_a_token_with_limits_hears_of_no_notifications(everybody):
    adam = people.viewer("adam")
    narrow = adam.with_token("ci", TokenScope(rights=frozenset(RIGHTS), workflows=frozenset({"another"})))
    assert concerns(adam, "notices", str(adam.user.pk))
    assert not concerns(narrow, "notices", str(adam.user.pk))


def found(text: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word in text]


def read(client: Client, address: str) -> str:
    """Return what an address says, nothing where it is refused."""
    answer = client.get(address)
    assert answer.status_code < 500, address
    if answer.status_code != 200:
        return ""
    return (b"".join(answer.streaming_content) if answer.streaming else answer.content).decode()


def stored() -> str:
    """Return all that a call may change, as text."""
    models = (Absence, Bulk, Comment, Draft, HumanRequest, Notice, Reply, Run, RunFact, SavedView, Schedule, User)
    return json.dumps([list(model.objects.order_by("pk").values()) for model in models], default=str)
