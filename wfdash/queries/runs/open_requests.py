"""What runs wait for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from checkpoints.models import HumanRequest
from checkpoints.models.fields import current_encryptor
from checkpoints.records import SIGNAL
from wfdash.domain.invisible import visible
from wfdash.queries.unreadable import subject_in
from wfdash.questions.signals import name_in
from wfdash.records.runs import WaitingFor


class AwaitedReply(WaitingFor):
    """An open request, as a run's row shows it. ``by``: whom it is addressed to."""

    by: tuple[str, ...]


def open_requests_of(run_ids: Iterable[str]) -> defaultdict[str, list[AwaitedReply]]:
    """Return run id -> its open requests, oldest first (one query)."""
    asked: defaultdict[str, list[AwaitedReply]] = defaultdict(list)
    rows = HumanRequest.objects.filter(run_id__in=list(run_ids), closed__isnull=True, answered__isnull=True)
    rows = rows.order_by("created", "id")
    hidden = ("card",) if current_encryptor().active else ()
    columns = ("id", "run_id", "subject", "step", "by", "kind", "key", *hidden)
    for id_, run_id, subject, step, by, kind, key, *card in rows.values_list(*columns):
        for hidden_card in card:
            subject = subject_in(hidden_card, id_, step)
        one = AwaitedReply.trusted(
            id=id_,
            key=key,
            step=step,
            kind=kind,
            subject=visible(str(subject or step)),
            by=tuple(by),
            signal=name_in(key) if kind == SIGNAL else "",
        )
        asked[run_id].append(one)
    return asked
