"""Haystack's documents as the rows of an index and back, and types of fields by their names."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
from haystack import Document
from haystack.document_stores.types import DuplicatePolicy

from hyrecall.adapters.document_table import AttributeType
from hyrecall.adapters.documents import Document as Row
from hyrecall.adapters.documents import DocumentIndex
from hyrecall.errors import IndexNotFoundError, OptionError, error

__all__ = ["POLICIES", "document_of", "open_documents", "row_of", "type_names"]

_TYPES: Final[dict[str, Any]] = {
    "str": str, "int": int, "float": float, "bool": bool, "datetime": datetime, "date": date,
}  # fmt: skip
_NAMES: Final = {
    pa.string(): "str", pa.large_string(): "str", pa.int64(): "int", pa.float64(): "float",
    pa.bool_(): "bool", pa.timestamp("us", "UTC"): "datetime", pa.date32(): "date",
}  # fmt: skip
POLICIES: Final[dict[DuplicatePolicy, Literal["overwrite", "skip", "fail"]]] = {
    DuplicatePolicy.NONE: "fail", DuplicatePolicy.FAIL: "fail",
    DuplicatePolicy.SKIP: "skip", DuplicatePolicy.OVERWRITE: "overwrite",
}  # fmt: skip


def open_documents(
    path: str | Path | None, attributes: Mapping[str, AttributeType | str] | None
) -> DocumentIndex:
    """Return what a folder holds, or an empty index."""
    kinds = {name: _read_type(kind) for name, kind in (attributes or {}).items()}
    made = DocumentIndex(attributes=kinds, keep_vectors=True)
    try:
        found = made if path is None else DocumentIndex.open(path)
    except IndexNotFoundError:
        found = made
    if attributes is not None and type_names(found) != type_names(made):
        wish = f"those of the saved documents ({type_names(found)}), or none"
        raise error(OptionError, "attributes", wish, type_names(made))
    return found


def type_names(documents: DocumentIndex) -> dict[str, str]:
    """Return the types of the declared fields, as ``attributes`` takes them."""
    return {name: _name_of(kind) for name, kind in documents.attributes.items()}


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


def _read_type(kind: AttributeType | str) -> Any:
    if not isinstance(kind, str):
        return kind
    if kind.startswith("list["):
        return list[_read_type(kind[5:-1])]  # type: ignore[misc]
    return _TYPES.get(kind) or pa.type_for_alias(kind)


def _name_of(kind: pa.DataType) -> str:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list[{_name_of(kind.value_type)}]"
    return _NAMES.get(kind, str(kind))
