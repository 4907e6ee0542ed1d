"""Untrusted markdown becomes safe HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from wfdash.web.pages.ui.markup import highlight, host_of, is_safe_link, render_markdown

PAYLOADS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<iframe src=javascript:alert(1)></iframe>",
    "<a href='javascript:alert(1)'>x</a>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](vbscript:msgbox(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](//evil.example/path)",
    "[x](/sign-out/)",
    "[x](file:///etc/passwd)",
    "[x](https:javascript:alert(1))",
    "<javascript:alert(1)>",
    "![x](https://evil.example/pixel.gif)",
    "![x](javascript:alert(1))",
    "![x][r]\n\n[r]: https://evil.example/pixel.gif",
    "[x]: javascript:alert(1)\n\n[x]",
    '[x](https://ok.example "onmouseover=alert(1)")',
    '[x](https://ok.example" onmouseover="alert(1))',
    "```html\n<script>alert(1)</script>\n```",
    '```"><script>alert(1)</script>\ncode\n```',
    "```python onload=alert(1)\nx\n```",
    "`<script>alert(1)</script>`",
    "|<script>|b|\n|-|:-:|\n|<img src=x onerror=alert(1)>|2|",
    "<style>body{display:none}</style>",
    "<div style='position:fixed'>x</div>",
    "<form action=//evil.example><input name=csrfmiddlewaretoken></form>",
    "<base href=//evil.example>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<!--<img src=--><img src=x onerror=alert(1)>//-->",
    "<math><mtext></table><mglyph><style><!--</style><img title='--><img src=1 onerror=alert(1)>'>",
    "<details open ontoggle=alert(1)>",
    "\u202e<script>\u200b",
    "[x](https://evil.example\\@ok.example/)",
    "[x](https://ok.example\\\\.evil.example)",
    "[x](<https://a b.example>)",
    "[x](https://[::1)",
    "[\u202excod.exe](https://ok.example/\u202e)",
    "[<img src=x>](https://ok.example)",
    '<https://ok.example/"onclick="alert(1)>',
    "[x](mailto:a@b.example?body=<script>)",
    "[x](https://ok.example 'a\"onmouseover=alert(1)')",
    "- [ ] <input autofocus onfocus=alert(1)>",
    "&lt;script&gt;alert(1)&lt;/script&gt; &#60;img src=x&#62;",
    "| a |\n|-|\n| [x](javascript:alert(1)) |\n| <b onclick=alert(1)>x</b> |",
    "# <svg/onload=alert(1)>\n===",
    "> > > " * 60 + "<script>",
    "[" * 300 + "x" + "](https://ok.example)" * 300,
    "<ſcript>alert(1)</ſcript>",
    "\x00<script>\x08",
]
ALLOWED_ATTRIBUTES = {"dir", "href", "title", "class", "rel", "tabindex", "start"}
FORBIDDEN_TAGS = {
    "script",
    "img",
    "svg",
    "iframe",
    "style",
    "form",
    "input",
    "base",
    "meta",
    "math",
    "details",
    "object",
}


class Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]


def seen(html: str) -> Seen:
    parser = Seen()
    parser.feed(html)
    return parser


@pytest.mark.parametrize("payload", PAYLOADS)
def test_nothing_dangerous_is_left(payload: str) -> None:
    page = seen(render_markdown(payload))
    assert not FORBIDDEN_TAGS & set(page.tags)
    assert {name for name, _ in page.attributes} <= ALLOWED_ATTRIBUTES
    links = [value for name, value in page.attributes if name == "href"]
    assert all(link.startswith(("https://", "http://", "mailto:")) for link in links)


def test_a_link_shows_where_it_leads_and_gives_nothing_away() -> None:
    html = render_markdown("[your bank](https://evil.example/login)")
    assert "(evil.example)" in html
    assert 'rel="noopener nofollow"' in html


def test_a_link_that_is_its_own_text_does_not_repeat_it() -> None:
    assert "link-host" not in render_markdown("<https://ok.example>")


def test_a_link_whose_text_names_another_host_shows_the_true_one() -> None:
    assert "(evil.example)" in render_markdown("[bank.example](https://evil.example)")


def test_code_is_coloured_by_classes_alone() -> None:
    html = render_markdown("```python\ndef f(): pass\n```")
    assert 'class="hl-k"' in html
    assert "style=" not in html


def test_diffs_are_coloured_by_line() -> None:
    html = render_markdown("```diff\n--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n same\n```")
    assert '<span class="line-added">+new</span>' in html
    assert '<span class="line-removed">-old</span>' in html


def test_tables_and_headings_fit_into_the_page() -> None:
    html = render_markdown("# Title\n\n|a|b|\n|-:|-|\n|1|2|")
    assert '<h3 dir="auto">Title</h3>' in html
    assert "<table>" in html
    assert "style=" not in html


def test_hidden_characters_are_shown() -> None:
    assert "[U+202E]" in render_markdown("a\u202eb")


def test_long_text_is_cut_and_says_so() -> None:
    assert "5 more characters" in render_markdown("x" * 200_005)


def test_an_unknown_language_is_plain_code() -> None:
    assert "&lt;b&gt;" in highlight("<b>", "no-such-language")


def test_a_host_that_only_looks_like_another_is_shown_as_it_is_looked_up() -> None:
    deceiving = "https://b\u0430nk.example/login"
    assert "(xn--bnk-6cd.example)" in render_markdown(f"[your bank]({deceiving})")
    for text in (f"<{deceiving}>", "<https://xn--bnk-6cd.example/login>"):
        assert ">https://xn--bnk-6cd.example/login</a>" in render_markdown(text)
    assert host_of(deceiving) == "xn--bnk-6cd.example"
    assert host_of("https://bücher.example") == "xn--bcher-kva.example"


def test_addresses_that_browsers_read_otherwise_are_no_links() -> None:
    odd = ["https://a.example\\@b.example", "https://a.example/ x", "https://a\u200b.example", "https://\u3002.example"]
    assert not any(map(is_safe_link, odd))
    assert is_safe_link("mailto:jana@acme.example")


def test_only_absolute_addresses_are_links() -> None:
    assert is_safe_link("https://a.example/x")
    assert not any(map(is_safe_link, ["/x", "//a.example", "javascript:1", "https://", "http://[", ""]))


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("# a\n## b\n# c", "343"),
        ("## a\n### b\n## c", "343"),
        ("#### a\n# b\n### c\n## d", "3344"),
        ("# a\n## b\n### c\n#### d\n##### e", "34566"),
    ],
)
def test_headings_leave_out_no_level_whatever_a_text_begins_with(text, levels):
    assert "".join(re.findall(r"<h([1-6]) dir=.auto.>", render_markdown(text))) == levels
    assert "".join(re.findall(r"</h([1-6])>", render_markdown(text))) == levels
