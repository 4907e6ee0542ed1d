"""The key that signs the audit in every process of the tests: they share databases that were migrated once."""

from __future__ import annotations

AUDIT_KEY = "the-key-that-signs-the-audit-of-tests"
