"""Tests of workflows: a bench that is the dashboard without its pages, and single steps by themselves.

```python
from wfdash.testing import NotAllowed, bench

async def test_legal_decides() -> None:
    async with bench(contracts, people={"ana": ["legal"], "ben": []}) as t:
        run = await t.start({"customer": "Jana"})
        with pytest.raises(NotAllowed):
            await t.answer(run, "approve", by="ben")
        await t.answer(run, "approve", by="ana")
        assert run.output == "signed"
```

Policies, deadlines, votes, signals and schedules are those of the dashboard: the bench calls its actions on an SQLite
database of its own. Only time is the bench's: ``await t.advance("4h")``.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any
from unittest import mock

from wfdash.contract import RunFailed, StillWaiting
from wfdash.domain.errors import AlreadyAnswered, Changed, Invalid, NoLongerOpen, NotAllowed, NotFound, WrongState
from wfdash.testing.records import BenchRequest, BenchRun, Call, VoteCount
from wfdash.testing.steps import Unanswered, run_step
from wfdash.workflow import Workflow

if TYPE_CHECKING:
    from wfdash.testing.benches import Bench

__all__ = [
    "AlreadyAnswered",
    "Bench",
    "BenchRequest",
    "BenchRun",
    "Call",
    "Changed",
    "Invalid",
    "NoLongerOpen",
    "NotAllowed",
    "NotFound",
    "RunFailed",
    "StillWaiting",
    "Unanswered",
    "VoteCount",
    "WrongState",
    "bench",
    "run_step",
]


def bench(
    *workflows: Workflow,
    people: Mapping[str, str | Iterable[str]] | Iterable[str] = (),
    groups: Mapping[str, Iterable[str]] | None = None,
    roles: Mapping[str, str] | None = None,
) -> Bench:
    """Return a dashboard without pages for these workflows: ``async with bench(workflow, people=...) as t``.

    ``people``: names, or name -> groups. ``groups``: group -> names, the same the other way round. ``roles``: name ->
    ``viewer``, ``reviewer`` (everyone else), ``operator`` or ``admin``. One bench at a time in a process.
    ``InvalidWorkflow`` names what is wrong with a workflow.
    """
    set_up_django()
    from wfdash.testing.benches import Bench, Cast

    return Bench(workflows, Cast.of(people, groups or {}, roles or {}))


def __getattr__(name: str) -> Any:
    """Return ``Bench``, for annotations: its module needs Django to be set up."""
    if name != "Bench":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    set_up_django()
    from wfdash.testing.benches import Bench

    return Bench


def set_up_django() -> None:
    """Set Django up, once per process. ``ImproperlyConfigured`` for a project without wfdash."""
    import django
    from django.apps import apps
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured

    if not settings.configured and "DJANGO_SETTINGS_MODULE" not in os.environ:
        settings.configure(**_own_settings())
    if not apps.ready:
        django.setup()
    if missing := [name for name in ("checkpoints", "wfdash") if not apps.is_installed(name)]:
        raise ImproperlyConfigured(
            f"wfdash.testing needs {' and '.join(map(repr, missing))} in the INSTALLED_APPS of the settings that tests"
            " use; without DJANGO_SETTINGS_MODULE it brings settings of its own"
        )


def _own_settings() -> dict[str, Any]:
    """Return the dashboard's settings, as if no environment variable said anything else."""
    folder = tempfile.mkdtemp(prefix="wfdash-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    plain = {name: value for name, value in os.environ.items() if not name.startswith("WFDASH_")}
    with mock.patch.dict(os.environ, plain | {"WFDASH_DATA": folder}, clear=True):
        module = import_module("wfdash.settings")
    kept = {name: value for name, value in vars(module).items() if name.isupper()}
    # Daphne would install an event loop for Twisted; logging is pytest's.
    apps = [name for name in kept["INSTALLED_APPS"] if name != "daphne"]
    return kept | {"INSTALLED_APPS": apps, "LOGGING_CONFIG": None, "WFDASH_EMBED": False}
