"""LangChain's documents and filters, from ours and to ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from hyrecall.adapters.documents import Document as Row
from hyrecall.adapters.documents import DocumentIndex, FoundDocument
from hyrecall.adapters.extras import needs_extra
from hyrecall.adapters.index_arms import text_of
from hyrecall.ask.filter_json import filter_from_json
from hyrecall.ask.scope import Scope
from hyrecall.base.arguments import as_int
from hyrecall.errors import OptionError, ShapeError, error
from hyrecall.hits.hit import Hit
from hyrecall.index import Index

with needs_extra("langchain"):
    from langchain_core.documents import Document

__all__ = [
    "check_length",
    "column_types",
    "document_of",
    "of_hit",
    "read_filter",
    "refuse",
    "rows_of",
    "texts_of",
    "with_scores",
]


def refuse(options: Mapping[str, Any], **reasons: str) -> None:
    """Refuse options that a call would not follow, each with the reason."""
    for name, reason in reasons.items():
        if name in options:
            raise error(OptionError, name, f"none ({reason})", repr(options[name]))


def column_types(index: Index, names: Sequence[str]) -> dict[str, pa.DataType]:
    """Return the types of columns of an index; refuse names that it does not have."""
    scope = Scope([]) if index.schema.cell_columns else None
    kinds = index.get([], scope=scope, columns=names).schema
    return {name: kinds.field(name).type for name in names}


def read_filter(index: Index | DocumentIndex, asked: Any) -> Any:
    """Return a filter, or None; a dict has the form of the service's JSON, an empty one is none."""
    if not isinstance(asked, dict):
        return asked
    if not asked:
        return None
    if isinstance(index, DocumentIndex):
        return filter_from_json(asked, index.attributes, "filter")
    return filter_from_json(asked, column_types(index, index.schema.attributes or ()), "filter")


def texts_of(documents: list[Document], batch_size: int | None) -> Iterator[list[str]]:
    """Return the texts of documents in batches; None: all at once."""
    size = len(documents) if batch_size is None else as_int(batch_size)
    if size is None or (size < 1 and documents):
        raise error(OptionError, "batch_size", "an int >= 1, or None", repr(batch_size))
    texts = [one.page_content for one in documents]
    return (texts[at : at + size] for at in range(0, len(texts), size or 1))


def check_length(name: str, values: Sequence[Any], n: int, each: str) -> None:
    """Refuse a list that does not have one value for each of ``n``."""
    if len(values) != n:
        raise error(ShapeError, name, f"{n}, one per {each}", len(values))


def rows_of(documents: list[Document], ids: list[str] | None, vectors: list[Any]) -> list[Row]:
    """Return documents and their vectors as what an index writes; `ids` come before their own."""
    check_length("ids", ids or documents, len(documents), "document")
    check_length("embedding", vectors, len(documents), "document")
    keys: list[str | None] = [*ids] if ids else [one.id for one in documents]
    return [
        Row(id=key, text=one.page_content, vector=vector, metadata=one.metadata)
        for key, one, vector in zip(keys, documents, vectors, strict=True)
    ]


def document_of(row: Row, **more: Any) -> Document:
    """Return a document of LangChain, with more metadata."""
    metadata = {**row.metadata, **more}
    return Document(id=row.id, page_content=row.text or "", metadata=metadata)


def with_scores(found: FoundDocument) -> Document:
    """Return a document that was found, with its scores and cell in the metadata."""
    scores: dict[str, Any] = {"rank": found.rank, "score": found.score, **found.scores}
    scores["cell"] = list(found.document.cell)
    return document_of(found.document, hyrecall=scores)


def of_hit(hit: Hit, columns: Sequence[str], index: Index) -> Document:
    """Return a hit as a document, with columns, scores and cell in the metadata."""
    arms = (*index.schema.text_arms, *index.schema.vector_arms)
    scores: dict[str, Any] = {arm: hit.arm_score(arm) for arm in arms}
    scores |= {"rank": hit.rank, "score": hit.score, "cell": list(hit.cell)}
    metadata = {name: hit[name] for name in columns} | {"hyrecall": scores}
    return Document(id=str(hit.key), page_content=text_of(hit, index), metadata=metadata)
