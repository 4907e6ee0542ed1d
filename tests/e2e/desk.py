"""What the stories of the reviewer's desk share: people, runs of the gate, and what the database says of them."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.server import Server, shell, wait_until

PEOPLE = """
from django.contrib.auth.models import Group, User
from checkpoints.models import Grant
for name, role, groups in {people!r}:
    user, _ = User.objects.get_or_create(username=name)
    Grant.objects.get_or_create(user=user, role=role, workflow="*")
    for group in groups:
        user.groups.add(Group.objects.get_or_create(name=group)[0])
"""
START = """
from django.contrib.auth.models import User
from wfdash.engines import catalog
from wfdash.actions.runs.lifecycle import start_run
from wfdash.access.viewer import viewer_for
catalog.load()
who = viewer_for(User.objects.get(username={by!r}))
print(*[start_run(who, {workflow!r}, message).id for message in {messages!r}])
"""
LOOK = """
import json
from checkpoints.models import HumanRequest, Reply, Run
run = Run.objects.get(pk={run!r})
requests = run.requests.order_by("created")
print(json.dumps({{
    "phase": run.phase,
    "output": run.output,
    "requests": [str(r.id) for r in requests],
    "open": [str(r.id) for r in requests if r.closed is None and r.answered is None and r.settles is None],
    "replies": [
        [r.by.username if r.by else None, r.verdict, r.stands, r.via]
        for r in Reply.objects.filter(request__run=run).select_related("by").order_by("at")
    ],
}}))
"""
EVERYBODY = [
    ("ana", "reviewer", ["finance"]),
    ("ben", "reviewer", ["finance"]),
    ("cem", "reviewer", ["cfo"]),
    ("olga", "operator", []),
]


def add_people(server: Server) -> None:
    """Ana and Ben are finance, Cem is the CFO, Olga operates and starts runs."""
    shell(server, PEOPLE.format(people=EVERYBODY))


def start(server: Server, *gates: dict[str, Any], by: str = "olga") -> list[str]:
    """Start a run per gate and wait until each asks; returns their ids."""
    messages = [full(gate) for gate in gates]
    runs = shell(server, START.format(by=by, workflow="gate", messages=messages)).split()
    for run in runs:
        wait_until(lambda run=run: look(server, run)["open"], what="an open request", pause=0.1)
    return runs


def full(gate: dict[str, Any]) -> dict[str, Any]:
    """Return a gate with whatever the story does not care about."""
    subject = gate.get("subject", "Refund 120 to Kim?")
    return {"subject": subject, "refund": {"customer": "Kim", "amount": 120}} | gate


def look(server: Server, run: str) -> dict[str, Any]:
    """Return what the database says of a run: phase, output, requests, replies."""
    seen: dict[str, Any] = json.loads(shell(server, LOOK.format(run=run)))
    return seen


def wait_for_phase(server: Server, run: str, phase: str) -> dict[str, Any]:
    """Wait until a run has come to a phase; returns what the database says of it."""
    wait_until(lambda: look(server, run)["phase"] == phase, what=f"a {phase} run", pause=0.1)
    return look(server, run)
