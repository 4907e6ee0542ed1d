"""How a person wants lists to look. These are personal settings, so they are not audited."""

from __future__ import annotations

from collections.abc import Sequence

from checkpoints.database.storage import write
from checkpoints.models import Preference
from checkpoints.records import Json
from wfdash.access.administration import refuse_narrow
from wfdash.access.viewer import Viewer
from wfdash.actions import rate_limit


def set_columns(viewer: Viewer, page: str, columns: Sequence[str]) -> None:
    """Store which columns of a list this person sees."""
    _store(viewer, page, {"columns": list(columns)})


def set_density(viewer: Viewer, density: str) -> None:
    """Store how dense the rows of all lists are for this person."""
    _store(viewer, "density", density)


def dismiss_first_steps(viewer: Viewer) -> None:
    """Stop showing this person what an installation still lacks."""
    _store(viewer, "first_steps", "dismissed")


def _store(viewer: Viewer, name: str, value: Json) -> None:
    refuse_narrow(viewer)
    with write():
        rate_limit.charge(viewer, "look")
        Preference.objects.get_or_create(user=viewer.user)
        kept = Preference.objects.select_for_update().get(user=viewer.user)
        kept.looks = {**kept.looks, name: value}
        kept.save(update_fields=["looks"])
