from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.conformance.test_encryption import rotated as rotated

pytest.importorskip("langgraph")


from checkpoints.content.encryption import Locked
from checkpoints.errors import Damaged
from checkpoints.langgraph import DjangoSaver
from checkpoints.langgraph.models import ThreadCheckpoint, ThreadWrite
from checkpoints.models import Chunk
from tests.checkpoints.langgraph.samples import BIG, checkpoint, in_orm, put, thread
from tests.conformance.worlds import empty

OLD, NEW = "an-old-secret-long-enough-to-be-one", "a-new-secret-long-enough-to-be-one"
CANARY = "canary-4711"


async def filled(saver: Any, config: Any) -> Any:
    """Store the canary wherever content goes."""
    values = {"small": CANARY, "big": {key: CANARY + text for key, text in BIG.items()}}
    stored = await put(saver, config, checkpoint(**values), user=CANARY)
    await saver.aput_writes(stored, [("small", CANARY), ("big", [CANARY * 1000])], "t")
    return stored


async def stored_text(alias: str) -> str:
    def look() -> str:
        tables = (ThreadCheckpoint, ThreadWrite, Chunk)
        rows = [row for table in tables for row in table.objects.using(alias).values_list()]
        return "".join(str(bytes(cell) if isinstance(cell, memoryview) else cell) for row in rows for cell in row)

    return await in_orm(alias, look)


async def read(saver: Any, config: Any) -> None:
    found = await saver.aget_tuple(config)
    assert found.checkpoint["channel_values"]["big"]["key 000"] == CANARY + BIG["key 000"]
    assert found.metadata["user"] == CANARY
    assert [value for _, _, value in found.pending_writes] == [CANARY, [CANARY * 1000]]
    assert [one.config async for one in saver.alist(config, filter={"user": CANARY, "source": "loop"})] == [
        found.config
    ]


async def test_a_thread_is_encrypted_and_its_keys_are_rotated(alias: str, settings: Any) -> None:
    config, copy = thread(), thread()
    await asyncio.to_thread(empty, alias)
    settings.WFDASH_ENCRYPTION_KEYS = "plain"
    async with DjangoSaver(using=alias) as saver:
        await filled(saver, config)
        await read(saver, config)
    assert CANARY in await stored_text(alias)
    settings.WFDASH_ENCRYPTION_KEYS = f"{OLD},plain"
    async with DjangoSaver(using=alias) as saver:
        await read(saver, config)
        await saver.acopy_thread(config["configurable"]["thread_id"], copy["configurable"]["thread_id"])
    counts = await asyncio.to_thread(rotated, alias)
    assert (counts["threadcheckpoint"], counts["threadwrite"]) == (2, 4)
    settings.WFDASH_ENCRYPTION_KEYS = [NEW, OLD]
    assert CANARY not in await stored_text(alias)
    async with DjangoSaver(using=alias) as saver:
        await read(saver, copy)
        again = await put(saver, (await saver.aget_tuple(config)).config, checkpoint(big=BIG))
        await saver.aprune([config["configurable"]["thread_id"]])
        assert (await saver.aget_tuple(config)).config == again
        await read(saver, copy)
    await asyncio.to_thread(rotated, alias)
    settings.WFDASH_ENCRYPTION_KEYS = NEW
    async with DjangoSaver(using=alias) as saver:
        await read(saver, copy)
        assert (await saver.aget_tuple(config)).checkpoint["channel_values"] == {"big": BIG}
        for one in (config, copy):
            await saver.adelete_thread(one["configurable"]["thread_id"])
    assert await in_orm(alias, Chunk.objects.using(alias).count) == 0


async def test_content_without_its_key_or_in_another_row_is_refused(alias: str, settings: Any) -> None:
    first, second = thread(), thread()
    settings.WFDASH_ENCRYPTION_KEYS = OLD
    async with DjangoSaver(using=alias) as saver:
        one = await filled(saver, first)
        other = await put(saver, second, checkpoint(small="other"))

        def swap() -> None:
            rows = ThreadCheckpoint.objects.using(alias)
            body = rows.filter(checkpoint=one["configurable"]["checkpoint_id"]).values_list("body", flat=True)[0]
            rows.filter(checkpoint=other["configurable"]["checkpoint_id"]).update(body=body.document)

        await in_orm(alias, swap)
        with pytest.raises(Damaged, match="belongs to another row"):
            await saver.aget_tuple(second)
        settings.WFDASH_ENCRYPTION_KEYS = NEW
        async with DjangoSaver(using=alias) as stranger:
            with pytest.raises(Locked, match="add that key"):
                await stranger.aget_tuple(first)
        for config in (first, second):
            await saver.adelete_thread(config["configurable"]["thread_id"])
