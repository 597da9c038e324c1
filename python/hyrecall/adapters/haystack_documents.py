"""Haystack's documents as the rows of an index, and back."""

from __future__ import annotations

from typing import Final, Literal

from haystack import Document
from haystack.document_stores.types import DuplicatePolicy

from hyrecall.adapters.documents import Document as Row

__all__ = ["POLICIES", "document_of", "row_of"]

POLICIES: Final[dict[DuplicatePolicy, Literal["overwrite", "skip", "fail"]]] = {
    DuplicatePolicy.NONE: "fail", DuplicatePolicy.FAIL: "fail",
    DuplicatePolicy.SKIP: "skip", DuplicatePolicy.OVERWRITE: "overwrite",
}  # fmt: skip


def row_of(at: int, document: object) -> Row:
    """Return the row of a document; refuse what an index does not hold."""
    if not isinstance(document, Document):
        raise ValueError(f"documents[{at}]: expected a Document, got {document!r}")
    for name in ("blob", "sparse_embedding"):
        held = getattr(document, name)
        if held is not None:
            raise ValueError(f"documents[{at}].{name}: expected None, got {type(held).__name__}")
    return Row(
        id=document.id, text=document.content, vector=document.embedding, metadata=document.meta
    )


def document_of(row: Row, score: float | None = None) -> Document:
    """Return the document of a row, with its score if a query found it."""
    vector = None if row.vector is None else list(row.vector)
    return Document(
        id=row.id or "", content=row.text, meta=dict(row.metadata), embedding=vector, score=score
    )
