"""The files of docs/agent-framework.md are served: a run of each waits, is answered, and ends as the page says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("agent_framework")

from django.contrib.auth.models import Group

from checkpoints.models import Run
from tests.documentation.test_engines import serve_files
from tests.driving import drive, pending
from tests.people import make_people, viewer
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs.lifecycle import start_run
from wfdash.domain.errors import Invalid
from wfdash.engines import catalog

PAGE = Path(__file__).parents[2] / "docs/agent-framework.md"
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def served(tmp_path: Path, settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Serve the files of the page from a folder of their own."""
    settings.WFDASH_APPS, settings.WFDASH_WORKFLOWS = [], ["served.py", "built.py"]
    yield from serve_files(PAGE, tmp_path, monkeypatch)


def test_both_ways_to_serve_lead_to_a_question_and_its_answer(served: None) -> None:
    editors = Group.objects.create(name="editors")
    make_people()["ana"].groups.add(editors)
    assert [(entry.name, entry.description.title) for entry in catalog.entries()] == [
        ("built", "Built"),
        ("reviews", "Reviews"),
    ]
    assert catalog.failures() == []
    for name in ("built", "reviews"):
        run = start_run(viewer("adam"), name, "spring")
        assert drive(run) == "waiting"
        (request,) = pending(run).values()
        assert request.card["subject"] == "spring"
        assert request.by == (["editors"] if name == "reviews" else [])
        with pytest.raises(Invalid, match="The value does not fit"):
            answer_request(viewer("ana"), request.pk, {"verdict": "maybe"})
        answer_request(viewer("ana"), request.pk, {"verdict": "publish", "words": "at last"})
        assert drive(run) == "completed"
        assert Run.objects.get(pk=run.pk).output == "spring: publish at last"
