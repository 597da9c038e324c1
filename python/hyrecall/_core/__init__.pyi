"""The native engine of hyrecall. Private: use the hyrecall package.

Arrow columns come as anything with ``__arrow_c_array__``, one chunk each.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias, final

import numpy as np
import numpy.typing as npt

from hyrecall._core import arithmetic as arithmetic
from hyrecall._core import arms as arms
from hyrecall._core import device as device
from hyrecall._core import rows as rows
from hyrecall._core import shaping as shaping

_Rows: TypeAlias = npt.NDArray[np.uint32]
_Bytes: TypeAlias = npt.NDArray[np.uint8]
_Floats: TypeAlias = npt.NDArray[np.float32]
_Front: TypeAlias = tuple[_Bytes, _Floats, _Floats] | None  # codes, scales, residuals
_Floor: TypeAlias = tuple[float, bool] | None  # (value, strict)
_Bm25: TypeAlias = tuple[str, float, float, float]  # (variant, k1, b, delta)
_Query: TypeAlias = str | tuple[Any, ...] | None  # (kind, ...) as hyrecall.ask.queries makes them

class _ArrowArray(Protocol):
    def __arrow_c_array__(self, schema: object | None = None, /) -> tuple[object, object]: ...

class HyrecallError(Exception):
    """Base of every error that hyrecall raises; `.argument` names the culprit."""

    argument: str

class ShapeError(HyrecallError, ValueError): ...
class DTypeError(HyrecallError, TypeError): ...
class OptionError(HyrecallError, ValueError): ...
class ScopeError(HyrecallError, LookupError): ...
class KeyConflictError(HyrecallError, ValueError): ...
class DeviceUnavailableError(HyrecallError, RuntimeError): ...
class DeviceMemoryError(HyrecallError, MemoryError): ...
class CorruptIndexError(HyrecallError, OSError): ...
class InternalError(HyrecallError, RuntimeError): ...

# ---- text ----

def text_version() -> str:
    """Version of the character tables and of the rules: part of every analyzer's hash."""

@final
class Analyzer:
    """Texts to terms with positions."""

    def __init__(
        self,
        preset: str,
        *,
        stopwords: Sequence[str] = ...,
        token_function: Callable[[list[str]], Sequence[Sequence[str]]] | None = None,
    ) -> None: ...
    @staticmethod
    def from_text_function(function: Callable[[list[str]], Sequence[Sequence[str]]]) -> Analyzer:
        """Whole texts: `function` maps a list of texts to a list of lists of terms."""
    def analyze(
        self, texts: Sequence[str | bytes], role: Literal["document", "query"]
    ) -> tuple[list[str], npt.NDArray[np.uint64], _Rows, _Rows, _Rows]:
        """texts, role -> terms, offsets, term_ids, positions, lengths."""

# ---- filters ----

@final
class AttributeColumn:
    """A filterable column of one segment: codes, validity, dictionary and zone maps."""

    def __init__(
        self,
        values: npt.NDArray[Any],
        *,
        text: _Bytes | None = None,
        valid: _Bytes | None = None,
        first_valid: int = 0,
        offsets: npt.NDArray[np.int64] | None = None,
        list_valid: _Bytes | None = None,
        first_list_valid: int = 0,
    ) -> None: ...
    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def sort_codes(self) -> npt.NDArray[np.int64]:
        """One per row of a column without lists, in the order of its values; null comes first."""

@final
class FilterProgram:
    """A filter compiled against a schema; good for every segment of it."""

    def __init__(self) -> None: ...
    @staticmethod
    def codes_between(column: int, low: int, high: int) -> FilterProgram: ...
    @staticmethod
    def text_between(
        column: int, low: str | bytes | None, high: str | bytes | None
    ) -> FilterProgram: ...
    @staticmethod
    def codes_any_of(column: int, codes: Sequence[int]) -> FilterProgram: ...
    @staticmethod
    def text_any_of(column: int, texts: Sequence[str | bytes]) -> FilterProgram: ...
    @staticmethod
    def is_null(column: int) -> FilterProgram: ...
    @staticmethod
    def all_of(parts: Sequence[FilterProgram]) -> FilterProgram:
        """Rows that match every part; of none: every row."""
    @staticmethod
    def any_of(parts: Sequence[FilterProgram]) -> FilterProgram:
        """Rows that match one part; of none: no row."""
    @staticmethod
    def complement(part: FilterProgram) -> FilterProgram: ...
    def evaluate(self, columns: Sequence[AttributeColumn]) -> npt.NDArray[np.bool_]:
        """Which rows match, shape (n_rows,). For tests."""
    def answers(self, columns: Sequence[AttributeColumn]) -> _Bytes:
        """What zone maps say of each tile, 0 none, 1 some, 2 all. For tests."""

def schema_metadata(schema: object) -> list[tuple[bytes, bytes]]:
    """(key, value) pairs of anything with __arrow_c_schema__, in order, repeated keys and all."""

# ---- columns ----

@final
class CellDirectory:
    def __init__(self, parts: list[_ArrowArray], n_rows: int) -> None: ...
    @property
    def n_cells(self) -> int: ...

def sort_rows(
    parts: list[_ArrowArray],
    n_rows: int,
    cluster: npt.NDArray[np.int64],
    seqs: npt.NDArray[np.int64],
) -> _Rows: ...

@final
class LexicalColumn:
    @staticmethod
    def build(
        name: str,
        columns: list[list[_ArrowArray]],
        order: _Rows,
        analyzer: Analyzer,
        threads: int,
        progress: Callable[[int], object] | None,
    ) -> LexicalColumn: ...
    @staticmethod
    def merge(
        sources: Sequence[LexicalColumn], source: _Rows, source_row: _Rows
    ) -> LexicalColumn: ...
    @staticmethod
    def from_parts(name: str, parts: dict[str, Any], threads: int) -> LexicalColumn: ...
    def parts(self) -> dict[str, npt.NDArray[Any]]: ...
    def doc_length(self, row: int) -> int | None: ...
    @property
    def n_terms(self) -> int: ...
    @property
    def n_postings(self) -> int: ...
    @property
    def nbytes(self) -> int: ...

@final
class DenseColumn:
    @staticmethod
    def build(
        name: str,
        dtype: str,
        dim: int,
        chunks: Sequence[npt.NDArray[Any]],
        valid: _Bytes,
        order: _Rows,
        threads: int,
    ) -> DenseColumn: ...
    @staticmethod
    def merge(sources: Sequence[DenseColumn], source: _Rows, source_row: _Rows) -> DenseColumn: ...
    @staticmethod
    def from_parts(
        name: str, dtype: str, dim: int, rows: _Bytes, inverse_norms: _Floats, front: _Front = None
    ) -> DenseColumn: ...
    @property
    def rows(self) -> _Bytes: ...
    @property
    def front(self) -> _Front: ...
    @property
    def front_use(self) -> tuple[int, int]: ...
    @property
    def inverse_norms(self) -> npt.NDArray[np.float32]: ...
    @property
    def dtype(self) -> Literal["float32", "float16", "bfloat16"]: ...
    @property
    def dim(self) -> int: ...
    @property
    def nbytes(self) -> int: ...

# ---- segments ----

@final
class Segment:
    def __init__(
        self,
        seqs: npt.NDArray[np.int64],
        cells: CellDirectory,
        keys: _ArrowArray,
        lexical: Sequence[LexicalColumn],
        dense: Sequence[DenseColumn],
        attributes: Sequence[AttributeColumn],
    ) -> None: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def n_cells(self) -> int: ...
    @property
    def seqs(self) -> npt.NDArray[np.int64]: ...
    @property
    def duplicate(self) -> tuple[int, int] | None: ...
    @property
    def nbytes(self) -> dict[str, int]: ...

@final
class SegmentView:
    def __init__(self, segment: Segment) -> None: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def n_live(self) -> int: ...
    @property
    def n_dead(self) -> int: ...
    def dead_rows(self) -> _Rows: ...
    def without(self, rows: _Rows) -> SegmentView:
        """The view after the death of these live, distinct rows."""

@final
class Snapshot:
    def __init__(self, views: Sequence[SegmentView]) -> None: ...
    @property
    def n_docs(self) -> int: ...
    @property
    def device_bytes(self) -> int:
        """Bytes of device memory that its segments take; 0 on the CPU."""
    @property
    def device(self) -> tuple[str, int] | None:
        """(folder of the library, N of cuda:N) where its dense columns lie; None: on the CPU."""
    def placed(
        self,
        folder: str,
        ordinal: int,
        previous: Snapshot | None,
        guests: Sequence[tuple[int, int, Guest, _Rows]],
    ) -> Snapshot:
        """The documents with their dense columns on a device, shared with `previous`.
        guests: (segment, column, its rows as a tensor there, which of them each row is)."""
    def locate_rows(
        self, cell_parts: list[_ArrowArray], keys: _ArrowArray
    ) -> tuple[npt.NDArray[np.int32], _Rows]:
        """Where each (cell, key) lives: segment (-1 = nowhere) and row."""
    def locate_keys(self, keys: _ArrowArray, scopes: Scopes) -> tuple[npt.NDArray[np.int32], _Rows]:
        """Every live (segment, row) with one of the keys in that key's scope."""
    def matching(self, pattern: Sequence[bytes | None]) -> list[bytes]:
        """Encoded cells that hold a live document and match every given part."""

def merge_order(
    views: Sequence[SegmentView], cluster: Sequence[npt.NDArray[np.int64]]
) -> tuple[_Rows, _Rows]:
    """Live rows of several views in the order of one segment: (view, row) each."""

# ---- recall ----

@final
class Scopes:
    """The scopes of a batch, each distinct one encoded once."""

    def __init__(
        self, kinds: Sequence[str], scope_type: type, read: Callable[[object, str], list[bytes]]
    ) -> None:
        """Take the cell columns' types, the type that holds several cells, and who encodes cells
        of what is not plain, or says what is wrong with it: read(scope, argument)."""
    def add(self, scope: object, n_queries: int) -> None:
        """One scope for so many queries."""
    def add_each(self, scopes: list[Any]) -> None:
        """One scope for each query."""

@final
class Gate:
    """A stream of ours, on which a tensor's producer says from when on it may be read."""

    def __init__(self, folder: str, ordinal: int) -> None: ...
    @property
    def stream(self) -> int:
        """As __dlpack__(stream=) takes it."""

@final
class Guest:
    """A tensor of another library on a device."""

    @staticmethod
    def take(gate: Gate, capsule: object, dim: int) -> Guest | None:
        """Take over a DLPack capsule's tensor, a matrix of floats with `dim` columns, or None."""
    @property
    def n_rows(self) -> int: ...

@final
class Request:
    def __init__(
        self,
        *,
        scopes: Scopes,
        filters: Sequence[FilterProgram],
        filter_of: npt.NDArray[np.uint32] | None,
        depth: int,
        limit: int,
        offset: int,
        threads: int,
    ) -> None: ...
    def slice(self, begin: int, end: int) -> Request:
        """The queries [begin, end) as a request of their own."""
    def query_vector(self, arm: int, query: int) -> npt.NDArray[np.float32]:
        """A copy of the arm's query, padded with zeros as the scan reads it; empty if missing."""
    def divide(self, part: int, values: Sequence[bytes]) -> None:
        """Divide scopes into tables by a cell's part: one for each value, then one for others."""
    def add_lexical(
        self,
        column: int,
        name: str,
        bm25: _Bm25,
        analyzer: Analyzer,
        queries: Sequence[object],
        lower: Callable[[object, str], _Query],
        floor: _Floor,
        table: int | None = None,
    ) -> None:
        """lower(query, argument): the plain form of a query that is neither str nor None."""
    def add_dense(
        self,
        column: int,
        name: str,
        vectors: npt.NDArray[np.float32],
        valid: _Bytes,
        floor: _Floor,
        table: int | None = None,
    ) -> None: ...
    def add_guest(self, column: int, name: str, guest: Guest, argument: str, floor: _Floor) -> None:
        """A dense arm whose queries lie on the device that it runs on; it takes the guest."""
    def add_listed(
        self,
        name: str,
        offsets: npt.NDArray[np.int64],
        segment: _Rows,
        row: _Rows,
        score: npt.NDArray[np.float32],
        floor: _Floor,
    ) -> None: ...
    def set_fusion(
        self,
        *,
        kind: str,
        weights: Sequence[float],
        rank_constant: float,
        scales: Sequence[str],
        complete: bool,
        balance: float | None,
        min_fused: _Floor,
        normalize: bool,
    ) -> None: ...
    def release_guests(self) -> None:
        """Let go of the tensors whose queries have been read."""
    @property
    def n_queries(self) -> int: ...
    @property
    def n_arms(self) -> int: ...

@final
class Statistics:
    def of(self, arm: int, query: int) -> tuple[int, int, list[int]]:
        """(documents, total length, document frequency per leaf) of one query."""
    @staticmethod
    def add(parts: Sequence[Statistics]) -> Statistics: ...

@final
class Candidates: ...

@final
class Execution:
    def __init__(self, snapshot: Snapshot, request: Request) -> None: ...
    def statistics(self) -> Statistics: ...
    def candidates(self, statistics: Statistics) -> Candidates: ...
    def leaves(self, arm: int, query: int) -> list[tuple[str, float]] | None:
        """(label, boost x occurrences) of the query's leaves, in the order of summing."""
    def empty_queries(self, arm: int) -> list[int]:
        """Queries whose text has no indexable token."""
    def matches(self, arm: int, query: int, segment: int, row: int) -> bool:
        """Whether a document that this execution returned matches the text query."""
    def leaf_freqs(self, arm: int, query: int, segment: int, row: int) -> list[int]:
        """Term frequency of each leaf in a document that this execution returned."""

def merge(request: Request, parts: Sequence[Candidates]) -> dict[str, npt.NDArray[Any]]:
    """offsets, part, segment, row, rank, score, arm_scores, arm_ranks, scales, list_sizes."""
