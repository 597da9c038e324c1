"""The native engine; private. Arrow columns: objects with ``__arrow_c_array__``, one chunk each."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, final

import numpy as np
import numpy.typing as npt

from hyrecall._core import arithmetic as arithmetic
from hyrecall._core import arms as arms
from hyrecall._core import device as device
from hyrecall._core import files as files
from hyrecall._core import queries as queries
from hyrecall._core import rows as rows
from hyrecall._core import shaping as shaping

_Rows: TypeAlias = npt.NDArray[np.uint32]
_Int64s: TypeAlias = npt.NDArray[np.int64]
_Prior: TypeAlias = tuple[int, Sequence[int | bytes], Sequence[float]] | None
_Arrays: TypeAlias = Sequence[npt.NDArray[Any]]
_Bytes: TypeAlias = npt.NDArray[np.uint8]
_Floats: TypeAlias = npt.NDArray[np.float32]
_Named: TypeAlias = dict[str, npt.NDArray[Any]]
_Plane: TypeAlias = tuple[_Bytes, _Floats, _Floats]  # codes, scales, residuals
_Head: TypeAlias = tuple[_Floats, _Plane] | None  # directions, plane
_Planes: TypeAlias = tuple[_Plane, _Head] | None
_Checks: TypeAlias = files.BlockChecks | None
_Late: TypeAlias = Sequence[tuple[files.BlockChecks, int, int]]
_Floor: TypeAlias = tuple[float, bool] | None  # (value, strict)
_Bm25: TypeAlias = tuple[str, float, float, float, float]  # (variant, k1, b, delta, b_mixed)

class _ArrowArray(Protocol):
    def __arrow_c_array__(self, schema: object | None = None, /) -> tuple[object, object]: ...

class HyrecallError(Exception):
    """Base of every error that hyrecall raises; `.argument` names the argument at fault."""

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

def text_version(preset: str) -> str:
    """Return the version of the character tables and a preset's rules, a part of every hash."""

@final
class Analyzer:
    """Splits texts into terms with positions."""

    def __init__(
        self,
        preset: str,
        *,
        stopwords: Sequence[str] = ...,
        token_function: Callable[[list[str]], Sequence[Sequence[str]]] | None = None,
        function_stems: bool = False,
    ) -> None: ...
    @staticmethod
    def from_text_function(
        function: Callable[[list[str]], Sequence[Sequence[str]]],
        locate: Callable[[list[str]], list[list[tuple[str, int, int]]]] | None = None,
    ) -> Analyzer:
        """Make an analyzer from a function that maps texts to a list of terms for each."""
    def analyze(
        self, texts: Sequence[str | bytes], role: Literal["document", "query"]
    ) -> tuple[list[str], npt.NDArray[np.uint64], _Rows, _Rows, _Rows]:
        """Return terms, offsets, term_ids, positions, lengths."""
    def locate(
        self, text: str, role: Literal["document", "query"]
    ) -> list[tuple[str, int, int, int]] | None:
        """Return term, position, start and end of each token; None: it cannot tell."""

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
        """One code per row of a column without lists, ordered like the values; null comes first."""

@final
class FilterProgram:
    """A filter compiled for a schema, valid for all of its segments."""

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
        """Match rows that match every part; without parts, every row."""
    @staticmethod
    def any_of(parts: Sequence[FilterProgram]) -> FilterProgram:
        """Match rows that match at least one part; without parts, no row."""
    @staticmethod
    def complement(part: FilterProgram) -> FilterProgram: ...
    def evaluate(self, columns: Sequence[AttributeColumn]) -> npt.NDArray[np.bool_]:
        """Return whether each row matches, shape (n_rows,). For tests."""
    def answers(self, columns: Sequence[AttributeColumn]) -> _Bytes:
        """Return the zone maps' result for each tile: 0 none, 1 some, 2 all. For tests."""

def schema_metadata(schema: object) -> list[tuple[bytes, bytes]]:
    """Return the (key, value) pairs of an object with __arrow_c_schema__, with repeated keys."""

# ---- columns ----

@final
class CellDirectory:
    def __init__(self, parts: list[_ArrowArray], n_rows: int) -> None: ...
    @property
    def n_cells(self) -> int: ...

def check_layout(array: _ArrowArray, argument: str) -> None:
    """Refuse an Arrow array with an offset or a length below 0, also inside it."""

def sort_rows(parts: list[_ArrowArray], n_rows: int, cluster: _Int64s, seqs: _Int64s) -> _Rows: ...

@final
class LexicalColumn:
    @staticmethod
    def build(
        name: str,
        columns: list[list[_ArrowArray]],
        weights: Sequence[int],
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
    def from_parts(
        name: str, parts: dict[str, Any], threads: int, is_mapped: bool = ..., is_late: bool = ...
    ) -> LexicalColumn: ...
    def check(self, threads: int) -> None: ...
    def read_apart(self) -> None: ...
    def parts(self) -> _Named: ...
    def doc_length(self, row: int) -> int | None: ...
    @property
    def n_terms(self) -> int: ...
    @property
    def n_postings(self) -> int: ...
    def n_left_out(self) -> int: ...
    @property
    def nbytes(self) -> int: ...

@final
class DenseColumn:
    @staticmethod
    def build(
        name: str, dtype: str, dim: int, chunks: _Arrays, valid: _Bytes, order: _Rows, threads: int,
        begins: _Rows | None = None,
    ) -> DenseColumn: ...  # fmt: skip
    @staticmethod
    def merge(
        sources: Sequence[DenseColumn], source: _Rows, source_row: _Rows, threads: int = 1
    ) -> DenseColumn: ...
    @staticmethod
    def from_parts(
        name: str, dtype: str, dim: int, rows: _Bytes, norms: _Floats, planes: _Planes = None,
        begins: _Rows | None = None,
    ) -> DenseColumn: ...  # fmt: skip
    @staticmethod
    def build_sparse(
        name: str, is_half: bool, terms: _ArrowArray, begins: npt.NDArray[np.int64],
        numbers: npt.NDArray[np.uint32], weights: _Bytes, order: _Rows,
    ) -> DenseColumn: ...  # fmt: skip
    @staticmethod
    def from_sparse_parts(
        name: str, dtype: str, terms: _ArrowArray, parts: Mapping[str, npt.NDArray[Any]]
    ) -> DenseColumn: ...
    def sparse_parts(self) -> dict[str, npt.NDArray[Any]] | None: ...
    def read_late(self, rows: _Checks, plane: _Checks, heads: _Checks) -> None: ...
    def check(self) -> None: ...
    def row(self, row: int) -> _Bytes: ...
    @property
    def begins(self) -> _Rows | None: ...
    @property
    def rows(self) -> _Bytes: ...
    @property
    def int8_plane(self) -> _Plane | None: ...
    @property
    def head(self) -> _Head: ...
    @property
    def plane_use(self) -> tuple[int, int]: ...
    @property
    def inverse_norms(self) -> _Floats: ...
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
        self, seqs: npt.NDArray[np.int64], cells: CellDirectory, keys: _ArrowArray,
        lexical: Sequence[LexicalColumn], dense: Sequence[DenseColumn],
        attributes: Sequence[AttributeColumn], thread: int | None = None, place: int | None = None,
        late: _Late = ..., late_keys: _Late = ..., next_seq: int | None = None,
    ) -> None:  # fmt: skip
        """late, late_keys: (checks, address, size) of parts compared before rows, keys are read."""
    def check(self) -> None:
        """Compare what opening left of seqs, attributes, lengths and norms, once."""
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
        """Return the view with these live, distinct rows deleted."""

@final
class Snapshot:
    def __init__(self, views: Sequence[SegmentView], before: Snapshot | None = None) -> None: ...
    @property
    def n_docs(self) -> int: ...
    @property
    def device_bytes(self) -> int: ...
    @property
    def device(self) -> tuple[str, int] | None:
        """(folder of the library, N of cuda:N) of its dense columns; None on the CPU."""
    def placed(
        self,
        folder: str,
        ordinal: int,
        previous: Snapshot | None,
        guests: Sequence[tuple[int, int, Guest, _Rows]],
        postings: bool = False,
    ) -> Snapshot:
        """Return it on a device. guests: (segment, column, tensor, the tensor's row for each)."""
    def locate_rows(
        self, cell_parts: list[_ArrowArray], keys: _ArrowArray
    ) -> tuple[npt.NDArray[np.int32], _Rows]:
        """Return segment (-1 if missing) and row of each (cell, key)."""
    def locate_keys(self, keys: _ArrowArray, scopes: Scopes) -> tuple[npt.NDArray[np.int32], _Rows]:
        """Return (segment, row) of every live document with a key in that key's scope."""
    def matching(self, pattern: Sequence[bytes | None]) -> list[bytes]:
        """Return the encoded cells that have a live document and match every given part."""

# ---- recall ----

@final
class Scopes:
    """The scopes of a batch; equal scopes are encoded once."""

    def __init__(
        self, kinds: Sequence[str], scope_type: type, read: Callable[[object, str], list[bytes]]
    ) -> None:
        """Make empty scopes; read(scope, argument) encodes what is no scope_type, or raises."""
    def add(self, scope: object, n_queries: int) -> None:
        """Add the same scope for `n_queries` queries."""
    def add_each(self, scopes: list[Any]) -> None:
        """Add a scope for each query."""

@final
class Gate:
    """A stream that a tensor's producer makes wait until the tensor can be read."""

    def __init__(self, folder: str, ordinal: int) -> None: ...
    @property
    def stream(self) -> int:
        """The value for __dlpack__(stream=)."""

@final
class Guest:
    """A tensor of another library on a device."""

    @staticmethod
    def take(gate: Gate, capsule: object, dim: int) -> Guest | None:
        """Take over a DLPack capsule's tensor; None if it is not a float matrix of width dim."""
    @property
    def n_rows(self) -> int: ...

@final
class BatchRequest:
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
        host_postings: int | None = None,
    ) -> None: ...
    def slice(self, begin: int, end: int, limit: int | None = None) -> BatchRequest:
        """Return a request with only the queries [begin, end); limit: for so many hits."""
    def text_query(self, arm: int, query: int) -> queries.TextQuery | None:
        """Return the text of a lexical arm's query; None: it has none."""
    def query_vector(self, arm: int, query: int) -> _Floats:
        """Return a copy of the arm's query vector, padded with zeros; empty if missing."""
    def divide(self, part: int, values: Sequence[bytes]) -> None:
        """Divide scopes into tables by a part of the cell: one per value, then one for others."""
    def add_lexical(
        self,
        column: int,
        name: str,
        bm25: _Bm25,
        analyzer: Analyzer,
        queries: Sequence[object],
        lower: Callable[[object, str], str | queries.TextQuery | None],
        floor: _Floor,
        table: int | None = None,
    ) -> None:
        """Add a lexical arm; lower(query, argument) converts what is neither str nor None."""
    def add_dense(
        self,
        column: int,
        name: str,
        vectors: _Floats,
        valid: _Bytes,
        floor: _Floor,
        table: int | None = None,
        bundles: npt.NDArray[np.int64] | None = None,
        completes_only: bool = False,
    ) -> None: ...
    def add_sparse(
        self,
        column: int,
        name: str,
        terms: _ArrowArray,
        begins: npt.NDArray[np.int64],
        numbers: npt.NDArray[np.uint32],
        weights: _Floats,
        argument: str,
        floor: _Floor,
        table: int | None = None,
        completes_only: bool = False,
    ) -> None: ...
    def add_guest(self, column: int, name: str, guest: Guest, argument: str, floor: _Floor) -> None:
        """Add a dense arm whose queries are on its device; takes ownership of the guest."""
    def add_listed(
        self, name: str, offsets: _Int64s, segment: _Rows, row: _Rows, score: _Floats, floor: _Floor
    ) -> None: ...
    def refuse_texts(self, reasons: npt.NDArray[np.uint8]) -> None: ...
    def choose_terms(self, chosen: list[tuple[int, int, int, list[bytes]]]) -> None: ...
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
        ranks_by_place: bool = False,
    ) -> None: ...
    def set_evidence(
        self, *, neighbours: Sequence[float], thread: float, length: float, prior: _Prior = None
    ) -> None: ...
    def release_guests(self) -> None: ...
    def deepen(self, depth: int) -> None: ...
    def reached(self, snapshot: Snapshot) -> list[bool]:
        """Return whether each segment has a cell of some scope of the request."""
    @property
    def n_queries(self) -> int: ...
    @property
    def n_arms(self) -> int: ...

MOST_EXPANDED: int

@final
class Statistics:
    def of(self, arm: int, query: int) -> tuple[int, int, int, list[int]]: ...
    @staticmethod
    def add(parts: Sequence[Statistics]) -> Statistics: ...
    def arrays(self) -> _Named: ...
    def expansions(self) -> list[tuple[int, int, int, dict[bytes, int]]]: ...
    @staticmethod
    def from_arrays(arrays: _Named, n_arms: int, n_queries: int) -> Statistics: ...

@final
class Candidates:
    def arrays(self) -> _Named: ...
    @staticmethod
    def from_arrays(arrays: _Named, request: BatchRequest) -> Candidates: ...

@final
class Execution:
    def __init__(self, snapshot: Snapshot, request: BatchRequest) -> None: ...
    def statistics(self) -> Statistics: ...
    def candidates(self, statistics: Statistics) -> Candidates: ...
    def hits(self, statistics: Statistics) -> tuple[_Named, float]: ...
    def leaves(self, arm: int, query: int) -> list[tuple[str, float]] | None: ...
    def empty_queries(self, arm: int) -> list[int]: ...
    def refused_queries(self, arm: int) -> list[tuple[int, int]]: ...
    def host_queries(self, arm: int) -> list[tuple[int, bool]]: ...
    def matches(self, arm: int, query: int, segment: int, row: int) -> bool: ...
    def excludes(self, arm: int, query: int, segment: int, row: int) -> bool: ...
    def leaf_freqs(self, arm: int, query: int, segment: int, row: int) -> list[int]: ...
    def vector_pairs(
        self, arm: int, query: int, segment: int, row: int
    ) -> list[tuple[int, int, float]]: ...
    def sparse_pairs(
        self, arm: int, query: int, segment: int, row: int
    ) -> list[tuple[bytes, float, float]]: ...

@final
class MatchedRows:
    def count(self) -> int: ...
    def ordered(
        self, keys: Sequence[tuple[int, bool]], n: int
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]: ...
    def values(
        self, attribute: int
    ) -> tuple[npt.NDArray[np.int64], list[bytes], npt.NDArray[np.int64]]: ...
    def between(self, attribute: int, edges: Sequence[int]) -> npt.NDArray[np.int64]: ...

@final
class Matches:
    def __init__(self, snapshot: Snapshot, request: BatchRequest) -> None: ...
    def counts(self) -> npt.NDArray[np.int64]: ...
    def rows(self, query: int) -> MatchedRows: ...
    def empty_queries(self, arm: int) -> list[int]: ...
    def refused_queries(self, arm: int) -> list[tuple[int, int]]: ...

@final
class Answer:
    @property
    def request(self) -> BatchRequest: ...
    @property
    def n_queries(self) -> int: ...
    @property
    def n_hits(self) -> int: ...
    @property
    def arrays(self) -> _Named: ...
    @property
    def members(self) -> tuple[list[int], npt.NDArray[Any], npt.NDArray[Any], list[float]]: ...
    @property
    def linear(
        self,
    ) -> tuple[int, npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.float64]]: ...
    @property
    def times(self) -> tuple[float, float, float, float, float]: ...
    def empty_queries(self, arm: int) -> list[int]: ...
    def refused_queries(self, arm: int) -> list[tuple[int, int]]: ...
    def host_queries(self, arm: int) -> list[tuple[int, bool]]: ...

@final
class FrozenRequest:
    def __init__(
        self,
        *,
        like: BatchRequest,
        host_postings: int | None,
        kinds: Sequence[str],
        scope_type: type,
        dims: Sequence[int],
        blank: bool,
        exact: bool,
        group: tuple[int, int, int] | None = None,
        linear: shaping.LinearRules | None = None,
    ) -> None: ...
    def ask(
        self,
        snapshot: Snapshot,
        text: object,
        vectors: object,
        scope: object,
        filter: FilterProgram | list[FilterProgram | None] | None,  # noqa: A002
        one: bool,
        now: int = 0,
    ) -> Answer | None: ...

def merge(request: BatchRequest, parts: Sequence[Candidates]) -> _Named:
    """offsets, part, segment, row, rank, score, arm_scores, arm_ranks, scales, list_sizes."""
