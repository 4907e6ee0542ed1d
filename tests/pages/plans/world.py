"""A few hundred runs with all that they leave behind, which the planner takes for a million."""

from __future__ import annotations

from typing import Any

from django.db import connection

from checkpoints.models import AuditEntry
from checkpoints.models.user_model import User
from tests import people
from tests.api.document.calls import Call, calls, things
from tests.benchmarks.pages.growthfill import fill_growth
from tests.pages.plans.plans import growing
from tests.pages.shown import addresses_of, make_drawn_run, make_history

RUNS = 200
SCALE = 5_000
LEAST = 200
"""Rows that every table counts as having."""
FEW = 36
"""Rows that a run, a request or a checkpoint has at most: what refers to one grows with the number of them."""
REFERENCES = "'run_id', 'request_id', 'id', 'parent', 'family', 'hash', 'key', 'secret_hash', 'notice_id', 'thread'"


def fill() -> tuple[dict[str, str], dict[str, Call]]:
    """Store them; returns the address of each page, and a call of each operation of the API.

    The audit of what other tests left in the database makes room: entries are numbered from one.
    """
    AuditEntry.objects.all().delete()
    everybody = people.make_people()
    fill_growth(RUNS)
    run = make_drawn_run(everybody["otto"])
    question, history = people.ask(run), make_history(run)
    made = calls(things(everybody["adam"], run, history, question))
    if connection.vendor == "postgresql":
        enlarge()
    return addresses_of(run, question, history), made


def enlarge() -> None:
    """Let PostgreSQL's planner take the tables that grow for large ones, for as long as the transaction lasts."""
    tables = ", ".join(f"'{name}'" for name in sorted(growing()))
    with connection.cursor() as cursor:
        for name in sorted(growing()):
            cursor.execute(f'ANALYZE "{name}"')
        cursor.execute(
            "UPDATE pg_class SET reltuples = greatest(reltuples, %s) * %s,"
            " relpages = greatest(1, pg_relation_size(oid) / 8192)"
            f" WHERE relname IN ({tables}) OR oid IN (SELECT indexrelid FROM pg_index"
            f" WHERE indrelid IN (SELECT oid FROM pg_class WHERE relname IN ({tables})) AND indpred IS NULL)",
            [LEAST, SCALE],
        )
        cursor.execute(
            "UPDATE pg_statistic SET stakind1 = CASE stakind1 WHEN 1 THEN 0 ELSE stakind1 END, stadistinct ="
            " CASE WHEN stadistinct > 0 THEN -1.0 / greatest(1, least(%s, round(c.reltuples / %s / stadistinct)))"
            " ELSE stadistinct END"
            " FROM pg_class c, pg_attribute a WHERE c.oid = starelid AND a.attrelid = starelid AND a.attnum = staattnum"
            f" AND c.relname IN ({tables}) AND a.attname IN ({REFERENCES})",
            [FEW, SCALE],
        )
        # Of a million requests nearly all are answered, of these few hardly half.
        cursor.execute(
            "UPDATE pg_statistic SET stanullfrac = 0.02 FROM pg_attribute a WHERE a.attrelid = starelid"
            " AND a.attnum = staattnum AND starelid = 'checkpoints_humanrequest'::regclass"
            " AND a.attname IN ('answered', 'closed')"
        )


def user_of(name: str) -> Any:
    """Return a person."""
    return User.objects.get(username=name)
