from __future__ import annotations

from tests.pages.conftest import _paper_catalog as _paper_catalog
