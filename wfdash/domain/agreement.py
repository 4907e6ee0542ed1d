"""How far two people who decided the same agree, beyond chance. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import sqrt

from checkpoints.records import frozen

LEAST = 20
"""Of fewer decisions nothing is said: a share of them would be chance."""
SURE = 1.96
"""Standard errors on each side of a value that hold it in 19 of 20 samples."""


@frozen
class Agreement:
    """How many of ``count`` pairs agree, and Cohen's kappa with its interval of 95 %, from -1 to 1.

    ``kappa`` is None where both said the same of everything: what is beyond chance cannot be known then.
    """

    count: int
    same: int
    kappa: float | None = None
    low: float = 0.0
    high: float = 0.0


def agreement_of(pairs: Sequence[tuple[str, str]]) -> Agreement:
    """Return how far the first and the second of these pairs agree.

    Source: J. Cohen, A coefficient of agreement for nominal scales (1960), with his large-sample standard error.
    """
    count, same = len(pairs), sum(first == second for first, second in pairs)
    firsts, seconds = Counter(first for first, _ in pairs), Counter(second for _, second in pairs)
    chance = sum(number * seconds[name] for name, number in firsts.items()) / (count * count or 1)
    if not count or chance >= 1:
        return Agreement(count=count, same=same)
    seen = same / count
    kappa, wide = (seen - chance) / (1 - chance), SURE * sqrt(seen * (1 - seen) / count) / (1 - chance)
    return Agreement(count=count, same=same, kappa=kappa, low=max(-1.0, kappa - wide), high=min(1.0, kappa + wide))


def confusion(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, list[tuple[str, int]]]]:
    """Return for each first choice how often each second one went with it."""
    counted, names = Counter(pairs), sorted({name for pair in pairs for name in pair})
    return [(one, [(other, counted[one, other]) for other in names]) for one in names]
