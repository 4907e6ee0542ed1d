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

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from wfdash.errors import AlreadyAnswered, Changed, Invalid, NoLongerOpen, NotAllowed, NotFound, WrongState
from wfdash.outcomes import RunFailed, StillWaiting
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
    from wfdash.testing.environment import set_up_django

    set_up_django()
    from wfdash.testing.benches import Bench
    from wfdash.testing.people import Cast

    return Bench(workflows, Cast.of(people, groups or {}, roles or {}))


def __getattr__(name: str) -> Any:
    """Return ``Bench``, for annotations: its module needs Django to be set up."""
    if name != "Bench":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from wfdash.testing.environment import set_up_django

    set_up_django()
    from wfdash.testing.benches import Bench

    return Bench
