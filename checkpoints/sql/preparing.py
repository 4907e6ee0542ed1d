"""Commits with everything encoded that can be before a database is asked. Pure."""

from __future__ import annotations

from checkpoints.content.encoder import UNBOUNDED, Encoded, encode
from checkpoints.content.encoder_cache import CachedEncoding
from checkpoints.records import Checkpoint, Claim, Commit
from checkpoints.rules import times_of
from checkpoints.sql.event_rows import stored_events
from checkpoints.sql.writes import PreparedCommit


def prepared(commit: Commit, claim: Claim | None, head: CachedEncoding | None, most: int = UNBOUNDED) -> PreparedCommit:
    """Return a commit with everything encoded that can be. ``ValueError`` if something is not valid JSON.

    ``TooMuchToEncode`` if more than ``most`` bytes of its checkpoint have to be.
    """
    point, frozen = commit.checkpoint, commit.frozen
    encoded = None if point is None else encoded_content(point, head, frozen=frozen, most=most)
    events = stored_events(commit.events)
    base = head.id if head is not None and encoded is not None and encoded.reuses_chunks else None
    times = times_of(commit.events)
    return PreparedCommit(commit=commit, claim=claim, encoded=encoded, events=events, base=base, times=times)


def encoded_content(
    checkpoint: Checkpoint, head: CachedEncoding | None, *, frozen: bool, most: int = UNBOUNDED
) -> Encoded:
    """Return a checkpoint's body and requests as text. ``ValueError`` if they are not valid JSON."""
    requests = [r.model_dump(mode="json") for r in checkpoint.requests]
    known = None if head is None else head.known
    return encode({"body": checkpoint.body, "requests": requests}, known=known, frozen=frozen, most=most)
