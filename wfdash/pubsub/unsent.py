"""What has been published and not yet sent to other processes: the newest per run, text joined, bounded."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import count
from threading import Event, Lock
from typing import Any

from wfdash.pubsub.messages import Message

MOST = 10_000
"""Messages that wait to be sent; the oldest beyond them are dropped, and polls find what they said."""
MOST_TEXT = 1_000_000
"""Characters of streamed text that wait; of text beyond them the beginning is dropped."""
Args = tuple[Any, ...]


@dataclass(slots=True)
class _Unsent:
    """One message to be; ``key``: what later ones are joined with it by."""

    topic: str
    key: Hashable
    args: Args
    texts: list[str]
    place: int


class UnsentMessages:
    """Messages in the order of publishing. For any thread; no call waits for more than another."""

    def __init__(self, most: int = MOST) -> None:
        self.wanted = Event()
        """Set while there is something to send."""
        self.dropped = 0
        self._most = most
        self._lock = Lock()
        self._reset()

    def add(self, topic: str, *args: Any) -> None:
        """Add what was published."""
        with self._lock:
            match topic:
                case "run":
                    self._raise(*args)
                case "text":
                    self._join(*args)
                case "ended":
                    self._end(*args)
                case _:
                    if (topic, *args) not in self._open:
                        self._append(topic, (topic, *args), args)
        if not self.wanted.is_set():
            self.wanted.set()

    def take(self) -> list[Message]:
        """Return all of it, oldest first, and begin with nothing."""
        with self._lock:
            entries = self._entries
            self._reset()
            self.wanted.clear()
        return [
            Message(one.topic, (*one.args[:2], "".join(one.texts), *one.args[2:]) if one.texts else one.args)
            for one in entries.values()
        ]

    def _reset(self) -> None:
        self._places = count()
        self._entries: OrderedDict[int, _Unsent] = OrderedDict()
        self._open: dict[Hashable, _Unsent] = {}
        self._characters = 0

    def _append(self, topic: str, key: Hashable, args: Args) -> _Unsent:
        if len(self._entries) >= self._most:
            _, oldest = self._entries.popitem(last=False)
            self.dropped += 1
            self._characters -= sum(map(len, oldest.texts))
            if self._open.get(oldest.key) is oldest:
                del self._open[oldest.key]
        entry = self._open[key] = _Unsent(topic, key, args, [], next(self._places))
        self._entries[entry.place] = entry
        return entry

    def _raise(self, run: str, seq: int) -> None:
        key = ("run", run)
        if (entry := self._open.get(key)) is None:
            self._append("run", key, (run, seq))
        elif seq > entry.args[1]:
            # After what was published since, such as the text of a step that ends with these events.
            entry.args = (run, seq)
            self._entries.move_to_end(entry.place)

    def _join(self, run: str, step: str, text: str, begin: bool) -> None:
        if len(text) > (room := MOST_TEXT - self._characters):
            self.dropped += 1
            text = text[-room:] if room else ""
        if not text:
            return
        self._characters += len(text)
        key = ("text", run, step)
        if begin or (entry := self._open.get(key)) is None:
            entry = self._append("text", key, (run, step, begin))
        entry.texts.append(text)

    def _end(self, run: str, step: str) -> None:
        ended = [("text", run, step)] if step else [key for key in self._open if _is_text_of(run, key)]
        for key in ended:
            self._open.pop(key, None)
        # Never joined with an earlier one: text may lie between them.
        self._append("ended", object(), (run, step))


def _is_text_of(run: str, key: Hashable) -> bool:
    return isinstance(key, tuple) and key[:2] == ("text", run)
