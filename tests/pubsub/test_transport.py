"""What every bus promises, whatever carries it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from tests.pubsub.conftest import Process, eventually
from wfdash.pubsub import transport
from wfdash.pubsub.bus import Bus, BusListener, BusSender, Wake
from wfdash.pubsub.transport import Message


def test_what_one_process_sends_every_other_hears_once_and_itself_never(start) -> None:
    web, worker, other = start("web"), start("worker"), start("other")
    web.send("due", "r1")
    worker.send("run", "r1", 4)
    web.until(Message("run", ("r1", 4)))
    worker.until(Message("due", ("r1",)))
    other.until(Message("due", ("r1",)), Message("run", ("r1", 4)))
    counts = [sum(one.topic != "hello" for one in process.heard) for process in (web, worker, other)]
    assert counts == [1, 1, 2]


def test_a_burst_of_ten_thousand_arrives_whole(start) -> None:
    web, worker = start("web"), start("worker")
    began = time.thread_time()
    for number in range(9_999):
        worker.send("run", f"r{number}", number)
    assert time.thread_time() - began < 2
    web.until(Message("run", ("r9998", 9_998)))
    assert [one.args[1] for one in web.heard if one.topic == "run"] == list(range(9_999))


def test_long_streamed_text_arrives_whole_and_in_order(start) -> None:
    web, worker = start("web"), start("worker")
    text = "".join(chr(0x1F300 + number % 500) for number in range(20_000))
    worker.send("text", "r1", "write", text, True)
    worker.send("ended", "r1", "write")
    web.until(Message("ended", ("r1", "write")))
    assert "".join(one.args[2] for one in web.heard if one.topic == "text") == text


def test_what_another_installation_sends_is_not_heard(start) -> None:
    web, stranger, worker = start("web"), start("stranger", secret="other"), start("worker")
    stranger.send("due", "r1")
    eventually(lambda: web.transport.ignored > 1)
    worker.send("due", "r2")
    web.until(Message("due", ("r2",)))
    assert Message("due", ("r1",)) not in web.heard


def test_who_sends_never_waits_for_one_that_does_not_listen(start) -> None:
    web, worker = start("web"), start("worker")
    released = threading.Event()
    web.transport._deliver = lambda message: released.wait(30)
    for number in range(1_000):
        began = time.perf_counter()
        worker.send("run", f"r{number}", 1)
        assert time.perf_counter() - began < 1
    other = start("other")
    worker.send("due", "r1")
    other.until(Message("due", ("r1",)))
    released.set()


def test_a_message_that_cannot_be_delivered_is_logged_and_the_next_is_delivered(start, caplog) -> None:
    web, worker = start("web"), start("worker")
    deliver = web.transport._deliver

    def fail(message: Message) -> None:
        web.transport._deliver = deliver
        raise ValueError("no such person")

    web.transport._deliver = fail
    worker.send("rights", "x")
    worker.send("due", "r2")
    web.until(Message("due", ("r2",)))
    assert "could not be delivered" in caplog.text


def test_what_is_pending_when_a_process_ends_is_sent(start) -> None:
    web, worker = start("web"), start("worker")
    worker.send("due", "r1")
    worker.transport.close()
    web.until(Message("due", ("r1",)))
    assert not any(thread.is_alive() for thread in worker.transport._threads)


def test_an_outage_is_one_line_and_later_messages_arrive(start, bus, monkeypatch, caplog) -> None:
    caplog.set_level(logging.INFO, logger="wfdash.pubsub")
    monkeypatch.setattr(transport, "RETRY_SECONDS", 0.02)
    unreliable = Unreliable(bus)
    web, worker = start("web"), start("worker", unreliable)
    unreliable.broken = True
    worker.send("due", "r1")
    eventually(lambda: unreliable.refused > 6)
    unreliable.broken = False
    eventually(lambda: " again after " in caplog.text)
    worker.send("due", "r2")
    web.until(Message("due", ("r1",)), Message("due", ("r2",)))
    web.send("due", "r3")
    worker.until(Message("due", ("r3",)))
    assert worker.connections == 2
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "the server is away" in caplog.text
    assert "and more" not in caplog.text


def test_a_listener_that_hears_nothing_says_what_to_do(bus, monkeypatch, caplog) -> None:
    monkeypatch.setattr(transport, "PATIENCE_SECONDS", 0.1)
    deaf = Unreliable(bus)
    deaf.deaf = True
    process = Process(deaf, "web")
    process.transport.start()
    eventually(lambda: caplog.records)
    process.transport.close()
    assert bus.remedy in caplog.text


def test_a_listener_proves_from_time_to_time_that_it_hears(start, bus, monkeypatch) -> None:
    monkeypatch.setattr(transport, "PROVE_SECONDS", 0.05)
    monkeypatch.setattr(transport, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(transport, "RETRY_SECONDS", 0.02)
    unreliable = Unreliable(bus)
    web = start("web", unreliable)
    unreliable.deaf = True
    eventually(lambda: web.connections > 1)
    unreliable.deaf = False
    assert web.transport.listening.wait(30)


class Unreliable:
    """A bus that loses its connections while it is ``broken``, and whatever comes while it is ``deaf``."""

    def __init__(self, bus: Bus) -> None:
        self.name, self.remedy, self.most = bus.name, bus.remedy, bus.most
        self.bus = bus
        self.broken = self.deaf = False
        self.refused = 0

    def open_sender(self) -> UnreliableSender:
        self.check()
        return UnreliableSender(self, self.bus.open_sender())

    def open_listener(self) -> UnreliableListener:
        self.check()
        return UnreliableListener(self, self.bus.open_listener())

    def check(self) -> None:
        if self.broken:
            self.refused += 1
            raise OSError("the server is away\nand more")


class UnreliableSender:
    def __init__(self, bus: Unreliable, sender: BusSender) -> None:
        self.bus, self.sender, self.close = bus, sender, sender.close

    def send(self, texts: Sequence[str]) -> None:
        self.bus.check()
        self.sender.send(texts)


class UnreliableListener:
    def __init__(self, bus: Unreliable, listener: BusListener) -> None:
        self.bus, self.listener, self.close = bus, listener, listener.close

    def receive(self, wake: Wake, seconds: float) -> Sequence[str]:
        found = self.listener.receive(wake, min(seconds, 0.02))
        self.bus.check()
        return [] if self.bus.deaf else found
