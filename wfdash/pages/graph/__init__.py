"""Workflow graphs as pictures and as words."""

from __future__ import annotations

from wfdash.pages.graph.drawing import Edge, Graph, Group, Node
from wfdash.pages.graph.folding import ALL, Folded, fold
from wfdash.pages.graph.graph import Extras, layout
from wfdash.pages.graph.travel import travelled

__all__ = ["ALL", "Edge", "Extras", "Folded", "Graph", "Group", "Node", "fold", "layout", "travelled"]
