"""What can be read of an index without a recall: rows of keys, counts, sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from hyrecall import ask
from hyrecall.base.arguments import check_methods
from hyrecall.segments.lookup import count_where, describe, table_of_keys
from hyrecall.segments.segments import IndexFacts, State
from hyrecall.table.schema import Schema

__all__ = ["IndexReads"]


@check_methods
class IndexReads:
    """The methods of an index that read rows and sizes of its present state."""

    _facts: IndexFacts
    _device: str

    @property
    def _state(self) -> State:
        raise NotImplementedError  # Index has it

    def get(
        self, keys: Sequence[object], *, scope: object = None, columns: Sequence[str] = ()
    ) -> pa.Table:
        """Return the rows of some keys, as far as their scope holds them.

        Parameters
        ----------
        keys : sequence of str or int
            A key that its scope does not hold has no row, whether or not another cell has it.
        scope
            As in :meth:`recall`, errors too; a list has one entry per key.
        columns : sequence of str, default ()
            Row columns to return beside them: attribute and stored ones.

        Returns
        -------
        pyarrow.Table
            ``key``, the cell columns, then the columns asked for; a row per document in the order
            of the keys. A key that is asked twice comes twice, and one that several cells of its
            scope hold has a row for each, by insertion number.

        Raises
        ------
        ScopeError, OptionError, ShapeError, DTypeError, KeyConflictError
            The argument is named; no scope is a ScopeError.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import hyrecall as hr
        >>> rows = {"id": [1, 2], "user": ["ann", "bob"], "text": ["hot tea", "coffee"]}
        >>> index = hr.Index.build(pa.table(rows), hr.Schema(key="id", cell="user", text="text"))
        >>> index.get([2, 1], scope="ann", columns=["text"]).to_pylist()
        [{'key': 1, 'user': 'ann', 'text': 'hot tea'}]
        """
        state = self._state
        with state.reading():
            return table_of_keys(self._facts, state, keys, scope, columns)

    def count(self, *, scope: object = None, filter: ask.FilterLike | None = None) -> int:  # noqa: A002
        """Return how many documents a scope holds, or how many of them pass a filter.

        Reads a bit per row in scope, and the columns that the filter names.

        Parameters
        ----------
        scope
            One scope, as in :meth:`recall`; never a list.
        filter : Filter or pyarrow.compute.Expression, optional

        Returns
        -------
        int
            Live documents. One that several queries may see counts once.

        Raises
        ------
        ScopeError, OptionError, DTypeError
            The argument is named; no scope is a ScopeError.
        """
        state = self._state
        with state.reading():
            return count_where(self._facts, state, scope, filter)

    @property
    def device(self) -> str:
        """Where the index runs."""
        return self._device

    @property
    def schema(self) -> Schema:
        """What the columns are for."""
        return self._facts.schema

    def __len__(self) -> int:
        """Return the number of live documents."""
        return self._state.n_docs

    def stats(self) -> dict[str, Any]:
        """Return sizes and settings: threads, documents, bytes by part, and ``host_rates``."""
        return describe(self._facts, self._state, self._device)
