"""Who hears of an answer is read with the request, and is who a query of its own finds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from django.utils import timezone

from checkpoints.database.alias import atomic, connection
from checkpoints.models import HumanRequest, Preference, PushSubscription, Run, ServiceAccount, Webhook
from tests import people
from wfdash.actions.common import find_request, requests_for
from wfdash.actions.requests.answer import marks_and_listeners
from wfdash.notifications.preferences import Listeners, listeners_of, read_with


def test_who_hears_is_read_with_the_request(in_database: ThreadPoolExecutor) -> None:
    in_database.submit(rolled_back).result()


def rolled_back() -> None:
    with atomic():
        try:
            compare()
        finally:
            connection().set_rollback(True)


def compare() -> None:
    who, now = people.make_people(), timezone.now()
    for name, starter in [("ana", "otto"), ("ben", "vera"), ("ben", "ana"), ("ana", "adam"), ("ana", "")]:
        request = people.ask(people.make_run(created_by=who.get(starter)))
        if name == "ana" and starter == "otto":
            listen(request.run)
        wanted = [who[starter].pk] if starter else []
        found = find_request(people.viewer(name), request.pk, marks_and_listeners)
        for webhooks in (True, False):
            read = read_with(found, wanted, webhooks=webhooks)
            asked = listeners_of(wanted, request.workflow, request.run_id, webhooks=webhooks)
            assert read is not None
            assert facts(read) == facts(asked)
            assert abs(read.now - now) < timedelta(minutes=5)
        assert read_with(found, [*wanted, who["ben"].pk], webhooks=True) is None
    assert read_with(HumanRequest.objects.select_related("run").get(pk=found.pk), [], webhooks=True) is None
    assert requests_for(people.viewer("adam"), marks_and_listeners).first(id="unknown") is None


def listen(run: Run) -> None:
    """Let people and webhooks listen in all the ways there are."""
    who, now = people.make_people(), timezone.now()
    Preference.objects.create(user=who["otto"], data={"channels": {"decided": ["mail"]}, "zone": "Europe/Rome"})
    Preference.objects.create(user=who["vera"], data={"digest": "daily"})
    for place in ("one", "two"):
        PushSubscription.objects.create(id=place, user=who["otto"], digest=place, data={}, name=place, created=now)
    ServiceAccount.objects.create(user=who["adam"], created=now)
    for name, about in {
        "all": {},
        "ours": {"workflow": run.workflow, "kinds": ["answered", "opened"]},
        "others": {"workflow": "another"},
        "callback": {"run": run},
        "callback of another": {"run": people.make_run()},
        "off": {"active": False},
    }.items():
        Webhook.objects.create(id=name, name=name, url="https://example.org", secret="s", created=now, **about)


def facts(found: Listeners) -> tuple[object, ...]:
    hooks = [(hook.pk, hook.kinds, hook.workflow, hook.run_id) for hook in found.webhooks]
    return {pk: (wishes, sorted(browsers)) for pk, (wishes, browsers) in found.people.items()}, sorted(hooks)
