"""Make the two fonts of the pages when wfdash is built or installed: what Latin, Greek and Cyrillic need, compressed.

They come from the packages fontpkg-inter and fontpkg-jetbrains-mono, which hold all of a font (0.9 MB for Inter), and
lie in ``static/fonts`` beside their licences. Hatchling calls this (``pyproject.toml``); a request never does.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SCRIPTS = [  # Latin; Greek, Cyrillic, Vietnamese; punctuation, currency; arrows, signs
    *range(0x20, 0x180), *range(0x1A0, 0x1B1), *range(0x218, 0x21C), *range(0x2C6, 0x2DE), *range(0x300, 0x329),
    *range(0x370, 0x400), *range(0x400, 0x530), *range(0x1E80, 0x1EFA),
    *range(0x2010, 0x205F), *range(0x2070, 0x20C1), *range(0x2100, 0x2150),
    *range(0x2190, 0x219A), *range(0x2200, 0x2266), 0x25CB, 0x25CF, 0x2713, 0x2717, 0xFFFD,
]  # fmt: skip
FONTS = {
    "inter": ("fontpkg_inter", "Inter[opsz,wght].ttf", {"opsz": 14, "wght": (400, 600)}),
    "mono": ("fontpkg_jetbrains_mono", "JetBrainsMono[wght].ttf", {"wght": 400}),
}
FEATURES = ["ccmp", "kern", "locl", "mark", "mkmk", "tnum"]
"""Without ``calt``, which draws ``->`` and ``!=`` as other signs than a person wrote."""

DIGITS = {"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"}


class Fonts(BuildHookInterface[Any]):
    """Writes the fonts before files are collected."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write those that are missing or older than this file."""
        folder = Path(self.root) / "static" / "fonts"
        folder.mkdir(exist_ok=True)
        for name, (package, source, axes) in FONTS.items():
            made = folder / f"{name}.woff2"
            if not made.exists() or made.stat().st_mtime < Path(__file__).stat().st_mtime:
                write_font(made, Path(str(files(package) / "files" / source)), axes)
                (folder / f"{name}.LICENSE.txt").write_text((files(package) / "LICENSE").read_text())


def keep_wide_digits_alone(rules: Any) -> None:
    """Leave only digits of one width to ``tnum``: Inter has spaces, commas and hyphens of that width, too."""
    wide = [record.Feature for record in rules.FeatureList.FeatureRecord if record.FeatureTag == "tnum"]
    for lookup in {number for feature in wide for number in feature.LookupListIndex}:
        for table in rules.LookupList.Lookup[lookup].SubTable:
            changed = getattr(table, "ExtSubTable", table).mapping
            for glyph in set(changed) - DIGITS:
                del changed[glyph]


def write_font(made: Path, source: Path, axes: dict[str, Any]) -> None:
    """Write the part of a variable font that pages use."""
    from fontTools.subset import Options, Subsetter
    from fontTools.ttLib import TTFont
    from fontTools.varLib.instancer import instantiateVariableFont

    subset = Subsetter(Options(layout_features=FEATURES, hinting=False, name_IDs=[*range(7), 13, 14]))
    subset.populate(unicodes=SCRIPTS)
    font = TTFont(source)
    keep_wide_digits_alone(font["GSUB"].table)
    subset.subset(font)
    font = instantiateVariableFont(font, axes)
    font.flavor = "woff2"
    font.save(made)
