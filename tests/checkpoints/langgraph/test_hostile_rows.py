"""Rows that someone with access to the database has written, digests included: nothing in them is called."""

from __future__ import annotations

import base64
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langgraph")

import ormsgpack

from checkpoints.content.chunks import with_digest
from checkpoints.errors import Damaged
from checkpoints.langgraph.models import ThreadCheckpoint
from tests.checkpoints.langgraph.samples import checkpoint, in_orm, put, thread


class Runs:
    """Pickled as a call of a program."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> Any:
        import os

        return os.system, (self.command,)


def inline(kind: str, data: bytes) -> list[str]:
    return [kind, base64.b64encode(data).decode()]


def extension(code: int, *parts: Any) -> list[str]:
    return inline("msgpack", ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(parts))))


def constructor(version: int, *place: str, **more: Any) -> list[str]:
    return inline("json", json.dumps({"lc": version, "type": "constructor", "id": place, **more}).encode())


async def read(alias: str, saver: Any, content: Any) -> Any:
    """Return the value of the only channel of a checkpoint with this stored content."""
    stored = await put(saver, thread(), checkpoint(a="right"))
    rows = ThreadCheckpoint.objects.using(alias).filter(checkpoint=stored["configurable"]["checkpoint_id"])
    body = (await in_orm(alias, rows.get)).body
    whole = json.loads(body[41:])
    whole = {**whole, "c": {"a": content}} if isinstance(content, list) else {**whole, **content}
    await in_orm(alias, lambda: rows.update(body=with_digest(json.dumps(whole, separators=(",", ":")).encode())))
    return (await saver.aget_tuple(stored)).checkpoint["channel_values"]["a"]


async def test_a_value_that_the_saver_has_not_written_is_damaged(alias: str, saver: Any, tmp_path: Path) -> None:
    mark = tmp_path / "was here"
    for content in (
        inline("pickle", pickle.dumps(Runs(f"touch '{mark}'"))),
        constructor(1, "langchain_core", "prompts", "prompt", "PromptTemplate", kwargs={"template": "x"}),
        constructor(2, "re", "compile", args=["x"]),
        inline("json", b'{"lc": 1, "type": "secret", "id": ["HOME"]}'),
        inline("msgpack", b"\xc1"),
        inline("msgpack", b"\x92\x01"),
        ["msgpack", "a"],
        ["msgpack", 10**9],
        ["msgpack", 0, "0" * 40],
        {"c": ["a"]},
        {"h": inline("msgpack", ormsgpack.packb([1]))},
        {"f": "1"},
    ):
        with pytest.raises(Damaged):
            await read(alias, saver, content)
    assert not mark.exists()


async def test_a_type_that_is_not_allowed_comes_back_as_its_fields_and_is_not_imported(
    alias: str, saver: Any, tmp_path: Path
) -> None:
    mark = str(tmp_path / "was here")
    for code, parts in (
        (0, ("os", "system", f"touch '{mark}'")),
        (1, ("subprocess", "check_call", [["touch", mark]])),
        (2, ("builtins", "open", {"file": mark, "mode": "w"})),
        (3, ("pathlib", "Path", mark, "touch")),
        (4, ("antigravity", "Model", {"a": 1})),
        (5, ("antigravity", "Model", {"a": 1}, "model_validate_json")),
    ):
        assert await read(alias, saver, extension(code, *parts)) == parts[2]
    assert not Path(mark).exists()
    assert "antigravity" not in sys.modules
