"""A person's notification preferences as JSON, and what follows from them: which channels, and when. Pure.

``{"channels": {"opened": ["browser", "mail"]}, "zone": "Europe/Rome", "quiet": ["22:00", "07:00"], "digest": "hourly" |
"daily", "digest_at": "08:00"}``; missing keys are as in ``KINDS``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from wfdash.domain.cron import known_zones
from wfdash.notifications.kinds import APPRISE, BROWSER, KINDS, MAIL, PERSONAL, PUSH

OFFERED_AT_FIRST = (BROWSER, MAIL, APPRISE)
"""The channels that preferences without ``offered`` were chosen from."""
DIGESTS = {"": "Immediately", "hourly": "Once an hour", "daily": "Once a day"}


@dataclass(frozen=True, kw_only=True)
class Preferences:
    """One person's choices. Times of day are in their ``zone``."""

    channels: Mapping[str, frozenset[str]] = field(default_factory=dict)
    offered: frozenset[str] = frozenset(PERSONAL)
    """The channels there were to choose from: one that is new since then has its default."""
    zone: str = "UTC"
    quiet: tuple[time, time] | None = None
    digest: str = ""
    digest_at: time = time(8)

    def wants(self, kind: str, channel: str) -> bool:
        """Return whether notifications of this kind go to this channel."""
        chosen = self.channels.get(kind)
        if chosen is not None and channel in self.offered:
            return channel in chosen
        return channel in {BROWSER, PUSH, APPRISE} or (channel == MAIL and KINDS[kind].mail)

    def due(self, kind: str, channel: str, now: datetime) -> datetime:
        """Return when to send it: now, with the next digest, or after the quiet hours."""
        at = now
        if channel == MAIL and self.digest and not KINDS[kind].at_once:
            at = self._next_digest(now)
        return self._after_quiet(at)

    def is_quiet(self, now: datetime) -> bool:
        """Return whether this is within the quiet hours."""
        return self._after_quiet(now) > now

    def stored(self) -> dict[str, Any]:
        """Return the preferences as JSON."""
        return {
            "channels": {kind: sorted(channels) for kind, channels in self.channels.items()},
            "offered": sorted(self.offered),
            "zone": self.zone,
            "quiet": [text_of(moment) for moment in self.quiet] if self.quiet else [],
            "digest": self.digest,
            "digest_at": text_of(self.digest_at),
        }

    def _next_digest(self, now: datetime) -> datetime:
        if self.digest == "hourly":
            return now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        return self._next_time(self.digest_at, now)

    def _after_quiet(self, now: datetime) -> datetime:
        if self.quiet is None or self.quiet[0] == self.quiet[1]:
            return now
        begin, end = self.quiet
        clock = now.astimezone(ZoneInfo(self.zone)).time()
        inside = begin <= clock < end if begin < end else clock >= begin or clock < end
        return self._next_time(end, now) if inside else now

    def _next_time(self, clock: time, now: datetime) -> datetime:
        """Return the next time after ``now`` at which clocks in the zone show this."""
        zone = ZoneInfo(self.zone)
        day = now.astimezone(zone).date()
        moments = (datetime.combine(day + timedelta(days=n), clock, zone).astimezone(UTC) for n in range(3))
        return next(moment for moment in moments if moment > now)


def read_preferences(data: Mapping[str, Any]) -> Preferences:
    """Return stored preferences; unknown values count as missing."""
    channels = {
        kind: frozenset(chosen) & frozenset(PERSONAL)
        for kind, chosen in data.get("channels", {}).items()
        if kind in KINDS
    }
    zone = data.get("zone", "UTC")
    quiet = [read_time(text) for text in data.get("quiet", [])]
    return Preferences(
        channels=channels,
        zone=zone if zone in known_zones() else "UTC",
        offered=frozenset(data.get("offered") or (OFFERED_AT_FIRST if channels else PERSONAL)),
        quiet=(quiet[0], quiet[1]) if len(quiet) == 2 else None,
        digest=data.get("digest", "") if data.get("digest") in DIGESTS else "",
        digest_at=read_time(data.get("digest_at", "08:00")),
    )


def read_time(text: str) -> time:
    """Return the time of day that ``"22:00"`` names. ``ValueError``."""
    return datetime.strptime(text, "%H:%M").time()  # noqa: DTZ007 (a time of day has no zone)


def text_of(clock: time) -> str:
    """Return a time of day in the form ``read_time`` reads."""
    return clock.strftime("%H:%M")
