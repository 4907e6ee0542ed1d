#!/usr/bin/env python
"""Django's command line for wfdash."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run a management command."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wfdash.settings")
    os.umask(0o077)
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
