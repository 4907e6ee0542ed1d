"""Tokens of programs: make, revoke. The text of a token is returned once and stored nowhere."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from django.db import IntegrityError
from django.db.models import Q
from django.utils import timezone

from checkpoints.database.alias import atomic, on_commit
from checkpoints.database.storage import write
from checkpoints.limits import NAME, cleaned, is_storable
from checkpoints.models import Token
from checkpoints.models.user_model import User
from checkpoints.records import Json
from wfdash import pubsub
from wfdash.access.administration import obstacle, refuse_token, service_account
from wfdash.access.directory import find_person
from wfdash.access.signin.tokens import new_secret
from wfdash.access.viewer import EVERY, RIGHTS, Viewer
from wfdash.actions import audit, pacing
from wfdash.actions.pacing import idempotent, made_before
from wfdash.domain.errors import Invalid, NotAllowed, NotFound
from wfdash.values.schemas.validate import Problem

MAX_USABLE_TOKENS = 100
"""Usable tokens one account may have."""
MOST_WORKFLOWS = 100
LONGEST_NAME = 80
LONGEST_DAYS = 3650
DEFAULT_DAYS = 90
"""How long a token works where nothing else is said."""
SCOPES = RIGHTS["admin"]
"""The rights that a token may be given."""


@dataclass(frozen=True, kw_only=True)
class NewToken:
    """A token with its text, which no one sees again."""

    token: Token
    text: str


def create_token(
    viewer: Viewer,
    name: str,
    *,
    rights: Collection[str],
    workflows: Collection[str] = (EVERY,),
    days: int | None = DEFAULT_DAYS,
    owner: str = "",
    key: str | None = None,
) -> NewToken:
    """Make a token with which programs act as its owner, as far as these rights and workflows go.

    It gives no right that its owner does not have at the time of use. ``days``: how long it works; None: until it is
    revoked. ``owner``: a service account (for admins of every workflow); one's own account without. The same ``key``
    makes one token, and returns its text each time. ``Invalid`` with errors per field, ``NotAllowed``, ``NotFound``.
    """
    name = " ".join(cleaned(name).split())
    if problems := [*_no_name(name), *_no_rights(rights), *_no_workflows(workflows), *_no_days(days)]:
        raise Invalid(problems)
    secret = new_secret(f"{viewer.user.pk} {key}" if key else "")
    command: list[Json] = [name, sorted(rights), sorted(workflows), days, owner]
    with write(), idempotent(viewer, key, "create token", command) as call:
        user, now = _owner(viewer, owner), timezone.now()
        if call.previous_result is not None:
            return NewToken(token=made_before(Token, secret.id), text=secret.text)
        pacing.charge(viewer, "token")
        _refuse_too_many(user)
        token = _insert(
            Token(
                id=secret.id,
                secret_hash=secret.secret_hash,
                name=name,
                owner=user,
                rights=sorted({"see", *rights}),
                workflows=sorted({*workflows}),
                created=now,
                created_by=viewer.user if viewer.user.pk else None,
                expires=now + timedelta(days=days) if days is not None else None,
            )
        )
        audit.record(viewer, "create token", right=_right(viewer, user), facts=facts_of(token))
    return NewToken(token=token, text=secret.text)


def revoke_token(viewer: Viewer, token_id: str) -> Token:
    """Make a token useless at once: one's own, or for admins of every workflow anyone's. ``NotFound``."""
    with write():
        pacing.charge(viewer, "token")
        token = Token.objects.select_related("owner").filter(usable(), pk=token_id).first()
        if token is None or not (token.owner_id == viewer.user.pk or viewer.may("admin", EVERY)):
            raise NotFound("Token not found, or already revoked")
        refuse_token(viewer)
        own = token.owner_id == viewer.user.pk
        if not own and (problem := obstacle(viewer, token.owner)):
            raise NotAllowed(problem)
        end_tokens(token.owner, only=token.pk)
        audit.record(viewer, "revoke token", right=_right(viewer, token.owner), facts=facts_of(token))
    return token


def end_tokens(user: User, *, only: str = "") -> int:
    """Revoke an account's tokens in the caller's transaction; return how many there were. Their sockets close."""
    rows = Token.objects.filter(owner=user, revoked__isnull=True)
    count = (rows.filter(pk=only) if only else rows).update(revoked=timezone.now())
    owner = user.pk
    on_commit(lambda: pubsub.rights_changed.publish(owner))
    return count


def usable() -> Q:
    """Return the filter of tokens that are neither revoked nor expired."""
    return Q(revoked__isnull=True) & (Q(expires__isnull=True) | Q(expires__gt=timezone.now()))


def facts_of(token: Token) -> dict[str, object]:
    """Return what the audit records of a token."""
    expires = token.expires.isoformat(timespec="seconds") if token.expires else None
    scopes = {"rights": token.rights, "workflows": token.workflows}
    return {"user": token.owner.get_username(), "name": token.name, "id": token.pk, **scopes, "expires": expires}


def _owner(viewer: Viewer, name: str) -> User:
    """Return whose token it becomes: no one makes a token that acts as another person."""
    refuse_token(viewer)
    if not name or name == viewer.name:
        owner: User = viewer.user
        if owner.pk is None:
            raise Invalid([{"loc": ["owner"], "msg": "Say whose token it is"}])
        return owner
    if viewer.user.pk is not None:
        return service_account(viewer, name)
    user = find_person(name)
    if user is None or not user.is_active:
        raise Invalid([{"loc": ["owner"], "msg": f"No active account named {name[:80]}"}])
    return user


def _insert(token: Token) -> Token:
    expired = Token.objects.filter(owner=token.owner, name=token.name, expires__lte=token.created)
    expired.filter(revoked__isnull=True).update(revoked=token.created)
    try:
        with atomic():
            token.save(force_insert=True)
    except IntegrityError:
        words = f"There is a token named {token.name}. Revoke it first, or choose another name"
        raise Invalid([{"loc": ["name"], "msg": words}]) from None
    return token


def _right(viewer: Viewer, owner: User) -> str:
    return "" if owner.pk == viewer.user.pk else "admin"


def _refuse_too_many(user: User) -> None:
    if Token.objects.filter(usable(), owner=user).count() >= MAX_USABLE_TOKENS:
        raise Invalid([{"loc": ["name"], "msg": f"At most {MAX_USABLE_TOKENS} tokens. Revoke one first"}])


def _no_name(name: str) -> list[Problem]:
    if not name or not is_storable(name):
        return [{"loc": ["name"], "msg": "Enter a name, such as what will use it"}]
    return [{"loc": ["name"], "msg": f"At most {LONGEST_NAME} characters"}] if len(name) > LONGEST_NAME else []


def _no_rights(rights: Collection[str]) -> list[Problem]:
    unknown = sorted({*rights} - SCOPES)
    words = f"Choose among {', '.join(sorted(SCOPES))}"
    return [{"loc": ["rights"], "msg": words}] if unknown or not rights else []


def _no_workflows(workflows: Collection[str]) -> list[Problem]:
    fits = all(one and len(one) <= NAME and is_storable(one) for one in workflows)
    if not workflows or not fits or len(workflows) > MOST_WORKFLOWS:
        words = f"Enter names of workflows, at most {MOST_WORKFLOWS}, or * for every one"
        return [{"loc": ["workflows"], "msg": words}]
    return []


def _no_days(days: int | None) -> list[Problem]:
    if days is None or 0 < days <= LONGEST_DAYS:
        return []
    return [{"loc": ["days"], "msg": f"Enter a number of days from 1 to {LONGEST_DAYS}"}]
