"""Reads a table of a LanceDB folder, with the package lancedb."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from hyrecall.errors import OptionError, error
from hyrecall.migrate.records import PAGE, Options, Record, Source, as_vector, needs_package, one_of


@contextmanager
def read(path: Path, options: Options) -> Iterator[Source]:
    """Open a table; without ``collection``, the only one of the folder."""
    # The columns of ids and texts are "id" and "text" unless they are named. Without
    # ``vector_field``, the only column of vectors is read. Other columns become metadata.
    with needs_package("lancedb", "lancedb"):
        import lancedb
    if not path.is_dir():  # LanceDB would make it
        raise error(OptionError, "path", "a folder of LanceDB", repr(str(path)))
    database = lancedb.connect(str(path))
    name = one_of("collection", _tables(database), options.collection)
    table = database.open_table(name)
    columns = {field.name: field.type for field in table.schema}
    key = one_of("id_field", list(columns), options.id_field or "id")
    text = one_of("text_field", list(columns), options.text_field or "text")
    vectors = [name for name, kind in columns.items() if _is_vector(kind)]
    vector = None
    if vectors or options.vector_field is not None:
        vector = one_of("vector_field", vectors, options.vector_field)
    n_rows = table.count_rows()
    batches = table.search().limit(max(n_rows, 1)).to_batches(PAGE)
    others = [name for name in vectors if name != vector]
    yield Source("lancedb", n_rows, _records(batches, key, text, vector, others))


def _tables(database: Any) -> list[str]:
    """Return the names of all tables, also of versions that have no ``list_tables``."""
    if not hasattr(database, "list_tables"):
        return list(database.table_names(limit=2**31 - 1))
    names: list[str] = []
    page = database.list_tables()
    while True:
        names += page.tables
        if not page.page_token:
            return names
        page = database.list_tables(page_token=page.page_token)


def _is_vector(kind: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_list(kind) and pa.types.is_floating(kind.value_type))


def _records(
    batches: Any, key: str, text: str, vector: str | None, others: list[str]
) -> Iterator[Record]:
    for batch in batches:
        table = pa.table(batch)
        rows = table.drop_columns([*others, *([] if vector is None else [vector])]).to_pylist()
        vectors = [None] * len(rows) if vector is None else table.column(vector)
        for row, found in zip(rows, vectors, strict=True):
            yield Record(
                id=row[key],
                text=row[text],
                vector=None if found is None else as_vector(found.as_py()),
                metadata={name: one for name, one in row.items() if name not in {key, text}},
                dropped=tuple(others),
            )
