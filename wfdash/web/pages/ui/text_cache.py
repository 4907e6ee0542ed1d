"""A cache for texts that are costly to render, bounded by characters, not by entries. Thread-safe."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from threading import Lock


class TextCache:
    """Rendered texts by their source and the way they are rendered; the least recently used ones are dropped."""

    def __init__(self, max_chars: int) -> None:
        self.max_chars = max_chars
        self._chars = 0
        self._texts: OrderedDict[bytes, str] = OrderedDict()
        self._lock = Lock()

    def get(self, way: str, source: str, render: Callable[[], str]) -> str:
        """Return ``render()`` of this source, cached by the way it is rendered."""
        key = blake2b(f"{way}\0{source}".encode(errors="surrogatepass"), digest_size=16).digest()
        with self._lock:
            if key in self._texts:
                self._texts.move_to_end(key)
                return self._texts[key]
        text = render()
        self._store(key, text)
        return text

    def _store(self, key: bytes, text: str) -> None:
        with self._lock:
            self._chars += len(text) - len(self._texts.pop(key, ""))
            self._texts[key] = text
            while self._chars > self.max_chars:
                self._chars -= len(self._texts.popitem(last=False)[1])
