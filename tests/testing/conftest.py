"""The plugin, where wfdash is not installed with its entry points."""

from __future__ import annotations

from wfdash.testing.plugin import wfdash_bench as wfdash_bench
