"""What a million runs leave behind in the other tables: events, checkpoints, answers, the audit, and so on.

Made by the database itself, as the runs are: run ``i`` has the id ``run_id("i")`` and began ``at(began, "i")``.
"""

from __future__ import annotations

import math
from typing import Any

from django.db import connection, models

from checkpoints.models import (
    Answer,
    AuditEntry,
    AuditHead,
    ChatMessage,
    Checkpoint,
    Chunk,
    Comment,
    DeliveryAttempt,
    Effect,
    Event,
    HumanRequest,
    IdempotencyKey,
    IncomingDelivery,
    IncomingHook,
    Notice,
    Reply,
    Rule,
    RuleUse,
    Schedule,
    SecondLook,
    Shown,
    Signal,
    SignInLink,
    Tally,
    TallyMark,
    UsedLink,
    Webhook,
)
from checkpoints.models.fields import current_keyring
from tests.benchmarks.pages.runsfill import (
    EVERY_SECONDS,
    MIXED,
    WORKFLOWS,
    at,
    fill_runs,
    first_moment,
    insert,
    padded,
    run_id,
)
from wfdash.worker import sweeps

EVENTS = 20
"""Per run."""
KINDS = ("run.queued", "run.started", *["step.started", "step.finished"] * 8, "run.waiting", "run.completed")
STEPS = ("load", "check", "review", "pay", "book", "send", "file", "close")
PER_DAY = 86_400 // EVERY_SECONDS
"""Runs."""
RULE_TIMES = ("since", "created", "expires", "pinned")


def fill_growth(count: int) -> None:
    """Store ``count`` runs with all that they leave behind: 20 events each, a decision of every fourth."""
    fill_runs(count, seq=str(EVENTS), n="2")
    from django.contrib.auth.models import User

    began, people = first_moment(count), list(User.objects.values_list("pk", flat=True))
    person = "CASE " + " ".join(f"WHEN i % {len(people)} = {n} THEN {pk}" for n, pk in enumerate(people)) + " END"
    with connection.cursor() as cursor:
        for model, number, columns in _tables(count, began, person):
            cursor.execute(insert(model, _complete(model, columns), number))
    TallyMark.objects.update_or_create(pk=1, defaults={"event": Event.objects.latest("pk").pk})
    last = AuditEntry.objects.latest("n")
    signature = current_keyring().sign("head", str(last.n), last.hash)
    AuditHead.objects.filter(pk=1).update(n=last.n, hash=last.hash, signature=signature)


def roll_up() -> None:
    """Add figures up as the worker does from time to time, until nothing is left to add up."""
    for job in (sweeps.roll_up, sweeps.roll_up_decisions):
        while job() < math.inf:
            pass


def _complete(model: Any, columns: dict[str, str]) -> dict[str, str]:
    """Return the columns with something plain for those that may not be null."""
    found = {}
    for field in model._meta.concrete_fields:
        if field.generated or field.column in columns or isinstance(field, models.AutoField):
            continue
        if not field.null:
            found[field.column] = _plain(field)
    quote = connection.ops.quote_name
    return {quote(name): value for name, value in (found | columns).items()}


def _plain(field: Any) -> str:
    if isinstance(field, models.JSONField):
        return _json("[]" if field.default is list else "{}")
    if isinstance(field, models.BooleanField):
        return (
            str(bool(field.default)).lower() if connection.vendor == "postgresql" else str(int(field.default is True))
        )
    return "0" if isinstance(field, (models.IntegerField, models.FloatField)) else "''"


def _json(text: str) -> str:
    return f"'{text}'" + ("::json" if connection.vendor == "postgresql" else "")


def _chosen(number: str, names: tuple[str, ...]) -> str:
    """Return the name at this place."""
    cases = " ".join(f"WHEN {place} THEN '{name}'" for place, name in enumerate(names))
    return f"CASE {number} {cases} END"


def _id(prefix: str, number: str) -> str:
    """Return the id of something that is about a run."""
    return f"'{prefix}' || substr({run_id(number)}, 2)"


def _workflow(run: str) -> str:
    """Return the workflow of a run, as ``runsfill`` has it."""
    return padded("workflow_", f"{MIXED.replace('(i ', f'({run} ')} % {WORKFLOWS}")


def _tables(count: int, began: int, person: str) -> list[tuple[Any, int, dict[str, str]]]:
    """Return model, number of rows, and columns; a row's number is ``i``."""
    return [
        *_of_runs(count, began),
        *_of_requests(count // 4, began, person),
        *_of_people(count, began, person),
        *_of_programs(count // 5, began, person),
    ]


def _of_runs(count: int, began: int) -> list[tuple[Any, int, dict[str, str]]]:
    run, place = f"(i / {EVENTS})", f"(i % {EVENTS})"
    # Metrics are by the hour for three days, and by the day for 400.
    hour, kind = "(i % 472)", "(i / 472)"
    back = f"CASE WHEN {hour} < 72 THEN {hour} * {PER_DAY // 24} ELSE ({hour} - 68) * {PER_DAY} END"
    return [
        (
            Event,
            count * EVENTS,
            {
                "run_id": run_id(run),
                "seq": f"{place} + 1",
                "kind": _chosen(place, KINDS),
                "step": f"CASE WHEN {place} BETWEEN 2 AND 17 THEN {_chosen(f'({place} - 2) / 2', STEPS)} END",
                "data": _json('{"activation": "load:1", "ms": 12}'),
                "at": at(began, run),
            },
        ),
        (
            Checkpoint,
            count * 2,
            {
                "id": _id("c", "i"),
                "run_id": run_id("(i / 2)"),
                "n": "i % 2 + 1",
                "workflow": _workflow("(i / 2)"),
                "step": "'review'",
                "reason": "'step'",
                "created": at(began, "i / 2"),
                "format": "1",
                "size": "200",
                "seq": "10",
                "body": "'{}'",
            },
        ),
        (
            Effect,
            count,
            {
                "run_id": run_id("i"),
                "key": "'pay:1'",
                "step": "'pay'",
                "name": "'bank.transfer'",
                "state": "'done'",
                "n": "1",
                "at": at(began, "i"),
            },
        ),
        (Chunk, count, {"family": run_id("i"), "hash": "'h'"}),
        (
            Tally,
            count * 2,
            {
                "hour": at(began - began % 86_400, f"{count // PER_DAY * PER_DAY} - {back}"),
                "measure": _chosen(f"({kind} % 5)", ("started", "run", "step", "queue", "completed")),
                "workflow": padded("workflow_", f"({kind} / 5) % {WORKFLOWS}"),
                "step": f"CASE {kind} % 5 WHEN 2 THEN 'pay' ELSE '' END",
                "bucket": f"{kind} / {5 * WORKFLOWS}",
                "count": "3",
                "total": "12.5",
            },
        ),
    ]


def _of_requests(count: int, began: int, person: str) -> list[tuple[Any, int, dict[str, str]]]:
    request, moment = _id("r", "i"), at(began, "i * 4 + 10")
    return [
        (
            HumanRequest,
            count,
            {
                "id": request,
                "run_id": run_id("(i * 4)"),
                "key": "'review:1'",
                "workflow": _workflow("(i * 4)"),
                "step": "'review'",
                "kind": "'approval'",
                "card": _json('{"subject": "Refund order?", "actions": []}'),
                "created": at(began, "i * 4"),
                "answered": moment,
                "closed": moment,
                "closed_as": "'taken'",
                "told": moment,
            },
        ),
        (Answer, count, {"request_id": request, "verdict": "'approve'", "by_id": person, "at": moment}),
        (
            Reply,
            count,
            {
                "id": request,
                "request_id": request,
                "by_id": person,
                "via": "'page'",
                "verdict": "'approve'",
                "stands": "'approved'",
                "at": moment,
            },
        ),
        (Shown, count, {"id": f"{request} || ':card:x'", "request": request, "kind": "'card'", "at": moment}),
        (UsedLink, count // 5, {"nonce": _id("l", "i"), "request_id": request, "user_id": person, "at": moment}),
        (
            Comment,
            count // 5,
            {"id": _id("m", "i"), "request_id": request, "by_id": person, "text": "'Why?'", "at": moment},
        ),
        (
            Notice,
            count * 2,
            {
                "id": _id("n", "i"),
                "user_id": person,
                "kind": "'opened'",
                "channel": "CASE i % 2 WHEN 0 THEN 'browser' ELSE 'mail' END",
                "request_id": _id("r", "(i / 2)"),
                "created": at(began, "i * 2"),
                "due": at(began, "i * 2"),
                "sent": at(began, "i * 2"),
            },
        ),
    ]


def _of_people(count: int, began: int, person: str) -> list[tuple[Any, int, dict[str, str]]]:
    text = "::text" if connection.vendor == "postgresql" else ""
    return [
        (
            AuditEntry,
            count,
            {
                "n": "i + 1",
                "at": at(began, "i"),
                "actor": _chosen("(i % 5)", ("ana", "ben", "vera", "otto", "adam")),
                "verb": _chosen("(i % 4)", ("start", "answer", "cancel", "comment")),
                "workflow": _workflow("i"),
                "run": run_id("i"),
                "hash": f"i{text}",
            },
        ),
        (
            IdempotencyKey,
            count // 5,
            {"person": "'otto'", "key": f"i{text}", "verb": "'start'", "at": at(began, "i * 5")},
        ),
        (Signal, count // 5, {"id": _id("s", "i"), "run_id": run_id("(i * 5)"), "at": at(began, "i * 5")}),
        (
            SignInLink,
            count // 10,
            {"secret_hash": f"i{text}", "user_id": person, "created": at(began, "i"), "expires": at(began, "i + 20")},
        ),
    ]


def _of_programs(count: int, began: int, person: str) -> list[tuple[Any, int, dict[str, str]]]:
    hook = padded("hook-", "i % 20")
    return [
        (
            Schedule,
            500,
            {
                "id": _id("p", "i"),
                "workflow": padded("workflow_", f"i % {WORKFLOWS}"),
                "name": padded("Nightly ", "i % 1000"),
                "cron": "'@daily'",
                "zone": "'UTC'",
                "owner_id": person,
                "next_at": at(began, "i + 10000000"),
                "created": at(began, "i"),
                "updated": at(began, "i"),
            },
        ),
        (
            Webhook,
            20,
            {
                "id": padded("hook-", "i"),
                "name": "'Ledger'",
                "url": "'https://ledger.example'",
                "created": at(began, "i"),
            },
        ),
        (
            IncomingHook,
            20,
            {
                "id": padded("hook-", "i"),
                "name": "'Shop'",
                "scheme": "'standard'",
                "owner_id": person,
                "created": at(began, "i"),
            },
        ),
        (
            IncomingDelivery,
            count,
            {"id": _id("d", "i"), "hook_id": hook, "at": at(began, "i * 5"), "status": "202", "outcome": "'started'"},
        ),
        (DeliveryAttempt, count, {"notice_id": _id("n", "i"), "at": at(began, "i * 5"), "status": "200"}),
        (SecondLook, count // 20, {"request_id": _id("r", "i"), "asked": at(began, "i * 80")}),
        (Rule, 500, {"id": "10000 + i", "owner_id": person} | dict.fromkeys(RULE_TIMES, at(began, "i"))),
        (
            RuleUse,
            count,
            {
                "rule_id": "10000 + i % 500",
                "request_id": _id("r", "i"),
                "kind": "CASE i % 9 WHEN 0 THEN 'sample' ELSE 'answer' END",
                "at": at(began, "i * 4"),
                "agrees": "CASE i % 9 WHEN 0 THEN 1 = 1 ELSE NULL END",
            },
        ),
        (
            ChatMessage,
            count,
            {
                "notice_id": _id("n", "i"),
                "place": "'D1 1.2'",
                "shown": "'x'",
                "done": f"CASE i % 99 WHEN 0 THEN NULL ELSE {at(began, 'i')} END",
            },
        ),
    ]
