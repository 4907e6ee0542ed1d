"""10,000 open requests of 200 workflows, with cards as big as real ones."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

REQUESTS = 10_000
WORKFLOWS = 200
BY: list[list[str]] = [[], [], ["finance"], ["editors", "legal"], ["ana"], ["ben"], ["requester"], ["otto", "cfo"]]
NOT_BY: list[list[str]] = [[], [], [], ["requester"], ["ana"]]


def fill() -> None:
    """Store people, runs and requests."""
    from django.utils import timezone

    from checkpoints import ids
    from checkpoints.models import HumanRequest, Run
    from tests import people

    rnd, now = random.Random(1), timezone.now()
    everybody = list(people.make_people().values())
    runs, requests = [], []
    for number in range(REQUESTS):
        run_id, name = ids.new_run_id(), f"workflow_{rnd.randrange(WORKFLOWS):03}"
        at = now - timedelta(minutes=2 * number)
        person = rnd.choice(everybody)
        facts: dict[str, Any] = {"workflow": name, "version": "v", "title": name.title(), "phase": "waiting"}
        runs.append(Run(id=run_id, family=run_id, created=at, updated=at, created_by=person, **facts))
        requests.append(
            HumanRequest(
                id=ids.new_request_id(),
                run_id=run_id,
                key="review:1",
                workflow=name,
                step=rnd.choice(["review", "sign", "pay"]),
                kind="approval",
                card=card(rnd, number),
                answer_schema=people.DECISION,
                by=rnd.choice(BY),
                not_by=rnd.choice(NOT_BY),
                created=at,
                due=at + timedelta(hours=rnd.randint(1, 400)) if rnd.random() < 0.6 else None,
                risk=rnd.randint(0, 3),
                assignee=rnd.choice(everybody) if rnd.random() < 0.3 else None,
                asked=at if rnd.random() < 0.03 else None,
            )
        )
    Run.objects.bulk_create(runs, batch_size=1000)
    HumanRequest.objects.bulk_create(requests, batch_size=1000)


def card(rnd: random.Random, number: int) -> dict[str, Any]:
    """Return a card of some 2 KB."""
    from tests import people

    return {
        "subject": f"Refund order {number} of {rnd.choice(['Lindqvist', 'Novak', 'Okafor', 'Ferreira'])}?",
        "body": "The parcel came late and **wet**, the photo shows it. " * 15,
        "risk": rnd.choice(["low", "medium", "high"]),
        "actions": people.ACTIONS,
        "proposal": {"refund": f"{rnd.randint(5, 900)}.00", "to": "card"},
        "context": {"order": number, "customer since": "2019", "country": rnd.choice(["PT", "SE", "CZ"])},
        "evidence": [
            {"title": "Order", "kind": "json", "value": {"lines": [{"sku": "a" * 20, "n": n} for n in range(8)]}}
        ],
    }
