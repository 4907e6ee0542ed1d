"""What ``MemoryStorage`` keeps: plain rows, and values packed so that they share nothing with anybody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from checkpoints import canonical, rules
from checkpoints.chunks import bound, opened, sealed
from checkpoints.ids import CheckpointId, RequestId, RunId, new_checkpoint_id
from checkpoints.records import (
    Answer,
    Checkpoint,
    CheckpointInfo,
    Claim,
    Effect,
    EventDraft,
    Phase,
    Reason,
    Request,
    Standing,
)


@dataclass(kw_only=True)
class RequestRow:
    """A question and what became of it."""

    id: RequestId
    request: Request
    created: datetime
    answer: Answer | None = None
    closed_as: str = ""


@dataclass(kw_only=True)
class RunRow:
    """One run with everything it owns."""

    id: RunId
    family: RunId
    forked_from: CheckpointId | None = None
    phase: Phase = Phase.READY
    seq: int = 0
    n: int = 0
    epoch: int = 0
    attempts: int = 0
    wake_at: datetime | None = None
    standing: Standing | None = None
    finished: datetime | None = None
    claim: Claim | None = None
    infos: dict[CheckpointId, CheckpointInfo] = field(default_factory=dict)
    contents: dict[CheckpointId, str] = field(default_factory=dict)
    by_n: dict[int, CheckpointId] = field(default_factory=dict)
    events: list[bytes] = field(default_factory=list)
    requests: list[RequestRow] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)

    @property
    def expires(self) -> datetime | None:
        """When its claim ends, None without one."""
        return None if self.claim is None else self.claim.expires

    def pending(self) -> list[RequestRow]:
        """Return the questions that are not closed."""
        return [row for row in self.requests if not row.closed_as]

    def history(self) -> list[CheckpointInfo]:
        """Return the metadata of its checkpoints, newest first."""
        return [self.infos[self.by_n[n]] for n in sorted(self.by_n, reverse=True)]

    def forget(self, checkpoint: CheckpointId) -> bool:
        """Remove one checkpoint; False if there was none."""
        info = self.infos.pop(checkpoint, None)
        if info is None:
            return False
        del self.contents[checkpoint], self.by_n[info.n]
        return True


def copied(draft: EventDraft) -> EventDraft:
    """Return a copy whose data shares nothing. ``ValueError`` if it is no JSON."""
    return draft.model_copy(update={"data": canonical.loads(canonical.dumps(draft.data))})


def pack(checkpoint: Checkpoint, *, seq: int) -> tuple[CheckpointInfo, str]:
    """Return the metadata with what a storage fills in, and the content as text. ``ValueError`` if it is no JSON."""
    content = {"body": checkpoint.body, "requests": [r.model_dump(mode="json") for r in checkpoint.requests]}
    text = canonical.dumps(content)
    filled = {"size": len(text), "seq": seq, "waiting": len(checkpoint.requests)}
    return checkpoint.info().model_copy(update=filled), bound(sealed(text), rules.row_of(checkpoint))


def unpacked(info: CheckpointInfo, text: str) -> Checkpoint:
    """Return the checkpoint. ``Incompatible`` for a newer format, ``Damaged`` if it is not what was written."""
    rules.refuse_unreadable(info)
    content = canonical.loads(opened(text, rules.row_of(info)))
    requests = tuple(Request.model_validate(request) for request in content["requests"])
    facts = {name: getattr(info, name) for name in CheckpointInfo.model_fields}
    return Checkpoint.model_construct(**facts, body=content["body"], requests=requests)


def forked(origin: Checkpoint, run: RunId, now: datetime) -> Checkpoint:
    """Return the first checkpoint of a new run that continues from ``origin``."""
    changes = {
        "id": new_checkpoint_id(),
        "run": run,
        "n": 1,
        "parent": origin.id,
        "reason": Reason.FORK,
        "label": None,
        "created": now,
        "seq": 0,
    }
    return origin.model_copy(update=changes)


def merged_effects(rows: Sequence[Effect], news: Sequence[Effect]) -> list[Effect]:
    """Return the effects with the news in: an intent becomes its result in place, anything else is added."""
    kept = list(rows)
    for new in news:
        at = next((i for i, e in enumerate(kept) if e.key == new.key and e.state in ("intended", "unknown")), None)
        if at is None:
            kept.append(new)
        else:
            kept[at] = new
    return kept
