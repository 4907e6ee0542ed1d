"""The person or service account that calls, and what is theirs."""

from __future__ import annotations

from datetime import datetime

from pydantic import AwareDatetime

from wfdash.records.base import ApiRecord, Body, Described, DescribedRecord, Page


class Rights(ApiRecord):
    """What one may do in a workflow, ``*`` for every one: see, inspect, answer, start, operate, admin."""

    workflow: str
    verbs: list[str]


class Me(DescribedRecord):
    """Who calls, and what they may do with the credentials they sent."""

    name: str
    groups: list[str]
    rights: list[Rights]
    acts_for: list[str] = []
    """Absent people for whom they answer now."""
    token: str = ""
    """The name of the token they sent; empty for a session."""
    through_agents: bool = False
    """Whether an agent may pass on their answers with this token."""


class NotificationRecord(ApiRecord):
    """A notification. ``moot``: it asked for an answer that has been given since."""

    id: str
    kind: str
    headline: str
    text: str
    run: str
    at: datetime
    read: bool
    moot: bool
    request: str


class NotificationPage(Described, Page[NotificationRecord]):
    """A page of notifications, newest first; ``next`` is the cursor of the next page, empty at the end."""

    unread: int
    """How many are unread in all, counted up to 100."""


class ReadNotifications(Body):
    """Which notifications to mark as read: these, or without ``ids`` all."""

    ids: list[str] | None = None


class ReadCount(ApiRecord):
    """How many were unread."""

    read: int


class SavedViewRecord(ApiRecord):
    """A saved view: the filter of a list under a name. ``query``: the query string of the list's address."""

    id: str
    name: str
    query: str
    page: str
    shared: bool
    mine: bool
    owner: str


class SavedViewPage(Page[SavedViewRecord]):
    """One's own views of a list, then those that others share; all of them."""


class ChangeView(Body):
    """A view's name, filter, and whether others see it."""

    name: str
    query: str = ""
    shared: bool = False


class SaveView(ChangeView):
    """A new view. ``page``: inbox or runs."""

    page: str = "inbox"


class AbsenceRecord(ApiRecord):
    """A time in which ``delegate`` may answer on behalf of ``user``. ``now``: it has started."""

    id: int
    user: str
    delegate: str
    since: datetime
    until: datetime
    now: bool


class AbsencePage(Page[AbsenceRecord]):
    """Absences that have not ended: one's own, then those in which one is the delegate; all of them."""


class SetAbsence(Body):
    """Who answers for you, from when until when."""

    delegate: str
    since: AwareDatetime
    until: AwareDatetime
