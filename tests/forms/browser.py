"""A browser without scripts, and a person who uses it: forms are drawn, filled in and sent as HTML."""

from __future__ import annotations

from django.http import QueryDict

from tests.pages.controls import post_of
from wfdash.notifications.rendering import render_to_string
from wfdash.web.pages.ui.forms.form import BoundForm, FormView

MOST_PRESSES = 80


def draw(form: FormView) -> str:
    """The HTML of a form."""
    return render_to_string("components/form.html", {"form": form})


def send(form: FormView, typed: dict[str, str] | None = None) -> BoundForm:
    """Draw the form, type over some controls, press the submit button."""
    return form.bind(post_of(draw(form), **(typed or {})))


def fill(form: FormView, wanted: QueryDict) -> BoundForm:
    """Bring an empty form to what another one sends: add rows, pick branches, type, submit. Buttons only."""
    for _ in range(MOST_PRESSES):
        post = post_of(draw(form))
        press = _next_press(post, wanted)
        for name, values in wanted.lists():
            if name in post and not name.endswith(("!", "@")):
                post.setlist(name, values)
        for name in [name for name in post if name not in wanted and f"{name}!" in wanted]:
            del post[name]
        for name, values in wanted.lists():
            if f"{name}!" in post and name not in post:
                post.setlist(name, values)
        if press is None:
            return form.bind(post)
        post[press[0]] = press[1]
        form = form.bind(post)
    raise AssertionError("the form never gets to look like the other one")


def _next_press(post: QueryDict, wanted: QueryDict) -> tuple[str, str] | None:
    """The button that is to be pressed next: the rows of a list come before what is in them."""
    for name, value in wanted.items():
        bare, mark = name[:-1], name[-1:]
        if name not in post:
            continue
        if mark == "!" and str(value).isdigit() and int(post[name]) > int(value):
            return "_remove", f"{bare}.{int(post[name]) - 1}"
        if mark == "!" and str(value).isdigit() and int(post[name]) < int(value):
            return "_add", bare
        if mark == "?" and post[name] != value:
            return "_show", bare
    return None
