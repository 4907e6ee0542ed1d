"""Adding description and evidence to an open request. The proposal itself never changes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from django.db.models import Sum
from django.db.models.functions import Length
from django.utils import timezone
from pydantic import TypeAdapter, ValidationError

from checkpoints.database.storage import write
from checkpoints.events import EventKind
from checkpoints.models import OPEN, HumanRequest, Reply, Shown
from checkpoints.models.user_model import User
from checkpoints.records import Json
from wfdash.access.viewer import Viewer
from wfdash.actions import rate_limit
from wfdash.actions.audit import entries
from wfdash.actions.common import find_request, lock_request
from wfdash.actions.idempotency import idempotent
from wfdash.actions.requests.collaboration import append_and_notify, refuse_unless_informed, refuse_unless_open
from wfdash.actions.requests.comments import end_ask
from wfdash.domain.fingerprint import fingerprint
from wfdash.errors import Invalid, NoLongerOpen
from wfdash.notifications.write import notify
from wfdash.questions.card import MAX_CARD, MOST_PIECES
from wfdash.questions.evidence import Evidence
from wfdash.schemas.validate import flaws_of
from wfdash.schemas.work import MOST_NODES, has_more_nodes

MOST_TEXT = 20_000
"""Characters that may be added to the description at once."""
MOST_ADDED = 20
"""Pieces of evidence that may be added at once."""
MOST_KEPT = 64_000_000
"""Characters of earlier versions of a request's card that are stored."""
PIECES: TypeAdapter[list[Evidence]] = TypeAdapter(list[Evidence])


def amend_request(
    viewer: Viewer,
    request_id: str,
    *,
    body: str = "",
    evidence: Iterable[Mapping[str, Json]] = (),
    key: str | None = None,
) -> HumanRequest:
    """Add to an open request's description (markdown) and evidence (``{kind, title, value}`` each), and return the
    request.

    The previous card is kept, so that people who have it open are shown the difference. Votes on the previous card no
    longer count; those voters are notified, and those who had asked for information. ``Invalid`` for evidence that a
    step could not show either, and where the card would grow beyond its limit.
    """
    body, given = body.strip(), [dict(part) for part in evidence]
    parts = _checked_evidence(body, given)
    with write(), idempotent(viewer, key, "amend", [request_id, body, given]) as call:
        request = lock_request(find_request(viewer, request_id))
        if call.previous_result is not None:
            return request
        refuse_unless_informed(viewer, request)
        refuse_unless_open(request)
        rate_limit.charge(viewer, "amend")
        before = fingerprint(request.card, request.answer_schema)
        card = _amended(request.card, viewer.name, body, parts)
        _refuse_too_large(request, card)
        _keep_card(request)
        _change_card(request, card)
        void = _void_votes(request)
        append_and_notify(viewer, request, EventKind.REQUEST_AMENDED, void=[user.get_username() for user in void])
        notify("opened", request, void, facts={"by": viewer.name, "text": "Changed after you decided."})
        if request.asked is not None:
            end_ask(viewer, request, body or ", ".join(str(part.get("title") or "") for part in parts), but=void)
        after = fingerprint(request.card, request.answer_schema)
        facts = {"body": body, "evidence": [_audited_piece(part) for part in parts], "before": before, "after": after}
        entries.record_request(viewer, "amend", request, facts)
    return request


def _checked_evidence(body: str, given: list[dict[str, Json]]) -> list[dict[str, Json]]:
    """Return the evidence in the form a card holds it. ``Invalid`` with what is wrong."""
    if not body and not given:
        raise Invalid([{"loc": ["body"], "msg": "Enter the information to add"}])
    if len(body) > MOST_TEXT:
        raise Invalid([{"loc": ["body"], "msg": f"Keep it below {MOST_TEXT:,} characters"}])
    if len(given) > MOST_ADDED:
        raise Invalid([{"loc": ["evidence"], "msg": f"Add at most {MOST_ADDED} items at once"}])
    if flaws := flaws_of({"body": body, "evidence": given}):
        raise Invalid(flaws)
    try:
        return [piece.shown() for piece in PIECES.validate_python(given)]
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        raise Invalid([{"loc": ["evidence", *one["loc"]], "msg": one["msg"]} for one in found]) from error


def _amended(card: dict[str, Any], by: str, body: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    changed = dict(card)
    if body:
        changed["body"] = f"{card.get('body') or ''}\n\n**Added by {by}:**\n\n{body}".strip()
    if parts:
        evidence = card.get("evidence")
        changed["evidence"] = [*(evidence if isinstance(evidence, list) else []), *parts]
    return changed


def _refuse_too_large(request: HumanRequest, card: dict[str, Any]) -> None:
    if len(card.get("evidence") or ()) > MOST_PIECES:
        words = f"The card would have more than {MOST_PIECES} items of evidence. Add the information as a comment"
        raise Invalid([{"loc": ["evidence"], "msg": words}])
    if has_more_nodes(card, MOST_NODES):
        words = f"The card would hold more than {MOST_NODES:,} values. Link to large content instead"
        raise Invalid([{"loc": ["evidence"], "msg": words}])
    size = len(json.dumps(card))
    if size > MAX_CARD:
        most = f"{MAX_CARD / 1e6:.0f} MB"
        words = f"The card would have {size / 1e6:.1f} MB, the limit is {most}. Link to large content instead"
        raise Invalid([{"loc": ["evidence"], "msg": words}])
    kept = Shown.objects.filter(request=request.pk).aggregate(all=Sum(Length("body")))["all"] or 0
    if kept + size > MOST_KEPT:
        words = "This request has reached its size limit. Add the information as a comment"
        raise Invalid([{"loc": ["body"], "msg": words}])


def _keep_card(request: HumanRequest) -> None:
    """Store the current card, to show later what changed."""
    shown = {"card": request.card, "answer_schema": request.answer_schema, "policy": request.policy}
    entries.keep_shown(request.id, ("card", fingerprint(request.card, request.answer_schema), json.dumps(shown)))


def _change_card(request: HumanRequest, card: dict[str, Any]) -> None:
    field: Any = HumanRequest._meta.get_field("card")
    changed = HumanRequest.objects.filter(OPEN, pk=request.pk).update(card=field.encrypted(card, request.pk))
    if changed != 1:
        raise NoLongerOpen("This request has already been answered or closed")
    request.card = card


def _void_votes(request: HumanRequest) -> list[User]:
    votes = list(Reply.objects.filter(request=request, undone__isnull=True).select_related("by"))
    Reply.objects.filter(pk__in=[vote.pk for vote in votes]).update(undone=timezone.now())
    return [vote.by for vote in votes if vote.by is not None]


def _audited_piece(part: Mapping[str, Json]) -> dict[str, Json]:
    """Return what the audit stores of a piece of evidence: the piece itself is on the card."""
    digest = sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()
    return {"kind": part["kind"], "title": part.get("title", ""), "sha256": digest}
