"""What a new installation still lacks, known by facts alone."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from django.conf import settings

from checkpoints.models import Answer, Run, Webhook
from checkpoints.models.user_model import User
from wfdash import catalog
from wfdash.access.viewer import EVERY, Viewer
from wfdash.queries.account.looks import looks_of


@dataclass(frozen=True, kw_only=True)
class FirstSteps:
    """What has been done to set up an installation."""

    workflow: bool
    """A workflow of one's own is served."""
    run: bool
    answer: bool
    """A person has answered a request."""
    people: bool
    """More than one person can sign in."""
    notifications: bool
    """Mails, chats or webhooks can reach someone who is not looking."""
    encryption: bool

    @property
    def done(self) -> int:
        """Return how many are done."""
        return sum(astuple(self))

    @property
    def count(self) -> int:
        """Return how many there are."""
        return len(astuple(self))


def read_first_steps(viewer: Viewer) -> FirstSteps | None:
    """Return what has been done (five queries); None for people who are not admins of everything."""
    if not viewer.may("admin", EVERY):
        return None
    return FirstSteps(
        workflow=any(entry.source not in catalog.SHIPPED for entry in catalog.entries()),
        run=Run.objects.order_by().exists(),
        answer=Answer.objects.filter(by__isnull=False).exists(),
        people=User.objects.filter(is_active=True)[:2].count() > 1,
        notifications=bool(settings.WFDASH_MAIL or settings.WFDASH_APPRISE) or Webhook.objects.exists(),
        encryption=bool(settings.WFDASH_ENCRYPTION_KEYS),
    )


def steps_to_show(viewer: Viewer) -> FirstSteps | None:
    """Return what has been done while something is left and this person has not dismissed the list."""
    if not viewer.may("admin", EVERY) or looks_of(viewer).dismissed_first_steps:
        return None
    found = read_first_steps(viewer)
    return found if found and found.done < found.count else None
