"""The workflows that come with wfdash; the catalogue finds them here."""

from __future__ import annotations

from importlib.util import find_spec

from wfdash.examples.expense_batch import expense_batch
from wfdash.examples.parcel import parcel
from wfdash.examples.patch_review import patch_review
from wfdash.examples.publish_article import publish_article

__all__ = ["expense_batch", "parcel", "patch_review", "publish_article"]

if find_spec("pydantic_ai") is not None:  # An extra.
    from wfdash.examples.support_agent import support_agent as support_agent

    __all__ += ["support_agent"]
