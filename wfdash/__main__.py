"""``python -m wfdash``: the ``wfdash`` command."""

from __future__ import annotations

import sys

from wfdash.cli import main

if __name__ == "__main__":
    sys.exit(main())
