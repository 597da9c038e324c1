"""The base class of graphs: both indexes, and access to the participants of edges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.base.keywords import check_keywords
from hyrecall.graph.nodes import GraphNodes
from hyrecall.index import Index
from hyrecall.recall.arms.listed import read_keys

__all__ = ["GraphReads"]


@check_keywords
class GraphReads:
    """An index of edges over an index of nodes."""

    def __init__(self, edges: Index, nodes: Index | GraphNodes, participants_column: str) -> None:
        """Join both indexes."""
        self._edges = edges
        self._nodes = nodes
        self._column = participants_column

    @property
    def edges(self) -> Index:
        """The index of edges, whose hits are edges."""
        return self._edges

    @property
    def nodes(self) -> Index | GraphNodes:
        """The index of documents, or the shards of one."""
        return self._nodes

    @property
    def participants_column(self) -> str:
        """The name of the list column of participants."""
        return self._column

    @property
    def key_type(self) -> pa.DataType:
        """The type of the nodes' keys."""
        return self._nodes._facts.row_types[self._nodes.schema.key]

    def edge_scope(self, scope: object) -> object:
        """Return the scope for the index of edges: None if it has no cells."""
        return scope if self._edges.schema.cell_columns else None

    def participants(self, column: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
        """Return (number of the edge, key) of every participant in a column of lists."""
        import pyarrow.compute as pc

        which = pc.list_parent_indices(column).to_numpy().astype(np.int64)
        keys = pc.list_flatten(column)
        if keys.null_count:
            present = keys.is_valid().to_numpy(zero_copy_only=False)
            which, keys = which[present], keys.filter(pa.array(present))
        return which, keys.cast(self.key_type)

    def flat_keys(
        self, argument: str, keys: Sequence[Sequence[object]]
    ) -> tuple[npt.NDArray[np.int64], pa.Array]:
        """Concatenate lists of keys; return their offsets and keys."""
        lists = [list(one) for one in keys]
        offsets = np.cumsum([0, *(len(one) for one in lists)], dtype=np.int64)
        flat = [key for one in lists for key in one]
        return offsets, read_keys(argument, flat, self._nodes._facts)
