"""What every benchmark needs: Django on a fresh database, tables on paper, percentiles, bars."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@contextmanager
def fresh_django(folder: Path | None = None) -> Iterator[Path]:
    """Set Django up on a migrated SQLite database in a folder (default: a temporary one); yields its path."""
    with tempfile.TemporaryDirectory(prefix="wfdash-bench-", ignore_cleanup_errors=True) as temporary:
        data = folder or Path(temporary)
        os.environ["WFDASH_DATA"] = str(data)
        os.environ.pop("WFDASH_DATABASE", None)
        set_django_up()
        yield data / "wfdash.sqlite3"


def set_django_up(**environment: str) -> None:
    """Load Django and migrate the database that the environment names, with these additions."""
    os.environ.update(environment, DJANGO_SETTINGS_MODULE="wfdash.settings")
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)


def percentile(values: Sequence[float], part: float) -> float:
    """Return the value below which ``part`` (0..1) of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def median(values: Sequence[float]) -> float:
    """Return the middle value."""
    return percentile(values, 0.5)


@dataclass
class Report:
    """Rows of ``what | figure | bar``; remembers whether a bar was missed."""

    title: str
    rows: list[tuple[str, str, str]] = field(default_factory=list)
    missed: int = 0

    def note(self, what: str, figure: str) -> None:
        """Add a figure that has no bar."""
        self.rows.append((what, figure, ""))

    def at_least(self, what: str, value: float, bar: float, unit: str = "x") -> None:
        """Add a figure that must not be below the bar."""
        self._judge(what, value, f">= {bar:g}", value >= bar, unit)

    def at_most(self, what: str, value: float, bar: float, unit: str = "ms") -> None:
        """Add a figure that must not be above the bar."""
        self._judge(what, value, f"<= {bar:g}", value <= bar, unit)

    def _judge(self, what: str, value: float, bar: str, met: bool, unit: str) -> None:
        self.missed += not met
        self.rows.append((what, f"{value:.2f} {unit}", f"{bar} {'met' if met else 'MISSED'}"))

    def show(self) -> int:
        """Print the table; returns 1 if a bar was missed, else 0."""
        widths = [max(len(row[column]) for row in [(self.title, "", ""), *self.rows]) for column in range(3)]
        print(self.title)
        for row in self.rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        return 1 if self.missed else 0
