"""Hostile values at every address: what is sent, where, and what must hold afterwards.

Every route of the URL resolver is asked with its parameters, form fields and JSON bodies as they should be but for
one or two values that no author thought of. Nothing may be answered with 500, and everything that could be read
before can be read after.
"""

from __future__ import annotations

import io
import json
import random
import re
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.core.signals import got_request_exception
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

PAGES = Path(__file__).parents[2] / "wfdash" / "web" / "pages"
NAME = re.compile(r"""(?:GET|POST)\.(?:get|getlist)\(\s*["']([\w.-]+)["']|\bname=["']([\w.-]+)["']""")
TEMPLATES = Path(__file__).parents[2] / "templates"

TEXTS = (
    *("", " ", "\x00", "a\x00b", "\ud800", "a\udfffb", "\uffff", "\u202e", "²", "٣", "\r\n", "\\", "%", "%00", "%ff"),
    *("9" * 4000, "-" * 4000, "x" * 300, "x" * 70_000, "[" * 5000, '{"a":' * 2000, "(" * 2000, "a:" * 2000, '"' * 999),
    *("0", "-1", "1e999", "NaN", "Infinity", "-0", "0x10", "1_000", "9223372036854775808", "-9223372036854775809"),
    *(
        "9999-12-31T23:59:59-14:00",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31",
        "0001-01-01",
        "2026-02-30",
        "10000-01-01",
    ),
    *("2026-01-01T00:00", "24:00", "99:99", "P99999999999Y", "PT1e9S", "999999999d", "1e308s", "0s", "-5m"),
    *(
        "due:<99999999999d",
        "started:>9999-12-31",
        "input.a:<1e999",
        "after:0001-01-01",
        "status:\x00",
        "-:",
        ":",
        "by:²",
    ),
    *("* * * * *", "*/0 * * * *", "0 0 31 2 *", "99 * * * *", "Etc/../UTC", "../../etc/passwd", "javascript:alert(1)"),
    *("null", "[]", "{}", '"', "[[[]]]", '{"\\u0000":1}', '"\\ud800"', "1" * 5000, "1e400", "[1,", "\u2028"),
    *("http://[::1", "https://a:99999/", "//evil.example", "a@b", "@" * 500, "foo", "..", "/", "?", "#"),
)
HUGE = 10**4000
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 2**31, 2**63, -(2**63) - 1, 2**64, 1e308, 1.5, -0.0),
    *([], {}, [[]], [None], {"": ""}, {"\x00": 1}, {"\ud800": 1}, ["\ud800"], [{"a": "\x00"}], {"a": {"b": [1e308]}}),
    *TEXTS,
)
RAW = (b"", b"{", b"[]", b"null", b'"x"', b"1" * 5000, b'{"a":NaN}', b'{"a":1e999}', b"\xff\xfe", b'{"a":"\\ud800"}')
RAW += (b'{"a":' + b"[" * 20_000, json.dumps({"a": 1}).encode("utf-16"), b'{"limit": ' + b"9" * 4000 + b"}")


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A request that was answered with 500, and where it failed."""

    method: str
    url: str
    sent: str
    trace: str

    def __str__(self) -> str:
        return f"{self.method} {self.url[:200]!r} {self.sent[:300]}\n{self.trace}"


@dataclass(kw_only=True)
class World:
    """Ids that exist, by the name of the path parameter they stand for, and what an honest body says."""

    ids: dict[str, list[str]]
    honest: dict[str, Any] = field(default_factory=dict)


def routes(patterns: Any = None, before: str = "") -> Iterator[tuple[str, str]]:
    """Yield every route outside of the admin as ``(template, name)``; parameters in angle brackets."""
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        if isinstance(pattern, URLResolver):
            if pattern.app_name != "admin":
                yield from routes(pattern.url_patterns, f"{before}{pattern.pattern}")
        elif isinstance(pattern, URLPattern) and pattern.name not in {"sign-out", "metrics"}:
            yield f"{before}{pattern.pattern}", pattern.name or ""


def field_names() -> list[str]:
    """Return every name that a page reads or a template sends."""
    files = [*PAGES.rglob("*.py"), *TEMPLATES.rglob("*.html")]
    found = {name for path in files for pair in NAME.findall(path.read_text()) for name in pair if name}
    assert len(found) > 130
    return sorted(found | {"action", "reason", "edited", "value", "seen", "key", "q", "after", "before", "sort", "tab"})


class Storm:
    """Shots at random routes by one client, reproducible by the seed."""

    def __init__(self, client: Client, world: World, seed: int) -> None:
        self.client = client
        self.client.raise_request_exception = False
        self.world = world
        self.rng = random.Random(seed)
        self.names = field_names()
        self.pages = [route for route, _ in routes() if not route.startswith("api/")]
        self.api = list(_operations())
        self.failures: dict[str, Failure] = {}
        self.answers: Counter[int] = Counter()
        self._trace = ""
        got_request_exception.connect(self._note)

    def run(self, shots: int) -> list[Failure]:
        """Send that many requests; returns one failure per place that failed."""
        for _ in range(shots):
            method, url, options = self._page() if self.rng.random() < 0.5 else self._operation()
            self._shoot(method, url, options)
        got_request_exception.disconnect(self._note)
        return list(self.failures.values())

    def _shoot(self, method: str, url: str, options: dict[str, Any]) -> None:
        self._trace = ""
        response = self.client.generic(method, url, **options)
        if hasattr(response, "streaming_content"):
            b"".join(response.streaming_content)
        self.answers[response.status_code] += 1
        if response.status_code >= 500 and response.status_code != 503:
            sent = repr(options.get("data", b""))
            place = self._trace.strip().splitlines()[-3:] if self._trace else [url]
            self.failures.setdefault(str(place), Failure(method=method, url=url, sent=sent, trace=self._trace[-3000:]))

    def _note(self, **_: Any) -> None:
        self._trace = traceback.format_exc()

    def _page(self) -> tuple[str, str, dict[str, Any]]:
        url = "/" + self._filled(self.rng.choice(self.pages))
        names = self.rng.sample(self.names, 12)
        if self.rng.random() < 0.5:
            return "GET", f"{url}?{self._encoded(names)}", {}
        chosen = {**dict.fromkeys(names, ""), **{name: str(value) for name, value in self.world.honest.items()}}
        for name in self.rng.sample(sorted(chosen), 3):
            chosen[name] = self.rng.choice(TEXTS)
        body = "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in chosen.items())
        return "POST", url, {"data": body.encode(), "content_type": "application/x-www-form-urlencoded"}

    def _operation(self) -> tuple[str, str, dict[str, Any]]:
        path, method, query, body = self.rng.choice(self.api)
        url = self._filled(path)
        if query:
            url += "?" + self._encoded(self.rng.sample(query, self.rng.randint(1, len(query))))
        if body is None:
            return method, url, {}
        if self.rng.random() < 0.05:
            return method, url, {"data": self.rng.choice(RAW), "content_type": "application/json"}
        given = {name: self._honest(name, node) for name, node in body.items()}
        for name in self.rng.sample(sorted(given), min(len(given), self.rng.randint(1, 2))):
            given[name] = self._bent(given[name])
        text = json.dumps(given).replace('"HUGE"', str(HUGE)[:4000])
        return method, url, {"data": text.encode(), "content_type": "application/json"}

    def _bent(self, honest: Any) -> Any:
        """Return a hostile value, at the top or somewhere inside of an honest one."""
        value = self.rng.choice((*VALUES, "HUGE"))
        if isinstance(honest, dict) and honest and self.rng.random() < 0.7:
            name = self.rng.choice(sorted(honest))
            return {**honest, name: self._bent(honest[name])}
        return [value] if isinstance(honest, list) and self.rng.random() < 0.7 else value

    def _honest(self, name: str, node: dict[str, Any]) -> Any:
        if name in self.world.honest:
            return self.world.honest[name]
        kinds = {"string": "x", "integer": 1, "number": 1, "boolean": False, "array": [], "object": {}}
        kind = node.get("type") or next((one.get("type") for one in node.get("anyOf", ()) if "type" in one), "null")
        return node.get("default", kinds.get(kind))

    def _filled(self, template: str) -> str:
        def fill(match: re.Match[str]) -> str:
            name = match[1].rpartition(":")[2]
            known = self.world.ids.get(name, ["nothing"])
            hostile = [text for text in TEXTS if text and text not in {".", ".."} and len(text) < 5000]
            return quote(_safe(self.rng.choice(known if self.rng.random() < 0.85 else hostile)), safe="")

        return re.sub(r"[<{]([^>}]+)[>}]", fill, template)

    def _encoded(self, names: list[str]) -> str:
        return "&".join(f"{_quoted(name)}={_quoted(self.rng.choice(TEXTS)[:4000])}" for name in names)


def _operations() -> Iterator[tuple[str, str, list[str], dict[str, Any] | None]]:
    """Yield path, method, query parameters and the properties of the body of every operation of the API."""
    from tests.api.openapi import document

    told = document()
    for path, methods in told["paths"].items():
        for method, operation in methods.items():
            query = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"]
            yield path, method.upper(), query, _properties(told, operation)


def _properties(told: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any] | None:
    body = operation.get("requestBody")
    if body is None:
        return None
    schema = next(iter(body["content"].values()))["schema"]
    if "$ref" in schema:
        schema = told["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema.get("properties", {})


def _safe(text: str) -> str:
    return text.encode(errors="replace").decode()


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


def readable(client: Client, urls: list[str]) -> list[str]:
    """Return which of these addresses cannot be read any more, and why."""
    client.raise_request_exception = False
    broken = []
    for url in urls:
        response = client.get(url)
        text = io.BytesIO(b"".join(response.streaming_content)) if hasattr(response, "streaming_content") else None
        if response.status_code != 200 or (text and not text.getvalue()):
            broken.append(f"{url}: {response.status_code}")
    return broken
