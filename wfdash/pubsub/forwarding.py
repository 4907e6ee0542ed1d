"""What is published here goes to other processes, and what they publish to the subscribers here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from wfdash.pubsub import topics
from wfdash.pubsub.messages import Message
from wfdash.pubsub.streaming import streamed_text

FORWARDED: Mapping[str, topics.Topic[Any]] = {
    topic.name: topic
    for topic in (
        *(topics.runs_due, topics.backlog_found, topics.runs_changed, topics.text_streamed, topics.text_ended),
        *(topics.lead_ended, topics.inbox_changed, topics.requests_changed),
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
