"""Errors of workflows: one base, one class per remedy.

WorkflowError
├── InvalidWorkflow   the definition contradicts itself
├── InvalidCall       ``run`` was called with arguments that do not go together
├── NotStorable       a value would not survive being stored
├── WrongType         a step returned, or an answer contained, something its type does not allow
├── StateConflict     two overlapping steps wrote the same key
├── ReplayMismatch    the step's code no longer does what was recorded
├── StepTimeout       a step took longer than its ``timeout``
├── Runaway           too many steps without a person in between
└── CallStopped       a person decided that an unknown call must not continue

What else ``run`` raises can be imported from here, too: ``InvalidInput``, and the errors of a storage.
"""

from __future__ import annotations

from checkpoints.errors import AlreadyAnswered as AlreadyAnswered
from checkpoints.errors import CheckpointsError as CheckpointsError
from checkpoints.errors import ClaimLost as ClaimLost
from checkpoints.errors import Conflict as Conflict
from checkpoints.errors import Damaged as Damaged
from checkpoints.errors import Incompatible as Incompatible
from checkpoints.errors import InvalidValue as InvalidValue
from checkpoints.errors import NotFound as NotFound
from checkpoints.errors import StorageFailed as StorageFailed
from checkpoints.errors import Unsupported as Unsupported
from wfdash.contract import InvalidInput as InvalidInput
from wfdash.values.errors import InvalidCall as InvalidCall
from wfdash.values.errors import NotStorable as NotStorable
from wfdash.values.errors import WorkflowError as WorkflowError
from wfdash.values.errors import WrongType as WrongType


class InvalidWorkflow(WorkflowError):
    """The workflow's graph is not valid: the message names the steps. ``facts["problems"]``: all of them."""


class StateConflict(WorkflowError):
    """Two overlapping steps wrote the same key of the state: declare a reducer for it, or let one wait."""


class ReplayMismatch(WorkflowError):
    """The step's code does not repeat what was recorded: run the old code, or restore an earlier checkpoint."""


class StepTimeout(WorkflowError):
    """The step took longer than its timeout."""


class Runaway(WorkflowError):
    """Too many steps ran in a loop without a person answering: raise ``max_steps`` if that is meant."""


class CallFailed(WorkflowError):
    """A call raised an exception whose class is not there any more."""


class CallStopped(WorkflowError):
    """A person stopped the step because it is unknown whether a call has happened."""
