"""Markdown and code from workflows (models write it: untrusted) to safe HTML. Pure but for ``SafeString``.

No HTML passes, no image is loaded, links go to http, https or mailto only and show their host, and colour comes
from classes, never from inline styles.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit

import nh3
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString
from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight as paint
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from wfdash.pages.visible import is_deceiving, visible

SCHEMES = {"http", "https", "mailto"}
TAGS = {"a", "blockquote", "br", "code", "div", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s", "span"}
TAGS |= {"strong", "table", "tbody", "td", "th", "thead", "tr", "ul"}
ATTRIBUTES: dict[str, set[str]] = {
    "a": {"href", "title"},
    "span": {"class"},
    "pre": {"class", "tabindex"},
    "code": {"class"},
}
ATTRIBUTES |= {"ol": {"start"}, "div": {"class"}}
MAX_TEXT = 200_000
MAX_PAINTED = 50_000
_ODD_ADDRESS = re.compile(r"[\s\\]")

_DIFF_LINES = (("+++", "meta"), ("---", "meta"), ("@@", "hunk"), ("diff ", "meta"), ("+", "added"), ("-", "removed"))


def render_markdown(text: str) -> SafeString:
    """Return safe HTML for CommonMark with tables. Headings start at h3; very long text is cut, and says so."""
    shown = visible(text[:MAX_TEXT])
    html = nh3.clean(
        _parser().render(shown),
        tags=TAGS,
        attributes=ATTRIBUTES,
        url_schemes=SCHEMES,
        link_rel="noopener nofollow",
    )
    cut = len(text) - MAX_TEXT
    note = format_html('<p class="muted">… {} more characters</p>', cut) if cut > 0 else ""
    return SafeString(f'<div class="prose">{html}{note}</div>')


def highlight(text: str, language: str = "") -> SafeString:
    """Return a code block, coloured where the language is known and the text is not huge."""
    return SafeString(f'<pre class="code" tabindex="0"><code>{_coloured(visible(text), language)}</code></pre>')


def host_of(address: str) -> str:
    """Return where a link leads: its host, or the address of a mailto link; empty when it cannot be told.

    A host is shown as browsers look it up: letters that only look like Latin ones become ``xn--``.
    """
    try:
        parts = urlsplit(address)
        if parts.scheme == "mailto":
            return visible(unquote(parts.path))
        host = parts.hostname or ""
        return host if host.isascii() else host.encode("idna").decode()
    except ValueError:
        return ""


def is_safe_link(address: str) -> bool:
    """Say whether a link may be followed: an absolute http or https address, or mailto.

    What browsers and this code could read differently is refused: backslashes, blanks and hidden characters.
    """
    if _ODD_ADDRESS.search(address) or is_deceiving(address):
        return False
    scheme = address.partition(":")[0].lower()
    return scheme == "mailto" or (scheme in {"http", "https"} and bool(host_of(address)))


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "highlight": _fence}).enable(["table", "strikethrough"])
    parser.disable("image")
    setattr(parser, "validateLink", is_safe_link)  # noqa: B010
    # An address shown as text keeps its xn-- form: decoded, it may look like another one.
    setattr(parser, "normalizeLinkText", parser.normalizeLink)  # noqa: B010
    parser.add_render_rule("link_close", _close_link)
    parser.add_render_rule("heading_open", _heading)
    parser.add_render_rule("heading_close", _heading)
    return parser


def _fence(text: str, language: str, _attributes: str) -> str:
    return highlight(text, language)


def _close_link(renderer: Any, tokens: Sequence[Token], index: int, *_rest: Any) -> str:
    """End a link with the host it leads to, unless its text says so already."""
    opening = next(i for i in range(index, -1, -1) if tokens[i].type == "link_open")
    host = host_of(str(tokens[opening].attrGet("href") or ""))
    words = "".join(token.content for token in tokens[opening:index])
    shown = (
        f' <span class="link-host">({escape(host)})</span>' if host and words.strip() not in _spellings(host) else ""
    )
    return f"</a>{shown}"


def _spellings(host: str) -> set[str]:
    return {host, f"https://{host}", f"http://{host}", f"https://{host}/", f"http://{host}/", f"mailto:{host}"}


def _heading(renderer: Any, tokens: Sequence[Token], index: int, *_rest: Any) -> str:
    """Draw headings below the page's own: # is h3."""
    level = min(int(tokens[index].tag[1]) + 2, 6)
    return f"<h{level}>" if tokens[index].nesting == 1 else f"</h{level}>"


def _coloured(text: str, language: str) -> str:
    if language in {"diff", "patch", "udiff"}:
        return "\n".join(_diff_line(line) for line in text.rstrip("\n").split("\n"))
    if len(text) > MAX_PAINTED or not language:
        return escape(text)
    try:
        lexer = get_lexer_by_name(language, stripnl=False)
    except (ClassNotFound, ValueError):
        return escape(text)
    return paint(text, lexer, HtmlFormatter(nowrap=True, classprefix="hl-"))


def _diff_line(line: str) -> str:
    kind = next((kind for start, kind in _DIFF_LINES if line.startswith(start)), "")
    return f'<span class="line-{kind}">{escape(line)}</span>' if kind else str(escape(line))
