"""Translate many documents, at most four at a time; one that fails is tried again and does not stop the others."""

from pydantic import BaseModel

from wfdash.workflow import Context, Retry, Workflow, each, gather


class Document(BaseModel):
    name: str
    text: str


class Translated(BaseModel):
    name: str
    text: str


translation = Workflow("translation", title="Translate documents")


@translation.step(start=True)
async def split(documents: list[Document]) -> list[Document]:
    return documents


@translation.step(
    after=each(split, label="{name}"), concurrency=4, retry=Retry(attempts=5, delay=0.05, on=(OSError,)), timeout=60
)
async def translate(document: Document, ctx: Context) -> Translated:
    text = await ctx.call(service, document.text)
    return Translated(name=document.name, text=text)


@translation.step(after=gather(translate))
async def bind(pages: list[Translated]) -> dict[str, str]:
    return {page.name: page.text for page in pages}


async def service(text: str) -> str:
    """Call a translation service here."""
    return text.upper()
