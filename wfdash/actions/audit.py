"""The audit's entries, written in the transaction of the action they record."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, replace
from datetime import date
from itertools import islice
from typing import Any

from django.contrib.auth.models import Group, Permission
from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.db.models import Model, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce
from django.db.models.signals import m2m_changed, post_save, pre_delete, pre_save
from django.http import HttpRequest
from django.utils import timezone

from checkpoints.content.encryption import Locked, NotEncrypted
from checkpoints.content.pickles import Keyring
from checkpoints.database.alias import alias, connection
from checkpoints.database.compiled import Placeholder, Update, compiled_rows, compiled_update, insert
from checkpoints.database.storage import refuse_missing_keys, update_last, write, write_last
from checkpoints.errors import Damaged
from checkpoints.models import AuditEntry, AuditHead, Grant, HumanRequest, Run, SecondFactor, Shown, SignInLink
from checkpoints.models.fields import current_encryptor, current_keyring
from checkpoints.models.operations import Installation
from checkpoints.models.user_model import EMAIL, USERNAME, User, fields_of
from checkpoints.records import frozen
from checkpoints.rules import DEADLINE
from wfdash.access.signin import second_factor
from wfdash.access.signin.attempt_limits import address_of
from wfdash.access.viewer import Viewer
from wfdash.domain.hash_chain import (
    BROKEN,
    Break,
    breaks,
    hash_of,
    masked_facts,
    shown_breaks,
    shown_flaw,
    shown_keys,
)
from wfdash.domain.receipts import ReceiptCheck
from wfdash.queries.audit import exported_form
from wfdash.queries.timemachine import secrets_in

# Audit entries for changes of accounts and rights, sign-ins and sign-outs, wherever they are made.

COMMAND_LINE = "command line"
STRANGER = "not signed in"
AUDITED_FIELDS = fields_of(USERNAME, EMAIL, "first_name", "last_name", "is_active", "is_staff", "is_superuser")
"""The fields of a user that an entry contains."""
BEFORE = "_before_this_save"
_asked_by: ContextVar[HttpRequest | None] = ContextVar("asked_by", default=None)
_acting: ContextVar[tuple[str, str, str] | None] = ContextVar("acting", default=None)


@contextmanager
def asked_by(request: HttpRequest) -> Iterator[None]:
    """Attribute the changes made in this block to the user of this request."""
    token = _asked_by.set(request)
    try:
        yield
    finally:
        _asked_by.reset(token)


@contextmanager
def acting(viewer: Viewer, right: str) -> Iterator[None]:
    """Attribute the changes made in this block to a person who uses this right, whichever door they come through."""
    token = _acting.set((viewer.name, right, viewer.token))
    try:
        yield
    finally:
        _acting.reset(token)


def connect() -> None:
    """Connect the signal handlers, once."""
    wiring: list[tuple[Any, Callable[..., None], Any]] = [
        (user_logged_in, _signed_in, None),
        (user_logged_out, _signed_out, None),
        (second_factor.changed, _factor_changed, None),
        (pre_delete, _factor_removed, SecondFactor),
        (post_save, _link_made, SignInLink),
    ]
    for model, saved in ((User, _user_saved), (Group, _group_saved), (Grant, _grant_saved)):
        wiring += [(pre_save, _before_save, model), (post_save, saved, model), (pre_delete, _deleted, model)]
    for relation in (User.groups, User.user_permissions, Group.permissions):
        wiring.append((m2m_changed, _relation_changed, relation.through))
    for signal, handler, sender in wiring:
        signal.connect(handler, sender=sender, dispatch_uid=f"wfdash {handler.__name__} {sender and sender.__name__}")


def _actor() -> str:
    if by := _acting.get():
        return by[0]
    request = _asked_by.get()
    if request is None:
        return COMMAND_LINE
    user = getattr(request, "user", None)
    return user.get_username() if user is not None and user.is_authenticated else STRANGER


def _record(verb: str, facts: dict[str, Any], *, actor: str = "", workflow: str = "") -> None:
    _, right, token = _acting.get() or ("", "", "")
    facts = with_token(token, facts)
    with write():
        record(None, verb, actor=actor or _actor(), facts=facts, workflow=workflow, right=right)


def _signed_in(request: HttpRequest | None, user: User, **_: Any) -> None:
    how = getattr(request, "signed_in_by", "password")
    _record("sign in", {"how": how, "address": address_of(getattr(request, "META", {}))}, actor=user.get_username())


def _signed_out(request: HttpRequest | None, user: User | None, **_: Any) -> None:
    if user is not None:
        _record("sign out", {"address": address_of(getattr(request, "META", {}))}, actor=user.get_username())


def _factor_changed(user: User, act: str, passkey: str = "", key: str = "", **_: Any) -> None:
    about = {"user": user.get_username(), "passkey": passkey, "key": key}
    _record(f"second factor: {act}", {name: value for name, value in about.items() if value})


def _factor_removed(instance: SecondFactor, using: str, **_: Any) -> None:
    if instance.confirmed is not None and using == alias():
        _record("second factor: remove", {"user": instance.user.get_username()})


def _ignored(raw: bool, using: str) -> bool:
    """Return whether a save is not a person's: a fixture is loaded, or another database is written."""
    return raw or using != alias()


def _before_save(
    sender: type[Model], instance: Any, raw: bool, using: str, update_fields: Iterable[str] | None, **_: Any
) -> None:
    """Remember the stored values, to find out later what changed. ``InvalidConfig`` as ``_append_all``: a save outside
    of transactions would stay, although it could not be recorded.
    """
    refuse_missing_keys(connection(), current_encryptor())
    setattr(instance, BEFORE, None)
    unimportant = update_fields is not None and set(update_fields) <= {"last_login"}
    if not _ignored(raw, using) and instance.pk is not None and not unimportant:
        setattr(instance, BEFORE, sender._default_manager.filter(pk=instance.pk).first())


def _user_saved(instance: User, created: bool, raw: bool, using: str, update_fields: Any, **_: Any) -> None:
    before: User | None = getattr(instance, BEFORE, None)
    if _ignored(raw, using) or (before is None and not created):
        return
    if before is None:
        _record("create user", {"user": instance.get_username(), **_field_values(instance, AUDITED_FIELDS[1:])})
        return
    saved = AUDITED_FIELDS if update_fields is None else [name for name in AUDITED_FIELDS if name in update_fields]
    changed = [name for name in saved if getattr(before, name) != getattr(instance, name)]
    if changed:
        facts = {
            "user": before.get_username(),
            "before": _field_values(before, changed),
            "after": _field_values(instance, changed),
        }
        _record("change user", facts)
    if before.password != instance.password and (update_fields is None or "password" in update_fields):
        # Django stores a password again when its hash algorithm is out of date; that is not a new password.
        renewed = getattr(instance, "_password", None) is None and set(update_fields or ()) == {"password"}
        _record("renew password hash" if renewed else "change password", {"user": instance.get_username()})


def _group_saved(instance: Group, created: bool, raw: bool, using: str, **_: Any) -> None:
    before: Group | None = getattr(instance, BEFORE, None)
    if _ignored(raw, using):
        return
    if created:
        _record("create group", {"group": instance.name})
    elif before is not None and before.name != instance.name:
        _record("rename group", {"group": before.name, "to": instance.name})


def _grant_saved(instance: Grant, created: bool, raw: bool, using: str, **_: Any) -> None:
    before: Grant | None = getattr(instance, BEFORE, None)
    if _ignored(raw, using):
        return
    now = _granted(instance)
    if created:
        _record("grant", now, workflow=instance.workflow)
    elif before is not None and _granted(before) != now:
        _record("change grant", {"before": _granted(before), "after": now}, workflow=instance.workflow)


def _deleted(sender: type[Model], instance: Any, using: str, **_: Any) -> None:
    if using != alias():
        return
    if isinstance(instance, Grant):
        _record("revoke", _granted(instance), workflow=instance.workflow)
    else:
        kind = sender._meta.model_name or ""
        _record(f"delete {kind}", {kind: str(instance)})


def _link_made(instance: SignInLink, created: bool, raw: bool, using: str, **_: Any) -> None:
    if created and not _ignored(raw, using):
        _record("make sign-in link", {"user": instance.user.get_username(), "expires": instance.expires.isoformat()})


VERBS = {"post_add": "add to", "post_remove": "remove from", "pre_clear": "remove from"}


def _relation_changed(
    sender: Any, instance: Any, action: str, reverse: bool, model: Any, pk_set: set[Any] | None, using: str, **_: Any
) -> None:
    """Record who joined or left a group, and which of Django's permissions were granted or revoked."""
    if action not in VERBS or using != alias():
        return
    field = next(f for owner in (User, Group) for f in owner._meta.many_to_many if f.remote_field.through is sender)
    name: Any = field.remote_field.get_accessor_name() if reverse else field.name
    found = getattr(instance, name).all() if pk_set is None else model._default_manager.filter(pk__in=pk_set)
    others = sorted(_display_name(one) for one in found)
    if not others:
        return
    given, taker = (others, [_display_name(instance)]) if not reverse else ([_display_name(instance)], others)
    if field.related_model is Permission:
        verb = "add permission" if action == "post_add" else "remove permission"
        _record(verb, {field.model._meta.model_name or "": taker, "permissions": given})
    else:
        _record(f"{VERBS[action]} group", {"users": taker, "groups": given})


def _display_name(thing: Any) -> str:
    return ".".join(thing.natural_key()[:2][::-1]) if isinstance(thing, Permission) else str(thing)


def _field_values(user: User, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(user, name) for name in names}


def _granted(grant: Grant) -> dict[str, Any]:
    who = {"user": grant.user.get_username()} if grant.user else {"group": grant.group.name if grant.group else ""}
    return {**who, "workflow": grant.workflow, "role": grant.role}


# The audit: what people did, appended in the transaction of the action, each entry chained to the previous by its

SCHEDULE = "a schedule"
MACHINE = "wfdash"
_logged_on: date | None = None

log = logging.getLogger(__name__)


def record(
    viewer: Viewer | None,
    verb: str,
    *,
    workflow: str = "",
    run: str = "",
    request: str = "",
    right: str = "",
    facts: Mapping[str, Any] | None = None,
    actor: str = DEADLINE,
) -> None:
    """Append an entry to the chain as the last thing that the caller's transaction does. ``viewer`` None: ``actor``
    did it.

    The end of the chain is one row: from its lock to the commit all other actions wait.
    """
    who, facts = (viewer.name, with_token(viewer.token, facts or {})) if viewer else (actor, dict(facts or {}))
    about = {"workflow": workflow, "run": run, "request": request, "right": right[:300]}
    write_last(connection(), _append_all, {"actor": who, "verb": verb, "facts": facts, **about})


def with_token(token: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry's facts with the name of the token that a program acted with; empty: a person did."""
    return {**facts, "token": token} if token else dict(facts)


def _append_all(wanted: Sequence[Mapping[str, Any]]) -> None:
    """Append the entries of one transaction. ``InvalidConfig`` if this process lacks a key of the content: nothing that
    is recorded may be written by a process whose content the others cannot read.
    """
    refuse_missing_keys(connection(), current_encryptor())
    keys = current_keyring()
    known = known_end(keys)
    if known is not None and _append(wanted, known, known.n, known.hash, keys):
        return
    end = locked_end()
    if flaw := end.flaw(keys):
        # A flaw at the end stays in the chain: appending to it silently would cover it up.
        n, digest, broken = _broken(end, flaw)
        _append([broken, *wanted], end, n, digest, keys)
    else:
        _append(wanted, end, end.n, end.hash, keys)


def _append(wanted: Sequence[Mapping[str, Any]], end: ChainEnd, n: int, digest: str, keys: Keyring) -> bool:
    """Append entries after the one with that number and hash. False, and nothing changed, if this is not the end as
    stored.
    """
    rows, now = list[AuditEntry](), timezone.now()
    for fields in wanted:
        entry = AuditEntry(n=n + 1, at=now, prev=digest, **fields)
        entry.hash = hash_of(exported_form(entry))
        entry.signature = keys.sign("entry", str(entry.n), entry.hash)
        n, digest = entry.n, entry.hash
        rows.append(entry)
    if not move_end(end, n, digest, keys):
        return False
    insert(*rows)
    return True


def _broken(end: ChainEnd, flaw: str) -> tuple[int, str, dict[str, Any]]:
    """Return number and hash of the last entry, and the entry to come after it: it says what was found."""
    last = AuditEntry.objects.order_by("-n").only("n", "hash").first()
    facts = {"words": f"The end of the chain {flaw}", "head": {"n": end.n, "hash": end.hash}}
    log.error("The audit's end %s: see docs/audit.md", flaw)
    n, digest = (last.n, last.hash) if last else (0, "")
    return n, digest, {"actor": MACHINE, "verb": BROKEN, "facts": facts}


def record_run(viewer: Viewer, verb: str, run: Run, right: str = "operate", **facts: Any) -> None:
    """Append a person's action on a run. ``right``: the one they used."""
    record(viewer, verb, workflow=run.workflow, run=run.pk, right=right, facts=facts)


def record_request(
    viewer: Viewer | None,
    verb: str,
    request: HumanRequest,
    facts: Mapping[str, Any],
    *,
    right: str = "",
    actor: str = DEADLINE,
) -> None:
    """Append an action on a request, of a person, of a deadline or of a rule (``actor``). ``facts`` may contain a
    subject of their own.

    Secrets in them are hidden, because what is in the chain cannot be removed.
    """
    record(
        viewer,
        verb,
        workflow=request.workflow,
        run=request.run_id,
        request=request.pk,
        right=right,
        actor=actor,
        facts={"subject": str(request.card.get("subject") or ""), **masked_facts(facts, secrets_in(request))},
    )


def name_of(person: User | None) -> str:
    """Return who did something; None is a deadline."""
    return person.get_username() if person else DEADLINE


def keep_shown(request: str, *shown: tuple[str, str, str]) -> None:
    """Store what a person was shown, once per content: its kind (card, JSON, or page, HTML), fingerprint and text."""
    now = timezone.now()
    rows = [
        Shown(id=f"{request}:{kind}:{seen[:64]}", request=request, kind=kind, body=body, at=now)
        for kind, seen, body in shown
    ]
    insert(*rows, ignore_conflicts=True)


def log_head(limit: int = 1) -> int:
    """Log the end of the chain, once per day and process, so that anyone who keeps the log can prove what it was.

    Returns how many lines were written.
    """
    global _logged_on
    today = timezone.now().date()
    if _logged_on != today and (head := AuditHead.objects.filter(pk=1).first()):
        count = f"{head.n} entr{'y' if head.n == 1 else 'ies'}"
        log.info("The audit has %s and ends with %s", count, head.hash or "nothing")
        _logged_on = today
        return 1
    return 0


def check_chain(receipts: ReceiptCheck | None = None) -> tuple[int, list[Break]]:
    """Verify the chain in the database and the stored content. Returns how many entries there are, and all breaks.

    ``receipts``: what counts those that hold.
    """
    count, found = 0, list[Break]()
    needed = Installation.objects.filter(pk=1).values_list("content_keys", flat=True).first()

    def exported() -> Iterator[dict[str, Any]]:
        nonlocal count
        for entry in AuditEntry.objects.order_by("n").iterator(500):
            count += 1
            entry.facts = _opened(entry, "facts", entry.n, needed, found)
            fields = exported_form(entry)
            if entry.facts is None:
                del fields["facts"]
            yield fields

    def looked_at(entries: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        while some := list(islice(entries, 500)):
            yield from some
            readable = [entry for entry in some if "facts" in entry]
            found.extend(shown_breaks(readable, _kept(readable, needed, found)))

    found += breaks(looked_at(exported()), receipts or ReceiptCheck(), keys=current_keyring())
    return count, sorted([*found, *_head_breaks()], key=lambda broken: broken.n)


def check_head(n: int, digest: str) -> list[Break]:
    """Return the breaks found at one entry: whether the chain still has it as a log or an evidence pack recorded it."""
    lost = n and not AuditEntry.objects.filter(pk=n, hash=digest).exists()
    return [Break(n, "missing, or not the entry recorded elsewhere")] if lost else []


def _head_breaks() -> Iterator[Break]:
    """Yield what is wrong with the end of the chain. One statement reads it: others act in the meantime."""
    last = AuditEntry.objects.order_by("-n")[:1]
    ends = {
        "last_n": Coalesce(Subquery(last.values("n")), 0),
        "last_hash": Coalesce(Subquery(last.values("hash")), Value("")),
    }
    head: Any = AuditHead.objects.filter(pk=1).annotate(**ends).first()
    if head is None:
        entry = last.first()
        yield Break(entry.n if entry else 0, "the chain head was removed")
    elif (head.n, head.hash) != (head.last_n, head.last_hash):
        yield Break(head.n, "the end of the chain is missing")
    elif flaw := current_keyring().flaw(head.signature, "head", str(head.n), head.hash):
        yield Break(head.n, f"the end of the chain {flaw}", locked=current_keyring().lacks(head.signature))


def _kept(entries: list[dict[str, Any]], needed: list[str] | None, found: list[Break]) -> dict[str, str]:
    """Return, by hash, what is wrong with the stored content these entries refer to."""
    of = {name: entry["n"] for entry in entries for name in shown_keys(entry)}
    kept = {}
    for row in Shown.objects.filter(pk__in=of).iterator(10):
        body = _opened(row, "body", of[row.pk], needed, found)
        kept[row.pk] = "" if body is None else shown_flaw(row.pk, body)
    return kept


def _opened(row: Model, column: str, n: int, needed: list[str] | None, found: list[Break]) -> Any:
    """Return content of that entry, also if it should be encrypted and is not; None where it does not open.

    The flaw is added to ``found``. A key is missing only if it is among those that the installation has ``needed``
    (None: they were not noted): with any other name content was put there by someone else.
    """
    try:
        return getattr(row, column)
    except Locked as error:
        plain = isinstance(error, NotEncrypted)
        found.append(Break(n, str(error), locked=plain or needed is None or error.facts["key"] in needed))
        return vars(row)[column].document if plain else None
    except Damaged as error:
        found.append(Break(n, str(error)))
        return None


# The end of the audit's chain: one row, which everyone who appends moves on.


@frozen
class ChainEnd:
    """Number and hash of the last entry, and the signature over both, as they are stored."""

    n: int
    hash: str
    signature: str

    def flaw(self, keys: Keyring) -> str:
        """Return why it cannot be verified, empty if it can."""
        return keys.flaw(self.signature, "head", str(self.n), self.hash)


@frozen
class KnownEnd:
    """What this process made the end last, with the keys that signed it.

    A hint: the row is compared with it. ``alone``: whether no one else had moved the end when it was last looked at.
    """

    end: ChainEnd
    keys: Keyring
    alone: bool


_known: dict[str, KnownEnd] = {}
"""By database. Of a transaction that was rolled back, too: the comparison fails then."""


def known_end(keys: Keyring) -> ChainEnd | None:
    """Return what the end probably still is, without a query: this process signed it. None where others append, too."""
    known = _known.get(alias())
    return known.end if known is not None and known.alone and known.keys is keys else None


def locked_end() -> ChainEnd:
    """Return the end as stored now, its row locked until the transaction ends."""
    head = _head().first() or AuditHead.objects.select_for_update().get_or_create(pk=1)[0]
    end = ChainEnd(n=head.n, hash=head.hash, signature=head.signature)
    known = _known.get(alias())
    if known is not None:
        _known[alias()] = replace(known, alone=known.end == end)
    return end


def move_end(before: ChainEnd, n: int, digest: str, keys: Keyring) -> bool:
    """Make this entry the end, as one of the last writes of the transaction. False, and nothing changed, if the stored
    end is not the one before.
    """
    after = ChainEnd(n=n, hash=digest, signature=keys.sign("head", str(n), digest))
    known = _known.get(alias())
    expected = {f"last_{name}": value for name, value in asdict(before).items()}
    moved = update_last(connection(), _moved(), **asdict(after), **expected)
    if moved != 1:
        if known is not None:
            _known[alias()] = replace(known, alone=False)
        return False
    _known[alias()] = KnownEnd(end=after, keys=keys, alone=known is None or known.alone)
    return True


@compiled_rows
def _head() -> QuerySet[AuditHead]:
    return AuditHead.objects.select_for_update().filter(pk=1).order_by()


@compiled_update
def _moved() -> Update:
    columns = ("n", "hash", "signature")
    before = {name: Placeholder(f"last_{name}") for name in columns}
    return AuditHead.objects.filter(pk=1, **before), {name: Placeholder(name) for name in columns}
