"""A form from a JSON Schema: rendered on the server, bound to a POST, its errors at the fields. Pure but for types.

``FormView.from_schema(schema).bind(post)`` returns a ``BoundForm`` with ``value`` (JSON) and ``errors``. A form's list
buttons work without scripts: they post the form, and ``changed_rows`` tells the page to render it again. So does the
switch between fields and the value as JSON text: ``_mode=<prefix>json``, ``_mode=<prefix>fields``.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, Self, TypeVar

from django.core.files.uploadedfile import UploadedFile
from django.http import QueryDict

from checkpoints.records import frozen
from wfdash.values.schemas.formats import LARGEST
from wfdash.values.schemas.validate import problems_of
from wfdash.values.schemas.work import bounded_work
from wfdash.web.pages.ui.forms import read
from wfdash.web.pages.ui.forms.draw import MOST_FIELDS, Drawer, FieldSlot
from wfdash.web.pages.ui.forms.read import MAX_ROWS, MISSING, FormReader, ReadNotes
from wfdash.web.pages.ui.forms.spec import Field, Loc, Schema, Schemas, index_of

# The kind of control that a schema node without alternatives needs. Pure.


Problem = Mapping[str, Any]


Form = TypeVar("Form", bound="FormView")
REQUIRED = "This field is required"


@frozen
class FormError:
    """A line of the error summary; ``target`` is the id of the control, empty for the form as a whole."""

    target: str
    label: str
    message: str


@frozen
class FormView:
    """A schema, a value to show and the errors to show with it. ``prefix`` keeps two forms of a page apart.

    ``text``: the value as JSON text, where it is edited as that; None where it has fields. ``most``: how many.
    """

    schema: Schema
    prefix: str = ""
    initial: Any = MISSING
    notes: ReadNotes = field(default_factory=ReadNotes)
    problems: tuple[Problem, ...] = ()
    text: str | None = None
    most: int = MOST_FIELDS

    @classmethod
    def from_schema(cls, schema: Schema, *, prefix: str = "", initial: Any = None) -> Self:
        """Return an empty form, or one that shows ``initial`` (JSON). A prefix that is given must end in ``:``."""
        return cls(schema=schema, prefix=prefix, initial=MISSING if initial is None else initial)

    def bind(self, post: QueryDict, files: Mapping[str, Any] | None = None) -> BoundForm:
        """Return the form bound to a POST. It renders what was typed, valid or not."""
        posted = {name: [str(v) for v in values] for name, values in post.lists()}
        press = pressed(posted)
        if f"{self.prefix}_json" in posted:
            return self._bind_text(posted[f"{self.prefix}_json"][-1], press)
        if press is not None:
            posted = changed(posted, *press)
        reader = FormReader(self.schemas, posted, read_files(files or {}))
        value = reader.value(self.schema, self.root_name, (), True)
        bound = BoundForm(
            schema=self.schema, prefix=self.prefix, initial=value, notes=reader.notes, changed_rows=press is not None
        )
        if press == (MODE, f"{self.prefix}json"):
            return replace(bound, text=read.write(bound.value), notes=ReadNotes())
        if bound.changed_rows:
            return bound
        with bounded_work():
            return replace(bound, problems=tuple(bound.check()))

    def _bind_text(self, text: str, press: tuple[str, str] | None) -> BoundForm:
        """Return the form bound to its JSON text; an invalid text is kept, whichever button was pressed."""
        text = text.replace("\r\n", "\n")
        bound = BoundForm(schema=self.schema, prefix=self.prefix, text=text, changed_rows=press is not None)
        try:
            value = read.read_json(text)
        except read.UnreadableText as error:
            return replace(bound, initial=text, problems=({"loc": [], "msg": str(error)},))
        if press == (MODE, f"{self.prefix}fields"):
            return replace(bound, initial=value, text=None)
        problems = () if press else tuple(problems_of(dict(self.schema), value))
        return replace(bound, initial=value, problems=problems)

    def with_errors(self, problems: Iterable[Problem]) -> Self:
        """Return the form with these errors (``{loc, msg}``) at their fields, in place of those it had."""
        return replace(self, problems=tuple(problems))

    @cached_property
    def schemas(self) -> Schemas:
        """Return the schema, ready to be read."""
        return Schemas(self.schema)

    @property
    def root_name(self) -> str:
        """Return the name of the whole value, empty for a group of fields."""
        return self.prefix if self.schemas.spec(self.schema).kind == "group" else f"{self.prefix}value"

    @cached_property
    def drawn(self) -> tuple[Field, int]:
        """Return the whole value as a field, errors in place; and what is left of ``most``."""
        bare = self._draw({})
        names = {found.loc: found.name for found in walk(bare[0])}
        placed: dict[Loc, list[str]] = {}
        for problem in self.problems:
            loc, message = tuple(problem["loc"]), str(problem["msg"])
            near = _nearest(loc, names)
            inside = read.path_of(loc[len(near) :]) if names[near].endswith("$") else ""
            placed.setdefault(near, []).append(f"{inside}: {message}" if inside else message)
        return self._draw(placed) if placed else bare

    @property
    def root(self) -> Field:
        """Return the whole value as a field."""
        return self.drawn[0]

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return what the template renders: the fields of a group, or the one value."""
        return self.root.children if self.root.kind == "group" else (self.root,)

    @property
    def by_text(self) -> bool:
        """Return whether to offer the value as JSON text: there is more than a field or two of plain text."""
        return self.root.kind not in {"area", "const"} and len([*walk(self.root)]) > 3

    @property
    def schema_text(self) -> str:
        """Return the schema as text, for people who write the value themselves."""
        return read.write(self.schema)

    @property
    def complaints(self) -> tuple[FormError, ...]:
        """Return the error summary, in the order of the fields; of a text, with the lines."""
        if self.text is not None:
            return tuple(self._complaints_of(self.text))
        found = list(walk(self.root))
        labels = {one.loc: one.label for one in reversed(found) if one.label}
        return tuple(
            FormError(target=one.id if one.loc else "", label=_full_label(one, labels), message=message)
            for one in found
            for message in one.errors
        )

    @property
    def has_upload(self) -> bool:
        """Return whether the form must be sent as multipart/form-data."""
        return self.text is None and any(found.uploads for found in walk(self.root, every=True))

    def _complaints_of(self, text: str) -> Iterator[FormError]:
        lines = read.lines_of(text)
        placed = [(lines.get(_nearest(tuple(problem["loc"]), lines), 0), problem) for problem in self.problems]
        for line, problem in sorted(placed, key=lambda pair: pair[0]):
            loc = tuple(problem["loc"])
            label = ", ".join(part for part in (f"Line {line}" if line else "", read.path_of(loc)) if part)
            yield FormError(target=f"json-{self.prefix}", label=label or "JSON", message=str(problem["msg"]))

    def _draw(self, errors: Mapping[Loc, Sequence[str]]) -> tuple[Field, int]:
        drawer = Drawer(self.schemas, self.notes, errors, self.most)
        with bounded_work():
            return drawer.draw(self.schema, FieldSlot(name=self.root_name, required=True), self.initial), drawer.left


@frozen
class BoundForm(FormView):
    """A form with what a person posted. ``changed_rows``: a row button was pressed, nothing is to be submitted."""

    changed_rows: bool = False

    @property
    def value(self) -> Any:
        """Return the JSON value; where something could not be read, the text as it was typed."""
        return None if self.initial is MISSING else self.initial

    @property
    def errors(self) -> tuple[Problem, ...]:
        """Return what is wrong: ``{loc, msg}``; empty when ``value`` may be used."""
        return self.problems

    @property
    def is_valid(self) -> bool:
        """Return whether ``value`` is valid: no errors, and not just a change of rows."""
        return not self.problems and not self.changed_rows

    def check(self) -> Iterator[Problem]:
        """Yield the errors of reading, then those of the schema where reading went well."""
        reading = self.notes.errors
        for loc, message in reading.items():
            yield {"loc": list(loc), "msg": message}
        for problem in self._schema_problems():
            loc = tuple(problem["loc"])
            if not any(_is_inside(loc, taken) for taken in reading):
                yield problem
        if self.initial is MISSING and not reading and self._is_open_choice:
            yield {"loc": [], "msg": REQUIRED}

    @property
    def _is_open_choice(self) -> bool:
        """Return whether the value is one of several kinds, null among them only as JSON that someone writes."""
        spec = self.schemas.spec(self.schema)
        return spec.kind == "union" and not spec.nullable and not problems_of(dict(self.schema), None)

    def _schema_problems(self) -> Iterator[Problem]:
        """Yield schema errors, inside a union those of the branch that was picked: none if the whole is valid."""
        found = problems_of(dict(self.schema), self.value)
        picked = sorted(self.notes.branches.items(), key=lambda item: len(item[0])) if found else []
        kept = [problem for problem in found if not any(_is_inside(tuple(problem["loc"]), loc) for loc, _ in picked)]
        for loc, (branch, value) in picked:
            for problem in problems_of(branch, value, root=self.schema):
                where = (*loc, *problem["loc"])
                if not any(len(other) > len(loc) and _is_inside(where, other) for other, _ in picked):
                    kept.append({"loc": list(where), "msg": problem["msg"]})
        yield from kept or found


def on_one_page(forms: Sequence[Form]) -> Iterator[Form]:
    """Yield forms, each with the fields that those before it leave, of a page's last quarter an equal part at least."""
    left, least = MOST_FIELDS, MOST_FIELDS // (4 * len(forms))
    for form in forms:
        bounded = replace(form, most=max(left, least))
        if form.text is None:
            left -= bounded.most - bounded.drawn[1]
        yield bounded


def _full_label(field: Field, labels: Mapping[Loc, str]) -> str:
    """Return a field's label, with its parent's: the same label may occur in several places."""
    outer = labels.get(field.loc[:-1], "") if len(field.loc) > 1 else ""
    return f"{outer} › {field.label}" if outer else field.label


def walk(root: Field, *, every: bool = False) -> Iterator[Field]:
    """Yield a field and all within it, in the order of the form; of branches the chosen one, or every one."""
    yield root
    inner = [*root.children, *(row.field for row in root.rows)]
    inner += [branch.field for branch in root.branches if (branch.chosen or every) and branch.field is not None]
    for found in inner:
        yield from walk(found, every=every)


def read_files(files: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the contents of uploaded files, each at most one byte longer than allowed."""
    return {name: file.read(LARGEST + 1) for name, file in files.items() if isinstance(file, UploadedFile)}


def _nearest(loc: Loc, places: Container[Loc]) -> Loc:
    return next((loc[:size] for size in range(len(loc), -1, -1) if loc[:size] in places), ())


def _is_inside(loc: Loc, outer: Loc) -> bool:
    return loc[: len(outer)] == outer


# Adding, removing and moving rows: on the posted fields, before they are read, so that nothing typed is lost. Pure.

ADD, REMOVE, UP, DOWN, SHOW, MODE = "_add", "_remove", "_up", "_down", "_show", "_mode"
BUTTONS = (ADD, REMOVE, UP, DOWN, SHOW, MODE)
MARKS = ".!@?#$"


def pressed(post: Mapping[str, Sequence[str]]) -> tuple[str, str] | None:
    """Return the pressed row button and the name it is for, or None."""
    return next(((button, post[button][-1]) for button in BUTTONS if post.get(button)), None)


def changed(post: Mapping[str, Sequence[str]], button: str, target: str) -> dict[str, list[str]]:
    """Return the posted fields after the change. ``target``: a list for ``_add``, else a row of one."""
    copy = {name: list(values) for name, values in post.items() if name not in BUTTONS}
    parent, _, last = (target, "", "0") if button == ADD else target.rpartition(".")
    row, order = index_of(last), list(range(min(index_of(copy.get(f"{parent}!", ["0"])[-1]) or 0, MAX_ROWS)))
    if button == ADD:
        order = [*order, len(order)][:MAX_ROWS]
    elif button in {SHOW, MODE} or row is None or row >= len(order):
        return copy
    elif button == REMOVE:
        del order[row]
    elif 0 <= (other := row + {UP: -1, DOWN: 1}[button]) < len(order):
        order[row], order[other] = order[other], order[row]
    place = {old: new for new, old in enumerate(order)}
    moved: dict[str, list[str]] = {}
    for name, values in copy.items():
        index, rest = _split(name, parent)
        if index is None:
            moved[name] = values
        elif index in place:
            moved[f"{parent}.{place[index]}{rest}"] = values
    return {**moved, f"{parent}!": [str(len(order))]}


def _split(name: str, parent: str) -> tuple[int | None, str]:
    """Return the row a control belongs to and what follows its index; None for controls elsewhere."""
    if not name.startswith(f"{parent}."):
        return None, ""
    tail = name[len(parent) + 1 :]
    digits = tail[: next((i for i, char in enumerate(tail) if char in MARKS), len(tail))]
    index = index_of(digits)
    return index, "" if index is None else tail[len(digits) :]
