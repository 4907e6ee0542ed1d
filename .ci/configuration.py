"""Make docs/configuration.md with the settings to start with: ``--write``, else see that it is true.

The site adds all other settings of the table by which wfdash reads them.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
import docs_lists

PAGE = Path(__file__).parents[1] / "docs/configuration.md"
BEGIN = """# Configuration

<!-- made by .ci/configuration.py -->

Settings are environment variables; `wfdash up --help` lists the options that go before them. In a \
[Django project](django.md#settings) they are settings of the same names.
Five are enough for most installations. wfdash listens on loopback only, unless it is told otherwise. \
`wfdash doctor` names a variable that is misspelt. The site lists all others below; in the repository they are in \
[settings.toml](../wfdash/installation/settings.toml).

## Start here
"""


def text() -> str:
    """Return the page."""
    return "\n".join([BEGIN, *docs_lists.setting_rows("Start here"), "", "<!-- settings -->", ""])


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
