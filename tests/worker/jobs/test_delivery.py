"""The delivery job of a worker, with a real receiver on this machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar

import pytest
from django.utils import timezone

from checkpoints.models import Notice, Webhook
from tests.notifications.test_signing import is_signed
from tests.notifications.test_webhook import receiver  # noqa: F401 (a fixture)
from tests.worker.conftest import until
from wfdash.actions.hooks.webhooks import create_webhook, try_webhook
from wfdash.worker.db_thread import DbThread
from wfdash.worker.process import EmbeddedWorker


@pytest.mark.alone
def test_a_webhook_hears_within_two_seconds(receiver, otto, start_worker: Callable[..., EmbeddedWorker]) -> None:  # noqa: F811
    webhook, secret = create_webhook(otto, name="n", url=receiver.url)
    start_worker()
    notice = try_webhook(otto, webhook.pk)
    until(lambda: Notice.objects.get(pk=notice.pk).sent)
    _, headers, body = receiver.heard[0]
    assert is_signed(secret, {name.lower(): value for name, value in headers.items()}, body, now=time.time())
    assert (Notice.objects.get(pk=notice.pk).sent - notice.created).total_seconds() < 3


def test_a_receiver_that_is_down_keeps_no_one_waiting(receiver, otto, start_worker) -> None:  # noqa: F811
    good, _ = create_webhook(otto, name="good", url=receiver.url)
    bad, _ = create_webhook(otto, name="bad", url="http://127.0.0.1:1/")
    first, second = try_webhook(otto, bad.pk), try_webhook(otto, good.pk)
    start_worker()
    until(lambda: Notice.objects.get(pk=second.pk).sent)
    until(lambda: Notice.objects.get(pk=first.pk).error)
    failed = Notice.objects.get(pk=first.pk)
    assert (failed.sent, failed.attempts) == (None, 1)
    assert failed.due > timezone.now()
    assert Webhook.objects.count() == 2


about: ContextVar[str] = ContextVar("about", default="")


async def test_what_is_called_in_the_thread_has_the_context_of_its_caller() -> None:
    thread = DbThread("test")
    about.set("worker one")

    def look() -> tuple[str, str]:
        return about.get(), threading.current_thread().name

    found = [await thread.call(look), await thread.repeat(look)]
    assert found == [("worker one", "test_0")] * 2
    await thread.aclose()


async def test_what_may_be_done_twice_is_done_again_in_the_same_context() -> None:
    thread, seen = DbThread("test"), list[str]()
    about.set("worker two")

    def fail_once() -> int:
        seen.append(about.get())
        return 1 // (len(seen) - 1)

    assert await thread.repeat(fail_once) == 1
    assert seen == ["worker two"] * 2
    await thread.aclose()
