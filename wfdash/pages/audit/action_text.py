"""The text of an audit entry's action. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wfdash.pages.ui.event_text import past

TEXTS: dict[str, str] = {
    "start": "Started run",
    "retry": "Retried run",
    "cancel": "Cancelled run",
    "pause": "Paused run",
    "resume": "Resumed run",
    "signal": "Sent signal",
    "tag": "Changed tags",
    "delete": "Deleted run",
    "migrate": "Migrated run",
    "override": "Continued run on the current version",
    "restore": "Restored checkpoint",
    "fork": "Forked run",
    "follow-up": "Followed up on run",
    "label": "Labelled checkpoint",
    "delete-checkpoint": "Deleted checkpoint",
    "delete-old": "Removed old runs",
    "answer": "Answered",
    "remind": "Reminder sent",
    "escalate": "Escalated",
    "extend": "Changed due date",
    "fail": "Not answered in time",
    "assign": "Changed assignee",
    "take": "Took over",
    "amend": "Added information",
    "comment": "Commented",
    "ask": "Asked for information",
    "reply": "Replied",
    "refused": "Answer link refused",
    "away": "Set out of office",
    "back": "Ended out of office",
    "bulk": "Bulk operation",
    "run schedule": "Ran schedule",
    "export": "Exported",
    "grant": "Granted role",
    "change grant": "Changed role",
    "revoke": "Revoked role",
    "share view": "Shared view",
    "unshare view": "Stopped sharing view",
    "add webhook": "Added webhook",
    "switch webhook": "Enabled or disabled webhook",
    "renew webhook secret": "Rotated webhook secret",
    "retire webhook secret": "Revoked old webhook secret",
    "remove webhook": "Removed webhook",
    "add incoming webhook": "Added incoming webhook",
    "change incoming webhook": "Changed incoming webhook",
    "switch incoming webhook": "Enabled or disabled incoming webhook",
    "renew incoming secret": "Rotated secret of incoming webhook",
    "retire incoming secret": "Revoked old secret of incoming webhook",
    "remove incoming webhook": "Removed incoming webhook",
    "resend webhook": "Sent webhook deliveries again",
    "create schedule": "Created schedule",
    "change schedule": "Changed schedule",
    "pause schedule": "Paused schedule",
    "resume schedule": "Resumed schedule",
    "delete schedule": "Deleted schedule",
    "stop schedule": "Schedule stopped automatically",
    "sign in": "Signed in",
    "sign out": "Signed out",
    "make sign-in link": "Created sign-in link",
    "change password": "Changed password",
    "renew password hash": "Renewed password hash",
    "create user": "Created user",
    "change user": "Changed user",
    "delete user": "Deleted user",
    "create group": "Created group",
    "rename group": "Renamed group",
    "delete group": "Deleted group",
    "add to group": "Added to group",
    "remove from group": "Removed from group",
    "add permission": "Added permission",
    "remove permission": "Removed permission",
    "second factor: turn on": "Turned on second factor",
    "second factor: turn off": "Turned off second factor",
    "second factor: renew recovery codes": "Renewed recovery codes",
    "second factor: use recovery code": "Used a recovery code",
    "second factor: remove": "Removed second factor",
    "create service account": "Created service account",
    "connect identity": "Connected with the sign-in provider",
    "disconnect identity": "Disconnected from the sign-in provider",
    "create token": "Created token",
    "revoke token": "Revoked token",
    "end sessions": "Ended sessions",
    "chain broken": "Chain broken",
}


def action_text(verb: str, facts: Mapping[str, Any]) -> str:
    """Return what was done, as text; an action that is not in the table is its own text."""
    verdict = str(facts.get("verdict") or "")
    if verdict and verb == "undo":
        return f"Decision undone ({past(verdict)})"
    if verdict:
        done = past(verdict)
        return f"{done[:1].upper()}{done[1:]}{' (override)' if verb == 'override' else ''}"
    return TEXTS.get(verb, verb[:1].upper() + verb[1:])
