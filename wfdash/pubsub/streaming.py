"""What steps have streamed so far, for viewers who connect later: the end of each text."""

from __future__ import annotations

from collections import OrderedDict
from threading import RLock
from typing import NamedTuple

from wfdash.pubsub.topics import text_ended, text_streamed

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
