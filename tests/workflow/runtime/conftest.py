"""The storages that runs are driven in."""

from __future__ import annotations

from tests.conformance.conftest import world as world
