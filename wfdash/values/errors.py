"""What is wrong with a value or a question, for every engine. Authors import them from ``wfdash.workflow.errors``."""

from __future__ import annotations

from checkpoints.errors import ErrorWithFacts


class WorkflowError(ErrorWithFacts):
    """Something about a workflow went wrong; see the subclass for the remedy."""


class InvalidCall(WorkflowError):
    """These arguments of ``run`` do not go together: the message names them."""


class NotStorable(WorkflowError):
    """The value would not come back the same: use a type that does. ``facts``: path."""


class WrongType(WorkflowError):
    """The value does not fit its declared type."""
