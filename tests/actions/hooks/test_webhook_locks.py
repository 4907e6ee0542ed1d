"""Two changes of one webhook at the same moment: neither is lost."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from checkpoints.models import Webhook
from tests.conftest import threads_of
from wfdash.access.viewer import viewer_for
from wfdash.actions.hooks import webhooks
from wfdash.notifications.webhook import rotated


@pytest.mark.postgres
def test_each_of_two_renewals_at_once_is_shown_a_secret_that_signs(
    postgres_alias: str, monkeypatch: pytest.MonkeyPatch, django_db_blocker: Any
) -> None:
    both_have_read = Barrier(2)

    def meet(old: str, new: str) -> str:
        with suppress(BrokenBarrierError):
            both_have_read.wait(1)
        return rotated(old, new)

    def begin() -> str:
        ana = User.objects.create_superuser("ana")
        made = Webhook(id="w", name="w", url="https://example.org", secret="first", created=timezone.now())
        made.owner = made.created_by = ana
        made.save(force_insert=True)
        return str(made.pk)

    def renew(webhook: str) -> str:
        return webhooks.renew_secret(viewer_for(User.objects.get(username="ana")), webhook)

    def kept() -> Sequence[str]:
        secret: str = Webhook.objects.get().secret
        Webhook.objects.all().delete()
        User.objects.filter(username="ana").delete()
        return secret.split()

    monkeypatch.setattr(webhooks, "rotated", meet)
    with django_db_blocker.unblock(), threads_of(postgres_alias, 2) as threads:
        webhook = threads.submit(begin).result()
        shown = [one.result() for one in [threads.submit(renew, webhook) for _ in range(2)]]
        assert {*shown} <= {*threads.submit(kept).result()}
