"""Makes an index of what one caller may see, for work that is not a recall of the store.

It has the layout of the store's own index, so within the caller's cells it replies as that does;
rows of others are not read.
"""

from __future__ import annotations

import pyarrow as pa

from hyrecall.ask.scope import Scope
from hyrecall.index import Index
from hyrecall.memory.derived import projection
from hyrecall.memory.recall.audience import audience
from hyrecall.memory.view import View

__all__ = ["own_index"]


def own_index(view: View, *, threads: int | None = None) -> tuple[Index, Scope]:
    """Return an index of the live memories that a caller may see, and its cells as a scope."""
    store = view.store
    with store.database.reading() as connection:
        seen = audience(connection, view.by)
        batches = projection.documents(
            connection, store.layout, model=store.guard.model, dim=store.dim,
            only_live=True, cells=tuple(seen.cells),
        )  # fmt: skip
        table = pa.concat_tables([batch.live for batch in batches])
    schema, analyzer = store.layout.schema, store.layout.analyzer
    return Index.build(table, schema, analyzer=analyzer, threads=threads), seen.scope
