"""Reads the controls of a rendered form as a browser would send them."""

from __future__ import annotations

from html.parser import HTMLParser

from django.http import QueryDict

ONE_LINE = {"text", "password", "search", "email", "url", "tel", "date", "time", "datetime-local", "number"}
VOID_TYPES = {"submit", "button", "file"}


class Controls(HTMLParser):
    """Collects the successful controls of a document, in order."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.sent: list[tuple[str, str]] = []
        self.ids: list[str] = []
        self._area: str | None = None
        self._text = ""
        self._select: str | None = None
        self._options: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.ids.append(given["id"])
        if tag == "input" and "name" in given:
            self._input(given, dict(attrs))
        elif tag == "textarea":
            self._area, self._text = given["name"], ""
        elif tag == "select":
            self._select, self._options = given["name"], []
        elif tag == "option":
            self._options.append((given["value"], "selected" in given))

    def _input(self, given: dict[str, str], raw: dict[str, str | None]) -> None:
        kind = given.get("type", "text")
        if kind in VOID_TYPES or (kind in {"checkbox", "radio"} and "checked" not in raw):
            return
        self.sent.append((given["name"], as_sent(kind, given.get("value", ""))))

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._area is not None:
            self.sent.append((self._area, self._text.removeprefix("\n").replace("\n", "\r\n")))
            self._area = None
        elif tag == "select" and self._select is not None:
            chosen = [value for value, selected in self._options if selected] or [v for v, _ in self._options[:1]]
            self.sent += [(self._select, value) for value in chosen[:1]]
            self._select = None


def as_sent(kind: str, value: str) -> str:
    """Return a value as a browser sends it: one line in a text field, line ends as CR and LF elsewhere."""
    return value.replace("\n", "" if kind in ONE_LINE else "\r\n")


def read_controls(html: str) -> Controls:
    """Return the controls of a page."""
    parser = Controls()
    parser.feed(html.replace("\r\n", "\n").replace("\r", "\n"))
    return parser


def post_of(html: str, **pressed: str) -> QueryDict:
    """Return what a browser would post; ``pressed`` is the button that was used, or a changed control."""
    post = QueryDict(mutable=True)
    for name, value in read_controls(html).sent:
        post.appendlist(name, value)
    for name, value in pressed.items():
        post[name] = value
    return post
