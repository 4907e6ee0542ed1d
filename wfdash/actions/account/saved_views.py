"""Saved views: save, change, delete. Only the owner changes one; sharing a view shares a filter, never a row.

Views are personal settings, so they are not audited; a shared one is visible to others and therefore is.
"""

from __future__ import annotations

from django.db import IntegrityError
from django.utils import timezone

from checkpoints import ids
from checkpoints.database.alias import atomic
from checkpoints.database.storage import write
from checkpoints.models import SavedView
from wfdash.access.administration import refuse_narrow
from wfdash.access.viewer import Viewer
from wfdash.actions import rate_limit
from wfdash.actions.audit import entries
from wfdash.errors import Invalid, NotFound

MOST = 100
"""Views one person may keep."""
LONGEST_NAME = 80
LONGEST_QUERY = 1000


def save_view(viewer: Viewer, name: str, query: str, *, page: str = "inbox", shared: bool = False) -> SavedView:
    """Save a filter (the query string of a list's address) under a name. ``Invalid`` for an invalid or a duplicate
    name.
    """
    refuse_narrow(viewer)
    name = _checked_name(name, query)
    with write():
        rate_limit.charge(viewer, "view")
        if SavedView.objects.filter(owner=viewer.user).count() >= MOST:
            raise Invalid([{"loc": ["name"], "msg": f"You have {MOST} views. Delete one first"}])
        try:
            with atomic():
                view = SavedView.objects.create(
                    id=ids.new_request_id(),
                    owner=viewer.user,
                    page=page,
                    name=name,
                    query=query,
                    shared=shared,
                    created=timezone.now(),
                )
        except IntegrityError:
            raise _duplicate_name(name) from None
        _audit(viewer, None, view)
    return view


def change_view(viewer: Viewer, view_id: str, *, name: str, query: str | None = None, shared: bool = False) -> None:
    """Rename, share or unshare an own view, and with ``query`` change its filter. ``NotFound``, ``Invalid``."""
    refuse_narrow(viewer)
    name = _checked_name(name, query or "")
    changes: dict[str, str | bool] = {"name": name, "shared": shared}
    if query is not None:
        changes["query"] = query
    with write():
        rate_limit.charge(viewer, "view")
        before = _own_view(viewer, view_id)
        try:
            with atomic():
                SavedView.objects.filter(pk=before.pk).update(**changes)
        except IntegrityError:
            raise _duplicate_name(name) from None
        _audit(viewer, before, _own_view(viewer, view_id))


def delete_view(viewer: Viewer, view_id: str) -> None:
    """Delete an own view. ``NotFound``."""
    refuse_narrow(viewer)
    with write():
        rate_limit.charge(viewer, "view")
        before = _own_view(viewer, view_id)
        SavedView.objects.filter(pk=before.pk).delete()
        _audit(viewer, before, None)


def _own_view(viewer: Viewer, view_id: str) -> SavedView:
    view = SavedView.objects.select_for_update().filter(pk=view_id, owner=viewer.user).first()
    if view is None:
        raise NotFound("View not found")
    return view


def _audit(viewer: Viewer, before: SavedView | None, after: SavedView | None) -> None:
    """Record in the audit what others can see from now on, or no longer."""
    shown = _facts(after) if after is not None and after.shared else None
    was = _facts(before) if before is not None and before.shared else None
    if shown is not None and shown != was:
        entries.record(viewer, "share view", facts=shown)
    elif was is not None and shown is None:
        entries.record(viewer, "unshare view", facts=was)


def _facts(view: SavedView) -> dict[str, str]:
    return {"view": view.pk, "page": view.page, "name": view.name, "query": view.query}


def _checked_name(name: str, query: str) -> str:
    name = " ".join(name.split()).replace("\0", "")
    if not name:
        raise Invalid([{"loc": ["name"], "msg": "Enter a name"}])
    if len(name) > LONGEST_NAME:
        raise Invalid([{"loc": ["name"], "msg": f"At most {LONGEST_NAME} characters"}])
    if len(query) > LONGEST_QUERY:
        raise Invalid([{"loc": ["query"], "msg": "This filter is too long to save"}])
    return name


def _duplicate_name(name: str) -> Invalid:
    return Invalid([{"loc": ["name"], "msg": f"You already have a view named {name}. Choose another name"}])
