"""Make docs/configuration.md of the table by which wfdash reads its settings: ``--write``, else see that it is true."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from wfdash.installation.environment import SETTINGS

PAGE = Path(__file__).parents[1] / "docs/configuration.md"
BEGIN = """# Configuration

<!-- made by .ci/configuration.py -->

Settings are environment variables; `wfdash up --help` lists the options that go before them. In a \
[Django project](django.md#settings) they are settings of the same names.
Five are enough for most installations. wfdash listens on loopback only, unless it is told otherwise. \
`wfdash doctor` names a variable that is misspelt.
"""


def text() -> str:
    """Return the page."""
    lines = [BEGIN]
    for group, rows in SETTINGS.items():
        lines += [f"## {group}\n", "| variable | meaning | default |", "|---|---|---|"]
        for name, row in rows.items():
            default = row.get("default", "")
            shown = row.get("shown") or (f"`{default}`" if default else "none")
            lines.append(f"| `{name}` | {row['says']} | {shown} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    """Write the page, or return 1 if it is not what the table says."""
    if "--write" in sys.argv:
        PAGE.write_text(text())
    elif PAGE.read_text() != text():
        sys.stderr.write("docs/configuration.md is not what wfdash/installation/settings.toml says: run make format\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
