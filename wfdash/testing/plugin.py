"""The pytest plugin: ``wfdash_bench`` opens benches that end with the test. Installed with wfdash, loaded by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from wfdash.testing import Bench


@pytest.fixture
def wfdash_bench() -> Iterator[Callable[..., Bench]]:
    """Give a function that opens a bench, with the arguments of ``wfdash.testing.bench``, until the test has ended."""
    from wfdash.testing import bench

    with ExitStack() as stack:

        def opened(*workflows: Any, **options: Any) -> Bench:
            made = bench(*workflows, **options).open()
            stack.callback(made.close)
            return made

        yield opened
