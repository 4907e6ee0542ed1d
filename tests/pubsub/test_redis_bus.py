"""What is Redis's own: its users and numbers, and that it may die."""

from __future__ import annotations

import logging

import pytest

from tests.pubsub.conftest import Process, eventually
from wfdash.pubsub import process, transport
from wfdash.pubsub.redis_bus import RedisBus
from wfdash.pubsub.transport import Message

USER = ("ACL", "SETUSER", "wfdash", "on", ">secret", "resetchannels", "&wfdash:*")
"""As the documentation has it."""
MAY = ("+publish", "+subscribe", "+client|setname", "+client|setinfo")


@pytest.fixture
def bus(redis_server) -> RedisBus:
    return RedisBus(redis_server.url)


def test_a_redis_that_is_killed_and_comes_back_is_used_again(start, redis_server, monkeypatch, caplog) -> None:
    caplog.set_level(logging.INFO, logger="wfdash.pubsub")
    monkeypatch.setattr(transport, "RETRY_SECONDS", 0.05)
    web, worker = start("web"), start("worker")
    redis_server.kill()
    eventually(lambda: len(caplog.records) == 2)
    worker.send("due", "r1")
    redis_server.start()
    eventually(lambda: caplog.text.count(" again after ") == 2)
    worker.send("due", "r2")
    web.until(Message("due", ("r2",)))
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "INFO", "INFO"], "one pair each"


def test_a_user_needs_no_more_rights_than_documented(start, redis_server) -> None:
    redis_server.execute(*USER, *MAY)
    bus = RedisBus(redis_server.url.replace("127", "wfdash:secret@127"))
    web, worker = start("web", bus), start("worker", bus)
    worker.send("due", "r1")
    web.until(Message("due", ("r1",)))


def test_a_wrong_password_is_one_line_that_does_not_hold_it(redis_server, caplog) -> None:
    redis_server.execute(*USER, *MAY)
    wrong = Process(RedisBus(redis_server.url.replace("127", "wfdash:hunter2@127")), "web")
    wrong.transport.start()
    eventually(lambda: caplog.records)
    wrong.transport.close()
    assert "Redis: AuthenticationError" in caplog.text
    assert "hunter2" not in caplog.text


def test_installations_on_one_redis_are_kept_apart_by_its_number(start, redis_server) -> None:
    web, other = start("web"), start("other", RedisBus(redis_server.url.replace("/0", "/7")))
    other.send("due", "r1")
    web.send("due", "r2")
    other.transport.close()
    web.transport.close()
    assert (web.transport.ignored, web.heard, other.heard) == (0, [], [])


@pytest.mark.parametrize("url", ["redis://h:port/0", "redis://h:99999999/0"])
def test_an_address_that_cannot_be_one_is_refused_before_anything_connects(settings, url: str) -> None:
    settings.WFDASH_SIGNALS = url
    with pytest.raises(ValueError, match=r"(?i)port|WFDASH_SIGNALS"):
        process.choose_bus()
