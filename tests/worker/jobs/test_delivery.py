"""The delivery job of a worker, with a real receiver on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from django.utils import timezone

from checkpoints.models import Notice, Webhook
from tests.notifications.test_signing import is_signed
from tests.notifications.test_webhook import receiver  # noqa: F401 (a fixture)
from tests.worker.conftest import until
from wfdash.actions.hooks.webhooks import create_webhook, try_webhook
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
