from __future__ import annotations

from wfdash.pubsub import Topic


def test_every_listener_hears_until_it_leaves() -> None:
    heard: list[str] = []
    topic: Topic[[str]] = Topic()
    leave = topic.subscribe(heard.append)
    topic.publish("a")
    leave()
    topic.publish("b")
    assert heard == ["a"]


def test_a_listener_whose_loop_has_gone_does_not_keep_the_others_from_hearing() -> None:
    heard: list[str] = []

    def deaf(_: str) -> None:
        raise RuntimeError("Event loop is closed")

    topic: Topic[[str]] = Topic()
    topic.subscribe(deaf)
    topic.subscribe(heard.append)
    topic.publish("a")
    assert heard == ["a"]


def test_leaving_twice_is_harmless() -> None:
    topic: Topic[[]] = Topic()
    leave = topic.subscribe(lambda: None)
    leave()
    leave()
