"""What an answer has to know of a request beside its row: read with it, because most requests have none of it."""

from __future__ import annotations

from django.conf import settings
from django.db.models import Exists, OuterRef
from django.db.models.expressions import BaseExpression

from checkpoints.models import Comment, Draft, HumanRequest, Reply
from wfdash.access.viewer import Marks, Viewer
from wfdash.notifications.listeners import listener_marks


def marks_for(*, undo: bool) -> Marks:
    """Return what to read with a request to answer: beside its marks who hears of the answer, unless it can be undone.
    One that can be undone notifies no one until that time has passed.
    """
    return marks_of if undo and settings.WFDASH_UNDO else marks_and_listeners


def marks_of(viewer: Viewer) -> dict[str, Exists]:
    """Return whether a request has votes that count (``voted``), comments (``discussed``) and a draft of this person
    (``drafted``), as annotations of its look-up.
    """
    votes = Reply.objects.filter(request=OuterRef("pk"), undone__isnull=True)
    comments = Comment.objects.filter(request=OuterRef("pk"))
    drafts = Draft.objects.filter(request=OuterRef("pk"), user=viewer.user)
    return {"voted": Exists(votes), "discussed": Exists(comments), "drafted": Exists(drafts)}


def marks_and_listeners(viewer: Viewer) -> dict[str, BaseExpression]:
    """Return these marks, and who hears of the answer."""
    return {**marks_of(viewer), **listener_marks()}


def are_known(request: HumanRequest) -> bool:
    """Return whether a request was looked up with ``marks_of``."""
    return hasattr(request, "voted")


def has(request: HumanRequest, mark: str) -> bool:
    """Return whether a request that was looked up with ``marks_of`` has this."""
    return bool(getattr(request, mark))
