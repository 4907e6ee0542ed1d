from __future__ import annotations

import pytest

pytest.importorskip("langgraph")

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from checkpoints.langgraph.encoding import encode_writes
from checkpoints.langgraph.pieces import MOST, store

SERDE = JsonPlusSerializer(allowed_msgpack_modules=None)
LONG = {f"{n:03d}": f"{n:03d} of " * 300 for n in range(40)}
"""Documents of 2 KB."""
MORE = ("bytes", b"x" * MOST)
"""What is too much for a row."""


def test_a_message_that_a_task_wrote_is_stored_once() -> None:
    messages = [{"role": "user", "content": text} for text in LONG.values()]
    write = [{"role": "agent", "content": "new" * 1000}]
    written, chunks = encode_writes([(0, "messages", SERDE.dumps_typed(write)), (1, "more", MORE)], None), {}
    _, known = store(SERDE.dumps_typed(messages), {})
    store(SERDE.dumps_typed([*messages, *write]), chunks, known=known)
    (new,) = (key for key, data in written.chunks.items() if b"newnew" in data)
    assert new in chunks
    assert sum(map(len, chunks.values())) < 6000
