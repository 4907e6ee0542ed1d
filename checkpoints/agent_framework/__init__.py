"""Checkpoints of Microsoft Agent Framework in a storage of this package, in any application: no dashboard is needed.

Needs ``pip install "wfdash[agent-framework]"``.
"""

from __future__ import annotations

from checkpoints.agent_framework.checkpoint_storage import CheckpointStorage

__all__ = ["CheckpointStorage"]
