"""All limits of live updates; tests pass smaller ones."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one socket, one person and one process may use. Times in seconds, sizes in bytes."""

    unacked_events: int = 500
    """Events sent to one socket and not yet acknowledged; beyond it the socket waits."""
    unacked_bytes: int = 1_000_000
    ack_timeout: float = 60.0
    """A socket that does not acknowledge for this long is closed (4408)."""
    unheard_text: int = 256_000
    """Streamed text sent since the client's last frame; beyond it text is dropped."""
    batch_events: int = 100
    """Events in one message."""
    batch_bytes: int = 256_000
    read_events: int = 500
    """Rows in one read."""
    read_chars: int = 1_000_000
    """Characters after which a read, and a batch, ends."""
    kept_events: int = 1_500
    """Rendered events a feed keeps for its viewers; more than ``snapshot_gap``, so that a replay reads once."""
    kept_chars: int = 8_000_000
    """The same in characters."""
    snapshot_gap: int = 1_000
    """A viewer further behind than this at connect is asked to reload instead of being sent everything."""
    poll_every: float = 1.0
    """The delay of an event whose update was lost."""
    pause_each: float = 0.0002
    """The more viewers a run has, the longer the pause between two messages to them: 0.1 s for 500."""
    stream_every: float = 0.1
    stream_chars: int = 16_000
    """Streamed text buffered per step between two messages; older text of the interval is dropped."""
    lists_every: float = 0.5
    workflows_every: float = 0.05
    """The pause between two looks for events of workflows that are followed."""
    mark_every: float = 0.02
    """The same while a transaction holds up what others have committed."""
    recheck_every: float = 60.0
    spread: float = 2.0
    """The period over which all sockets check their rights again, after a right of many has changed."""
    tick: float = 5.0
    """How often a socket checks its own timers."""
    sockets_per_person: int = 20
    """Sockets and event streams of one person in this process."""
    heartbeat: float = 15.0
    """How long an event stream is silent at most: proxies close connections that say nothing."""
    retry: float = 1.0
    """After how long a client of an event stream should come back."""
    frame_chars: int = 4_096
    frames_per_second: int = 20
    reader_threads: int = 2
