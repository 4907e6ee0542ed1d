"""The types of ``publish_article``: a text, its readability problems, and its HTML. Pure."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from markdown_it import MarkdownIt
from pydantic import BaseModel, Field
from pydantic.config import JsonDict

SAMPLE = (Path(__file__).parent / "data" / "article.md").read_text()
LONG = 35
"""Words in a sentence beyond which it is hard to read."""
PACE = 200
"""Words read in a minute."""
LOOK: JsonDict = {"format": "textarea", "contentMediaType": "text/markdown"}
Markdown = Annotated[
    str, Field(min_length=1, max_length=100_000, title="Text", description="Markdown", json_schema_extra=LOOK)
]


class Text(BaseModel):
    """Markdown, without its headline."""

    text: Markdown


class Draft(Text):
    """What an author submits."""

    text: Markdown = SAMPLE
    title: str = Field("Waiting should cost nothing", min_length=1, max_length=120, title="Headline")
    cool_down: int = Field(5, ge=0, le=86_400, title="Cool-down", description="Seconds from approval to publication")


class Article(BaseModel):
    """What readers get. ``comments``: what the editor sent it back with."""

    slug: str
    html: str = Field(json_schema_extra={"contentMediaType": "text/html"})
    words: int
    comments: list[str]


def proofread(text: str) -> str:
    """Return a Markdown list: how long the text is, and which sentences are too long."""
    words = len(text.split())
    sentences = [part.split() for part in re.split(r"(?<=[.!?])\s+|\n\n+", text)]
    long = [" ".join(sentence[:8]) for sentence in sentences if len(sentence) > LONG]
    lines = [f"{words} words, {-(-words // PACE)} min to read", *(f"Long sentence: {start} ..." for start in long)]
    return "\n".join(f"- {line}" for line in lines)


def typeset(draft: Draft, *, comments: list[str]) -> Article:
    """Return the article as HTML; HTML inside the Markdown is escaped."""
    html = MarkdownIt("commonmark", {"html": False}).render(f"# {draft.title}\n\n{draft.text}")
    slug = re.sub(r"[^a-z0-9]+", "-", draft.title.lower()).strip("-")
    return Article(slug=slug or "article", html=html, words=len(draft.text.split()), comments=comments)
