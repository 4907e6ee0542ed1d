from __future__ import annotations

from threading import Event
from types import SimpleNamespace

import pytest

from tests.hints.conftest import NEEDS
from wfdash.installation.environment import hints_of
from wfdash.pubsub.hints import SignalledHints, current_hints
from wfdash.pubsub.hints.brokered import BrokeredHints
from wfdash.pubsub.process import signals


def test_signals_are_the_default() -> None:
    assert isinstance(current_hints(), SignalledHints)
    assert hints_of("", on_postgres=False) == ""


def test_not_all_hints_are_heard_while_signals_are_off_or_their_connection_is_lost(monkeypatch) -> None:
    hints, listening = SignalledHints(), Event()
    monkeypatch.setattr(signals, "transport", None)
    assert not hints.are_all_heard, "off"
    monkeypatch.setattr(signals, "transport", SimpleNamespace(listening=listening))
    assert not hints.are_all_heard, "lost"
    listening.set()
    assert hints.are_all_heard


@NEEDS
def test_a_queue_is_used_where_it_is_set(settings) -> None:
    from wfdash.pubsub.hints.queued import QueuedHints

    settings.WFDASH_HINTS = hints_of("procrastinate", on_postgres=True)
    assert isinstance(current_hints(), QueuedHints)


@pytest.mark.parametrize(
    ("value", "words"),
    [("procrastinate", "WFDASH_DATABASE"), ("celery", "WFDASH_DATABASE"), ("rq", "must be procrastinate, celery or")],
)
def test_a_setting_that_cannot_be_meant_is_refused_with_what_could_be(value, words) -> None:
    with pytest.raises(ValueError, match=words):
        hints_of(value, on_postgres=False)


def test_a_broker_is_used_where_its_address_is_set(settings) -> None:
    settings.WFDASH_HINTS = hints_of("celery", on_postgres=True, broker="amqp://guest@h//")
    assert isinstance(current_hints(), BrokeredHints)
    with pytest.raises(ValueError, match="set WFDASH_BROKER"):
        hints_of("celery", on_postgres=True)
    with pytest.raises(ValueError, match="WFDASH_BROKER is no address") as refusal:
        hints_of("celery", on_postgres=True, broker="amqp://wfdash:half/rest@h/")
    assert "half" not in str(refusal.value)


@pytest.mark.parametrize(("value", "extra"), [("procrastinate", "cluster"), ("celery", "celery")])
def test_what_is_not_installed_is_refused_with_what_to_install(monkeypatch, value, extra) -> None:
    monkeypatch.setattr("wfdash.installation.environment._is_installed", lambda name: False)
    with pytest.raises(ValueError, match=rf"pip install 'wfdash\[{extra}\]'"):
        hints_of(value, on_postgres=True, broker="redis://h")
