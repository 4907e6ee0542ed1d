"""A million runs with what they are found by, made by the database itself: SQL of both databases."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from django.db import connection
from django.db.models import Index
from django.utils import timezone

EVERY_SECONDS = 30
WORKFLOWS = 200
LARGE = 10_000
"""From so many runs on, indexes are built in the end."""
MIXED = "(i * 7919 % 1000003)"
"""A number that looks like chance, of run ``i``."""


def fill_runs(count: int, **columns: str) -> None:
    """Store runs, oldest first, one each half minute; of their facts six each, and tags and errors of some.

    ``columns`` are further columns of the runs, each as an expression of SQL.
    """
    from checkpoints.models import Claim, Run, RunFact

    people, began = _people(), first_moment(count)
    kept = [(model, index) for model in (Run, RunFact) for index in model._meta.indexes]
    if count >= LARGE:
        _each_index(kept, "remove_index")
    with connection.cursor() as cursor:
        cursor.execute(insert(Run, {**_runs(people, began), **columns}, count))
        for fact, some in _facts():
            cursor.execute(insert(RunFact, {**fact, "run_id": run_id("i"), "created": at(began, "i")}, count, some))
    if count >= LARGE:
        _each_index(kept, "add_index")
    _claim(Run, Claim)


def vacuum() -> None:
    """Let PostgreSQL know what it has: after a fill, outside of a transaction."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")


def _claim(runs: Any, claims: Any) -> None:
    """Let workers drive a thousand runs, and let some of the workers be gone."""
    now = timezone.now()
    ready = runs.objects.filter(phase="ready").order_by("-created").values_list("id", "epoch")[:2000]
    claims.objects.bulk_create(
        claims(run_id=run, token=run, worker="w", epoch=1, expires=now + timedelta(days=-1 if epoch % 4 == 1 else 1))
        for run, epoch in ready
        if epoch % 2
    )


def _people() -> list[int]:
    from tests import people

    return [user.pk for user in people.make_people().values()]


def _each_index(kept: list[tuple[Any, Index]], verb: str) -> None:
    with connection.schema_editor(atomic=False) as editor:
        for model, index in kept:
            getattr(editor, verb)(model, index)


def first_moment(count: int) -> int:
    """Return when the first of so many runs was created, in seconds since 1970."""
    return int(time.time()) - (count + 20) * EVERY_SECONDS


def insert(model: Any, columns: dict[str, str], count: int, some: str = "") -> str:
    """Return the statement that stores a row for each number ``i`` below ``count`` for which ``some`` holds."""
    if connection.vendor == "postgresql":
        series = f"SELECT g AS i FROM generate_series(0::bigint, {count - 1}) AS g"
    else:
        series = (
            f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {count - 1}) SELECT i FROM n"
        )
    names, values = ", ".join(columns), ", ".join(columns.values())
    where = f" WHERE {some}" if some else ""
    return f"INSERT INTO {model._meta.db_table} ({names}) SELECT {values} FROM ({series}) AS s{where}"


def run_id(number: str) -> str:
    """Return an id as long as real ones, growing with the time."""
    chance = f"({number} * 7919) % 1000003"
    if connection.vendor == "postgresql":
        return f"lpad(to_hex({number}), 8, '0') || '-0000-7000-8000-' || lpad(to_hex({chance}), 12, '0')"
    return f"printf('%08x-0000-7000-8000-%012x', {number}, {chance})"


def at(began: int, number: str) -> str:
    """Return the moment of run ``number``, each half a minute after the one before it."""
    seconds = f"{began} + ({number}) * {EVERY_SECONDS}"
    if connection.vendor == "postgresql":
        return f"to_timestamp({seconds})"
    return f"strftime('%Y-%m-%d %H:%M:%S', {seconds}, 'unixepoch') || '.000000'"


def _runs(people: list[int], began: int) -> dict[str, str]:
    phase = f"""CASE WHEN {MIXED} % 1000 < 900 THEN 'completed' WHEN {MIXED} % 1000 < 940 THEN 'failed'
        WHEN {MIXED} % 1000 < 970 THEN 'waiting' WHEN {MIXED} % 1000 < 985 THEN 'cancelled'
        WHEN {MIXED} % 1000 < 996 THEN 'ready' WHEN {MIXED} % 1000 < 998 THEN 'sleeping' ELSE 'paused' END"""
    ended = f"({MIXED} % 1000 < 940 OR {MIXED} % 1000 BETWEEN 970 AND 984)"
    person = " ".join(f"WHEN i % {len(people)} = {number} THEN {pk}" for number, pk in enumerate(people))
    true = "true" if connection.vendor == "postgresql" else "1"
    text = dict.fromkeys(("acted_by", "altered"), "''")
    numbers = dict.fromkeys(("seq", "n", "attempts"), "0")
    return {
        **text,
        **numbers,
        "id": run_id("i"),
        "family": run_id("i"),
        "workflow": padded("workflow_", f"{MIXED} % {WORKFLOWS}"),
        "version": padded("4f1c", f"{MIXED} % {WORKFLOWS}"),
        "engine": "'native'",
        "title": "'Refund order ' || i",
        "phase": phase,
        "input": "'{\"amount\": 100}'" + ("::json" if connection.vendor == "postgresql" else ""),
        "epoch": "i",
        "forked_from": f"CASE WHEN {MIXED} % 5000 = 1 THEN 'somewhere' END",
        "altered": f"CASE WHEN {MIXED} % 5000 = 2 THEN 'restored' ELSE '' END",
        "created_by_id": f"CASE {person} END",
        "created": at(began, "i"),
        "updated": at(began, "i"),
        "finished": f"CASE WHEN {ended} THEN {at(began, 'i + 20')} END",
        "noted": true,
        "listed": true,
    }


def padded(prefix: str, number: str) -> str:
    """Return a text that ends with a number of three digits."""
    if connection.vendor == "postgresql":
        return f"'{prefix}' || lpad(({number})::text, 3, '0')"
    return f"printf('{prefix}%03d', {number})"


def _facts() -> list[tuple[dict[str, str], str]]:
    """Return name, text and number of each kind of fact, and which runs have one."""
    text = "::text" if connection.vendor == "postgresql" else ""
    failed = f"{MIXED} % 1000 BETWEEN 900 AND 939"
    kinds = [
        ("'title'", "'refund'", "NULL", ""),
        ("'title'", f"substr({run_id('i')}, 29)", "NULL", ""),
        ("'input.amount'", f"({MIXED} % 1000){text}", f"{MIXED} % 1000", ""),
        ("'input.customer'", f"'customer ' || ({MIXED} % 50000)", "NULL", ""),
        ("'word'", f"'name' || ({MIXED} % 50000)", "NULL", ""),
        ("'word'", "CASE i % 3 WHEN 0 THEN 'parcel' WHEN 1 THEN 'letter' ELSE 'phone' END", "NULL", ""),
        ("'tag'", "'eu'", "NULL", f"{MIXED} % 10 = 0"),
        ("'tag'", "'vip'", "NULL", f"{MIXED} % 1000 = 3"),
        ("'tag'", "'audit'", "NULL", f"{MIXED} % 100000 = 7"),
        ("'tag'", "'old'", "NULL", "i < 20000"),
        ("'error'", "CASE i % 2 WHEN 0 THEN 'valueerror' ELSE 'timeouterror' END", "NULL", failed),
        ("'word'", "'timeout'", "NULL", f"{failed} AND i % 2 = 1"),
    ]
    return [({"name": name, "text": said, "number": number}, some) for name, said, number, some in kinds]
