"""How a database would find the rows of a statement, and what is wrong with that where a table has millions of rows."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db import connection

PLANNED = ("SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "(SELECT")
MOST_ROWS = 30_000
"""Rows that may be sorted, hashed or added up for one page."""
SOON = 1_000
"""Where so many rows fit, the first are found soon, in whatever order they are looked through."""
SMALL = {
    "what an administrator makes: people, rights, and what belongs to them": (
        *("auth_user", "auth_group", "auth_permission", "auth_user_groups", "auth_user_user_permissions"),
        *("auth_group_permissions", "checkpoints_grant", "checkpoints_serviceaccount", "checkpoints_token"),
        *("checkpoints_secondfactor", "checkpoints_recoverycode", "checkpoints_absence", "checkpoints_savedview"),
        "mfa_authenticator",
        *("checkpoints_preference", "checkpoints_pushsubscription", "checkpoints_chataccount", "django_content_type"),
    ),
    "what an author or operator sets up": (
        *("checkpoints_schedule", "checkpoints_webhook", "checkpoints_incominghook", "checkpoints_workflowversion"),
        *("checkpoints_knownerror", "checkpoints_rule"),
    ),
    "a row for each process, or for each run that is executed now": (
        *("checkpoints_workerbeat", "checkpoints_leader", "checkpoints_claim"),
    ),
    "of 40 days at most, a few hundred rows for each workflow": (
        *("checkpoints_tallyrollup", "checkpoints_decisionrollup"),
    ),
    "what people put off: open requests, until a time": ("checkpoints_snooze",),
    "one row": ("checkpoints_installation", "checkpoints_audithead", "checkpoints_tallymark"),
    "at most one row for each person and kind of action": ("checkpoints_signintries",),
}
"""Tables that may be read whole, by the reason."""
PARTIAL = {
    "what is open, and so known to people": (
        *("request_open", "request_alarm", "request_untold", "request_stuck", "one_pending_request_per_key"),
    ),
    "what is to be done now, and soon is": (
        *("run_unfinished", "run_to_take", "run_to_list", "run_to_note", "run_to_end", "notice_to_send"),
        *("reply_to_settle", "bulk_unfinished", "schedule_next"),
    ),
    "what a person did to a run, which is seldom": ("run_altered", "run_forked"),
}
"""Indexes of few rows, which may be read whole, by the reason."""
ALLOWED = {
    r"^WITH s\(n, since, until\)": "statistics count one stretch of an index per slot: the runs of that time",
    r"^SELECT r\.workflow, COUNT\(\*\)": "where few workflows completed runs: one stretch of an index",
    r'^SELECT COUNT.*"answered" < %s AND .*"undone" IS NOT NULL': "each five minutes; few replies were undone",
    r'AS "mark", COUNT\(\*\) AS "number" FROM "checkpoints_run"': "statistics count runs that are open or failed",
    r"COUNT\(\*\).*\"checkpoints_auditentry\".* LIMIT 100001": "an export is counted, up to the most that it may have",
    r'^SELECT COUNT.*"answered" < %s AND .*"stands" = %s': "a month's report for an operator; few answers override",
    r'FROM "checkpoints_idempotencykey" GROUP BY 1 HAVING': "once a minute; a key is kept for seven days",
    r'^SELECT DISTINCT .*"checkpoints_tally"': "once an hour, of the figures of a month",
    r'"hour" > %s AND "checkpoints_tally"\."hour" < %s .* GROUP BY 1, 2, 3, 4$': "once, of the figures of one day",
    r'"hour" <= %s AND "checkpoints_tally"\."measure" IN .* GROUP BY 1, 2, 3$': "the catalogue's figures of one day",
    r'COUNT\(\*\) .*"answered" >= %s AND "checkpoints_humanrequest"\."answered" < %s\)$': "one day's, once",
    r'"checkpoints_bulk"\."finished" IS NULL GROUP BY': "few bulk actions of a person are unfinished at a time",
    r'"checkpoints_notice"\."read" IS NULL .* GROUP BY 1$': "who has many unread ones of this kind gets no more",
    r'"checkpoints_answer"\."verdict" = %s': "decisions by outcome are looked for among 20,000, here among all",
}
"""Statements that may read many rows, by a part of their text; with the reason."""
_SMALL = frozenset(name for names in SMALL.values() for name in names)
_PARTIAL = frozenset(name for names in PARTIAL.values() for name in names)


def growing() -> frozenset[str]:
    """Return the tables of which each run, decision or visit adds rows."""
    return frozenset(model._meta.db_table for model in apps.get_models(include_auto_created=True)) - _SMALL


class Recorder:
    """Keeps each statement that is executed once, with its first parameters; for ``connection.execute_wrapper``."""

    def __init__(self) -> None:
        """Begin without any."""
        self.found: dict[str, tuple[str, Any, str]] = {}
        """What kind of statement it is -> its text, its parameters, and where it was executed first."""
        self.where = ""
        """What is being done."""

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        """Execute a statement and keep it."""
        if sql.startswith(PLANNED):
            self.found.setdefault(shape(sql), (sql, params[0] if many and params else params, self.where))
        return execute(sql, params, many, context)

    def flaws(self) -> dict[str, list[str]]:
        """Return what is wrong with the plans, by where a statement was executed and the statement."""
        return {f"{where}: {sql}": wrong for sql, params, where in self.found.values() if (wrong := flaws(sql, params))}


def shape(sql: str) -> str:
    """Return a statement without what differs from one execution to the next: how many values a list has, names."""
    return re.sub(r'"s\d+_x\d+"|U\d+', "", re.sub(r"(%s|\?)(, ?(%s|\?))+", "%s, …", sql))


def flaws(sql: str, params: Any) -> list[str]:
    """Return what is wrong with how the database would find the rows."""
    if any(re.search(part, sql, re.DOTALL) for part in ALLOWED):
        return []
    # The hundredth row of all is one row; the hundredth page is all before it.
    if re.search(r"(?<!LIMIT 1 )OFFSET [1-9]", sql):
        return ["skips rows by OFFSET"]
    return list((_flaws_on_sqlite if connection.vendor == "sqlite" else _flaws_on_postgres)(sql, params))


def _flaws_on_sqlite(sql: str, params: Any) -> Iterator[str]:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {sql}", params)
        rows = cursor.fetchall()
    beside: defaultdict[int, list[str]] = defaultdict(list)
    for _, parent, _, step in rows:
        beside[parent].append(step)
    for _, parent, _, step in rows:
        if found := re.match(r"SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?", step):
            whole = any("TEMP B-TREE FOR ORDER" in one or "GROUP BY" in one for one in beside[parent])
            if found[1] in growing() and found[2] not in _PARTIAL and (whole or "LIMIT" not in sql):
                yield step


@dataclass(frozen=True, kw_only=True)
class Node:
    """A step of a plan of PostgreSQL."""

    kind: str
    table: str
    index: str
    rows: float
    searched: bool
    """Whether the index is searched, not read from one end to the other."""
    cost: float
    parts: tuple[Node, ...]

    def read_whole(self) -> int:
        """Return how many growing tables are read from their beginning."""
        own = self.kind == "Seq Scan" and self.table in growing()
        return own + sum(part.read_whole() for part in self.parts)


PLANNING = 50
"""What planning costs at most, in the unit of a plan's costs: a plan for any value that costs less is kept."""
GATHERS = frozenset({"Sort", "Aggregate", "Hash", "SetOp", "WindowAgg"})
"""Steps that read all there is before they return anything."""


def _flaws_on_postgres(sql: str, params: Any) -> Iterator[str]:
    plan = _plan(sql, params)
    yield from _flaws_of(plan, limited=False)
    kept = _plan_for_any(sql, params) if sql.startswith("SELECT") else plan
    if kept.read_whole() > plan.read_whole() and kept.cost < plan.cost + PLANNING:
        yield "reads a whole table once it is prepared"


def _plan(sql: str, params: Any = None) -> Node:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", params)
        ((found,),) = cursor.fetchall()
    return _node((json.loads(found) if isinstance(found, str) else found)[0]["Plan"])


def _plan_for_any(sql: str, params: Any) -> Node:
    """Return the plan for any values, which PostgreSQL may keep after some executions."""
    with connection.cursor() as cursor:
        cursor.cursor.execute(sql, params, prepare=True)
        cursor.execute("SELECT name, cardinality(parameter_types) FROM pg_prepared_statements ORDER BY prepare_time")
        name, count = cursor.fetchall()[-1]
        cursor.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        values = f"({', '.join(['NULL'] * count)})" if count else ""
        plan = _plan(f'EXECUTE "{name}"{values}')
        cursor.execute("SET LOCAL plan_cache_mode = auto")
    return plan


def _node(plan: dict[str, Any]) -> Node:
    return Node(
        kind=plan["Node Type"],
        table=plan.get("Relation Name", ""),
        index=plan.get("Index Name", ""),
        rows=plan["Plan Rows"],
        searched="Index Cond" in plan,
        cost=plan["Total Cost"],
        parts=tuple(_node(part) for part in plan.get("Plans", ())),
    )


def _flaws_of(node: Node, *, limited: bool) -> Iterator[str]:
    """Yield the flaws of a step and its parts. ``limited``: it is read only until a page is full."""
    limited = (limited or node.kind == "Limit") and node.kind not in GATHERS
    if node.table in growing():
        if node.kind == "Seq Scan" and not (limited and node.rows >= SOON):
            yield f"reads all of {node.table} for {node.rows:,.0f} rows"
        elif node.index and not node.searched and not limited and node.index not in _PARTIAL:
            yield f"reads all of {node.index} for {node.rows:,.0f} rows"
    for part in node.parts:
        if node.kind in GATHERS and part.rows > MOST_ROWS:
            yield f"{node.kind} of {part.rows:,.0f} rows"
        yield from _flaws_of(part, limited=limited)
