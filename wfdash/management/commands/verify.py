"""``manage.py verify [PACK.json]``: prove that the audit chain, or an exported pack of it, was not altered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from wfdash.chain import Break, pack_breaks
from wfdash.desk.audit import check_chain


class Command(BaseCommand):
    """Check every hash and every link of the chain; exit status 1 and a line each for what does not hold."""

    help = "Prove that the audit chain in the database, or an exported pack, was not altered."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take a pack, or nothing for the database."""
        parser.add_argument("pack", nargs="?", type=Path, metavar="PACK.json")

    def handle(self, *args: Any, pack: Path | None, **options: Any) -> None:
        """Check and say what was found."""
        count, found = check_chain() if pack is None else check_pack(pack)
        for broken in found:
            self.stderr.write(f"entry {broken.n}: {broken.words}")
        if found:
            raise CommandError(f"{count} entries, {len(found)} do not hold: the record was altered")
        self.stdout.write(f"{count} entries, the chain holds")


def check_pack(path: Path) -> tuple[int, Sequence[Break]]:
    """Check an exported pack; returns how many entries it has, and what does not hold."""
    try:
        pack = json.loads(path.read_text())
        return len(pack["entries"]), list(pack_breaks(pack))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CommandError(f"{path} is no audit pack: {error}") from error
