"""What crosses between an index's shards and the merge: a request, counts, and candidates."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from hyrecall import _core
from hyrecall.arm.arm import SearchArm
from hyrecall.ask.expansion import Context, SharedTags, parts_of
from hyrecall.ask.recipe import Recipe
from hyrecall.ask.request import CallOptions, Floors, Search, Texts, read_query_keys
from hyrecall.ask.scope import scope_entries
from hyrecall.base.arguments import check_keywords, set_fields
from hyrecall.base.times import call_time
from hyrecall.errors import OptionError, ShapeError, error
from hyrecall.segments.lookup import read_columns
from hyrecall.segments.segments import IndexFacts
from hyrecall.stages.session_signals import SessionSignals
from hyrecall.stages.stage import Stage, check_stages

if TYPE_CHECKING:
    from hyrecall.arm.kinds import Arm
    from hyrecall.ask.filter_json import FilterLike
    from hyrecall.ask.scoring import Above, Fusion
    from hyrecall.segments.segments import State
    from hyrecall.stages.session import Session
    from hyrecall.text.bm25 import BM25

Array = npt.NDArray[Any]

# ---- What is asked ----


class ReadRequest(NamedTuple):
    """A request, read for one index."""

    asked: Search
    options: CallOptions
    recipe: Recipe | list[Recipe] | None


@check_keywords
@dataclass(frozen=True, init=False, eq=False, repr=False)
class Request:
    """The arguments of a recall of an index or of its shards, frozen.

    Parameters
    ----------
    text, vectors, scope, filter, limit, offset, depth, fusion, min_score, min_fused, bm25
        As in :meth:`hyrecall.Index.recall`. Arrays must not change while the request is used. Texts
        are not embedded here: an index with vectors needs ``vectors`` for its vector arms.
    normalize, arms, candidates, shaping, session, recipe, group, columns, query_keys, now
        As in :meth:`hyrecall.Index.recall`. The request fixes ``now``.

    Attributes
    ----------
    id : str
        Random; statistics and parts with another id are refused.

    Examples
    --------
    >>> request = Request(text=["green tea"], scope="ann", limit=3)
    >>> request.given["limit"]
    3
    """

    id: str
    given: Mapping[str, Any]

    def __init__(
        self,
        *,
        text: Texts = None,
        vectors: object = None,
        scope: object = None,
        filter: FilterLike | list[FilterLike | None] | None = None,  # noqa: A002
        limit: int = 10, offset: int = 0, depth: int = 100,
        fusion: Fusion | None = None,
        min_score: Floors = None, min_fused: float | Above | None = None,
        bm25: BM25 | Mapping[str, BM25] | None = None,
        normalize: bool = False,
        arms: Sequence[Arm] | Arm = (),
        candidates: Mapping[str, Sequence[Any]] | None = None,
        shaping: Sequence[Stage] | Stage = (),
        session: Session | list[Session | None] | None = None,
        recipe: Recipe | list[Recipe] | None = None,
        group: str | None = None,
        columns: str | Sequence[str] = (),
        query_keys: Sequence[str] | Sequence[int] | None = None, now: datetime | None = None,
    ) -> None:  # fmt: skip
        given = {name: one for name, one in locals().items() if name != "self"}
        given["now"] = call_time(now)
        _check_parts(given)
        set_fields(self, id=secrets.token_hex(16), given=_own(given))

    def read(self, facts: IndexFacts) -> ReadRequest:
        """Return the call as an index with these facts reads it; raises the errors of recall."""
        given = self.given
        named = read_columns(facts, given["columns"])
        asked = Search(**_fields_of(Search, given))._replace(
            scope=scope_entries(facts.cell_types, given["scope"]),
            columns=named,
            query_keys=read_query_keys(given["query_keys"], (*facts.schema.cell_columns, *named)),
        )
        options = CallOptions(**_fields_of(CallOptions, given), more=given["arms"])
        if facts.embedded and given["vectors"] is None:
            from hyrecall.recall.embedders import with_missing_vectors  # loads clients of endpoints

            asked = with_missing_vectors(facts, asked, given["recipe"], options)
        return ReadRequest(asked, options, given["recipe"])

    def __repr__(self) -> str:
        """Show the arguments that are not their defaults, without arrays."""
        named = ("text", "scope", "filter", "limit", "recipe")
        shown = [f"{name}={self.given[name]!r}" for name in named if self.given[name] is not None]
        return f"Request({', '.join(shown)})"


def _fields_of(kind: type[Search | CallOptions], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that a part of a call has, by the same names."""
    return {name: given[name] for name in kind._fields if name in given}


def _own(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with copies of their lists: the caller may change its own."""
    return {name: list(one) if isinstance(one, list) else one for name, one in given.items()}


_ANSWERED = {
    "arms": "arms that shards can answer (Listed, Newest, Regex in columns)",
    "shaping": "stages that shards can answer",
    "expansion": "no expansion in a recall over shards",
}
_REMEDY = "recall from one index: hr.Index.build, hr.Index.open"


def _check_parts(given: Mapping[str, Any]) -> None:
    """Refuse arms, stages and expansions that read more of an index than candidates."""
    if isinstance(group := given["group"], str) and group != "thread":
        wish = "'thread', or None, in a recall over shards (a thread lies in one of them)"
        raise error(OptionError, "group", wish, repr(group)[:80])
    recipe, arms = given["recipe"], given["arms"]
    recipes = recipe if isinstance(recipe, list) else [recipe]
    hows: list[CallOptions | Recipe] = [one for one in recipes if isinstance(one, Recipe)]
    several = tuple(arms) if isinstance(arms, Sequence) else arms
    hows.append(CallOptions(more=several, shaping=check_stages(given["shaping"])))
    for how in hows:
        of = f" of the recipe {how.name!r}" if isinstance(how, Recipe) else ""
        for part in parts_of(how):
            refused = _refused(part)
            if refused is not None:
                argument, got = refused
                raise error(OptionError, argument, _ANSWERED[argument], got + of, _REMEDY)


def _refused(part: object) -> tuple[str, str] | None:
    """Return the argument and the name of a part that reads edges or whole cells, or twice."""
    match part:
        case SearchArm() if part._refused_over_shards is not None:
            return "arms", part._refused_over_shards
        case SessionSignals() if part.graph is not None:
            return "shaping", "SessionSignals with a graph"
        case Stage() if part.over_shards is not None:
            return "shaping", f"{part.name} ({part.over_shards})"
        case Context() | SharedTags():
            return "expansion", type(part).__name__
    return None


# ---- The integers that BM25 counts, of one index or summed over its shards ----

_ARRAYS = ("numbers", "freq_ends", "freqs", "thread_ends", "thread_freqs")
N_NUMBERS = 6  # for each query in an arm; the last says why its text is not searched or cut, or 0
MOST_EXPANDED = _core.MOST_EXPANDED
_CUT = 3  # the last number of a text that is searched, but cut


class Counts(NamedTuple):
    """The counts of one native request, for each lexical arm and each query in it."""

    queries: npt.NDArray[np.int64]
    arms: tuple[str, ...]
    arrays: Mapping[str, Array]
    expansions: Mapping[tuple[int, int], Mapping[bytes, int]]
    """Of the words that stand for several terms, by entry and leaf: the documents with each."""

    @staticmethod
    def of(native: _core.Statistics, queries: npt.NDArray[np.int64], arms: Iterable[str]) -> Counts:
        """Make counts from those of the engine."""
        n = len(queries)
        expansions = {
            (arm * n + query, leaf): terms for arm, query, leaf, terms in native.expansions()
        }
        return Counts(queries, tuple(arms), native.arrays(), expansions)

    def plus(self, other: Counts) -> Counts:
        """Return the sums of both counts, which must be of one request."""
        ends = ("freq_ends", "thread_ends")
        is_like = np.array_equal(self.queries, other.queries) and self.arms == other.arms
        if not is_like:
            raise error(ShapeError, "statistics", "those of one request", "others")
        reasons = np.maximum(self.refusals, other.refusals)
        own, others = self.arrays, other.arrays
        if not all(np.array_equal(own[name], others[name]) for name in ends):
            raise error(ShapeError, "statistics", "those of one request", "others")
        summed = {name: own[name] if name in ends else own[name] + others[name] for name in _ARRAYS}
        expansions = {place: dict(terms) for place, terms in self.expansions.items()}
        for place, terms in other.expansions.items():
            both = expansions.setdefault(place, {})
            for term, count in terms.items():
                both[term] = both.get(term, 0) + count
            if len(both) > MOST_EXPANDED:
                reasons[place[0]] = max(reasons[place[0]], _CUT)
        summed["numbers"].reshape(-1, N_NUMBERS)[:, -1] = reasons
        return Counts(self.queries, self.arms, summed, expansions)

    @property
    def refusals(self) -> Array:
        """Why the text of each query in each arm is not searched, or is cut; 0: neither."""
        return self.arrays["numbers"].reshape(-1, N_NUMBERS)[:, -1]

    def reasons(self, queries: Array, arms: Sequence[str]) -> npt.NDArray[np.uint8]:
        """Return why texts are not searched or are cut, of these arms and queries."""
        entries = self._entries(queries, arms)
        return np.ascontiguousarray(self.refusals[entries].astype(np.uint8))

    def chosen(
        self, queries: Array, arms: Sequence[str]
    ) -> list[tuple[int, int, int, list[bytes]]]:
        """Return the terms that words find which stand for too many, as the engine takes them."""
        places = {int(entry): at for at, entry in enumerate(self._entries(queries, arms))}
        return [
            (*divmod(places[entry], len(queries)), leaf, _most_frequent(terms))
            for (entry, leaf), terms in self.expansions.items()
            if len(terms) > MOST_EXPANDED and entry in places
        ]

    def _entries(self, queries: Array, arms: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return where the counts of some queries in some arms are."""
        at = np.searchsorted(self.queries, queries)
        has_all = (at < len(self.queries)).all() and (self.queries[at] == queries).all()
        if not has_all or not set(arms) <= set(self.arms):
            raise error(ShapeError, "statistics", "those of all queries and arms", "fewer")
        own = np.array([self.arms.index(arm) for arm in arms], np.int64)
        return (own[:, None] * len(self.queries) + at[None, :]).reshape(-1)

    def native(
        self, queries: Array, arms: Sequence[str], asked: npt.NDArray[np.bool_] | None
    ) -> _core.Statistics:
        """Return the statistics of some queries and arms in the form that the engine takes."""
        # Queries that are not ``asked`` count as without a text.
        kept = None if asked is None else np.tile(asked, len(arms))
        made = self._picked(self._entries(queries, arms), kept)
        return _core.Statistics.from_arrays(made, len(arms), len(queries))

    def _picked(self, entries: Array, kept: npt.NDArray[np.bool_] | None) -> dict[str, Array]:
        """Return the arrays of some entries; those that are not kept have no counts."""
        if kept is None:
            kept = np.ones(len(entries), np.bool_)
        numbers = self.arrays["numbers"].reshape(-1, N_NUMBERS)[entries]
        made = {"numbers": np.where(kept[:, None], numbers, 0).reshape(-1)}
        for ends, values in (("freq_ends", "freqs"), ("thread_ends", "thread_freqs")):
            made[ends], made[values] = _rows(self.arrays[ends], self.arrays[values], entries, kept)
        return made


def _most_frequent(terms: Mapping[bytes, int]) -> list[bytes]:
    """Return the terms that the most documents hold; of equal ones the first by their bytes."""
    return sorted(terms, key=lambda term: (-terms[term], term))[:MOST_EXPANDED]


def _rows(ends: Array, values: Array, entries: Array, kept: Array) -> tuple[Array, Array]:
    """Return the values of some entries, concatenated; entries that are not kept have none."""
    begins = ends[:-1][entries]
    sizes = np.where(kept, np.diff(ends)[entries], 0)
    out = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    places = np.arange(out[-1]) - np.repeat(out[:-1], sizes) + np.repeat(begins, sizes)
    return out, np.ascontiguousarray(values[places])


@check_keywords
@dataclass(frozen=True, eq=False, repr=False)
class Statistics:
    """The integers that BM25 counts for a request: documents, lengths, document frequencies.

    :meth:`hyrecall.Index.statistics` returns those of one index, :meth:`sum` adds those of all
    shards. With the sums, scores equal those of a single index with all documents.

    Attributes
    ----------
    request : str
        The ``id`` of the request.
    index : str
        A hash of the schema, analyzers and types of the index; equal for shards of one index.
    versions : tuple of str
        The state of each shard that was counted, in the order of the sum.
    """

    request: str
    index: str
    versions: tuple[str, ...]
    sees_threads: npt.NDArray[np.bool_]
    runs: Mapping[str, Counts]

    @staticmethod
    def sum(parts: Sequence[Statistics]) -> Statistics:
        """Return the sum over the shards of an index.

        Parameters
        ----------
        parts : sequence of Statistics
            One for each shard, in any order; all of one request and of alike indexes.
        """
        if not parts:
            raise error(OptionError, "parts", "the statistics of at least one shard", "none")
        first, *others = parts
        for one in others:
            check_alike(first, one)
            if set(one.runs) != set(first.runs):
                raise error(OptionError, "parts", "statistics of one request", "others")
        runs = dict(first.runs)
        sees = first.sees_threads
        for one in others:
            runs = {name: counts.plus(one.runs[name]) for name, counts in runs.items()}
            sees = _either(sees, one.sees_threads)
        versions = tuple(version for one in parts for version in one.versions)
        return Statistics(first.request, first.index, versions, sees, runs)

    def __repr__(self) -> str:
        return f"Statistics(of {len(self.versions)} shards)"


def check_alike(one: Any, other: Any) -> None:
    """Refuse statistics or parts that are not of one request and one index."""
    if one.request != other.request:
        raise error(OptionError, "parts", "those of one request", "those of several")
    if one.index != other.index:
        wish = "shards with the same schema, analyzers, BM25 constants, dimensions and types"
        raise error(OptionError, "parts", wish, "others")


def _either(one: Array, other: Array) -> Array:
    """Return the elementwise OR; an array of one entry stands for all queries."""
    both = np.broadcast_arrays(one, other)
    found = np.asarray(both[0] | both[1], np.bool_)
    return found[:1] if len(found) and (found == found[0]).all() else found


# ---- The result of one shard: its candidates, and the rows that the merge reads ----


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
    request, index, version, device : str
        The ``id`` of the request, a hash of what the shards of an index have in common, the state
        of the shard, and the device that searched.
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
