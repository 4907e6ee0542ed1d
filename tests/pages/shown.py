"""What pages show in tests that look at all of them: a run with a history, and an address of every page."""

from __future__ import annotations

from collections.abc import Sequence

from django.urls import reverse

from checkpoints.models import Checkpoint, HumanRequest, Run, WorkflowVersion
from checkpoints.models.user_model import User
from tests import people
from tests.pages.paper import expenses


def make_drawn_run(by: User) -> Run:
    """Make a run whose graph is stored."""
    described = expenses.description
    WorkflowVersion.objects.create(
        workflow=described.workflow, version=described.version, description=described.model_dump(mode="json")
    )
    return people.make_run(created_by=by)


def make_history(run: Run) -> list[Checkpoint]:
    """Make three checkpoints in a row; the second waits for a review, the third comes after a call."""
    people.happen(
        run, ("run.queued", None, {"by": "otto"}), *people.step("read", "started", "finished", output={"x": 1})
    )
    first = people.save(run, step="read", body={"state": {"n": 1}, "position": {}})
    people.happen(run, *people.step("review", "started", "waiting"))
    second = people.save(run, first, step="review", body={"state": {"n": 2, "secret": "hush"}, "position": {}})
    people.happen(run, *people.step("review", "finished"), *people.step("pay", "started", "finished"))
    third = people.save(run, second, step="pay", body={"state": {"n": 3, "secret": "hush"}, "position": {}})
    people.did(run, "bank.transfer", n=3)
    return [first, second, third]


def addresses_of(run: Run, question: HumanRequest, history: Sequence[Checkpoint]) -> dict[str, str]:
    """Return the address of every page that shows something, by the name of its pattern."""
    chosen = [run.pk, history[0].pk]
    return {
        "inbox": "/",
        "request": f"/requests/{question.pk}/",
        "runs": "/runs/",
        "run": f"/runs/{run.pk}/",
        "checkpoint": reverse("wfdash:checkpoint", args=chosen),
        "restore": reverse("wfdash:restore", args=chosen),
        "checkpoint-delete": reverse("wfdash:checkpoint-delete", args=chosen),
        "fork": reverse("wfdash:fork", args=chosen),
        "runs-suggestions": "/runs/suggestions/?q=st",
        "audit-suggestions": "/audit/suggestions/",
        "schedules-suggestions": "/schedules/suggestions/",
        "workflows-suggestions": "/suggestions/workflows/",
        "workflows-reloaded": "/reloaded/workflows/",
        "getting-started": "/getting-started/",
        "run-events": f"/runs/{run.pk}/events/",
        "run-events-export": f"/runs/{run.pk}/events.jsonl",
        "run-logs": f"/runs/{run.pk}/logs/",
        "run-logs-text": f"/runs/{run.pk}/logs.txt",
        "run-state": f"/runs/{run.pk}/state/",
        "run-beside": f"/runs/{run.pk}/beside/",
        "run-history": f"/runs/{run.pk}/checkpoints/",
        "compare": reverse("wfdash:compare", args=[run.pk]) + f"?a={history[0].pk}&b={history[-1].pk}",
        "edit": reverse("wfdash:edit", args=chosen),
        "replay": f"/runs/{run.pk}/at/1/",
        "run-cancel": f"/runs/{run.pk}/cancel/",
        "run-delete": f"/runs/{run.pk}/delete/",
        "run-follow-up": f"/runs/{run.pk}/follow-up/",
        "run-signal": f"/runs/{run.pk}/signal/",
        "run-migrate": f"/runs/{run.pk}/migrate/",
        "run-override": f"/runs/{run.pk}/override/",
        "workflows": "/workflows/",
        "workflow": "/workflows/expense_batch/",
        "schedules": "/schedules/",
        "schedule-new": "/schedules/new/?workflow=expense_batch",
        "schedule-next": "/schedules/next/?cron=@daily&zone=UTC",
        "operations": "/operations/",
        "retention": "/operations/retention/",
        "rules": "/rules/",
        "second-looks": "/second-looks/",
        "oversight": "/audit/oversight/",
        "statistics": "/statistics/",
        "decisions": "/decisions/",
        "notifications": "/notifications/",
        "search": f"/search/?q={run.pk}",
        "settings": "/settings/",
        "account": "/settings/account/",
        "webhooks": "/settings/webhooks/",
        "tokens": "/settings/tokens/",
        "connect": "/settings/connect/?host=mcp",
        "incoming-webhooks": "/settings/incoming-webhooks/",
        "incoming-webhook-new": "/settings/incoming-webhooks/new/?workflow=expense_batch",
        "people": "/people/",
        "person": "/people/ana/",
        "person-invite": "/people/invite/",
        "groups": "/people/groups/",
        "group": "/people/groups/finance/",
        "access": "/people/access/",
    }
