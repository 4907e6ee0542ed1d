"""Requests in a chat service: who is who there, what a person is shown, and what their buttons do.

It owns no rule: a button is an answer of this person through ``answer_request``. What a message does not show whole
(long texts, pictures, many fields) and what is a high risk has no buttons, only a link.
"""

from __future__ import annotations

import difflib
import json
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import Any

from django.conf import settings
from django.db import IntegrityError, connections
from django.db.models import Count, Q
from django.urls import reverse
from django.utils import timezone

from checkpoints.database.storage import write
from checkpoints.models import ChatAccount, ChatMessage, Notice, Reply
from checkpoints.models.user_model import User
from checkpoints.records import JsonObject
from wfdash.access.directory import refuse_token
from wfdash.access.viewer import Viewer, viewer_for
from wfdash.actions import audit, pacing
from wfdash.actions.requests.answer import answer_request, undo_answer
from wfdash.domain.errors import Invalid, NotFound, WfdashError, WrongState
from wfdash.domain.labels import humanize, visible
from wfdash.engines.catalog import title_of
from wfdash.notifications.chat import ChatButton, ChatEvent, ChatField, ChatService, ChatText
from wfdash.notifications.letters import PAST, Letter, Undeliverable
from wfdash.notifications.rendering import absolute
from wfdash.notifications.slack import Slack
from wfdash.notifications.write import connected
from wfdash.queries.requests.request import RequestView, read_request
from wfdash.questions.card import Card
from wfdash.values.schemas.secrets import HIDDEN

log = logging.getLogger(__name__)
SERVICE: ChatService = Slack()
CODE_LIVES = timedelta(minutes=10)
MOST_APART = 5
"""Requests that are a message each where more become due at once: else one message lists them."""
MOST_FOLLOWED = 2_000
"""Messages, the newest, that are looked after; an older one is renewed when its button is pressed."""
MOST_BUTTONS, MOST_SHOWN, MOST_PARTS, MOST_SUBJECT = 5, 2_800, 20, 100
PLAIN = ("text", "markdown", "code", "json", "link")
"""The kinds of evidence that are a text."""
KNOWN = {*Card.model_fields, "actions"}
"""The parts of a card that a message shows."""
UNDO = "wfdash undo"
STRANGER = "Your account here is not connected with wfdash: connect it there under Settings, Notifications"
FOLLOWED = ChatMessage.objects.filter(done__isnull=True, place__gt="")


# -- who is who


def begin_connection(viewer: Viewer) -> str:
    """Return a code that connects this person's account with the one at the service that gives it back, once. Any other
    is disconnected.
    """
    refuse_token(viewer)
    code = secrets.token_urlsafe(24)
    with write():
        pacing.charge(viewer, "token")
        ChatAccount.objects.filter(user=viewer.user).delete()
        ChatAccount.objects.create(user=viewer.user, service=SERVICE.name, code=_digest(code), at=timezone.now())
    return code


def disconnect(viewer: Viewer) -> None:
    """Forget a person's account at the service: nothing is sent there, and its buttons do nothing."""
    refuse_token(viewer)
    with write():
        ChatAccount.objects.filter(user=viewer.user).delete()
        audit.record(viewer, "disconnect chat", facts={"user": viewer.name})


def connect(event: ChatEvent) -> str:
    """Connect who sent a code with the account that it was made for; return what to say."""
    given = {"team": event.team, "uid": event.person, "code": ""}
    try:
        with write():
            rows = ChatAccount.objects.filter(at__gt=timezone.now() - CODE_LIVES, code=_digest(event.code))
            row = rows.select_related("user").filter(user__is_active=True).first()
            if row is None or event.team != settings.WFDASH_SLACK_TEAM or not rows.update(**given):
                return "This code is not valid. Get one in wfdash under Settings, Notifications"
            name = row.user.get_username()
            audit.record(viewer_for(row.user), "connect chat", facts={"user": name, **given})
            return f"Connected with {name} at {settings.WFDASH_URL}"
    except IntegrityError:
        return "You are connected with another account of wfdash. Disconnect that one first"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


# -- what a person does there


def hear(payload: Mapping[str, Any]) -> tuple[JsonObject, Callable[[], None]]:
    """Act on what the service says that happened; return what it hears at once, and what to do after that: it calls
    the service, and may fail, as the decision stands by then.
    """
    if (event := SERVICE.event_of(payload)) is None:
        return {}, connections.close_all
    words, then = (connect(event), connections.close_all) if event.kind == "connect" else _act(event)

    def later() -> None:
        try:
            then()
        except (OSError, Undeliverable) as error:
            log.warning("The chat service could not be informed: %s", error)
        finally:
            connections.close_all()

    return SERVICE.reply_to(event, words), later


def _act(event: ChatEvent) -> tuple[str, Callable[[], None]]:
    """Do what a button says; return what was refused, and what to do then."""
    mine = connected().filter(team=event.team, uid=event.person, user__is_active=True).values("user")
    row = ChatMessage.objects.select_related("notice__user").filter(pk=event.message, notice__user__in=mine).first()
    if row is None:
        return STRANGER, connections.close_all
    viewer, request = viewer_for(row.notice.user), str(row.notice.request_id)  # type: ignore[arg-type]
    try:
        if event.action == UNDO:
            undo_answer(viewer, request, key=event.key)
            return "", partial(_renew, row)
        shown = _message(read_request(viewer, request), row.pk)
        button = next((one for one in shown.buttons if one.name == event.action), None)
        if button is None or event.seen != shown.seen:
            raise WrongState(shown.state or "The request has changed. Look at it again")
        if event.kind == "press" and button.fields:
            return "", partial(SERVICE.ask, event, shown, button)
        given = {one.name: text for one in button.fields if (text := event.values.get(one.name))}
        value = {"action": event.action, **given}
        answer_request(viewer, request, value, seen=event.seen, undo=True, via=SERVICE.name, key=event.key)
        return "", partial(_renew, row)
    except WfdashError as error:
        words = error.summary if isinstance(error, Invalid) else str(error)
        return words, partial(_renew, row, words)


# -- what a person is shown


def _message(found: RequestView, name: str, note: str = "", headline: str = "") -> ChatText:
    """Return a request as one person is shown it. ``note``: what was refused."""
    parts, whole = _parts(found)
    mine = Reply.objects.filter(request=found.id, by=found.viewer.user, undone=None).first()
    elsewhere = found.refusal or found.card.get("risk") == "high" or found.rules.signed
    buttons = _buttons(found) if whole and found.open and not elsewhere else ()
    state = found.refusal if found.open else humanize(found.state)
    if found.answer is not None:
        reason = f": {found.answer.reason}" if found.answer.reason else ""
        state = f"{_past(found.answer.verdict)} by {found.answer.by}{reason}"
    elif found.open and found.assignee not in {"", found.viewer.name}:
        state = state or f"Assigned to {found.assignee}"
    if mine is not None and found.state in {"open", "settling"}:
        state, buttons = state or f"You answered: {_past(mine.verdict)}", (ChatButton(name=UNDO, label="Undo"),)
    elif found.open and not buttons:
        state = state or "Open it in wfdash to decide"
    return ChatText(
        name=name,
        title=headline or found.subject,
        url=absolute(reverse("wfdash:request", args=[found.id])),
        seen=found.seen,
        parts=parts,
        state=visible(note or state),
        buttons=buttons,
    )


def _past(verdict: str) -> str:
    return PAST.get(verdict, humanize(verdict))


def _parts(found: RequestView) -> tuple[tuple[str, ...], bool]:
    """Return a card as texts, cut, and whether that is all of it."""
    card, pieces = found.card, found.card.get("evidence") or []
    due = f"{found.due:%Y-%m-%d %H:%M} UTC" if found.due else ""
    about = {"Workflow": title_of(found.workflow), "Risk": card.get("risk"), "Due": due, "Started by": found.requester}
    shown = [("", {name: text for name, text in about.items() if text}), ("", card.get("body"))]
    values = [_words(card.get(name)) for name in ("current", "proposal")]
    before, after = (value[: MOST_SHOWN + 1].splitlines() for value in values)
    lines = [*difflib.unified_diff(before, after, n=MOST_SHOWN, lineterm="")][3:] if before else after
    shown.append(("Difference" if before else "Proposal", "\n".join(lines)))
    plain = [one for one in pieces if isinstance(one, Mapping) and one.get("kind") in PLAIN]
    shown += [(str(one.get("title") or "Evidence"), one.get("value")) for one in plain]
    shown += [(name.capitalize(), card.get(name)) for name in ("context", "consequence", "undo")]
    texts = [visible(f"{name}\n{_words(value)}".strip()) for name, value in shown if value]
    whole = (
        not {*card} - KNOWN
        and len(found.subject) <= MOST_SUBJECT
        and max(map(len, values)) <= MOST_SHOWN
        and bool(lines or not before or values[0] == values[1])
        and len(plain) == len(pieces)
        and len(texts) <= MOST_PARTS
        and sum(map(len, texts)) <= MOST_SHOWN
    )
    return tuple(text if whole else text[: MOST_SHOWN // 2] for text in texts[:MOST_PARTS]), whole


def _words(value: Any) -> str:
    """Return a value as lines: ``name: value`` for fields."""
    if isinstance(value, dict):
        return "\n".join(f"{name}: {_words(inner)}" for name, inner in value.items())
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _buttons(found: RequestView) -> tuple[ChatButton, ...]:
    """Return the actions whose fields are plain texts; none where a field of the answer belongs to no action."""
    actions, known, made = found.card.get("actions") or [], found.answer_schema.get("properties") or {}, []
    if {*known} - {"action", *(field for one in actions for field in one.get("fields") or ())}:
        return ()
    for one in actions[:MOST_BUTTONS]:
        fields, names = [], one.get("fields") or ()
        for name in names:
            node, text = known[name], found.card.get("proposal") if name == "edited" else ""
            is_text = {"type": "string"} in (node.get("anyOf") or [{"type": node.get("type")}])
            # What is hidden here would be stored as the edited text.
            if (
                is_text
                and not {"enum", "format", "writeOnly"} & {*node}
                and isinstance(text, str)
                and HIDDEN not in text
            ):
                required = name in one.get("required", names)
                fields.append(ChatField(name=name, label=humanize(name), value=text, required=required))
        if len(fields) == len(names):
            label, style = visible(one.get("label") or humanize(one["name"])), one.get("style") or ""
            made.append(ChatButton(name=one["name"], label=label, style=style, fields=tuple(fields)))
    return tuple(made)


# -- sending, and renewing what was sent


def send_chat(receiver: User, letters: list[Letter]) -> None:
    """Send letters to a person. What was sent before a failure is not sent again."""
    account = connected([receiver.pk]).first()
    if account is None:
        raise Undeliverable("This person is not connected with the chat service")
    many = len(letters) > MOST_APART
    listed = tuple(f"{one.headline}\n{one.url}" for one in letters[:MOST_PARTS])
    for letter in letters[:1] if many else letters:
        row, new = ChatMessage.objects.get_or_create(pk=letter.id)
        if row.place:
            continue
        if letter.asks and not many:
            _, row.shown = _states([letter.id])[letter.id]
            found = read_request(viewer_for(receiver), str(letter.payload["request"]))
            text = _message(found, letter.id, headline=letter.headline)
        else:
            row.done, title = timezone.now(), f"{len(letters)} notifications from wfdash" if many else letter.headline
            text = ChatText(name=letter.id, title=title, url=letter.url, parts=listed if many else (letter.text,))
        row.place = SERVICE.post(str(account.uid), text, again=not new)
        row.save()


def _renew(row: ChatMessage, note: str = "") -> None:
    """Show a message as things are now."""
    notice = row.notice
    over, state = _states([row.pk])[row.pk]
    done = timezone.now() if over else None
    try:
        found = read_request(viewer_for(notice.user), str(notice.request_id))  # type: ignore[arg-type]
        SERVICE.update(row.place, _message(found, row.pk, note))
    except (NotFound, Undeliverable):  # It is left as it is.
        done = timezone.now()
    ChatMessage.objects.filter(pk=row.pk).update(shown=state, done=done)


def _states(notices: Iterable[str]) -> dict[str, tuple[bool, str]]:
    """Return of the requests of these notices whether each is over, and in what state it is, as a text to compare."""
    about = [f"request__{name}" for name in ("answered", "closed", "settles", "assignee_id")]
    votes = Count("request__replies", filter=Q(request__replies__undone__isnull=True))
    rows = Notice.objects.filter(pk__in=[*notices]).annotate(votes=votes).order_by().values_list("pk", *about, "votes")
    return {pk: (bool(row[0] or row[1]), _digest(str(row))) for pk, *row in rows}


class ChatFollower:
    """Renews messages whose request was decided, undone, assigned or closed elsewhere. For one thread."""

    not_before = 0.0

    def look(self) -> float:
        """Look at the newest; returns infinity, as there is no time at which it is to be called."""
        if time.monotonic() >= self.not_before:
            rows = FOLLOWED.select_related("notice__user").order_by("-notice__created")[:MOST_FOLLOWED]
            states = _states(row.pk for row in rows)
            try:
                for row in rows:
                    if states[row.pk][1] != row.shown:
                        _renew(row)
            except OSError as error:
                log.warning("Could not renew a message: %s", error)
                self.not_before = time.monotonic() + getattr(error, "seconds", 30.0)
        return float("inf")
