from __future__ import annotations

from tests.pages.conftest import _paper_catalog, as_, everybody, history, question, run

__all__ = ["_paper_catalog", "as_", "everybody", "history", "question", "run"]
