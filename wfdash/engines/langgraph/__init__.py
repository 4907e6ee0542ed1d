"""Graphs of LangGraph behind the engine's contract. Light: nothing of LangGraph is imported before a graph is there."""

from __future__ import annotations

from wfdash.engines.langgraph.engine import LangGraphEngine

__all__ = ["LangGraphEngine"]
