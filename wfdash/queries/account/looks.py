"""How a person wants lists to look: how dense their rows are, and which columns they chose."""

from __future__ import annotations

from dataclasses import dataclass, field

from checkpoints.models import Preference
from wfdash.access.viewer import Viewer

DENSITIES = ("compact", "comfortable")
"""How high rows are; the first is the default."""


@dataclass(frozen=True, kw_only=True)
class ListLooks:
    """What a person chose. ``columns``: of each list, where they ever chose any."""

    density: str = DENSITIES[0]
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    dismissed_first_steps: bool = False


def looks_of(viewer: Viewer) -> ListLooks:
    """Return what this person chose for lists (one query)."""
    kept = Preference.objects.filter(user_id=viewer.user.pk).values_list("looks", flat=True).first() or {}
    chosen = {name: look["columns"] for name, look in kept.items() if isinstance(look, dict) and "columns" in look}
    density = kept.get("density")
    return ListLooks(
        density=density if isinstance(density, str) and density in DENSITIES else DENSITIES[0],
        dismissed_first_steps=kept.get("first_steps") == "dismissed",
        columns={name: tuple(map(str, those)) for name, those in chosen.items() if isinstance(those, list)},
    )
