from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest

from wfdash import pubsub
from wfdash.pubsub import topics
from wfdash.pubsub.process import FORWARDED, OF_PEOPLE, deliver, forward_to
from wfdash.pubsub.transport import FIELDS, Message, read_message

PERSON = UUID(int=7)


@pytest.fixture
def sent() -> Iterator[list[Message]]:
    """What goes to other processes."""
    found: list[Message] = []
    stop = forward_to(lambda topic, *args: found.append(Message(topic, args)))
    yield found
    stop()


@pytest.fixture
def heard() -> Iterator[list[tuple]]:
    """What subscribers of this process hear."""
    found: list[tuple] = []
    every = {**FORWARDED, **OF_PEOPLE}
    leave = [topic.subscribe(lambda *args, name=name: found.append((name, *args))) for name, topic in every.items()]
    yield found
    for each in leave:
        each()


def publish_everything() -> None:
    pubsub.runs_due.publish("r1")
    pubsub.backlog_found.publish()
    pubsub.lead_ended.publish("c0de")
    pubsub.runs_changed.publish("r1", 4)
    pubsub.inbox_changed.publish("expense")
    pubsub.requests_changed.publish("expense", "people", "q1")
    pubsub.consultations_due.publish("expense", "v1")
    pubsub.consultations_ended.publish("c1")
    pubsub.notifications_changed.publish(PERSON)
    pubsub.rights_changed.publish(PERSON)
    pubsub.rights_changed.publish(None)
    pubsub.streamed_text.add("r1", "write", "It was")


def test_subscribers_of_another_process_hear_what_those_of_this_one_do(sent, heard) -> None:
    publish_everything()
    here = list(heard)
    pubsub.streamed_text.forget("r1", "write")
    heard.clear()
    for message in sent:
        assert read_message([message.topic, *message.args]) == message
        deliver(message, key_of=UUID)
    assert heard == here
    assert {message.topic for message in sent} == FIELDS.keys() - {"hello"}
    assert pubsub.streamed_text.of("r1") == {}


def test_what_was_heard_is_not_sent_on(sent) -> None:
    for topic, *args in (("due", "r1"), ("text", "r1", "write", "It", True), ("ended", "r1", "")):
        deliver(Message(topic, tuple(args)))
    assert sent == []


def test_what_concerns_one_process_stays_in_it(sent) -> None:
    pubsub.requests_changed.deliver("*", "code", "2")
    assert sent == []


def test_every_topic_is_carried() -> None:
    names = {topic.name for topic in vars(topics).values() if isinstance(topic, topics.Topic)}
    assert names == {*FORWARDED, *OF_PEOPLE}
