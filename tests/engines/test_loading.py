"""Engines that an installation lists and that packages offer: one that cannot be loaded is named, the rest works."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from wfdash.engines import catalog, loading
from wfdash.engines.loading import load_engines

NATIVE = "wfdash.engines.native.NativeEngine"


class Broken:
    name = "broken"

    def __init__(self) -> None:
        raise RuntimeError("langgraph 0.9 is installed, 1.2.12 or newer is needed")


class Partial:
    name = "partial"

    def accepts(self, definition: object) -> bool:
        return False


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("nothing_of_that_name.Engine", "install the package with 'nothing_of_that_name', or take it out"),
        (f"{__name__}.Broken", "1.2.12 or newer is needed"),
        (f"{__name__}.Absent", "has no 'Absent'"),
        (f"{__name__}.Partial", "it has no method describe"),
        ("Engine", "named with its module"),
        ("", "named with its module"),
    ],
)
def test_an_engine_that_cannot_be_loaded_is_named_and_the_others_are_used(path: str, words: str):
    engines, missing = load_engines([path, NATIVE])
    assert [engine.name for engine in engines] == ["native"]
    assert [(one.path, words in one.error) for one in missing] == [(path, True)]


def test_a_package_offers_its_engine_by_an_entry_point_and_it_is_used_once(monkeypatch):
    point = EntryPoint("native", "wfdash.engines.native:NativeEngine", loading.GROUP)
    monkeypatch.setattr(loading, "entry_points", lambda group: [point])
    monkeypatch.setattr(loading, "offered", loading.offered.__wrapped__)
    assert [engine.name for engine in load_engines([])[0]] == ["native"]
    assert [engine.name for engine in load_engines([NATIVE])[0]] == ["native"]


def test_the_catalogue_names_an_engine_that_is_missing_and_serves_the_rest(settings):
    settings.WFDASH_ENGINES = [NATIVE, "nothing_of_that_name.Engine"]
    settings.WFDASH_APPS, settings.WFDASH_WORKFLOWS = ["wfdash.examples"], []
    found = catalog.read()
    assert "patch_review" in found.entries
    assert [failure.source for failure in found.failures] == ["nothing_of_that_name.Engine"]
