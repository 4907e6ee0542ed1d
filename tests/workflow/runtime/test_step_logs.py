"""What steps log becomes events of theirs: from tasks and threads, with tracebacks, within bounds, once."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.workflow.world import ListRecorder, answered, failed, finished, flow
from wfdash.contract import Outcome
from wfdash.workflow import Context, Retry, Waiting, Workflow, each
from wfdash.workflow.runtime import watching as steplogs
from wfdash.workflow.runtime.step_ops import MOST_LOGGED

log = logging.getLogger("shop.parcels")


@pytest.fixture(autouse=True)
def _listening(caplog) -> Iterator[None]:
    caplog.set_level(logging.INFO)
    leave = steplogs.listen(logging.INFO)
    yield
    leave()


def logged(recorder: ListRecorder) -> list[tuple[str, str, str]]:
    events = [event for commit in recorder.commits for event in commit.events if event.kind == "log"]
    return [(event.step, event.data["level"], event.data["message"]) for event in events]


async def recorded(*steps: Any, ends: Callable[[Outcome], Any] = finished, **facts: Any) -> ListRecorder:
    """Run a flow of these steps, which has to end like this."""
    recorder = ListRecorder()
    ends(await flow(*steps, **facts).run(None, storage=recorder))
    return recorder


@contextmanager
def heard_by_us_alone(name: str) -> Iterator[logging.Logger]:
    """Give a logger whose records pytest does not hear: it could not report them."""
    steplog = logging.getLogger(name)
    steplog.propagate, steplog.handlers = False, [h for h in logging.getLogger().handlers if is_ours(h)]
    yield steplog
    steplog.propagate, steplog.handlers = True, []


async def test_what_an_async_step_logs_stands_between_its_start_and_its_end():
    async def pack() -> int:
        log.info("packing %d boxes", 3)
        log.debug("not this")
        return 1

    recorder = await recorded(pack)
    assert logged(recorder) == [("pack", "INFO", "packing 3 boxes")]
    kinds = recorder.kinds
    assert kinds.index("step.started") < kinds.index("log") < kinds.index("step.finished")
    event = next(e for commit in recorder.commits for e in commit.events if e.kind == "log")
    assert event.data == {"activation": "1", "level": "INFO", "logger": "shop.parcels", "message": "packing 3 boxes"}


async def test_plain_functions_calls_in_threads_and_child_tasks_are_heard_too():
    def weigh() -> int:
        log.info("weighing")
        return 2

    async def aside() -> None:
        log.info("aside")

    def plain() -> int:
        log.warning("in a thread")
        return 1

    async def calls(number: int, ctx: Context) -> int:
        await asyncio.gather(aside(), aside())
        return await ctx.call(weigh)

    recorder = await recorded(plain, calls)
    told = [("plain", "WARNING", "in a thread"), ("calls", "INFO", "aside"), ("calls", "INFO", "aside")]
    assert logged(recorder) == [*told, ("calls", "INFO", "weighing")]


async def test_steps_that_run_at_once_do_not_hear_each_other():
    wf, recorder = Workflow("w"), ListRecorder()

    @wf.step(start=True)
    async def out() -> list[int]:
        return [0, 1, 2]

    @wf.step(after=each(out))
    async def check(item: int) -> int:
        await asyncio.sleep(0.01 * (3 - item))
        log.info("item %d", item)
        return item

    await wf.run(None, storage=recorder)
    events = [event for commit in recorder.commits for event in commit.events if event.kind == "log"]
    assert sorted((event.data["item"], event.data["message"]) for event in events) == [
        (0, "item 0"),
        (1, "item 1"),
        (2, "item 2"),
    ]


async def test_the_last_words_of_a_step_that_fails_are_kept_with_their_traceback():
    async def crash() -> int:
        try:
            raise KeyError("box")
        except KeyError:
            log.exception("no such box")
        raise RuntimeError("kaboom")

    recorder = await recorded(crash, ends=failed)
    ((step, level, message),) = logged(recorder)
    assert (step, level) == ("crash", "ERROR")
    assert message.startswith("no such box\nTraceback")
    assert message.endswith("KeyError: 'box'")
    kinds = recorder.kinds
    assert kinds.index("log") < kinds.index("step.failed")


async def test_each_attempt_s_records_are_kept():
    async def shaky(ctx: Context) -> int:
        log.info("attempt %d", ctx.attempt)
        if ctx.attempt < 3:
            raise RuntimeError("again")
        return 1

    recorder = await recorded(shaky, retry=Retry(attempts=3, delay=0))
    assert [message for *_, message in logged(recorder)] == ["attempt 1", "attempt 2", "attempt 3"]


async def test_what_a_step_only_repeats_is_not_logged_again():
    wf, recorder = Workflow("w"), ListRecorder()

    @wf.step(start=True)
    async def ask(ctx: Context) -> int:
        log.info("before")
        await ctx.ask("first?")
        log.info("between")
        await ctx.ask("second?")
        log.info("after")
        return 1

    outcome: Any = await wf.run(None, storage=recorder)
    while isinstance(outcome, Waiting):
        outcome = await answered(wf, outcome, "yes", storage=recorder)
    assert [message for *_, message in logged(recorder)] == ["before", "between", "after"]


async def test_long_texts_are_cut_and_what_is_too_much_is_counted():
    async def talk() -> int:
        log.info("x" * 9_000)
        for number in range(MOST_LOGGED + 4):
            log.info("%d", number)
        return 1

    recorder = await recorded(talk)
    told = [message for *_, message in logged(recorder)]
    assert len(told) == MOST_LOGGED + 1
    assert (len(told[0]), told[0][-1]) == (steplogs.LONGEST, "…")
    assert told[-1] == "5 more were left out"


async def test_texts_that_no_database_takes_are_made_storable():
    async def odd() -> int:
        with heard_by_us_alone("shop.odd") as steplog:
            steplog.info("nul \0 half \ud800")
        return 1

    recorder = await recorded(odd)
    assert logged(recorder) == [("odd", "INFO", "nul \\x00 half \\ud800")]


@pytest.mark.filterwarnings("ignore")
async def test_a_record_that_cannot_be_formatted_harms_nothing(capsys):
    async def wrong() -> int:
        with heard_by_us_alone("shop.wrong") as steplog:
            steplog.info("%d boxes", "three")
        return 1

    recorder = await recorded(wrong)
    assert logged(recorder) == []


def is_ours(handler: logging.Handler) -> bool:
    return isinstance(handler, steplogs.StepLogs)


async def test_the_house_s_own_loggers_and_what_is_outside_of_steps_say_nothing_about_a_step():
    async def step() -> int:
        for name in ("wfdash.worker", "checkpoints", "django.db.backends", "channels.x", "asyncio"):
            logging.getLogger(name).error("ours")
        logging.getLogger("wfdash.examples.parcel").info("an example's")
        thread = threading.Thread(target=lambda: log.info("a thread of one's own has no step"))
        thread.start()
        thread.join()
        return 1

    log.info("outside")
    recorder = await recorded(step)
    assert logged(recorder) == [("step", "INFO", "an example's")]


async def test_with_no_one_listening_nothing_is_kept():
    handler = next(handler for handler in logging.getLogger().handlers if is_ours(handler))
    logging.getLogger().removeHandler(handler)

    async def step() -> int:
        log.info("hm")
        return 1

    recorder = await recorded(step)
    assert logged(recorder) == []
