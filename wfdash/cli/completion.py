"""``wfdash completion``: what bash and zsh need to complete commands and options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

SHELLS = ("bash", "zsh")


def add(commands: Any, parser: Callable[[], argparse.ArgumentParser]) -> None:
    """Add the command. ``parser`` gives the whole command line."""
    completion = commands.add_parser(
        "completion",
        help="print the completion for bash or zsh",
        description='Print the completion for bash or zsh: eval "$(wfdash completion bash)".',
    )
    completion.add_argument("name", choices=SHELLS)
    completion.set_defaults(run=lambda options: _print(options.name, parser()), uses_api=True, needs_data=False)


def _print(name: str, parser: argparse.ArgumentParser) -> int:
    import shtab

    sys.stdout.write(shtab.complete(parser, shell=name) + "\n")
    return 0
