"""Benchmarks: scripts that print tables of figures and of ratios measured in one run.

``make bench`` runs all; ``python -m tests.benchmarks.engine.bench_chain`` runs one. Absolute figures belong to the
machine; ratios are what is promised. ``WFDASH_BENCH_PYTHON`` names a Python that has the peers, if this one has not.
"""

from __future__ import annotations
