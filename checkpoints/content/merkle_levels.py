"""Merkle levels of a big dict: its entries in groups, groups of groups; entries are replaced without a rebuild."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from checkpoints.content.chunks import FANOUT, Part, groups, inner, stored


@dataclass(frozen=True, slots=True)
class MerkleLevel:
    """Nodes of one level in order, and where each group of them ends; the top level has no groups."""

    parts: list[Part]
    ends: list[int]


@dataclass(frozen=True, slots=True)
class MerkleLevels:
    """The levels of a dict, from its entries up; immutable."""

    levels: tuple[MerkleLevel, ...]

    @property
    def node(self) -> bytes:
        """Return the node of the dict."""
        return inner("D", self.levels[-1].parts)

    def replaced(self, changes: Sequence[tuple[int, bytes]], chunks: dict[str, bytes]) -> tuple[MerkleLevels, set[str]]:
        """Return the levels with other nodes at some places, and the hashes that are obsolete.

        Marks do not change, so neither do the groups: only those around the changes are rebuilt.
        """
        obsolete: set[str] = set()
        levels: list[MerkleLevel] = []
        for level in self.levels:
            parts = list(level.parts)
            for place, node in changes:
                parts[place] = (node, parts[place][1])
            levels.append(MerkleLevel(parts, level.ends))
            changes = [(at, joined_group(parts, level.ends, at, chunks)) for at in groups_around(level, changes)]
            above = self.levels[len(levels)].parts if changes else []
            obsolete.update(hash_in(above[at][0]) for at, node in changes if above[at][0] != node)
        return MerkleLevels(tuple(levels)), obsolete - {""}


def build_levels(parts: list[Part], chunks: dict[str, bytes]) -> MerkleLevels:
    """Return the levels over entries in order; inner nodes are added to ``chunks``."""
    levels: list[MerkleLevel] = []
    while len(parts) > 2 * FANOUT:
        grouped = list(groups(parts))
        levels.append(MerkleLevel(parts, list(accumulate(len(group) for group in grouped))))
        parts = [(stored(inner("D", group), chunks), group[-1][1] >> 4) for group in grouped]
    return MerkleLevels((*levels, MerkleLevel(parts, [])))


def groups_around(level: MerkleLevel, changes: Sequence[tuple[int, bytes]]) -> list[int]:
    """Return which groups hold the changes, each once, in order."""
    return sorted({bisect_right(level.ends, place) for place, _ in changes}) if level.ends else []


def joined_group(parts: list[Part], ends: list[int], at: int, chunks: dict[str, bytes]) -> bytes:
    """Return the reference to one group."""
    return stored(inner("D", parts[ends[at - 1] if at else 0 : ends[at]]), chunks)


def hash_in(node: bytes) -> str:
    """Return the hash of a node that is only a reference, else an empty string."""
    return node[6:-2].decode() if node.startswith(b'{"c":"') else ""
