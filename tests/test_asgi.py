from __future__ import annotations

import importlib

import pytest


def test_loading_the_application_leaves_logging_alone_where_django_is_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django.setup", lambda **options: pytest.fail("Django was set up a second time"))
    importlib.reload(importlib.import_module("wfdash.asgi"))
