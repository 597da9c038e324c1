"""The result of one shard for a request: its candidates, and the rows that the merge reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from hyrecall.base.arguments import check_keywords
from hyrecall.segments.segments import IndexFacts

if TYPE_CHECKING:
    from hyrecall.segments.segments import State


Array = npt.NDArray[Any]


class Vectors(NamedTuple):
    """Vectors of the rows of a part, as stored in the index."""

    dtype: str
    dim: int
    rows: npt.NDArray[np.uint8]  # (n_rows, bytes of a vector)
    inverse_norms: npt.NDArray[np.float32]  # 0: no vector


class RunPart(NamedTuple):
    """The candidates of one run of the call."""

    n_arms: int
    n_exact: int
    arrays: Mapping[str, Array]


@check_keywords
@dataclass(frozen=True, eq=False, repr=False)
class Part:
    """The result of one shard for a request; :meth:`hyrecall.Index.candidates` returns it.

    For each candidate it has the insertion number, the score in every arm, the key, the cell and
    the attributes, the columns that the request asks for or that a stage reads, and vectors only
    if a stage compares them.

    Attributes
    ----------
    request : str
        The ``id`` of the request.
    index : str
        A hash of the schema, analyzers and types of the index.
    version : str
        The state of the shard that was searched.
    device : str
        The device that searched.
    n_rows : int
        The number of its rows.
    """

    request: str
    index: str
    version: str
    versions: tuple[str, ...]  # of the statistics
    device: str
    sees_threads: npt.NDArray[np.bool_]
    facts: IndexFacts
    runs: Mapping[str, RunPart]
    rows: pa.Table
    seqs: npt.NDArray[np.int64]
    has_text: Mapping[str, npt.NDArray[np.bool_]]
    vectors: Mapping[str, Vectors]

    @property
    def n_rows(self) -> int:
        """The number of rows of the part."""
        return len(self.seqs)

    def __repr__(self) -> str:
        return f"Part({self.n_rows} rows)"


def version_of(state: State, seals: Sequence[str]) -> str:
    """Name a state of an index: each change except :meth:`hyrecall.Index.compact` makes a new
    name.
    """
    # ``seals`` are those of the saved version: a folder may get another index of the same size. The
    # name is a hash, since the number of documents would reveal something about all cells.
    told = [*seals, state.next_seq, state.n_docs]
    return xxhash.xxh3_128_hexdigest(json.dumps(told).encode())


_hashes: WeakKeyDictionary[IndexFacts, str] = WeakKeyDictionary()


def hash_of(facts: IndexFacts) -> str:
    """Return a hash of the facts that the shards of an index share."""
    found = _hashes.get(facts)
    if found is None:
        found = _hashes[facts] = _hash(facts)
    return found


def _hash(facts: IndexFacts) -> str:
    told = {
        "schema": facts.schema.to_dict(),
        "analyzers": {arm: one.hash for arm, one in facts.analyzers.items()},
        "bm25": {arm: one.to_dict() for arm, one in facts.bm25.items()},
        "named": [arm for arm, one in facts.schema.text_arms.items() if one.bm25 is not None],
        "dims": dict(facts.dims),
        "types": {name: str(kind) for name, kind in facts.row_types.items()},
    }
    return xxhash.xxh3_128_hexdigest(json.dumps(told, sort_keys=True).encode())
