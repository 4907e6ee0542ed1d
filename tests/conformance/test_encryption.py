from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from django.db import connections

from checkpoints import models
from checkpoints.conformance import CLAIMS, JOURNAL, STORAGE
from checkpoints.content.encryption import KEY_ID, MARK, PLAIN, Locked, NotEncrypted, encryptor_of
from checkpoints.database.installation_key import keep_first_key, keys_of_content, rotate
from checkpoints.database.storage import DatabaseStorage, refuse_missing_keys, write
from checkpoints.errors import Damaged, InvalidConfig
from checkpoints.events import EventKind
from checkpoints.file import FileStorage
from checkpoints.ids import RequestKey, new_run_id
from checkpoints.models.operations import Installation
from checkpoints.records import Commit, Effect, Request, Standing
from tests.conformance.conftest import ON_POSTGRES
from tests.conformance.worlds import DatabaseWorld, FileWorld, checkpoint, empty, started

FILLED = (models.Run, models.Checkpoint, models.HumanRequest, models.Answer, models.Event, models.Effect)
"""The tables with content that a run fills by itself."""
OLD, NEW = "an-old-secret-long-enough-to-be-one", "a-new-secret-long-enough-to-be-one"
CANARY = "canary-4711"
BIG: dict[str, Any] = {"state": {f"key {i}": f"{CANARY} {i} " * 40 for i in range(60)}, "position": {}}


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def alias(request: pytest.FixtureRequest, settings: Any) -> str:
    """Name each database in turn, with a key configured."""
    settings.WFDASH_ENCRYPTION_KEYS = OLD
    return str(request.getfixturevalue(f"{request.param}_alias"))


@pytest_asyncio.fixture
async def world(alias: str) -> AsyncIterator[DatabaseWorld]:
    """Give a storage that encrypts."""
    world = DatabaseWorld(alias)
    yield world
    await world.storage.aclose()


@pytest.mark.parametrize("alias", ["sqlite", ON_POSTGRES], indirect=True)
@pytest.mark.parametrize("check", [*STORAGE, *JOURNAL, *CLAIMS], ids=lambda check: check.__name__)
async def test_an_encrypting_storage_keeps_every_promise(check: Callable[..., Any], world: DatabaseWorld) -> None:
    await check(world)


async def filled(storage: DatabaseStorage, canary: str = CANARY) -> Any:
    """Store a run with the canary wherever content goes; returns its id."""
    run = new_run_id()
    body = {**BIG, "state": {**BIG["state"], "own": canary * 50}} if canary != CANARY else BIG
    asked = Request(
        key="k", step="s", card={"subject": canary}, answer_schema={"properties": {"x": {"default": canary}}}
    )
    done = EventKind.STEP_FINISHED.draft("s", activation="1", output=canary)
    told = EventKind.REQUEST_OPENED.draft("s", key="k", subject=canary)
    await storage.commit(started(run))
    commit = Commit(
        run=run,
        checkpoint=checkpoint(run, body=body, requests=(asked,)),
        events=(done, told),
        opened=(asked,),
        effects=(Effect(key="e", step="s", name="call", result={"receipt": canary}),),
        standing=Standing(phase="waiting", output={"out": canary}),
    )
    await storage.commit(commit)
    return run


async def in_orm(alias: str, act: Callable[[], Any]) -> Any:
    """Do it as a verb does."""

    def verb() -> Any:
        try:
            with write(alias):
                return act()
        finally:
            connections[alias].close()

    return await asyncio.to_thread(verb)


async def test_neither_file_nor_log_shows_a_canary(sqlite_alias: str, settings: Any) -> None:
    settings.WFDASH_ENCRYPTION_KEYS = OLD
    own = f"canary-{new_run_id()}"
    world = DatabaseWorld(sqlite_alias)
    run = await filled(world.storage, canary=own)
    await world.answer(run, "k", {"action": own})
    latest = await world.storage.get_latest(run)
    assert latest is not None
    assert own in str(latest.body)
    assert (await world.storage.read_answers(run))["k"].value == {"action": own}
    path = Path(str(connections[sqlite_alias].settings_dict["NAME"]))
    stored = b"".join(each.read_bytes() for each in path.parent.glob(path.name + "*"))
    await world.storage.aclose()
    assert run.encode() in stored
    assert own.encode() not in stored


async def test_no_column_shows_a_canary_and_every_reader_still_does(world: DatabaseWorld, alias: str) -> None:
    run = await filled(world.storage)
    await world.answer(run, "k", {"action": CANARY})

    def look() -> None:
        with connections[alias].cursor() as cursor:
            for model in FILLED:
                cursor.execute(f"SELECT * FROM {model._meta.db_table}")
                mine = [row for row in cursor.fetchall() if run in row or model is models.Answer]
                assert mine
                assert CANARY not in str(mine)
            family = models.Chunk.objects.using(alias).filter(family=run)
            assert family.exists()
            assert not any(CANARY.encode() in bytes(data) for data in family.values_list("data", flat=True))

    def read() -> None:
        request = models.HumanRequest.objects.using(alias).get(run_id=run)
        row = models.Run.objects.using(alias).get(id=run)
        events = models.Event.objects.using(alias).filter(run_id=run, kind="step.finished")
        assert request.card == {"subject": CANARY}
        assert request.answer_schema["properties"]["x"]["default"] == CANARY
        assert models.Answer.objects.using(alias).get(request=request).value == {"action": CANARY}
        assert row.output == {"out": CANARY}
        assert events.get(data__activation="1").data == {"activation": "1", "output": CANARY}
        assert models.Effect.objects.using(alias).get(run_id=run).result == {"receipt": CANARY}

    await in_orm(alias, look)
    await in_orm(alias, read)
    assert CANARY in str(await world.storage.read_events(run))


async def test_content_moved_to_another_row_is_damage(world: DatabaseWorld, alias: str) -> None:
    mine, yours = await filled(world.storage), await filled(world.storage)

    def swap() -> None:
        rows = models.Checkpoint.objects.using(alias)
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT body FROM checkpoints_checkpoint WHERE run_id=%s", [mine])
            ((body,),) = cursor.fetchall()
            cursor.execute("UPDATE checkpoints_checkpoint SET body=%s WHERE run_id=%s", [body, yours])
            cursor.execute("SELECT CAST(card AS TEXT) FROM checkpoints_humanrequest WHERE run_id=%s", [mine])
            ((card,),) = cursor.fetchall()
            cursor.execute("UPDATE checkpoints_humanrequest SET card=%s WHERE run_id=%s", [card, yours])
        assert rows.filter(run_id=yours).exists()

    await in_orm(alias, swap)
    with pytest.raises(Damaged):
        await world.storage.get_latest(yours)
    with pytest.raises(Damaged, match="another row"):
        await in_orm(alias, lambda: models.HumanRequest.objects.using(alias).get(run_id=yours).card)
    assert [info.clean for info in await world.storage.list_checkpoints(yours)] == [False]


async def test_what_was_written_without_the_keys_is_refused_by_the_worker_too(world: DatabaseWorld, alias: str) -> None:
    run = await filled(world.storage)
    await world.answer(run, "k", {"action": "approve"})

    def forge() -> None:
        with connections[alias].cursor() as cursor:
            cursor.execute("UPDATE checkpoints_checkpoint SET body='{}' WHERE run_id=%s", [run])
            cursor.execute("""UPDATE checkpoints_run SET input='{"pay": 10}' WHERE id=%s""", [run])
            cursor.execute("""UPDATE checkpoints_answer SET value='{"action": "reject"}'""")

    await in_orm(alias, forge)
    for read in (world.storage.get_latest, world.storage.read_run, world.storage.read_answers):
        with pytest.raises(NotEncrypted, match="not encrypted"):
            await read(run)


async def test_equal_states_of_two_runs_do_not_look_equal(world: DatabaseWorld, alias: str) -> None:
    mine, yours = await filled(world.storage), await filled(world.storage)
    chunks = models.Chunk.objects.using(alias)
    hashes = [chunks.filter(family=run).values_list("hash", flat=True) for run in (mine, yours)]
    kept = await in_orm(alias, lambda: [set(each) for each in hashes])
    assert len(kept[0]) == len(kept[1]) > 0
    assert kept[0].isdisjoint(kept[1])


async def test_a_forgotten_key_is_said_and_quarantines_nothing(alias: str, settings: Any) -> None:
    world = DatabaseWorld(alias)
    run = await filled(world.storage)
    await world.storage.aclose()
    for keys in ("", NEW):
        settings.WFDASH_ENCRYPTION_KEYS = keys
        other = DatabaseStorage(alias)
        with pytest.raises(Locked, match="WFDASH_ENCRYPTION_KEYS"):
            await other.get_latest(run)
        assert [info.clean for info in await other.list_checkpoints(run)] == [True]
        await other.aclose()


WAYS = [("", f"{OLD},plain", OLD), (OLD, f"{NEW},{OLD}", NEW), (OLD, f"plain,{OLD}", "")]


@pytest.mark.parametrize(("before", "keys", "after"), WAYS, ids=["on", "rotate", "off"])
async def test_keys_change_while_a_run_goes_on(alias: str, settings: Any, before: str, keys: str, after: str) -> None:
    await asyncio.to_thread(empty, alias)
    settings.WFDASH_ENCRYPTION_KEYS = before
    storage = DatabaseStorage(alias)
    run = await filled(storage)
    await storage.aclose()
    settings.WFDASH_ENCRYPTION_KEYS = keys
    storage = DatabaseStorage(alias)
    await storage.save(checkpoint(run, 2, body=BIG))
    counts = await asyncio.to_thread(rotated, alias)
    assert counts["checkpoint"] == 1
    assert counts["chunk"] > 0
    assert not any((await asyncio.to_thread(rotated, alias)).values())
    await storage.aclose()
    settings.WFDASH_ENCRYPTION_KEYS = after
    storage = DatabaseStorage(alias)
    for info in await storage.list_checkpoints(run):
        assert (await storage.load(run, info.id)).body == BIG
    assert await storage.prune(run, [info.id for info in (await storage.list_checkpoints(run))[1:]]) == 1
    latest = await storage.get_latest(run)
    assert latest is not None
    assert latest.body == BIG
    await storage.aclose()
    stored = await in_orm(alias, lambda: str(list(models.Effect.objects.using(alias).values_list("result", flat=True))))
    assert (MARK in stored or "StoredDocument" in stored) is bool(after)


async def test_what_people_did_is_sealed_again_too(alias: str, settings: Any) -> None:
    def keep() -> None:
        models.Shown.objects.using(alias).create(id="s", request="r", kind="card", body=CANARY, at=datetime.now(UTC))

    def read() -> str:
        return models.Shown.objects.using(alias).get(pk="s").body

    await asyncio.to_thread(empty, alias)
    await in_orm(alias, keep)
    settings.WFDASH_ENCRYPTION_KEYS = f"{NEW},{OLD}"
    try:
        assert (await asyncio.to_thread(rotated, alias))["shown"] == 1
        settings.WFDASH_ENCRYPTION_KEYS = NEW
        assert await in_orm(alias, read) == CANARY
    finally:
        await in_orm(alias, models.Shown.objects.using(alias).all().delete)


async def test_a_program_s_storage_is_refused_without_the_installation_s_key(alias: str, settings: Any) -> None:
    await in_orm(alias, lambda: keep_first_key(alias))
    try:
        # None that this process has used: it asks once.
        for keys in ("x" * 40, f"plain,{'y' * 40}"):
            settings.WFDASH_ENCRYPTION_KEYS = keys
            storage = DatabaseStorage(alias)
            with pytest.raises(InvalidConfig, match="is encrypted with key"):
                await storage.get_latest(new_run_id())
            await storage.aclose()
        settings.WFDASH_ENCRYPTION_KEYS = f"{NEW},{OLD}"
        storage = DatabaseStorage(alias)
        assert await storage.get_latest(new_run_id()) is None
        await storage.aclose()
    finally:
        await in_orm(alias, Installation.objects.using(alias).all().delete)


def test_servers_with_databases_of_one_name_are_both_asked_for_their_keys_until_they_answer() -> None:
    ring = encryptor_of(NEW)
    answers: dict[str, list[Any]] = {"left": [[ring.first]], "right": [psycopg.OperationalError("away"), ["lost"]]}

    def connection(alias: str) -> Any:
        def connect(*, host: str, **_: Any) -> Any:
            if isinstance(answer := answers[host].pop(0), Exception):
                raise answer
            rows = SimpleNamespace(fetchall=lambda: [(answer,)])
            return SimpleNamespace(execute=lambda sql: rows, close=lambda: None)

        driver = SimpleNamespace(Error=psycopg.Error, connect=connect)
        parameters = {"NAME": "runs", "HOST": alias}
        return SimpleNamespace(alias=alias, vendor="postgresql", settings_dict=parameters, Database=driver)

    refuse_missing_keys(connection("left"), ring)
    refuse_missing_keys(connection("left"), ring)
    refuse_missing_keys(connection("right"), ring)
    with pytest.raises(InvalidConfig, match="encrypted with key lost"):
        refuse_missing_keys(connection("right"), ring)


def test_the_keys_of_content_are_read_on_either_database(in_database: ThreadPoolExecutor) -> None:
    found = in_database.submit(keys_of_content).result()
    assert all(key == PLAIN or len(key) == KEY_ID for key in found)


def rotated(alias: str) -> dict[str, int]:
    """Rotate in a thread of its own."""
    try:
        return rotate(alias).counts
    finally:
        # Other tests of this database have other keys.
        Installation.objects.using(alias).all().delete()
        connections[alias].close()


@pytest.mark.parametrize("check", [*STORAGE, *JOURNAL, *CLAIMS], ids=lambda check: check.__name__)
async def test_an_encrypted_file_keeps_every_promise(check: Callable[..., Any], tmp_path: Path) -> None:
    world = FileWorld(tmp_path / "runs.sqlite3", encryption_keys=OLD, durability="relaxed")
    await check(world)
    await world.storage.aclose()


async def test_an_encrypted_file_holds_no_content_and_opens_with_its_keys_alone(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite3"
    async with FileStorage(path, encryption_keys=OLD) as storage:
        run = await filled(storage)
        await storage.answer(run, RequestKey("k"), {"said": CANARY})
    assert CANARY.encode() not in path.read_bytes()
    async with FileStorage(path, encryption_keys=f"{NEW},{OLD}") as storage:
        assert [answer.value for answer in (await storage.read_answers(run)).values()] == [{"said": CANARY}]
    for keys in ("", NEW):
        async with FileStorage(path, encryption_keys=keys) as storage:
            with pytest.raises(Locked):
                await storage.get_latest(run)


def test_a_file_names_the_setting_that_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="durability must be full or relaxed"):
        FileStorage(tmp_path / "f", durability="none")
    with pytest.raises(InvalidConfig, match="at least 32 characters"):
        FileStorage(tmp_path / "f", encryption_keys="short")
