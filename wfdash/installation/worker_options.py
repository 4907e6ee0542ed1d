"""The options of a worker process, for every command that starts one."""

from __future__ import annotations

import argparse


def add_worker_options(parser: argparse.ArgumentParser) -> None:
    """Add ``limit`` (None: as the settings say), ``workflows`` and ``queues`` (names; empty: as the settings say)."""
    parser.add_argument(
        "--limit", type=_count, metavar="N", help="execute so many runs at once at most: $WFDASH_LIMIT (500)"
    )
    parser.add_argument(
        "--workflows",
        type=_names,
        default=(),
        metavar="NAME,...",
        help="take runs of these workflows alone: $WFDASH_SERVES (default: of all that are loaded)",
    )
    parser.add_argument(
        "--queues",
        type=_names,
        default=(),
        metavar="NAME,...",
        help="take runs of workflows of these queues alone: $WFDASH_QUEUES (default: of any)",
    )


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"{text} is no number of runs: give 1 or more")
    return int(text)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if not names:
        raise argparse.ArgumentTypeError("there is no name in it")
    return names
