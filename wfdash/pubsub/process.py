"""The transport of this process, as the settings say."""

from __future__ import annotations

import atexit
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from threading import Lock, RLock
from typing import Any, NamedTuple

from django.conf import settings

from checkpoints.content.encryption import encryptor_of
from checkpoints.database.alias import connection
from checkpoints.database.direct import direct_parameters
from checkpoints.ids import new_token
from checkpoints.models.user_model import User
from wfdash.installation.environment import signals_of
from wfdash.pubsub import topics
from wfdash.pubsub.bus import Bus
from wfdash.pubsub.topics import text_ended, text_streamed
from wfdash.pubsub.transport import Envelope, Message, Transport, key_of


class ProcessSignals:
    """Exchanges what is published with other processes, from the first ``start`` on."""

    def __init__(self) -> None:
        self.transport: Transport | None = None
        """None where nothing is exchanged."""
        self._started = False
        self._unforward: Callable[[], None] = lambda: None
        self._lock = Lock()

    @property
    def arrive(self) -> bool:
        """Whether signals of other processes arrive at this moment, as far as is known."""
        transport = self.transport
        return transport is not None and transport.listening.is_set()

    def start(self) -> None:
        """Begin, unless that has been done; returns at once, for connecting is done elsewhere. ``ValueError``."""
        if self._started:
            return
        with self._lock:
            if not self._started and (bus := choose_bus()) is not None:
                deliver_here = partial(deliver, key_of=User._meta.pk.to_python)
                began = streamed_text.forget_elsewhere
                self.transport = Transport(bus, make_envelope(), deliver=deliver_here, began=began)
                self._unforward = forward_to(self.transport.send)
                self.transport.start()
                atexit.register(self.stop)
            self._started = True

    def stop(self) -> None:
        """Send what is pending, then exchange nothing more."""
        with self._lock:
            transport, self.transport, self._started = self.transport, None, False
            if transport is not None:
                atexit.unregister(self.stop)
                self._unforward()
                transport.close()


signals = ProcessSignals()


def choose_bus() -> Bus | None:
    """Return what the settings say; None for nothing. ``ValueError`` for a setting that cannot be meant."""
    match signals_of(settings.WFDASH_SIGNALS, on_postgres=connection().vendor == "postgresql"):
        case "postgres":
            from wfdash.pubsub.postgres import PostgresBus

            return PostgresBus(direct_parameters())
        case url if url != "off":
            from wfdash.pubsub.redis_bus import RedisBus

            return RedisBus(url)
    return None


def make_envelope() -> Envelope:
    """Return the envelope of this process: signed with the secret key, encrypted if content is."""
    keys = [key_of(str(secret)) for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)]
    return Envelope(new_token(), keys=keys, encryptor=encryptor_of(settings.WFDASH_ENCRYPTION_KEYS))


# What is published here goes to other processes, and what they publish to the subscribers here.

FORWARDED: Mapping[str, topics.Topic[Any]] = {
    topic.name: topic
    for topic in (
        *(topics.runs_due, topics.backlog_found, topics.runs_changed, topics.text_streamed, topics.text_ended),
        *(topics.lead_ended, topics.worker_begun, topics.inbox_changed, topics.requests_changed),
        *(topics.consultations_due, topics.consultations_ended),
    )
}
OF_PEOPLE: Mapping[str, topics.Topic[Any]] = {
    topic.name: topic for topic in (topics.notifications_changed, topics.rights_changed)
}
"""Their argument is the primary key of a person, or None."""
Send = Callable[..., None]
"""Takes the name of a topic and what is published."""


def forward_to(send: Send) -> Callable[[], None]:
    """Send what is published from now on; return the function that ends it."""
    stops = [topic.forward(partial(send, name)) for name, topic in FORWARDED.items()]
    stops += [topic.forward(partial(_send_person, send, name)) for name, topic in OF_PEOPLE.items()]

    def stop() -> None:
        for each in stops:
            each()

    return stop


def deliver(message: Message, *, key_of: Callable[[str], Any] = int) -> None:
    """Give what another process published to the subscribers. ``key_of`` turns a text into a person's primary key."""
    match message:
        case Message("text", (run, step, text, begin)):
            streamed_text.hear(run, step, text, begin)
        case Message("ended", (run, step)):
            streamed_text.hear_end(run, step)
        case Message("notified" | "rights", (user,)):
            OF_PEOPLE[message.topic].deliver(key_of(user) if user else None)
        case Message(topic, args) if topic in FORWARDED:
            FORWARDED[topic].deliver(*args)


def _send_person(send: Send, topic: str, user: Any) -> None:
    send(topic, "" if user is None else str(user))


# What steps have streamed so far, for viewers who connect later: the end of each text.

MOST_ELSEWHERE = 500
"""Runs in other processes whose text is kept: a process that was killed does not say that its steps have ended."""


class KeptText(NamedTuple):
    """What a step has streamed in its current attempt. ``cut``: the beginning is no longer kept."""

    text: str
    cut: bool = False


Texts = dict[str, KeptText]
"""By step."""


class StreamedText:
    """The texts of the steps of this process, and of those that other processes let it hear.

    Under ``lock`` no text is stored but not yet published.
    """

    def __init__(self, most: int = 16_000) -> None:
        self.lock = RLock()
        self._most = most
        self._here: dict[str, Texts] = {}
        self._elsewhere: OrderedDict[str, Texts] = OrderedDict()

    def add(self, run: str, step: str, text: str) -> None:
        """Append the text and publish it to ``text_streamed``."""
        with self.lock:
            texts = self._here.setdefault(run, {})
            begin = step not in texts
            self._append(texts, step, text)
            text_streamed.publish(run, step, text, begin)

    def hear(self, run: str, step: str, text: str, begin: bool) -> None:
        """Keep text that a step streams in another process, and deliver it here."""
        with self.lock:
            texts = self._elsewhere.setdefault(run, {})
            self._elsewhere.move_to_end(run)
            while len(self._elsewhere) > MOST_ELSEWHERE:
                self._elsewhere.popitem(last=False)
            if begin:
                texts.pop(step, None)
            elif step not in texts:
                texts[step] = KeptText("", cut=True)
            self._append(texts, step, text)
            text_streamed.deliver(run, step, text, begin)

    def of(self, run: str) -> Texts:
        """Return step -> its text so far."""
        with self.lock:
            return {**self._elsewhere.get(run, {}), **self._here.get(run, {})}

    def forget(self, run: str, step: str = "") -> None:
        """Drop the text of a step that has ended, or all of a run that is no longer run here; publish that."""
        with self.lock:
            if _drop(self._here, run, step):
                text_ended.publish(run, step)

    def take_over(self, run: str) -> None:
        """Drop what a process streamed that had this run and was lost."""
        self.hear_end(run, "")
        text_ended.publish(run, "")

    def hear_end(self, run: str, step: str) -> None:
        """Drop the text of a step that has ended in another process; without a step, of all of its run."""
        with self.lock:
            _drop(self._elsewhere, run, step)

    def forget_elsewhere(self) -> None:
        """Drop what was heard of other processes: some of it may have been lost."""
        with self.lock:
            self._elsewhere.clear()

    def _append(self, texts: Texts, step: str, text: str) -> None:
        kept, cut = texts.get(step, KeptText(""))
        whole = kept + text
        texts[step] = KeptText(whole[-self._most :], cut or len(whole) > self._most)


def _drop(runs: dict[str, Texts], run: str, step: str) -> bool:
    """Remove a step's text, or all of the run's; return whether there was any."""
    texts = runs.get(run, {})
    found = bool(texts) if not step else texts.pop(step, None) is not None
    if not step or not texts:
        runs.pop(run, None)
    return found


streamed_text = StreamedText()
