"""The Django app that stores LangGraph's threads."""

from __future__ import annotations

from django.apps import AppConfig


class LangGraphConfig(AppConfig):
    """Tables for threads, their checkpoints and the writes of their tasks."""

    name = "checkpoints.langgraph"
    label = "checkpoints_langgraph"
    default_auto_field = "django.db.models.BigAutoField"
    verbose_name = "LangGraph threads"
