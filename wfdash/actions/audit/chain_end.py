"""The end of the audit's chain: one row, which everyone who appends moves on."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from django.db import IntegrityError
from django.db.models import QuerySet

from checkpoints.content.pickles import Keyring
from checkpoints.database.alias import alias, atomic, connection
from checkpoints.database.compiled import Placeholder, Update, compiled_rows, compiled_update
from checkpoints.database.storage import update_last
from checkpoints.models import AuditHead


@dataclass(frozen=True, kw_only=True)
class ChainEnd:
    """Number and hash of the last entry, and the signature over both, as they are stored."""

    n: int
    hash: str
    signature: str

    def flaw(self, keys: Keyring) -> str:
        """Return why it cannot be verified, empty if it can."""
        return keys.flaw(self.signature, "head", str(self.n), self.hash)


@dataclass(frozen=True, kw_only=True)
class KnownEnd:
    """What this process made the end last, with the keys that signed it.

    A hint: the row is compared with it. ``alone``: whether no one else had moved the end when it was last looked at.
    """

    end: ChainEnd
    keys: Keyring
    alone: bool


_known: dict[str, KnownEnd] = {}
"""By database. Of a transaction that was rolled back, too: the comparison fails then."""


def known_end(keys: Keyring) -> ChainEnd | None:
    """Return what the end probably still is, without a query: this process signed it. None where others append, too."""
    known = _known.get(alias())
    return known.end if known is not None and known.alone and known.keys is keys else None


def locked_end() -> ChainEnd:
    """Return the end as stored now, its row locked until the transaction ends."""
    head = _head().first() or _first_head()
    end = ChainEnd(n=head.n, hash=head.hash, signature=head.signature)
    known = _known.get(alias())
    if known is not None:
        _known[alias()] = replace(known, alone=known.end == end)
    return end


def move_end(before: ChainEnd, n: int, digest: str, keys: Keyring) -> bool:
    """Make this entry the end, as one of the last writes of the transaction. False, and nothing changed, if the stored
    end is not the one before.
    """
    after = ChainEnd(n=n, hash=digest, signature=keys.sign("head", str(n), digest))
    known = _known.get(alias())
    expected = {f"last_{name}": value for name, value in asdict(before).items()}
    moved = update_last(connection(), _moved(), **asdict(after), **expected)
    if moved != 1:
        if known is not None:
            _known[alias()] = replace(known, alone=False)
        return False
    _known[alias()] = KnownEnd(end=after, keys=keys, alone=known is None or known.alone)
    return True


@compiled_rows
def _head() -> QuerySet[AuditHead]:
    return AuditHead.objects.select_for_update().filter(pk=1).order_by()


@compiled_update
def _moved() -> Update:
    columns = ("n", "hash", "signature")
    before = {name: Placeholder(f"last_{name}") for name in columns}
    return AuditHead.objects.filter(pk=1, **before), {name: Placeholder(name) for name in columns}


def _first_head() -> AuditHead:
    try:
        with atomic():
            return AuditHead.objects.create(pk=1)
    except IntegrityError:
        return AuditHead.objects.select_for_update().get(pk=1)
