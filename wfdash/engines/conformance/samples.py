"""What an engine's author writes for the checks: small definitions, and what is to come of them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from checkpoints.records import Json, Request

Given = Sequence[tuple[str, Json]]
"""The step of each question and the word that answered it, in the order of the answers."""


class OutOfPaper(Exception):
    """The error of a step that fails on purpose."""


class Unstorable:
    """A value that no checkpoint can hold."""

    def __reduce__(self) -> str:
        """Refuse to be pickled."""
        raise TypeError("an Unstorable cannot be stored")


class Ledger:
    """What the steps of a sample do to the world outside: it stays when the engine's process ends.

    A definition is made for each drive, and gets the ledger of its run. From any thread.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []
        """What steps have noted, in order."""
        self.failing = False
        """Whether ``fail_if_asked`` raises."""
        self.seconds: float | None = None
        """How long the step was held that was held last."""
        self._lock = threading.Lock()
        self._reached, self._released = asyncio.Event(), asyncio.Event()

    def note(self, step: str) -> None:
        """Note that a step runs. Called first in the steps that a sample's description names, and in no step that asks.

        A step that notes something twice has run twice.
        """
        with self._lock:
            self.notes.append(step)

    @property
    def counts(self) -> Counter[str]:
        """How often each step has run."""
        return Counter(self.notes)

    async def held(self) -> None:
        """Wait in a step, until a check lets it continue."""
        began = time.monotonic()
        self._reached.set()
        await self._released.wait()
        self.seconds = time.monotonic() - began

    def fail_if_asked(self) -> None:
        """Raise ``OutOfPaper("out of paper")`` in a step, while a check says that it fails."""
        if self.failing:
            raise OutOfPaper("out of paper")

    async def reached(self) -> None:
        """Wait until a step is held."""
        await self._reached.wait()

    def release(self) -> None:
        """Let the step that is held continue, and all later ones."""
        self._released.set()


def joined(text: str, given: Given) -> Json:
    """Return the text and the answers, separated by spaces: those of parallel steps in the order of their names."""
    steps = {step for step, _ in given}
    words = sorted(given, key=lambda pair: pair[0]) if len(steps) == len(given) else given
    return " ".join([text, *(str(word) for _, word in words)])


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A definition, how it is started and answered, and its output.

    ``make(ledger)`` returns a new definition, which calls the ledger in its steps; it may be a ``Served``. The checks
    start runs with texts and answer with words; the other fields say what these are to the engine.
    """

    make: Callable[[Ledger], object]
    message: Callable[[str], Json] = field(default=lambda text: text)
    """The input of a run that is about this text."""
    answer: Callable[[Json], Json] = field(default=lambda word: word)
    """The answer to each question that says this word."""
    output: Callable[[str, Given], Json] = joined
    """The output of a run about this text that got these words. Default: all of them in one text."""
    width: int = 1
    """How many steps may run at the same time, and so be repeated after a crash."""
    reply: Callable[[Request], Json] | None = None
    """The answer to a question, whatever the word: for a definition that asks several things."""
    quiet: bool = False
    """Its steps note nothing, because steps of this engine do nothing but ask."""


@dataclass(frozen=True, kw_only=True)
class Samples:
    """The definitions under test. A check whose sample is None does not apply: ``EngineWorld.lacks`` says so."""

    asks: Sample
    """A step ``before`` that notes so, one question, a step ``after`` that notes so. The output: text and word."""
    steps: Sample | None = None
    """Four steps or more, one after the other, each notes its name; the output is the text."""
    changed: Sample | None = None
    """``asks`` with one more step after the question. Its output is the same."""
    asks_two: Sample | None = None
    """Two questions that are open at the same time, of different steps. The output: text, and both words."""
    asks_in_turn: Sample | None = None
    """Questions one after the other, until the word is ``stop``. The output: text and all words."""
    fails: Sample | None = None
    """A question, then a step that notes ``prints`` and calls ``fail_if_asked``. The output: text and word."""
    slow: Sample | None = None
    """A step ``work`` that is held. The output is the text."""
    asks_beside: Sample | None = None
    """A question that is visible while another branch is held. The output: text and word."""
    unstorable: Sample | None = None
    """A step that returns an ``Unstorable``, which is to be kept for another step."""
    echoes: Sample | None = None
    """One question that any JSON answers. The output is the answer alone."""
    chats: Sample | None = None
    """Takes follow-ups. The output is the texts of all messages of the conversation so far, separated by spaces."""
    wrong_input: Json = 0.5
    """A message that ``asks`` refuses."""
    wrong_answer: Json = 0.5
    """An answer that the question of ``asks`` refuses."""
    secret: tuple[Sample, frozenset[str]] | None = None
    """A definition that calls fields secret in its messages or state, and their names."""
