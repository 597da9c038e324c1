"""The index of a store: shared, of a folder it is saved to, or empty; types by their names.

A pipeline that is written to a file names types: ``"int"``, ``"list[str]"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa

from hyrecall.adapters.documents import AttributeType, DocumentIndex
from hyrecall.errors import DTypeError, IndexNotFoundError, OptionError, error

T_ = TypeVar("T_")

_TYPES: Final[dict[str, Any]] = {
    "str": str, "int": int, "float": float, "bool": bool, "datetime": datetime, "date": date,
}  # fmt: skip
_NAMES: Final = {
    pa.string(): "str", pa.large_string(): "str", pa.int64(): "int", pa.float64(): "float",
    pa.float32(): "float32",  # Arrow's own name of it is that of our float64
    pa.bool_(): "bool", pa.timestamp("us", "UTC"): "datetime", pa.date32(): "date",
}  # fmt: skip


def open_documents(
    documents: DocumentIndex | None,
    path: str | Path | None,
    attributes: Mapping[str, AttributeType | str] | None,
    *,
    keep_vectors: bool,
    always: Mapping[str, AttributeType] | None = None,
) -> DocumentIndex:
    """Return the given index, or what a folder holds, or an empty index.

    ``always`` are attributes that an adapter declares itself.

    Raises
    ------
    OptionError
        A path or attributes beside a given index; attributes other than those of the folder.
    DTypeError
        Another kind of index, or a type of an attribute that no filter reads.
    """
    if documents is not None:
        if not isinstance(documents, DocumentIndex):
            raise error(DTypeError, "documents", "a DocumentIndex", type(documents).__name__)
        for name, value in (("path", path), ("attributes", attributes)):
            if value is not None:
                raise error(OptionError, name, "None beside documents=", repr(value))
        return documents
    kinds = read_types({**(always or {}), **(attributes or {})})
    made = DocumentIndex(attributes=kinds, keep_vectors=keep_vectors)
    try:
        found = made if path is None else DocumentIndex.open(path)
    except IndexNotFoundError:
        found = made
    if attributes is not None and type_names(found) != type_names(made):
        wish = f"those of the saved documents ({type_names(found)}), or none"
        raise error(OptionError, "attributes", wish, type_names(made))
    return found


def saved(documents: DocumentIndex, path: str | Path | None, changed: T_) -> T_:
    """Save the documents if there is a folder and something changed; return what changed."""
    if path is not None and changed:
        documents.save(path)
    return changed


def type_names(documents: DocumentIndex) -> dict[str, str]:
    """Return the types of the declared fields, as ``attributes`` takes them."""
    return {name: _name_of(kind) for name, kind in documents.attributes.items()}


def read_types(attributes: Mapping[str, AttributeType | str]) -> dict[str, AttributeType]:
    """Return the types of attributes, of which some may be names."""
    return {name: _read_type(kind) for name, kind in attributes.items()}


def _read_type(kind: AttributeType | str) -> Any:
    if not isinstance(kind, str):
        return kind
    if kind.startswith("list["):
        return list[_read_type(kind[5:-1])]  # type: ignore[misc]
    try:
        return _TYPES.get(kind) or pa.type_for_alias(kind)
    except ValueError:
        return kind  # no type, which the index of documents refuses by the attribute's name


def _name_of(kind: pa.DataType) -> str:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list[{_name_of(kind.value_type)}]"
    return _NAMES.get(kind, str(kind))
