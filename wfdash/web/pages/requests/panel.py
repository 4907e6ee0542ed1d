"""The panel of one request, on its own page and in the inbox: the card, who else is there, the comments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from math import ceil
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from wfdash.domain.json_patch import FIELD, comments_in, place_of
from wfdash.domain.labels import label_of_field
from wfdash.engines import catalog
from wfdash.queries.requests.inbox import TABS
from wfdash.queries.requests.request import Collaboration, RequestView, answerable_for, read_collaboration
from wfdash.queries.step_states import step_transitions
from wfdash.values.schemas.secrets import secret_names, without
from wfdash.web.pages.site.context_processors import MOST_UNDOABLE, UNDO_COOKIE, answered_here
from wfdash.web.pages.site.decorators import number_in
from wfdash.web.pages.site.list_page import read_inbox_address
from wfdash.web.pages.ui import card
from wfdash.web.pages.ui.forms import read


def panel(
    found: RequestView,
    place: Mapping[str, str],
    reading: card.PostedAnswer | None = None,
    errors: Sequence[dict[str, Any]] = (),
    *,
    override: bool = False,
    piece: str = "",
) -> dict[str, Any]:
    """Return the context of ``requests/request/panel.html``, with a form if this person may answer.

    ``reading``: what was typed; else their draft, their undone answer, or a suggestion fills the form. ``errors``: the
    action's, instead of the reading's. ``override``: an operator wants to decide instead of those it is addressed to.
    ``piece``: the number of the evidence that is drawn first, where a card has too much of it.
    """
    if reading and errors:
        reading = reading._replace(errors=list(errors))
    context = live_context(found, place, override=override)
    here, overrides, decides = context["here"], context["overrides"], context["decides"]
    kept = {**place, **({"override": "1"} if overrides else {})}
    query = urlencode({**kept, **({"piece": piece} if piece else {})})
    begin = here.former if here.former is not None else (found.suggestion or {}).get("value")
    drawn = card.build(
        found.card,
        found.answer_schema,
        url=address("request", found.id, query) if decides else "",
        initial=begin,
        reading=reading or _from_draft(found, here.draft),
        page=address("request", found.id, urlencode({**kept, "piece": ""})),
        path=_path(found),
        before=found.before,
        said=_said(found, here),
        first=(number_in(piece),) if piece else (),
    )
    return context | {
        "suggested": parse_datetime(str((found.suggestion or {}).get("at") or "")),
        "card": drawn,
        "authors": found.viewer.may("code", found.workflow),
        "title": catalog.title_of(found.workflow),
        "override_problem": next((e["msg"] for e in errors if overrides and list(e["loc"]) == ["reason"]), ""),
        "behalf": answerable_for(found) if overrides else (),
        "behalf_problem": next((e["msg"] for e in errors if list(e["loc"]) == ["on_behalf_of"]), ""),
        "restored": reading is None,
        "drafted": bool(here.draft and decides and reading is None),
    }


def live_context(found: RequestView, place: Mapping[str, str], *, override: bool = False) -> dict[str, Any]:
    """Return the context that changes while the panel is open: who is there, comments, whether it can be decided."""
    here = read_collaboration(found)
    overrides = override and found.may_speak
    decides = found.open and here.mine is None and (not found.refusal or overrides)
    return {"item": found, "here": here, "origin": urlencode(place), "decides": decides, "overrides": overrides}


def address_params(query: QueryDict) -> dict[str, str]:
    """Return the inbox parameters of an address; empty for a request's own page."""
    return read_inbox_address(query).parts if query.get("tab") in TABS else {}


def address(name: str, request_id: str, query: str) -> str:
    """Return an address of a request with the person's place in the inbox."""
    return reverse(f"wfdash:{name}", args=[request_id]) + (f"?{query}" if query else "")


def back_to(request_id: str, place: Mapping[str, str], anchor: str = "") -> HttpResponse:
    """Redirect to the request: in the inbox, if the person came from there."""
    asked = f"{reverse('wfdash:inbox')}?{urlencode({**place, 'request': request_id})}"
    where = asked if place else reverse("wfdash:request", args=[request_id])
    return redirect(where + anchor)


def offer_undo(request: HttpRequest, response: HttpResponse, answered: str, settles: datetime | None) -> HttpResponse:
    """Set the cookie by which this browser's next pages offer to undo this answer, and earlier ones until they take
    effect.
    """
    if settles is not None:
        until, before = answered_here(request)
        until = max(until, ceil(settles.timestamp()) + 1)
        ids = [answered, *(one for one in before if one != answered)][:MOST_UNDOABLE]
        seconds = max(1, until - int(timezone.now().timestamp()))
        response.set_cookie(UNDO_COOKIE, f"{until}:{'.'.join(ids)}", max_age=seconds, httponly=True, samesite="Lax")
    return response


def fields_of(post: QueryDict) -> dict[str, list[str]]:
    """Return the fields of a card's form as they were posted, without the page's own."""
    own = {
        "csrfmiddlewaretoken",
        "_seen",
        "_reason",
        "_for",
        "_key",
        "_add",
        "_remove",
        "_up",
        "_down",
        "_show",
        "_draft",
        "_comment",
        "_as_text",
        "_signature",
    }
    passing = ("_lines:", "_side:")
    kept = {name: values for name, values in post.lists() if name not in own and not name.startswith(passing)}
    return {name: [str(value) for value in values] for name, values in kept.items()}


def typed_texts(found: RequestView, value: Any) -> list[tuple[str, str]]:
    """Return what an answer says, as label and text, without its secrets and the button that was pressed."""
    shown = without(value, secret_names(found.answer_schema))
    fields = shown if isinstance(shown, dict) else {"answer": shown}
    texts = {name: _as_text(part) for name, part in fields.items() if name not in {"action", FIELD}}
    texts[FIELD] = "\n".join(f"{place_of(comment)}: {comment['text']}" for comment in comments_in(shown))
    return [(label_of_field(name, None), text) for name, text in texts.items() if text]


def _as_text(value: Any) -> str:
    if value in (None, "", [], {}):
        return ""
    return value if isinstance(value, str) else read.write(value)


def _said(found: RequestView, here: Collaboration) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Return the line comments of votes, or of the answer, by whom: for those who see the card."""
    if not found.shown:
        return ()
    if here.votes:
        return [(vote.by, comment) for vote in here.votes for comment in vote.line_comments]
    answer = found.answer
    return [(answer.by, comment) for comment in comments_in(answer.value)] if answer else ()


def _from_draft(found: RequestView, draft: Any) -> card.PostedAnswer | None:
    """Return a draft as if it had been posted, without its errors: it is not finished."""
    if draft is None:
        return None
    post = QueryDict(mutable=True)
    for name, values in draft.fields.items():
        post.setlist(name, values)
    return card.read_answer(found.answer_schema, found.card, post)._replace(errors=[])


def _path(found: RequestView) -> tuple[card.PathStep, ...]:
    """Return the path through the workflow's graph to the step that asked; empty if that is not loaded."""
    entry = next((entry for entry in catalog.entries() if entry.name == found.workflow), None)
    if entry is None:
        return ()
    return card.path_through(entry.description, found.step, step_transitions(found.run), found.created)
