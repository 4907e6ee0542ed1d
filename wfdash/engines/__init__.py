"""Engines: what executes workflows of one kind, behind ``wfdash.contract``.

``catalog`` knows what is served: workflow name to definition and engine; ``loading`` finds engines by dotted path or
entry point, and each says which objects of a module it takes. ``native`` executes ``wfdash.workflow``. ``langgraph``
and ``agent_framework`` import nothing of their library before a served file has; each has a folder for what a workflow
is before it runs (``definition``), for one drive of a run (``driving``) and for what a checkpoint holds (``stored``).
``published`` serves a workflow that this process has not loaded, by the description that a worker has published;
``consultation`` says which of its abilities a worker is asked for. ``running_steps`` makes the events of steps that an
engine learns of while they run. ``conformance`` is what every engine promises, as checks.
"""

from __future__ import annotations

from wfdash.engines.serving import Served, serve

__all__ = ["Served", "serve"]
