from __future__ import annotations

import threading
from contextvars import ContextVar

from wfdash.worker.db_thread import DbThread

about: ContextVar[str] = ContextVar("about", default="")


async def test_what_is_called_in_the_thread_has_the_context_of_its_caller() -> None:
    thread = DbThread("test")
    about.set("worker one")

    def look() -> tuple[str, str]:
        return about.get(), threading.current_thread().name

    found = [await thread.call(look), await thread.repeat(look)]
    assert found == [("worker one", "test_0")] * 2
    await thread.aclose()


async def test_what_may_be_done_twice_is_done_again_in_the_same_context() -> None:
    thread, seen = DbThread("test"), list[str]()
    about.set("worker two")

    def fail_once() -> int:
        seen.append(about.get())
        return 1 // (len(seen) - 1)

    assert await thread.repeat(fail_once) == 1
    assert seen == ["worker two"] * 2
    await thread.aclose()
