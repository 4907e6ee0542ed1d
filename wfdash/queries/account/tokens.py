"""Tokens, without their secrets: one's own, and for admins of every workflow those of others."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet
from django.utils import timezone

from checkpoints.models import ServiceAccount, Token
from checkpoints.models.user_model import USERNAME, User, has_name
from wfdash.access.viewer import EVERY, Viewer
from wfdash.errors import NotAllowed

SHOWN = 300


@dataclass(frozen=True, kw_only=True)
class TokenRow:
    """A token as lists show it."""

    id: str
    name: str
    owner: str
    rights: tuple[str, ...]
    workflows: tuple[str, ...]
    created: datetime
    by: str
    """Who made it; empty for the command line."""
    expires: datetime | None
    used: datetime | None
    revoked: datetime | None

    @property
    def state(self) -> str:
        """Return usable, expired or revoked."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= timezone.now() else "usable"

    @property
    def everywhere(self) -> bool:
        """Return whether it may be used for every workflow."""
        return EVERY in self.workflows


def own_tokens(viewer: Viewer) -> tuple[TokenRow, ...]:
    """Return one's own tokens that are not revoked, the newest first (one query)."""
    return _rows(Token.objects.filter(owner_id=viewer.user.pk, revoked__isnull=True))


def tokens_of(user: User) -> tuple[TokenRow, ...]:
    """Return an account's tokens that are not revoked, the newest first (one query). The caller checks the right."""
    return _rows(Token.objects.filter(owner=user, revoked__isnull=True))


def service_names() -> frozenset[str]:
    """Return the names of all service accounts (one query)."""
    return frozenset(ServiceAccount.objects.values_list(f"user__{USERNAME}", flat=True))


def service_accounts(viewer: Viewer) -> tuple[str, ...]:
    """Return the names of active service accounts to which this person may give a token or a webhook (one query);
    none for people who are not admins of every workflow.
    """
    if not viewer.may("admin", EVERY):
        return ()
    users = User.objects.filter(service_account__isnull=False, is_active=True).exclude(pk=viewer.user.pk)
    return tuple(users.order_by(USERNAME).values_list(USERNAME, flat=True)[:SHOWN])


def all_tokens(viewer: Viewer, *, owner: str = "", ended: bool = False) -> tuple[TokenRow, ...]:
    """Return everyone's tokens, or those of one account, the newest first. ``ended``: revoked and expired ones, too.
    ``NotAllowed`` for everyone but admins of every workflow.
    """
    if not viewer.may("admin", EVERY):
        raise NotAllowed("Only admins of every workflow can list the tokens of others")
    rows = Token.objects.filter(has_name(owner, through="owner")) if owner else Token.objects.all()
    found = _rows(rows if ended else rows.filter(revoked__isnull=True))
    return found if ended else tuple(row for row in found if row.state == "usable")


def _rows(tokens: QuerySet[Token]) -> tuple[TokenRow, ...]:
    found = tokens.select_related("owner", "created_by").order_by("-created", "pk")[:SHOWN]
    return tuple(
        TokenRow(
            id=token.pk,
            name=token.name,
            owner=token.owner.get_username(),
            rights=tuple(token.rights),
            workflows=tuple(token.workflows),
            created=token.created,
            by=token.created_by.get_username() if token.created_by else "",
            expires=token.expires,
            used=token.used,
            revoked=token.revoked,
        )
        for token in found
    )
