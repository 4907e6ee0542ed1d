"""What an answer has to know of a request beside its row: read with it, because most requests have none of it."""

from __future__ import annotations

from django.db.models import Exists, OuterRef

from checkpoints.models import Comment, Draft, HumanRequest, Reply
from wfdash.access.viewer import Viewer


def marks_of(viewer: Viewer) -> dict[str, Exists]:
    """Return whether a request has votes that count (``voted``), comments (``discussed``) and a draft of this person
    (``drafted``), as annotations of its look-up.
    """
    votes = Reply.objects.filter(request=OuterRef("pk"), undone__isnull=True)
    comments = Comment.objects.filter(request=OuterRef("pk"))
    drafts = Draft.objects.filter(request=OuterRef("pk"), user=viewer.user)
    return {"voted": Exists(votes), "discussed": Exists(comments), "drafted": Exists(drafts)}


def are_known(request: HumanRequest) -> bool:
    """Return whether a request was looked up with ``marks_of``."""
    return hasattr(request, "voted")


def has(request: HumanRequest, mark: str) -> bool:
    """Return whether a request that was looked up with ``marks_of`` has this."""
    return bool(getattr(request, mark))
