"""Hints as messages of a broker that Celery uses (RabbitMQ, Redis), in queues of their workflows.

The broker knows nothing of transactions: a hint is sent after the commit, by a thread, and lost if the process ends or
the broker is away; workers find the run by looking. A message is acknowledged when the claim is taken. It has the form
of a Celery task, so that Celery's monitors show it; Celery itself is not needed, its transports are kombu's.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import ssl
from collections import deque
from collections.abc import Mapping, Sequence
from threading import Event, Lock, Thread
from typing import Any, NamedTuple
from uuid import uuid4

from django.conf import settings
from kombu import Connection, Exchange, Queue

from checkpoints.database.alias import alias, on_commit
from checkpoints.models import Run
from wfdash import pubsub
from wfdash.pubsub.hints import HintedWorker, queue_of, signal, subscribe
from wfdash.pubsub.transport import Outage

log = logging.getLogger(__name__)

TASK = "wfdash.drive"
EXCHANGE = Exchange("wfdash", type="direct")
MOST_PRIORITY = 9
MAX_PENDING_HINTS = 10_000
"""Hints that wait to be sent; the oldest beyond them are dropped."""
LIVES_SECONDS = 300
"""A broker drops a hint that no worker has taken for so long (RabbitMQ)."""
WAIT_SECONDS = 5.0
"""For the broker to answer, and for one claim."""
LISTEN_SECONDS = 0.5
RETRY_SECONDS = 1.0
LAST_SECONDS = 1.0
"""For a thread to end when the process does."""
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "redis": {
        "socket_timeout": WAIT_SECONDS,
        "socket_connect_timeout": WAIT_SECONDS,
        "socket_keepalive": True,
        "visibility_timeout": 60,
        "polling_interval": LISTEN_SECONDS,
        "max_retries": 0,
    },
    "amqp": {"write_timeout": WAIT_SECONDS, "max_retries": 0},
}
"""Of kombu's transports, by the type of their driver."""
VERIFIED: Mapping[str, Mapping[str, Any]] = {
    "rediss": {"ssl_cert_reqs": ssl.CERT_REQUIRED},
    # Completed by kombu: of the address that is connected to.
    "amqps": {"server_hostname": None},
}
"""What kombu has to be given, by the scheme: else it verifies no certificate of a Redis, and of RabbitMQ's not that it
is for this address. The address may say otherwise.
"""
LATE = "Workers find runs by looking each second: %s: %s: %s. Retrying each second"


class Hint(NamedTuple):
    """A run to be looked at."""

    run: str
    workflow: str
    priority: int


class BrokeredHints:
    """Hints by the broker of ``WFDASH_BROKER``."""

    are_all_heard = False

    def send(self, *runs: str) -> None:
        """Send the runs once the caller's transaction is committed. One query."""
        rows = Run.objects.using(alias()).filter(pk__in=runs).values_list("pk", "workflow", "priority")
        hints = [Hint(*row) for row in rows.order_by("pk")]
        on_commit(lambda: publisher.add(hints))
        signal(*runs)

    async def serve(self, worker: HintedWorker, stopping: asyncio.Event) -> None:
        """Take the runs of this worker's queues, and wake what is executed here already."""
        leave, listener = subscribe(worker.wake, pubsub.runs_due), Listener(worker)
        listener.start()
        try:
            await stopping.wait()
            listener.ending.set()
            await asyncio.Event().wait()
        finally:
            listener.ending.set()
            leave()
            await asyncio.to_thread(listener.join, LAST_SECONDS)


class Publisher:
    """Sends hints from a thread of its own: adding some never waits."""

    def __init__(self) -> None:
        self._pending: deque[Hint] = deque(maxlen=MAX_PENDING_HINTS)
        self._wanted, self._ending = Event(), Event()
        self._thread: Thread | None = None
        self._lock = Lock()

    def add(self, hints: Sequence[Hint]) -> None:
        """Send these, soon."""
        self._pending.extend(hints)
        self._wanted.set()
        with self._lock:
            if self._thread is None:
                self._ending.clear()
                self._thread = Thread(target=self._send_until_closed, name="wfdash-hints-out", daemon=True)
                self._thread.start()
                atexit.register(self.close)

    def close(self) -> None:
        """Send what is pending, for a second at most; ``add`` begins again."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            atexit.unregister(self.close)
            self._ending.set()
            self._wanted.set()
            thread.join(LAST_SECONDS)

    def _send_until_closed(self) -> None:
        outage = Outage("The broker", LATE)
        while not self._ending.is_set():
            try:
                with open_broker() as broker:
                    self._send(broker, outage)
            except Exception as error:
                outage.begin("send", error)
                self._ending.wait(RETRY_SECONDS)

    def _send(self, broker: Any, outage: Outage) -> None:
        with broker.Producer(serializer="json") as producer:
            while True:
                while self._pending:
                    hint = self._pending[0]
                    publish(producer, hint)
                    with contextlib.suppress(IndexError):
                        self._pending.popleft()
                    outage.end("send")
                if self._ending.is_set():
                    return
                self._wanted.wait()
                self._wanted.clear()


class Listener(Thread):
    """Gives a worker what its queues hold, until ``ending`` is set: one at a time, for a claim takes milliseconds."""

    def __init__(self, worker: HintedWorker) -> None:
        """Make it on the worker's loop."""
        super().__init__(name="wfdash-hints-in", daemon=True)
        self.ending = Event()
        self._worker, self._loop = worker, asyncio.get_running_loop()
        self._queues = [queue_for(name) for name in worker.workflows]
        self._outage = Outage("The broker", LATE)

    def run(self) -> None:
        """Listen, on a new connection after each outage."""
        while not self.ending.is_set():
            try:
                with open_broker() as broker:
                    self._listen(broker)
            except Exception as error:
                self._outage.begin("listen", error)
                self.ending.wait(RETRY_SECONDS)

    def _listen(self, broker: Any) -> None:
        channel = broker.channel()
        channel.Message = uncompressed(channel.Message)
        with broker.Consumer(self._queues, channel=channel, accept=["json"], on_message=self._take) as consumer:
            consumer.qos(prefetch_count=1)
            self._outage.end("listen")
            while not self.ending.is_set():
                with contextlib.suppress(TimeoutError):
                    broker.drain_events(timeout=LISTEN_SECONDS)

    def _take(self, message: Any) -> None:
        """Let the worker claim the run, then acknowledge: a message that waits for longer would be of no use."""
        if self.ending.is_set():
            message.requeue()
            return
        try:
            if run := run_in(message):
                self._claim(run)
            self._outage.end("claim")
        except Exception as error:
            self._outage.begin("claim", error)
        message.ack()

    def _claim(self, run: str) -> None:
        claiming = self._worker.take(run)
        try:
            claimed = asyncio.run_coroutine_threadsafe(claiming, self._loop)
        except RuntimeError:
            # The loop has ended.
            claiming.close()
            raise
        claimed.result(WAIT_SECONDS)


def open_broker() -> Any:
    """Return a connection to the broker, to be used as a context manager."""
    verified = dict(VERIFIED.get(settings.WFDASH_BROKER.partition(":")[0], {}))
    broker = Connection(settings.WFDASH_BROKER, ssl=verified or False, connect_timeout=WAIT_SECONDS, heartbeat=0)
    broker.transport_options = {**OPTIONS.get(broker.get_transport_cls().driver_type, {})}
    return broker


def queue_for(workflow: str) -> Queue:
    """Return the queue with a workflow's runs."""
    name = f"wfdash.{queue_of(workflow)}"
    return Queue(name, EXCHANGE, routing_key=name, max_priority=MOST_PRIORITY)


def publish(producer: Any, hint: Hint) -> None:
    """Send one hint, as a task of Celery's protocol 2."""
    task, queue = str(uuid4()), queue_for(hint.workflow)
    priority = min(hint.priority, MOST_PRIORITY)
    if producer.connection.transport.driver_type == "redis":
        # There 0 comes first.
        priority = MOST_PRIORITY - priority
    producer.publish(
        [[hint.run], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}],
        exchange=EXCHANGE,
        routing_key=queue.routing_key,
        declare=[queue],
        priority=priority,
        headers={"lang": "py", "task": TASK, "id": task, "root_id": task, "parent_id": None, "group": None},
        correlation_id=task,
        delivery_mode="transient",
        expiration=LIVES_SECONDS,
        retry=False,
    )


def uncompressed(kind: type) -> type:
    """Return a class of messages that never unpacks a body: 400 KB of it may become a gigabyte.

    Hints are not compressed. Kombu unpacks before anything else can look at a message.
    """

    class Uncompressed(kind):  # type: ignore[misc]
        @property
        def headers(self) -> Any:
            return self._headers

        @headers.setter
        def headers(self, given: Any) -> None:
            self._headers = {name: value for name, value in (given or {}).items() if name != "compression"}

    return Uncompressed


def run_in(message: Any) -> str:
    """Return the run that a message hints at, empty if it is none of these."""
    try:
        match message.payload:
            case [[str(run)], *_] if message.headers.get("task") == TASK:
                return run
    except Exception as error:
        # Anyone who reaches the broker can send anything.
        log.debug("A message of the broker cannot be read: %s", error)
    return ""


publisher = Publisher()
"""The one of this process."""
