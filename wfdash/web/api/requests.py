"""The API of requests: the inbox, answers, and what people do to a request together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from ninja import Router, Status

from checkpoints.models import Draft
from wfdash.access.directory import vote_progress
from wfdash.access.viewer import Viewer
from wfdash.actions.requests import answer, collaboration, deadlines, rules
from wfdash.actions.requests.answer import answer_batch, assign_requests, undo_batch
from wfdash.actions.requests.collaboration import ask_back, comment_on, reply_to_ask, take_over
from wfdash.actions.runs.bulk import record_export
from wfdash.domain.errors import NotFound
from wfdash.queries.requests.dataset import as_lines, read_examples
from wfdash.queries.requests.decisions import read_decisions
from wfdash.queries.requests.inbox import count_tabs, read_inbox
from wfdash.queries.requests.request import read_collaboration, read_request, read_thread
from wfdash.queries.requests.rules import read_rule, read_rules
from wfdash.queries.timemachine import secrets_in
from wfdash.records.requests import (
    AcceptedAnswer,
    Amend,
    AnswerMany,
    Assign,
    AssignMany,
    Assignment,
    CommentPage,
    CommentRecord,
    CreateRule,
    Deadline,
    DecisionExample,
    DecisionPage,
    DraftRecord,
    GiveAnswer,
    InboxCounts,
    MoveRule,
    OutcomeList,
    PresencePage,
    RequestDetail,
    RequestPage,
    RuleDetail,
    RulePage,
    SaveDraft,
    SetDeadline,
    SetSnooze,
    Snoozed,
    Tab,
    UndoMany,
    UndoneCount,
    WriteComment,
)
from wfdash.values.schemas.secrets import masked
from wfdash.web.api.long_poll import say_later
from wfdash.web.api.params import Limit, Wait, bound_key, if_match, key_of, once, viewer_of, with_etag

# The API of the inbox as a whole: counts, decisions made, many requests at once.

router = Router()


@router.get("/requests/counts", response=InboxCounts)
def count_requests(request: HttpRequest, q: str = "") -> Any:
    """Return how many requests each tab of the inbox has under a filter."""
    return {"tabs": count_tabs(viewer_of(request), q)}


@router.get("/decisions", response=DecisionPage)
def list_decisions(request: HttpRequest, q: str = "", after: str = "", limit: Limit = 50) -> Any:
    """Return decisions, the latest first; ``q`` is the filter language of their page."""
    return read_decisions(viewer_of(request), q, cursor=after, limit=limit)


@router.get("/decisions/export", response=DecisionExample)
def export_decisions(request: HttpRequest, q: str = "", names: bool = False) -> Any:
    """Return decisions as a data set, one JSON document a line, the latest first; ``names``: with the names of people.
    It is audited.
    """
    viewer = viewer_of(request)
    found = read_examples(viewer, q, names=names)
    record_export(viewer, "decisions with names" if names else "decisions", text=q, kind="jsonl")
    return StreamingHttpResponse(as_lines(found), content_type="application/x-ndjson")


@router.get("/rules", response=RulePage)
def list_rules(request: HttpRequest, workflow: str = "") -> Any:
    """Return the rules of a workflow, or of all, whose values you may read, the newest first."""
    return {"items": read_rules(viewer_of(request), workflow)}


@router.post("/rules", response={201: RuleDetail})
def create_rule(request: HttpRequest, given: CreateRule) -> Any:
    """Make a rule, as a draft: it answers nothing yet. 422 at ``condition``, ``step`` or ``action``."""
    made = rules.create_rule(viewer_of(request), given, key=key_of(request))
    return Status(201, read_rule(viewer_of(request), made.pk))


@router.get("/rules/{rule_id}", response=RuleDetail)
def get_rule(request: HttpRequest, rule_id: int) -> Any:
    """Return a rule with its rehearsal, and what people decided that fits it."""
    return read_rule(viewer_of(request), rule_id)


@router.post("/rules/{rule_id}/state", response=RuleDetail)
def move_rule(request: HttpRequest, rule_id: int, given: MoveRule) -> Any:
    """Rehearse a rule, let it run beside people, switch it on or suspend it. 409 says what comes first."""
    moved = rules.move_rule(viewer_of(request), rule_id, given.to, given.reason, key=key_of(request))
    return read_rule(viewer_of(request), moved.pk)


@router.post("/requests/answer", response=OutcomeList)
def answer_many(request: HttpRequest, given: AnswerMany) -> Any:
    """Give several requests the same answer. Each is checked by itself; one refusal stops no other."""
    chosen = [(one.id, one.seen) for one in given.requests]
    with bound_key(request, "answer many", given.model_dump()) as key:
        return {"items": answer_batch(viewer_of(request), chosen, given.value, verdict=given.verdict, key=key)}


@router.post("/requests/assign", response=OutcomeList)
def assign_many(request: HttpRequest, given: AssignMany) -> Any:
    """Assign several requests. One refusal stops no other."""
    with bound_key(request, "assign many", given.model_dump()) as key:
        return {"items": assign_requests(viewer_of(request), given.requests, given.to, key=key)}


@router.post("/requests/undo", response=UndoneCount)
def undo_many(request: HttpRequest, given: UndoMany) -> Any:
    """Undo your own answers to several requests, where they have not taken effect. Doing it twice changes nothing."""
    with bound_key(request, "undo many", given.model_dump()) as key:
        undone, late = undo_batch(viewer_of(request), given.requests, key=key)
    return {"undone": undone, "late": late}


@router.get("/requests", response=RequestPage)
def list_requests(request: HttpRequest, tab: Tab = "mine", q: str = "", after: str = "", limit: Limit = 50) -> Any:
    """Return a tab of the inbox: mine, groups, unassigned, asked, snoozed, all, answered. 422 names the invalid part of
    the filter.
    """
    return read_inbox(viewer_of(request), tab, q, cursor=after, limit=limit)


@router.get("/requests/{request_id}", response=RequestDetail)
def get_request(request: HttpRequest, request_id: str, wait: Wait = 0) -> Any:
    """Return one request with its card, the schema of answers, and its answer. ``wait``: at most so many seconds until
    it is answered or closed.
    """
    found = read_request(viewer_of(request), request_id)
    if wait and found.state in {"open", "settling"}:
        say_later(request, found.run, wait)
    return found


@router.post("/requests/{request_id}/answer", response=AcceptedAnswer)
def answer_request(request: HttpRequest, request_id: str, given: GiveAnswer) -> Any:
    """Answer. 422 with errors per field, 409 with the earlier answer, or with what changed since ``seen``."""
    reply = answer.answer_request(
        viewer_of(request), request_id, given.value, **given.model_dump(exclude={"value"}), key=key_of(request)
    )
    value = masked(reply.value, secrets_in(reply.request))
    facts = {"request": reply.request_id, "verdict": reply.verdict, "value": value, "at": reply.at}
    votes, need, decided = vote_progress(reply)
    counted = {"votes": votes, "need": need, "decided": decided}
    return {**facts, "settles": reply.settles, "stands": reply.stands, **counted}


@router.post("/requests/{request_id}/undo", response={204: None})
def undo_answer(request: HttpRequest, request_id: str) -> Any:
    """Undo one's own answer or vote. 409 when it has taken effect."""
    answer.undo_answer(viewer_of(request), request_id, key=key_of(request))
    return Status(204, None)


# The API of collaboration on a request: comments, assignment, deadline, drafts, additions.


@router.get("/requests/{request_id}/comments", response=CommentPage)
def list_comments(request: HttpRequest, request_id: str) -> Any:
    """Return the thread, oldest first."""
    return {"items": read_thread(read_request(viewer_of(request), request_id))}


@router.post("/requests/{request_id}/comments", response={201: CommentRecord})
def write_comment(request: HttpRequest, request_id: str, given: WriteComment) -> Any:
    """Comment, ask back, or reply to a question."""
    verbs = {"comment": comment_on, "ask": ask_back, "reply": reply_to_ask}
    viewer = viewer_of(request)
    line = verbs[given.kind](viewer, request_id, given.text, key=key_of(request))
    facts = {"id": line.pk, "by": viewer.name, "kind": line.kind, "text": line.text}
    return Status(201, {**facts, "mentions": line.mentions, "at": line.at})


@router.post("/requests/{request_id}/assign", response=Assignment)
def assign_request(request: HttpRequest, request_id: str, given: Assign) -> Any:
    """Assign it to someone who may answer it, or to no one. 422 at ``to`` for others."""
    assigned = collaboration.assign_request(viewer_of(request), request_id, given.to, key=key_of(request))
    return {"request": assigned.pk, "assignee": assigned.assignee.get_username() if assigned.assignee else ""}


@router.post("/requests/{request_id}/deadline", response=Deadline)
def extend_deadline(request: HttpRequest, request_id: str, given: SetDeadline) -> Any:
    """Change its deadline, with reminder, escalation and default answer. 422 at ``due`` for a time in the past."""
    moved = deadlines.extend_deadline(viewer_of(request), request_id, given.due, key=key_of(request))
    return {"request": moved.pk, "due": moved.due}


@router.post("/requests/{request_id}/snooze", response=Snoozed)
def snooze_request(request: HttpRequest, request_id: str, given: SetSnooze) -> Any:
    """Keep it out of your own queue until a time, when you are reminded. 422 at ``until`` for a time in the past."""
    found = collaboration.snooze_request(viewer_of(request), request_id, given.until, key=key_of(request))
    return {"request": found.pk, "until": given.until, "due": found.due}


@router.post("/requests/{request_id}/take", response={204: None})
def take_request(request: HttpRequest, request_id: str) -> Any:
    """Take it over from those who have it open, and notify them. They can still answer."""
    once(request, "take", [request_id], lambda: take_over(viewer_of(request), request_id))
    return Status(204, None)


@router.get("/requests/{request_id}/draft", response=DraftRecord)
def get_draft(request: HttpRequest, response: HttpResponse, request_id: str) -> Any:
    """Return your own draft of an answer. 404 without one. Its ``ETag`` is what ``If-Match`` takes."""
    draft = read_collaboration(read_request(viewer_of(request), request_id)).draft
    if draft is None:
        raise NotFound("You have no draft of an answer to this request")
    with_etag(response, _drafted(draft))
    return draft


@router.put("/requests/{request_id}/draft", response={204: None})
def save_draft(request: HttpRequest, request_id: str, given: SaveDraft) -> Any:
    """Save your own draft. With ``If-Match`` only in place of the one that was read."""
    with _drafting(request, request_id) as viewer:
        collaboration.save_draft(viewer, request_id, given.fields)
    return Status(204, None)


@router.delete("/requests/{request_id}/draft", response={204: None})
def drop_draft(request: HttpRequest, request_id: str) -> Any:
    """Delete your own draft. With ``If-Match`` only the one that was read."""
    with _drafting(request, request_id) as viewer:
        collaboration.drop_draft(viewer, request_id)
    return Status(204, None)


@router.post("/requests/{request_id}/amend", response={204: None})
def amend_request(request: HttpRequest, request_id: str, given: Amend) -> Any:
    """Add to body and evidence; people who have it open are shown the difference. The proposal does not change."""
    collaboration.amend_request(
        viewer_of(request), request_id, body=given.body, evidence=given.evidence, key=key_of(request)
    )
    return Status(204, None)


@router.get("/requests/{request_id}/people", response=PresencePage)
def list_present(request: HttpRequest, request_id: str) -> Any:
    """Return the other people who have it open now."""
    return {"items": read_collaboration(read_request(viewer_of(request), request_id)).people}


@contextmanager
def _drafting(request: HttpRequest, request_id: str) -> Iterator[Viewer]:
    """Yield the viewer for a change of their draft, as ``If-Match`` allows."""
    viewer = viewer_of(request)

    def present() -> dict[str, Any]:
        draft = read_collaboration(read_request(viewer, request_id)).draft
        return _drafted(draft) if draft else {}

    with if_match(request, Draft.objects.filter(request_id=request_id, user=viewer.user), present):
        yield viewer


def _drafted(draft: DraftRecord) -> dict[str, Any]:
    """Return what a change replaces."""
    return {"fields": draft.fields}
