"""How the entries of a big dict are held together: parts, groups of parts, groups of groups; and one part exchanged."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from checkpoints.chunks import FANOUT, Part, groups, inner, stored


@dataclass(frozen=True, slots=True)
class Level:
    """Parts in order, and where each group of them ends; no groups at the top."""

    parts: list[Part]
    ends: list[int]


@dataclass(frozen=True, slots=True)
class Tower:
    """The levels of a dict, from its entries up. Never changed, only replaced."""

    levels: tuple[Level, ...]

    @property
    def node(self) -> bytes:
        """The node of the dict."""
        return inner("D", self.levels[-1].parts)

    def exchanged(self, changes: Sequence[tuple[int, bytes]], chunks: dict[str, bytes]) -> tuple[Tower, set[str]]:
        """Return the tower with other nodes at some places, and the hashes it no longer needs.

        Marks stay what they are, so the groups do, too: only those around the changes are put together again.
        """
        gone: set[str] = set()
        levels: list[Level] = []
        for level in self.levels:
            parts = list(level.parts)
            for place, node in changes:
                parts[place] = (node, parts[place][1])
            levels.append(Level(parts, level.ends))
            changes = [(at, joined_group(parts, level.ends, at, chunks)) for at in groups_around(level, changes)]
            above = self.levels[len(levels)].parts if changes else []
            gone.update(hash_in(above[at][0]) for at, node in changes if above[at][0] != node)
        return Tower(tuple(levels)), gone - {""}


def build_tower(parts: list[Part], chunks: dict[str, bytes]) -> Tower:
    """Return the tower over parts in order; its inner nodes are added to ``chunks``."""
    levels: list[Level] = []
    while len(parts) > 2 * FANOUT:
        grouped = list(groups(parts))
        levels.append(Level(parts, list(accumulate(len(group) for group in grouped))))
        parts = [(stored(inner("D", group), chunks), group[-1][1] >> 4) for group in grouped]
    return Tower((*levels, Level(parts, [])))


def groups_around(level: Level, changes: Sequence[tuple[int, bytes]]) -> list[int]:
    """Return which groups hold the changes, each once, in order."""
    return sorted({bisect_right(level.ends, place) for place, _ in changes}) if level.ends else []


def joined_group(parts: list[Part], ends: list[int], at: int, chunks: dict[str, bytes]) -> bytes:
    """Return what stands for one group."""
    return stored(inner("D", parts[ends[at - 1] if at else 0 : ends[at]]), chunks)


def hash_in(node: bytes) -> str:
    """Return the hash of a node that is nothing but a reference, else nothing."""
    return node[6:-2].decode() if node.startswith(b'{"c":"') else ""
