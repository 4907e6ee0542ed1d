"""Tests: twins of the tree, plus conformance, faults, e2e and benchmarks."""

from __future__ import annotations
