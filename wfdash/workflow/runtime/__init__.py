"""The engine's effects: one call of ``run`` (``call``), the drive with its loop and commits, recorders and their claim;
one running step (``step_run``), its context, its recorded operations and their replay (``step_ops``).
"""
