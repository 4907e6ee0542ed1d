"""Saved views of lists: a person's own and those shared by others."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Q, QuerySet

from checkpoints.models import SavedView
from wfdash.access.viewer import Viewer
from wfdash.errors import NotFound
from wfdash.records.account import SavedViewRecord

MOST = 50
"""How many views a list offers."""


class ViewRow(SavedViewRecord):
    """A saved view. ``query`` is the query string of the list's address; ``mine``: this person may change it."""

    count: str = ""
    """How many rows it has, such as ``99+``; empty if they were not counted."""
    broken: bool = False
    """Its filter cannot be understood any more."""


def read_views(viewer: Viewer, page: str = "inbox") -> tuple[ViewRow, ...]:
    """Return a person's saved views of a page and the shared ones, their own first (one query)."""
    rows = _visible(viewer).filter(page=page).order_by("name", "id")[:MOST]
    return tuple(sorted((_view_row(viewer, row) for row in rows), key=lambda row: not row.mine))


def views_named(viewer: Viewer, words: Iterable[str], most: int) -> tuple[ViewRow, ...]:
    """Return the saved views of any page whose name contains each of the words (one query)."""
    rows = _visible(viewer)
    for word in words:
        rows = rows.filter(name__icontains=word)
    return tuple(_view_row(viewer, row) for row in rows.order_by("name", "id")[:most])


def read_view(viewer: Viewer, view_id: str) -> ViewRow:
    """Return one view (one query). ``NotFound``."""
    row = _visible(viewer).filter(pk=view_id).first()
    if row is None:
        raise NotFound("View not found, or not shared with you")
    return _view_row(viewer, row)


def _visible(viewer: Viewer) -> QuerySet[SavedView]:
    """Return the filter of views this person may know of. A filter may name what is in any workflow: a token with
    limits has none.
    """
    if not viewer.whole:
        return SavedView.objects.none()
    shared = Q(shared=True) if viewer.rights else Q(pk__in=[])
    return SavedView.objects.filter(Q(owner_id=viewer.user.pk) | shared).select_related("owner")


def _view_row(viewer: Viewer, row: SavedView) -> ViewRow:
    return ViewRow.trusted(
        id=row.pk,
        name=row.name,
        query=row.query,
        shared=row.shared,
        mine=row.owner_id == viewer.user.pk,
        owner=row.owner.get_username(),
        page=row.page,
    )
