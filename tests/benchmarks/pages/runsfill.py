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
MIXED = "(i * 7919 % 1000003)"
"""A number that looks like chance, of run ``i``."""


def fill_runs(count: int) -> None:
    """Store runs, oldest first, one each half minute; of their facts six each, and tags and errors of some."""
    from checkpoints.models import Claim, Run, RunFact

    people, began = _people(), int(time.time()) - (count + 20) * EVERY_SECONDS
    kept = [(model, index) for model in (Run, RunFact) for index in model._meta.indexes]
    _each_index(kept, "remove_index")
    with connection.cursor() as cursor:
        cursor.execute(_insert(Run, _runs(people, began), count, ""))
        for columns, some in _facts():
            cursor.execute(_insert(RunFact, {**columns, "run_id": _id(), "created": _at(began, "i")}, count, some))
    _each_index(kept, "add_index")
    _claim(Run, Claim)
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


def _insert(model: Any, columns: dict[str, str], count: int, some: str) -> str:
    if connection.vendor == "postgresql":
        series = f"SELECT g AS i FROM generate_series(0::bigint, {count - 1}) AS g"
    else:
        series = (
            f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {count - 1}) SELECT i FROM n"
        )
    names, values = ", ".join(columns), ", ".join(columns.values())
    where = f" WHERE {some}" if some else ""
    return f"INSERT INTO {model._meta.db_table} ({names}) SELECT {values} FROM ({series}) AS s{where}"


def _id() -> str:
    """Return an id as long as real ones, growing with the time."""
    if connection.vendor == "postgresql":
        return "lpad(to_hex(i), 8, '0') || '-0000-7000-8000-' || lpad(to_hex((i * 7919) % 1000003), 12, '0')"
    return "printf('%08x-0000-7000-8000-%012x', i, (i * 7919) % 1000003)"


def _at(began: int, number: str) -> str:
    """Return the moment of run ``number``, each half a minute after the one before it."""
    seconds = f"{began} + ({number}) * {EVERY_SECONDS}"
    if connection.vendor == "postgresql":
        return f"to_timestamp({seconds})"
    return f"strftime('%Y-%m-%d %H:%M:%S', {seconds}, 'unixepoch')"


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
        "id": _id(),
        "family": _id(),
        "workflow": _padded("workflow_", f"{MIXED} % {WORKFLOWS}"),
        "version": _padded("4f1c", f"{MIXED} % {WORKFLOWS}"),
        "engine": "'native'",
        "title": "'Refund order ' || i",
        "phase": phase,
        "input": "'{\"amount\": 100}'" + ("::json" if connection.vendor == "postgresql" else ""),
        "epoch": "i",
        "forked_from": f"CASE WHEN {MIXED} % 5000 = 1 THEN 'somewhere' END",
        "altered": f"CASE WHEN {MIXED} % 5000 = 2 THEN 'restored' ELSE '' END",
        "created_by_id": f"CASE {person} END",
        "created": _at(began, "i"),
        "updated": _at(began, "i"),
        "finished": f"CASE WHEN {ended} THEN {_at(began, 'i + 20')} END",
        "noted": true,
        "listed": true,
    }


def _padded(prefix: str, number: str) -> str:
    if connection.vendor == "postgresql":
        return f"'{prefix}' || lpad(({number})::text, 3, '0')"
    return f"printf('{prefix}%03d', {number})"


def _facts() -> list[tuple[dict[str, str], str]]:
    """Return name, text and number of each kind of fact, and which runs have one."""
    text = "::text" if connection.vendor == "postgresql" else ""
    failed = f"{MIXED} % 1000 BETWEEN 900 AND 939"
    kinds = [
        ("'title'", "'refund'", "NULL", ""),
        ("'title'", f"substr({_id()}, 29)", "NULL", ""),
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
