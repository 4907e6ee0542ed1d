"""LangGraph's own suite for checkpointers."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

pytest.importorskip("langgraph.checkpoint.conformance")

from langgraph.checkpoint.conformance import checkpointer_test, validate

from checkpoints.langgraph import DjangoSaver


async def test_the_saver_passes_all_checks_of_all_capabilities(alias: str) -> None:
    @checkpointer_test(name=f"DjangoSaver on {alias}")
    async def made() -> AsyncGenerator[DjangoSaver, None]:
        async with DjangoSaver(using=alias) as saver:
            yield saver

    report = await validate(made)
    assert {name: result.failures for name, result in report.results.items() if result.failures} == {}
    assert [name for name, result in report.results.items() if not result.detected] == []
    assert len(report.results) == 8
    assert sum(result.tests_passed for result in report.results.values()) == 81
