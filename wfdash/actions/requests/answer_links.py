"""Answer links: one person can answer one request once, as it was when the link was created, without signing in.

A link is a bearer token: it is short-lived, its rights are checked at each use, it is used up in the transaction in
which it decides, and high-risk requests require a sign-in too. Viewing it changes nothing.
"""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core import signing
from django.db import IntegrityError
from django.urls import reverse
from django.utils import timezone

from checkpoints.database.alias import atomic
from checkpoints.database.storage import write
from checkpoints.models import AuditEntry, HumanRequest, Reply, Run, UsedLink
from checkpoints.models.user_model import User
from checkpoints.records import Json, frozen
from checkpoints.rules import RISKS
from wfdash.access.viewer import Viewer, viewer_for
from wfdash.actions import audit
from wfdash.actions.common import lock_rows
from wfdash.actions.pacing import idempotent
from wfdash.actions.requests.answer import answer_request, undo_answer
from wfdash.actions.requests.receipts import ELSEWHERE
from wfdash.domain.errors import LinkUsed, NotAllowed, NotFound, WrongState
from wfdash.domain.hash_chain import fingerprint
from wfdash.notifications.rendering import absolute

SALT = "wfdash.desk.links.answer"


@frozen
class AnswerLink:
    """An answer link's content, and who may use it now. ``seen``: the request's fingerprint when it was created."""

    request: str
    nonce: str
    seen: str
    viewer: Viewer
    high_risk: bool
    signed: bool
    """Whether an answer is signed with a passkey, which no link can."""
    used: bool
    changed: bool
    """Whether the request has changed since the link was created."""


def answer_link(request: HumanRequest, user: User) -> str:
    """Return the address under which this person can answer this request, as it is now, without signing in."""
    payload = {
        "r": request.pk,
        "u": user.pk,
        "n": secrets.token_urlsafe(16),
        "f": fingerprint(request.card, request.answer_schema),
    }
    token = _signer().sign_object(payload, compress=True)
    return absolute(reverse("wfdash:answer-link", args=[token]))


def read_link(token: str) -> AnswerLink:
    """Return a link's content. Changes nothing.

    ``NotFound`` if it is not one of this installation, ``WrongState`` if it has expired, ``NotAllowed`` if the person
    may no longer sign in.
    """
    payload = _opened(token)
    user = User.objects.filter(pk=payload["u"]).first()
    request = HumanRequest.objects.filter(pk=payload["r"]).first()
    if user is None or request is None:
        raise NotFound("The request of this link no longer exists")
    if not user.is_active:
        raise NotAllowed("The account this link belongs to no longer exists")
    return AnswerLink(
        request=request.pk,
        nonce=payload["n"],
        seen=payload["f"],
        viewer=viewer_for(user),
        high_risk=request.risk >= RISKS["high"],
        signed=bool(request.policy.get("sign")),
        used=UsedLink.objects.filter(nonce=payload["n"]).exists(),
        changed=fingerprint(request.card, request.answer_schema) != payload["f"],
    )


def answer_by_link(
    token: str,
    value: Json,
    *,
    verdict: str = "",
    as_text: bool = False,
    page: str = "",
    signed_in: User | None = None,
    key: str | None = None,
) -> Reply:
    """Answer through a link, use it up in the same transaction, and return the reply. ``signed_in``: the session's
    user. ``as_text``: see ``answer_request``. ``key``: sent twice, the answer counts once and is returned again.

    ``LinkUsed``, ``Changed``, ``NotAllowed`` (a sign-in is needed, or another user is signed in), and what
    ``answer_request`` raises; after any of them the link can still be used.
    """
    link = read_link(token)
    _refuse_stranger(link, signed_in, "answer")
    with (
        write(),
        idempotent(link.viewer, key, "answer by link", [link.nonce, value, verdict, *(["as text"] * as_text)]) as call,
    ):
        if call.previous_result is not None:
            return Reply.objects.select_related("by").get(pk=call.previous_result["reply"])
        _lock(link)
        _use(link)
        reply = answer_request(
            *(link.viewer, link.request, value),
            verdict=verdict,
            seen=link.seen,
            undo=True,
            via="link",
            page=page,
            as_text=as_text,
        )
        call.record(reply=reply.id)
        return reply


def undo_by_link(token: str, *, signed_in: User | None = None) -> None:
    """Undo the answer given through this link; it can be used again. ``WrongState`` when it is too late."""
    link = read_link(token)
    _refuse_stranger(link, signed_in, "undo")
    with write():
        _lock(link)
        if UsedLink.objects.filter(nonce=link.nonce, user_id=link.viewer.user.pk).delete()[0] != 1:
            raise WrongState("Nothing was submitted through this link")
        if not Reply.objects.filter(
            request_id=link.request, by=link.viewer.user, via="link", undone__isnull=True
        ).exists():
            raise WrongState("Nothing to undo")
        undo_answer(link.viewer, link.request)


def forget_used_links(limit: int) -> int:
    """Remove what says that a link was used, once its signature has expired. Returns how many."""
    over = timezone.now() - timedelta(days=settings.WFDASH_LINK_DAYS + 1)
    with write():
        old = UsedLink.objects.filter(at__lt=over).order_by("at").values_list("pk", flat=True)
        return UsedLink.objects.filter(pk__in=list(old[:limit])).delete()[0]


def needs_sign_in(link: AnswerLink, signed_in: User | None) -> bool:
    """Return whether this person must sign in before they can answer: on the page of the request where it is signed."""
    return link.signed or (link.high_risk and (signed_in is None or signed_in.pk != link.viewer.user.pk))


def _refuse_stranger(link: AnswerLink, signed_in: User | None, wanted: str) -> None:
    if signed_in is not None and signed_in.pk != link.viewer.user.pk:
        # Record that someone tried another person's link: once per person and request, so that attempts do not flood
        # the audit.
        with write():
            known = AuditEntry.objects.filter(verb="refused", request=link.request, actor=signed_in.get_username())
            if not known.exists():
                request = HumanRequest.objects.get(pk=link.request)
                facts = {"link_of": link.viewer.name, "wanted": wanted}
                audit.record_request(viewer_for(signed_in), "refused", request, facts, right="none")
        raise NotAllowed(f"This link is for {link.viewer.name}, and you are signed in as {signed_in.get_username()}")
    if needs_sign_in(link, signed_in):
        raise NotAllowed(ELSEWHERE if link.signed else "High-risk request: sign in to decide")


def _lock(link: AnswerLink) -> None:
    """Lock the run before that the link was used is written, which refers to its request."""
    lock_rows(Run.objects.filter(requests=link.request))


def _use(link: AnswerLink) -> None:
    try:
        with atomic():
            UsedLink.objects.create(nonce=link.nonce, request_id=link.request, user=link.viewer.user, at=timezone.now())
    except IntegrityError:
        raise LinkUsed() from None


def _signer() -> signing.TimestampSigner:
    return signing.TimestampSigner(salt=SALT)


def _opened(token: str) -> dict[str, Any]:
    try:
        payload = _signer().unsign_object(token, max_age=timedelta(days=settings.WFDASH_LINK_DAYS))
    except signing.SignatureExpired:
        raise WrongState("This link has expired. Sign in and open the request from your inbox") from None
    except Exception:
        # Without a reason: a forged token must get no hint.
        raise NotFound("The link is incomplete or was never created") from None
    if not isinstance(payload, dict) or payload.keys() != {"r", "u", "n", "f"}:
        raise NotFound("The link is incomplete or was never created")
    return payload
