"""A title is one readable line of the values that a template names, and of nothing else."""

from __future__ import annotations

import pytest

from wfdash.domain.search_attributes import MAX_TITLE_CHARACTERS, cleaned, problem_of, summary_of, title_of

SCHEMA = {
    "type": "object",
    "properties": {
        "service": {"type": "string"},
        "amount": {"anyOf": [{"type": "number"}, {"type": "string", "pattern": "^[0-9.]+$"}]},
        "order": {"$ref": "#/$defs/Order"},
        "token": {"type": "string", "format": "password"},
        "card": {"anyOf": [{"type": "string", "writeOnly": True}, {"type": "null"}]},
        "free": {"type": "object"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "$defs": {
        "Order": {
            "type": "object",
            "properties": {"id": {"type": "string"}, "pin": {"type": "string", "format": "password"}},
        }
    },
}


@pytest.mark.parametrize(
    ("template", "title"),
    [
        ("Deploy {service}", "Deploy api"),
        ("{amount:,.2f} for {order.id}", "1,234.50 for A-1"),
        ("{share:.0%}", "25%"),
        ("{tags}, first {tags.0}", "a, b, c +2, first a"),
        ("{tags.9}{tags.x}", ""),
        ("{{literal}} {service}", "{literal} api"),
        ("{service} ({missing})", "api"),
        ("{service}, {missing} - ", "api"),
        ("{order}", ""),
        ("{service:,.2f}", "api"),
        ("{on}", "yes"),
    ],
)
def test_fields_are_paths_in_the_input(template, title):
    message = {
        "service": "api",
        "amount": 1234.5,
        "share": 0.25,
        "order": {"id": "A-1"},
        "tags": list("abcde"),
        "on": True,
    }
    assert title_of(template, message) == title


def test_an_input_of_one_value_is_named_by_empty_braces():
    assert title_of("About {}", "bees") == "About bees"
    assert problem_of("About {}", {"type": "string"}) == ""
    assert "write {}" in problem_of("About {topic}", {"type": "string"})


@pytest.mark.parametrize("template", ["{service.__class__}", "{__class__}", "{order.__dict__.id}", "{service.upper}"])
def test_no_attribute_of_an_object_is_ever_read(template):
    assert title_of(template, {"service": "api", "order": {"id": "A-1"}}) == ""
    assert "the input has no" in problem_of(template, SCHEMA)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{servce}", "the input has no {servce}, but service, amount"),
        ("{order.idd}", "the input has no {order.idd}, but id, pin"),
        ("{token}", "secret"),
        ("{card}", "secret"),
        ("{order.pin}", "secret"),
        ("{free.pin}", "secret"),
        ("{order}", "several values"),
        ("{service!r}", "no field"),
        ("{order[id]}", "no field"),
        ("{amount:>99999999}", "a number is written with"),
        ("{amount:{service}}", "a number is written with"),
        ("{service", "expected '}'"),
        ("{}", "several values"),
    ],
)
def test_a_template_that_cannot_name_a_run_is_refused_in_words(template, words):
    assert words in problem_of(template, SCHEMA)


def test_what_a_schema_leaves_open_may_be_named():
    assert problem_of("{anything.at.all}", {}) == ""
    assert problem_of("{free.thing} {tags.0} {service}", SCHEMA) == ""


def test_a_secret_is_left_out_even_where_the_template_names_it():
    message = {"token": "hush", "order": {"pin": "1234", "id": "A-1"}}
    assert title_of("{token}{order.pin}{order.id}", message, {"token", "pin"}) == "A-1"


def test_a_title_is_one_short_line_without_marks_that_deceive():
    assert cleaned("pay\r\nBcc: x\t\u202egpj.exe\u2066 \u200b\u3164\u0000") == "pay Bcc: x gpj.exe"
    assert cleaned("👩\u200d🚀 e\u0301") == "👩\u200d🚀 é"
    assert len(cleaned("x" * 5000)) == MAX_TITLE_CHARACTERS
    assert cleaned("x" * 5000).endswith("…")
    assert cleaned("\u202e\u200b ") == ""


@pytest.mark.parametrize("value", [10**400, -(10**30), 1e300, float("inf"), "9" * 5000, [[[]]], {"a": 1}, None])
def test_no_value_breaks_a_title(value):
    assert len(title_of("{x:,.2f} {x}", {"x": value})) <= MAX_TITLE_CHARACTERS
    assert len(summary_of({"x": value}, {})) <= MAX_TITLE_CHARACTERS


def test_a_summary_is_the_first_short_values_and_never_a_secret():
    message = {"on": True, "text": "long " * 40, "token": "hush", "service": "api", "order": {"pin": "12", "id": "A-1"}}
    assert summary_of(message, SCHEMA) == "api, A-1"
    assert summary_of(message, SCHEMA, {"service"}) == "A-1"
    assert summary_of("hush", {"type": "string", "format": "password"}) == ""
    assert summary_of(None, {"type": "null"}) == ""


@pytest.mark.parametrize(
    ("message", "summary"),
    [
        ({"messages": [{"role": "user", "content": "mail them"}]}, "mail them"),
        ({"messages": [{"content": "mail\nthem", "role": "human"}, {"role": "user", "content": "now"}]}, "mail them"),
        ({"messages": [{"role": "system", "content": "Be kind"}, {"role": "user", "content": "mail"}]}, "mail"),
        ({"messages": [{"role": "system", "content": "Be kind"}]}, ""),
        ({"customer": "ACME", "talk": [{"role": "user", "content": "hello"}]}, "ACME, hello"),
        ({"messages": "word " * 40}, "word " * 11 + "word…"),
        ("word " * 40, "word " * 11 + "word…"),
        ([{"role": "user", "content": "mail them"}], "mail them"),
    ],
)
def test_a_conversation_is_summed_up_by_what_its_user_said_first(message, summary):
    assert summary_of(message, {}) == summary


def test_a_secret_conversation_is_not_summed_up():
    message = {"messages": [{"role": "user", "content": "hush"}]}
    assert "hush" not in summary_of(message, {}, {"messages"})
    assert "hush" not in summary_of(message, {}, {"content"})
    hidden = {"properties": {"messages": {"items": {"properties": {"content": {"format": "password"}}}}}}
    assert "hush" not in summary_of(message, hidden)
