"""Texts from workflows (models write them: untrusted) as safe HTML: Markdown, code, and plain text of any length.

No HTML passes, no image is loaded, links go to http, https or mailto only and show their host, and colour comes from
classes, never from inline styles. The work of rendering is bounded: it is estimated before, and a text that would take
too much stays without formatting; code is coloured in known languages up to a size. Results are cached, bounded by
characters, not by entries. Of a plain text the rest is behind a fold, and no character is invisible.
"""

from __future__ import annotations

import re
import string
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter
from threading import Lock
from typing import Any
from urllib.parse import unquote, urlsplit

import nh3
from django.utils.html import escape
from django.utils.safestring import SafeString
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block.table import table
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from pygments import highlight as highlighted
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES

from checkpoints.records import frozen
from wfdash.domain.labels import is_deceiving, visible
from wfdash.web.pages.ui.time_html import format_html
from wfdash.web.pages.ui.times import counted


class TextCache:
    """Rendered texts by their source and the way they are rendered; the least recently used ones are dropped."""

    def __init__(self, max_chars: int) -> None:
        self.max_chars = max_chars
        self._chars = 0
        self._texts: OrderedDict[bytes, str] = OrderedDict()
        self._lock = Lock()

    def get(self, way: str, source: str, render: Callable[[], str]) -> str:
        """Return ``render()`` of this source, cached by the way it is rendered."""
        key = blake2b(f"{way}\0{source}".encode(errors="surrogatepass"), digest_size=16).digest()
        with self._lock:
            if key in self._texts:
                self._texts.move_to_end(key)
                return self._texts[key]
        text = render()
        self._store(key, text)
        return text

    def _store(self, key: bytes, text: str) -> None:
        with self._lock:
            self._chars += len(text) - len(self._texts.pop(key, ""))
            self._texts[key] = text
            while self._chars > self.max_chars:
                self._chars -= len(self._texts.popitem(last=False)[1])


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
MAX_TEXT = 50_000
"""Characters of Markdown that are rendered."""
MAX_EFFORT = 250_000
"""Microseconds that one text may take to be formatted, by ``markdown_effort``."""
MAX_COLOURED = 4_000
"""Characters of one code block that are coloured: lexers take quadratic time on hostile text."""
MAX_COLOURED_IN_ALL = 12_000
"""Characters coloured in one document."""
LEXERS = {
    "bash": "bash", "console": "bash", "go": "go", "html": "html", "javascript": "javascript",
    "js": "javascript", "json": "json", "py": "python", "python": "python", "sh": "bash", "shell": "bash",
    "sql": "sql", "toml": "toml", "ts": "javascript", "typescript": "javascript", "xml": "xml", "yaml": "yaml",
    "yml": "yaml",
}  # fmt: skip
"""Languages that are coloured, by their usual names: lexers measured on hostile text of ``MAX_COLOURED``."""
_COSTLY = re.compile(r"\s{120}")
"""Long runs of blanks or blank lines are what lexers are slowest at, and they need no colour."""
HAS_COLOUR = frozenset(
    {"k", "kn", "kd", "kr", "kt", "kc", "kp", "ow", "nt", "nf", "nc", "nn", "nb", "bp", "na", "nd", "fm", "no"}
    | {"s", "s1", "s2", "sa", "sb", "sc", "sd", "se", "si", "sr", "ss", "sx", "m", "mi", "mf", "mh", "mb", "mo", "il"}
    | {"c", "c1", "cm", "cp", "ch", "cs"}
)
"""Kinds of tokens that ``static/css/site/content.css`` gives a colour."""
_rendered = TextCache(max_chars=16_000_000)
MAX_NESTED = 20
"""Quotations and lists in each other that the parser takes."""
UNFORMATTED = "Shown without formatting, because this text has too many marks."
_FENCE = re.compile(r"(`{3,}(?=[^`]*$)|~{3,})(.*)$")
_ODD_ADDRESS = re.compile(r"[\s\\]")

_DIFF_LINES = (("+++", "meta"), ("---", "meta"), ("@@", "hunk"), ("diff ", "meta"), ("+", "added"), ("-", "removed"))


def render_markdown(text: str, *, coloured: bool = True) -> SafeString:
    """Return safe HTML for CommonMark with tables. Headings start at h3; very long text is cut, and says so.

    ``coloured=False`` leaves code blocks without colour.
    """
    return SafeString(_rendered.get(f"markdown {coloured}", text, lambda: _markdown(text, coloured)))


def markdown_effort(text: str) -> int:
    """Return about how many microseconds of processor time a text takes at most to be rendered.

    Only marks and ends of lines cost: letters between them are copied. A bracket may begin a link, which is tried in
    several ways; each quotation that a line is in looks at the line again.
    """
    text = text[:MAX_TEXT]
    fenced = min(len(text), MAX_COLOURED_IN_ALL) if "```" in text or "~~~" in text else 0
    if fenced:
        text = "\n".join(_outside_fences(text.split("\n")))
    quoted = min(max(line.count(">") for line in text.split("\n")), MAX_NESTED) if ">" in text else 0
    marks = (
        sum(text.count(mark) for mark in string.punctuation)
        + 3 * text.count("[")
        + (2 + quoted // 2) * text.count("\n")
    )
    return 16 * marks + 8 * fenced


def _outside_fences(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines that are in no fenced block. A fence that may belong to a list or a quotation hides none."""
    if any(("```" in line or "~~~" in line) and not line.startswith(("```", "~~~")) for line in lines):
        yield from lines
        return
    fence = ""
    for line in lines:
        found = _FENCE.match(line)
        if not fence and not found:
            yield line
        elif not fence and found:
            fence = found[1]
        elif found and found[1].startswith(fence) and not found[2].strip():
            fence = ""


def highlight(text: str, language: str = "") -> SafeString:
    """Return a code block, coloured where the language is known and the text is not long."""
    code = _rendered.get(f"code {language}", text, lambda: _coloured(visible(text), language))
    return SafeString(f'<pre class="code" tabindex="0"><code>{code}</code></pre>')


OWN_DIRECTION = {tag: {"dir": "auto"} for tag in ("p", "li", "h3", "h4", "h5", "h6", "th", "td")}
"""Each block is written from its own side: Arabic from the right, also below an English heading."""


def _markdown(text: str, coloured: bool) -> str:
    cut = len(text) - MAX_TEXT
    note = format_html('<p class="muted">… {} more characters</p>', cut) if cut > 0 else ""
    if markdown_effort(text) > MAX_EFFORT:
        plain = format_html(
            '<p class="muted">{}</p><p class="text-block">{}</p>', UNFORMATTED, visible(text[:MAX_TEXT])
        )
        return f'<div class="prose">{plain}{note}</div>'
    environment = {"budget": MAX_COLOURED_IN_ALL if coloured else 0}
    html = nh3.clean(
        _parser().render(visible(text[:MAX_TEXT]), environment),
        tags=TAGS,
        attributes=ATTRIBUTES,
        url_schemes=SCHEMES,
        link_rel="noopener nofollow",
        set_tag_attribute_values=OWN_DIRECTION,
    )
    return f'<div class="prose">{html}{note}</div>'


def host_of(address: str) -> str:
    """Return the target of a link: its host, or the address of a mailto link; empty when it is unknown.

    A host is shown as browsers resolve it: letters that only look like Latin ones become ``xn--``.
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
    """Return whether a link may be followed: an absolute http or https address, or mailto.

    An address that browsers and this code could read differently is refused: backslashes, blanks and hidden characters.
    """
    if _ODD_ADDRESS.search(address) or is_deceiving(address):
        return False
    scheme = address.partition(":")[0].lower()
    return scheme == "mailto" or (scheme in {"http", "https"} and bool(host_of(address)))


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.disable("image")
    parser.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
    setattr(parser, "validateLink", is_safe_link)  # noqa: B010
    # An address shown as text keeps its xn-- form: decoded, it may look like another one.
    setattr(parser, "normalizeLinkText", parser.normalizeLink)  # noqa: B010
    parser.add_render_rule("fence", _fence)
    parser.add_render_rule("link_close", _close_link)
    parser.core.ruler.push("outline", _outline)
    return parser


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Take a table, unless most of its cells are missing: the parser would add them, hundreds for each character."""
    begins = table(state, start, end, True)
    if silent or not begins:
        return begins
    rows = next((line for line in range(start, end) if state.isEmpty(line)), end) - start
    columns = state.src.count("|", state.bMarks[start + 1], state.eMarks[start + 1])
    given = state.src.count("|", state.bMarks[start], state.eMarks[start + rows - 1])
    return columns * rows <= 2 * (given + rows) and table(state, start, end, False)


def _fence(renderer: Any, tokens: Sequence[Token], index: int, _options: Any, environment: dict[str, int]) -> str:
    """Return a fenced block as HTML, coloured while the document's budget lasts."""
    text, language = tokens[index].content, tokens[index].info.strip().split(" ")[0]
    affordable = len(text) <= environment["budget"]
    environment["budget"] -= len(text) if affordable else 0
    coloured = _coloured(text, language if affordable else "")
    return f'<pre class="code" tabindex="0"><code>{coloured}</code></pre>\n'


def _close_link(renderer: Any, tokens: Sequence[Token], index: int, *_rest: Any) -> str:
    """Return a link's end tag with its host, unless its text contains it already."""
    opening = next(i for i in range(index, -1, -1) if tokens[i].type == "link_open")
    host = host_of(str(tokens[opening].attrGet("href") or ""))
    words = "".join(token.content for token in tokens[opening:index])
    plain = {host, f"https://{host}", f"http://{host}", f"https://{host}/", f"http://{host}/", f"mailto:{host}"}
    return f'</a> <span class="link-host">({escape(host)})</span>' if host and words.strip() not in plain else "</a>"


def _outline(state: StateCore) -> None:
    """Put headings below the page's own, without a gap: the first one is h3, what is within it h4."""
    above: list[str] = []
    for token in state.tokens:
        if token.type == "heading_open":
            while above and above[-1] >= token.tag:
                above.pop()
            above.append(token.tag)
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(2 + len(above), 6)}"


def _coloured(text: str, language: str) -> str:
    if language in {"diff", "patch", "udiff"}:
        return "\n".join(_diff_line(line) for line in text.rstrip("\n").split("\n"))
    name = LEXERS.get(language.lower())
    if name is None or len(text) > MAX_COLOURED or _COSTLY.search(text):
        return escape(text)
    return highlighted(text, get_lexer_by_name(name, stripnl=False), HtmlFormatter(nowrap=True, classprefix="hl-"))


def tokens_of(text: str, language: str) -> list[tuple[str, str]]:
    """Return (class of its colour, characters) of everything in a text, under the bounds of a code block.

    Empty where it has no colour: an unknown language, or a text too long. Characters without colour have no class.
    Neighbours of one colour are one: words and the blanks between them are not each a piece of a page.
    """
    name = LEXERS.get(language.lower())
    if name is None or len(text) > MAX_COLOURED or _COSTLY.search(text):
        return []
    tokens = get_lexer_by_name(name, stripnl=False).get_tokens(text)
    coloured = groupby(((_look(kind), part) for kind, part in tokens), itemgetter(0))
    return [(look, "".join(part for _, part in parts)) for look, parts in coloured]


def _look(kind: Any) -> str:
    while kind not in STANDARD_TYPES:
        kind = kind.parent
    look = STANDARD_TYPES[kind]
    return f"hl-{look}" if look in HAS_COLOUR else ""


def _diff_line(line: str) -> str:
    kind = next((kind for start, kind in _DIFF_LINES if line.startswith(start)), "")
    return f'<span class="line-{kind}">{escape(line)}</span>' if kind else str(escape(line))


SHOWN_LENGTH = 160
"""Characters of a text that are shown in one line."""
_MARKS = re.compile(r"[#*`|>~]+|(?<!\w)[-_]{2,}|^\s*[-+]\s", re.MULTILINE)
"""Marks of Markdown, which a beginning leaves out."""
_ADDRESSED = re.compile(r"!?\[([^\]\n]{0,200})\]\([^)\s]{0,2000}\)")


def beginning(text: str, most: int = SHOWN_LENGTH) -> str:
    """Return the beginning of a text in Markdown as one line of plain words: no marks, of a link its words."""
    line = " ".join(_MARKS.sub(" ", _ADDRESSED.sub(r"\1", visible(text[: 4 * most]))).split())
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[:most].rstrip()}…"


FIRST_LINES = 24
FIRST_CHARACTERS = 2000
FIRST_WORD = 160
MOST_SHOWN = 100_000
_ENDLESS = re.compile(r"\S{400,}")


@frozen
class TextBlock:
    """``first`` is shown at once, ``rest`` behind a fold; ``left_out`` characters are not shown at all."""

    first: str
    rest: str = ""
    rest_says: str = ""
    left_out: int = 0


def block(text: str, most: int = MOST_SHOWN) -> TextBlock:
    """Return a text as a block: long ones are folded after some lines, or within a very long word.

    ``most``: characters that are kept.
    """
    kept = visible(text[:most])
    first = "\n".join(kept.split("\n")[:FIRST_LINES])[:FIRST_CHARACTERS]
    endless = _ENDLESS.search(first)
    if endless is not None:
        first = first[: endless.start() + FIRST_WORD]
    rest = kept[len(first) :]
    if endless is None and len(rest) < FIRST_CHARACTERS // 8 and rest.count("\n") < 4:
        first, rest = kept, ""
    more = rest.count("\n")
    says = counted(more, "more line") if more > 1 else counted(len(rest), "more character")
    return TextBlock(first=first, rest=rest, rest_says=says, left_out=max(len(text) - most, 0))
