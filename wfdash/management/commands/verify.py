"""``manage.py verify [PACK.json [NEWER.json]]``: verify that the audit, or exported packs of it, were not altered."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints.models.fields import current_keyring
from wfdash.actions.audit import check_chain, check_head
from wfdash.domain.hash_chain import PACK, Break, Proof, continuity_breaks, document_in, prove_pack
from wfdash.domain.labels import visible
from wfdash.domain.receipts import ReceiptCheck, trusted_keys
from wfdash.queries.statistics.oversight import REPORT, report_flaw

UNCHECKED = 2
UNSIGNED = (
    "{path} was exported before packs were signed, so no key proves it: --without-key checks its links and hashes alone"
)


class Command(BaseCommand):
    """Check every hash, link, signature and receipt of the chain, and print a line for each flaw.

    Exit status 1: altered. 2: nothing is, as far as that can be checked, for want of a key.
    """

    help = "Verify that the audit log in the database, or exported packs, were not altered."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take one pack, two packs of which the second is the newer, or nothing for the database."""
        parser.add_argument("packs", nargs="*", type=Path, metavar="PACK.json", help="exported packs, the older first")
        parser.add_argument("--without-key", action="store_true", help="check hashes and links of packs, no signatures")
        parser.add_argument("--key", default="", metavar="LINES", help="fingerprints of passkeys, and whose each is")
        parser.add_argument("--head", default="", metavar="N:HASH", help="a chain head recorded elsewhere")
        parser.add_argument("--anchor", type=Path, metavar="FILE", help="chain heads that 'wfdash audit anchor' wrote")
        parser.add_argument("--from", dest="start", type=int, default=0, metavar="N", help="skip earlier entries")

    def handle(
        self,
        *args: Any,
        packs: list[Path],
        without_key: bool,
        key: str,
        head: str,
        anchor: Path | None,
        start: int,
        **_: Any,
    ) -> None:
        """Check and say what was found."""
        if len(packs) > 2:
            raise CommandError("Give one pack, or an older and a newer one")
        if packs and head:
            raise CommandError("--head checks the database: omit the packs")
        if len(packs) == 1 and (report := document_in(packs[0].open, REPORT)):
            if flaw := report_flaw(report):
                raise CommandError(f"The report {flaw}")
            self.stdout.write("The report holds")
            return
        receipts = ReceiptCheck()
        if packs:
            count, found, receipts = check_packs(packs, signed=not without_key)
        else:
            count, found = check_chain(receipts)
        if head:
            found += _noted(head)
        if anchor is not None:
            found += _anchored(anchor, packs, signed=not without_key)
        wrong = [broken for broken in found if broken.n >= start or not broken.n]
        for broken in wrong:
            self.stderr.write(f"entry {broken.n}: {broken.words}" if broken.n else broken.words)
        altered = len({broken.n for broken in wrong if not broken.locked})
        if altered:
            raise CommandError(f"{count} entries, {altered} do not verify: the audit log was altered")
        if wrong:
            many = f"{len({broken.n for broken in wrong})} cannot be checked with the keys of this process"
            raise CommandError(f"{count} entries, {many}; the others hold", returncode=UNCHECKED)
        names = trusted_keys(key)
        for signer, held in receipts.held.items():
            strange = ", and no entry here says that it is theirs" * (signer in receipts.strange)
            words = visible("key {1} of {0}".format(*signer))
            self.stdout.write(f"{held} receipts hold by {words}{strange}")
            if names and names.get(signer[1]) not in ([], [signer[0]]):
                raise CommandError(f"You do not trust {words}")
        self.stdout.write(f"{count} entries, the chain holds{' (hashes and links only, no signatures)' * without_key}")


def check_packs(paths: Iterable[Path], *, signed: bool = True) -> tuple[int, list[Break], ReceiptCheck]:
    """Check exported packs, and that the second continues the first. Returns how many entries the last has, all
    breaks, and the last one's receipts.
    """
    proofs = [prove(path, signed=signed) for path in paths]
    found = [broken for proof in proofs for broken in proof.breaks]
    if len(proofs) == 2:
        found += continuity_breaks(*proofs)
    return len(proofs[-1].entries), found, proofs[-1].receipts


def prove(path: Path, *, signed: bool) -> Proof:
    """Return the result of checking one exported pack. ``CommandError`` if it is none, or has no required signature."""
    try:
        proof = prove_pack(path.open, keys=current_keyring() if signed else None)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CommandError(f"{path} is not an audit pack: {error}") from error
    if signed and proof.format != PACK:
        raise CommandError(UNSIGNED.format(path=path))
    return proof


def _noted(head: str) -> list[Break]:
    n, _, digest = head.partition(":")
    if not n.isdecimal() or not digest:
        raise CommandError(f"--head {head}: give the entry's number and hash, such as 57:0c1f…")
    return check_head(int(n), digest)


def _anchored(path: Path, packs: list[Path], *, signed: bool) -> list[Break]:
    """Return where the database, or the newest pack, is not what a file of anchors says it was."""
    keys, found = current_keyring(), list[Break]()
    newest = prove(packs[-1], signed=signed) if packs else None
    try:
        anchors = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
        for one in anchors:
            n, digest, signature = int(one["n"]), str(one["hash"]), str(one["signature"])
            if signed and (flaw := keys.flaw(signature, "entry", str(n), digest)):
                found.append(Break(n, f"its anchor {flaw}", locked=keys.lacks(signature)))
            if newest is None:
                found += check_head(n, digest)
            else:
                head = {"n": n, "hash": digest}
                found += continuity_breaks(replace(newest, head=head, entries={}), newest)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CommandError(f"{path} is no file of anchors: {error}") from error
    return found
