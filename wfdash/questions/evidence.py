"""Evidence on a card, to help a person decide. Each piece validates itself where it is created: in the step that asks.

```python
Approval(subject="Pay?", evidence=[Table(rows=lines), File(name="invoice.pdf", data=pdf), Link(url="https://...")])
```
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from checkpoints.records import Json, JsonObject
from wfdash.contract import Message, pack_transcript
from wfdash.domain import images
from wfdash.values.display import plain_text, to_display


class EvidencePiece(BaseModel):
    """A piece of evidence. In JSON it is ``{kind, title, value}`` and the fields of its kind; such dicts are accepted
    too.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)
    main: ClassVar[str] = "value"
    """The field that ``value`` means in a dict."""
    folds: ClassVar[bool] = False
    """Whether ``value`` may be a dict of several fields."""

    kind: str
    title: str = ""

    @model_validator(mode="before")
    @classmethod
    def _take_value(cls, given: Any) -> Any:
        if isinstance(given, dict) and "value" in given and cls.main != "value":
            rest, value = dict(given), given["value"]
            del rest["value"]
            return rest | (value if cls.folds and isinstance(value, dict) else {cls.main: value})
        return given

    def shown(self) -> JsonObject:
        """Return it in the form a card holds."""
        rest = {name: item for name, item in self if name not in {"kind", "title", self.main}}
        fields = {"kind": self.kind, "title": self.title, "value": getattr(self, self.main), **rest}
        return {
            name: to_display(item)
            for name, item in fields.items()
            if name in {"kind", "value"} or item not in ("", None)
        }


class Text(EvidencePiece):
    """Plain text; line ends are kept."""

    kind: Literal["text"] = "text"
    value: str


class Markdown(EvidencePiece):
    """CommonMark with tables. HTML in it is shown as text, images are not loaded."""

    kind: Literal["markdown"] = "markdown"
    value: str


class Code(EvidencePiece):
    """Source text, coloured if ``language`` is one that pygments knows."""

    kind: Literal["code"] = "code"
    value: str
    language: str = ""


class Table(EvidencePiece):
    """Rows: objects (their keys are the columns unless ``columns`` picks and orders them), or lists of cells."""

    kind: Literal["table"] = "table"
    main: ClassVar[str] = "rows"
    folds: ClassVar[bool] = True
    rows: list[Any]
    columns: list[str] | None = None

    @model_validator(mode="after")
    def _check_columns(self) -> Table:
        wide = max((len(row) for row in self.rows if isinstance(row, (list, tuple))), default=0)
        if self.columns is not None and wide > len(self.columns):
            raise ValueError(f"a row has {wide} cells, but there are {len(self.columns)} columns: name them all")
        return self


class JsonValue(EvidencePiece):
    """Any value, as a tree that folds. Values that JSON does not support are shown by type, size and repr."""

    kind: Literal["json"] = "json"
    value: Any = None


class Transcript(EvidencePiece):
    """A conversation with a model: ``Message`` objects, or dicts of their fields, in order.

    ``earlier``: how many messages came before the first one, if they are left out.
    """

    kind: Literal["transcript"] = "transcript"
    main: ClassVar[str] = "messages"
    messages: tuple[Message, ...] = Field(max_length=1000)
    earlier: int = Field(default=0, ge=0)

    def shown(self) -> JsonObject:
        """Return it in the form a card holds."""
        fields = {"kind": self.kind, "title": plain_text(self.title), "value": pack_transcript(self.messages)}
        shown = {**fields, **({"earlier": self.earlier} if self.earlier else {})}
        return {name: to_display(item) for name, item in shown.items() if name != "title" or item}


class Link(EvidencePiece):
    """An address people can follow: absolute, http or https, or mailto. Its host is always shown."""

    kind: Literal["link"] = "link"
    main: ClassVar[str] = "url"
    url: Annotated[str, AfterValidator(lambda url: _check_url(url))]


class Diff(EvidencePiece):
    """A difference: ``before`` and ``after`` (two texts or two values), or ``unified`` as git prints it."""

    kind: Literal["diff"] = "diff"
    before: Any = None
    after: Any = None
    unified: str | None = None

    main: ClassVar[str] = "unified"
    folds: ClassVar[bool] = True

    @model_validator(mode="after")
    def _check_sides(self) -> Diff:
        sides = {"before", "after"} & self.model_fields_set
        if bool(sides) == (self.unified is not None):
            raise ValueError("give either before= and after=, or unified=")
        return self

    def shown(self) -> JsonObject:
        """Return it in the form a card holds."""
        value = {"before": self.before, "after": self.after} if self.unified is None else self.unified
        fields = {"kind": self.kind, "title": self.title, "value": value}
        return {name: to_display(item) for name, item in fields.items() if name != "title" or item}


class Media(EvidencePiece):
    """Bytes, at most two million; base64 text is accepted."""

    main: ClassVar[str] = "data"
    data: Annotated[bytes, BeforeValidator(lambda data: _read_bytes(data))]

    @model_validator(mode="after")
    def _check_size(self) -> Media:
        _check_size(self.data)
        return self

    def _sent(self, **more: Json) -> JsonObject:
        fields = {"kind": self.kind, "title": plain_text(self.title), **more}
        return {**fields, "value": base64.b64encode(self.data).decode(), "bytes": len(self.data)}


class Image(Media):
    """A PNG, JPEG, GIF or WebP, recognised by its content. ``alt`` describes it in words.

    ``before``: what it looked like until now; both are shown, side by side or one over the other.
    """

    kind: Literal["image"] = "image"
    alt: str = ""
    media_type: str | None = None
    """The declared type; the content must agree."""
    before: Annotated[bytes | None, BeforeValidator(lambda data: _read_bytes(data))] = None

    @model_validator(mode="after")
    def _check_content(self) -> Image:
        picture = images.picture_of(self.data)
        if self.before is not None:
            _check_size(self.before)
        if picture is None or (self.before is not None and images.picture_of(self.before) is None):
            raise ValueError("no PNG, JPEG, GIF or WebP image (SVG can hold scripts): convert it, or give it as a File")
        if self.media_type not in (None, picture.media_type):
            raise ValueError(f"media_type says {self.media_type}, but its content is {picture.media_type}")
        return self

    def shown(self) -> JsonObject:
        """Return it in the form a card holds: base64 and the type its content has."""
        more: JsonObject = {"media_type": images.media_type_of(self.data), "alt": plain_text(self.alt)}
        before = {} if self.before is None else {"before": base64.b64encode(self.before).decode()}
        return self._sent(**more, **before)


class Pdf(Media):
    """A PDF document, shown in place by the browser's own viewer where it has one, and to download under ``name``."""

    kind: Literal["pdf"] = "pdf"
    name: str = Field(default="document.pdf", min_length=1, max_length=200)

    @model_validator(mode="after")
    def _check_content(self) -> Pdf:
        if not images.is_pdf(self.data):
            raise ValueError("no PDF document: it does not begin as one. Give it as a File")
        return self

    def shown(self) -> JsonObject:
        """Return it in the form a card holds: base64."""
        return self._sent(name=plain_text(self.name))


class File(Media):
    """A file to download under ``name``. It is never shown in the page, except text as text."""

    kind: Literal["file"] = "file"
    name: str = Field(min_length=1, max_length=200)

    def shown(self) -> JsonObject:
        """Return it in the form a card holds: base64 and the type its content has."""
        return self._sent(media_type=images.media_type_of(self.data), name=plain_text(self.name))


Evidence: TypeAlias = Annotated[
    Text | Markdown | Code | Table | JsonValue | Transcript | Image | Pdf | File | Link | Diff,
    Field(discriminator="kind"),
]
"""Any of the pieces."""


def _check_size(data: bytes) -> None:
    if len(data) > images.MAX_BYTES:
        size, most = len(data) / 1e6, images.MAX_BYTES / 1e6
        raise ValueError(f"{size:.1f} MB is more than a card holds ({most:.0f} MB): link to it, or make it smaller")


def _read_bytes(data: Any) -> Any:
    if not isinstance(data, str):
        return bytes(data) if isinstance(data, (bytearray, memoryview)) else data
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("text must be base64; give bytes") from error


def _check_url(url: str) -> str:
    if not url.startswith(("http://", "https://", "mailto:")) or any(char.isspace() or char == "\\" for char in url):
        raise ValueError(f"{url[:80]!r} is no absolute http, https or mailto address")
    return url
