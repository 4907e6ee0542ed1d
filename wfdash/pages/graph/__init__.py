"""Workflow graphs as pictures and as words."""

from __future__ import annotations

from wfdash.pages.graph.drawing import Edge, Graph, Group, Node
from wfdash.pages.graph.graph import layout
from wfdash.pages.graph.travel import travelled

__all__ = ["Edge", "Graph", "Group", "Node", "layout", "travelled"]
