from __future__ import annotations

from wfdash.nudge import Bell


def test_every_listener_hears_until_it_leaves() -> None:
    heard: list[str] = []
    bell: Bell[[str]] = Bell()
    leave = bell.listen(heard.append)
    bell.ring("a")
    leave()
    bell.ring("b")
    assert heard == ["a"]


def test_a_listener_whose_loop_has_gone_does_not_keep_the_others_from_hearing() -> None:
    heard: list[str] = []

    def deaf(_: str) -> None:
        raise RuntimeError("Event loop is closed")

    bell: Bell[[str]] = Bell()
    bell.listen(deaf)
    bell.listen(heard.append)
    bell.ring("a")
    assert heard == ["a"]


def test_leaving_twice_is_harmless() -> None:
    bell: Bell[[]] = Bell()
    leave = bell.listen(lambda: None)
    leave()
    leave()
