"""The engine for workflows of Microsoft Agent Framework. Importing it imports nothing of the framework."""

from __future__ import annotations

from wfdash.engines.agent_framework.engine import AgentFrameworkEngine

__all__ = ["AgentFrameworkEngine"]
