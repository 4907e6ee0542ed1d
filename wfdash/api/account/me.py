"""The API of who calls."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router

from wfdash.api.auth import viewer_of
from wfdash.records.account import Me

router = Router()


@router.get("/me", response=Me)
def get_me(request: HttpRequest) -> Any:
    """Return who calls and what they may do; with a token that is narrower, what the token allows."""
    viewer = viewer_of(request)
    rights = [{"workflow": name, "verbs": sorted(verbs)} for name, verbs in sorted(viewer.rights.items())]
    absent = [one.name for one in viewer.acts_for]
    named = {"name": viewer.name, "groups": sorted(viewer.groups), "token": viewer.token}
    return {**named, "rights": rights, "acts_for": absent}
