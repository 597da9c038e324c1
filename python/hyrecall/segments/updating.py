"""Completes rows that change some columns of documents: what they do not have, the index has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.errors import NotFoundError, OptionError, error
from hyrecall.segments.segments import IndexFacts, State, gather, gather_values, one_array
from hyrecall.table.arrow_values import join_texts
from hyrecall.table.columns import GivenColumns, OpenedRows, VectorInput, read_given
from hyrecall.table.vectors import read_vectors

Mask = npt.NDArray[np.bool_]


class MadeVectors(NamedTuple):
    """How the index makes the vectors of an arm: of which columns, and by what."""

    columns: Sequence[str]
    make: Callable[[list[str | None]], npt.NDArray[Any]] | None  # None: the embedder is not here


def made_elsewhere(facts: IndexFacts) -> dict[str, MadeVectors]:
    """Return the arms whose vectors an embedder made, as if it were not here."""
    return {arm: MadeVectors(one.columns, None) for arm, one in facts.embedded.items()}


def complete_rows(
    facts: IndexFacts,
    state: State,
    source: object,
    vectors: Mapping[str, object] | None,
    made: Mapping[str, MadeVectors],
) -> tuple[OpenedRows, Mapping[str, object]] | None:
    """Return whole rows, and vectors, where some columns are given; None: no row is given."""
    schema = facts.schema
    embedded = [name for one in made.values() for name in one.columns]
    given = read_given(source, schema, facts.row_types, facts.dims, vectors or {}, embedded)
    if not given.n_rows:
        return None
    identity = (*schema.cell_columns, schema.key)
    if not vectors and not given.columns.keys() - set(identity) and not given.vectors:
        wish = "a column to change, beside those of key and cell"
        raise error(OptionError, "table", wish, f"only {list(given.columns)}")
    cells = [one_array(given.columns[name]) for name in schema.cell_columns]
    keys = one_array(given.columns[schema.key])
    segment, row = state.snapshot.locate_rows(cells, keys)
    if (segment < 0).any():
        at = int(np.argmax(segment < 0))
        got = f"{keys[at].as_py()!r} in row {at}, which its cell does not hold"
        raise error(NotFoundError, schema.key, "keys of documents", got)
    documents = _Documents(facts, state, given, segment.astype(np.uint32), row)
    columns = {name: documents.column(name) for name in schema.row_columns}
    for name in schema.text_columns:
        if name not in columns:
            columns[name] = documents.text(name)
    rows: dict[str, object] = dict(vectors or {})
    for arm, vector in schema.vector_arms.items():
        if arm not in rows and vector.column not in columns:
            rows[arm] = documents.vectors(arm, made.get(arm))
    return OpenedRows(pa.table(columns), given.shown), rows


class _Documents:
    """The documents that are changed: what is given of them, and what the index holds."""

    def __init__(
        self,
        facts: IndexFacts,
        state: State,
        given: GivenColumns,
        segment: npt.NDArray[np.uint32],
        row: npt.NDArray[np.uint32],
    ) -> None:
        self._facts, self._given = facts, given
        self._segments, self._at = state.segments, (segment, row)

    def column(self, name: str) -> pa.Array:
        """Return a row column, as it is after the change."""
        mask = self._given.mask(name)
        if mask.all():
            return one_array(self._given.columns[name])
        held = one_array(gather(self._segments, *self._at, [name]).column(0))
        if not mask.any():
            return held
        return _chosen(mask, one_array(self._given.columns[name]), held)

    def text(self, name: str) -> pa.Array:
        """Return a text column that the index does not store."""
        mask = self._given.mask(name)
        if not mask.all():
            wish = "the texts of all rows (the index does not store them, and writes rows anew)"
            got = f"none in row {int(np.argmin(mask))}"
            raise error(OptionError, name, wish, got)
        return one_array(self._given.columns[name])

    def vectors(self, arm: str, made: MadeVectors | None) -> pa.Array:
        """Return the rows of an arm: given ones, those of texts that changed, or those it has."""
        rows = gather_values(self._facts, self._segments, *self._at, arm)
        mask = self._given.mask(self._facts.schema.vector_arms[arm].column)
        if made is not None:
            rows = self._made_anew(arm, made, ~mask, rows)
        if arm in self._given.vectors:
            rows = _chosen(mask, _column_of(self._given.vectors[arm], rows.type), rows)
        return rows

    def _made_anew(
        self, arm: str, made: MadeVectors, needed: Mask, held: pa.FixedSizeListArray
    ) -> pa.Array:
        """Return vectors with those of texts that changed, where they are needed."""
        changed = self._changed(made.columns) & needed
        if not changed.any():
            return held
        if made.make is None:
            model = self._facts.embedded[arm].model
            wish = f"its vectors beside changed texts, or an index opened with embed= of {model!r}"
            raise error(OptionError, arm, wish, "neither")
        texts = join_texts([self._whole(name, changed) for name in made.columns])
        made_rows = made.make(texts.filter(pa.array(changed)).to_pylist())
        rows = np.zeros((len(changed), self._facts.dims[arm]), made_rows.dtype)
        rows[changed] = made_rows
        read = read_vectors(
            rows, n_rows=len(rows), dim=self._facts.dims[arm], argument=arm, row_name="row",
            dtype=self._facts.schema.vector_arms[arm].dtype,
        )  # fmt: skip
        return _chosen(changed, _column_of(read, held.type), held)

    def _changed(self, names: Sequence[str]) -> Mask:
        """Return which documents get another text in one of some columns."""
        changed = np.zeros(self._given.n_rows, np.bool_)
        for name in names:
            mask = self._given.mask(name)
            if mask.any() and name in self._facts.schema.row_columns:
                new = one_array(self._given.columns[name])
                old = one_array(gather(self._segments, *self._at, [name]).column(0))
                mask = mask & ~_same(new, old)
            changed |= mask  # of a text that is not stored nobody knows whether it is another
        return changed

    def _whole(self, name: str, needed: Mask) -> pa.Array:
        """Return a column that is embedded; what is not needed may be missing."""
        if name in self._facts.schema.row_columns:
            return self.column(name)
        missing = needed & ~self._given.mask(name)
        if missing.any():
            wish = "the text of each row whose vector is made anew (the index does not store it)"
            raise error(OptionError, name, wish, f"none in row {int(np.argmax(missing))}")
        return one_array(self._given.columns[name])


def _column_of(vectors: VectorInput, kind: pa.DataType) -> pa.Array:
    """Return vectors as a column; null where there is none."""
    if vectors.sparse is not None:
        return vectors.sparse.to_arrow()
    values = np.concatenate([np.asarray(chunk).reshape(-1) for chunk in vectors.chunks])
    none = None if vectors.valid is None else pa.array(~vectors.valid)
    one = kind if vectors.begins is None else kind.value_type
    rows = pa.FixedSizeListArray.from_arrays(pa.array(values), type=one, mask=none)
    if vectors.begins is None:
        return rows
    return pa.LargeListArray.from_arrays(pa.array(vectors.begins.astype(np.int64)), rows)


def _chosen(mask: Mask, new: pa.Array, old: pa.Array) -> pa.Array:
    """Return the new value where the mask says so, else the old one."""
    at = np.arange(len(mask), dtype=np.int64)
    return pa.concat_arrays([new, old]).take(pa.array(np.where(mask, at, at + len(mask))))


def _same(new: pa.Array, old: pa.Array) -> Mask:
    """Return which texts are equal; null equals null."""
    import pyarrow.compute as pc

    equal = pc.fill_null(pc.equal(new, old), False)
    both = pc.and_(new.is_null(), old.is_null())
    return np.asarray(pc.or_(equal, both).to_numpy(zero_copy_only=False), np.bool_)
