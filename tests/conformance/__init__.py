"""The shipped suite, over every storage of ours."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("checkpoints.conformance")
