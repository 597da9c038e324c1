"""The reply to a batch as data, which :class:`hyrecall.Hits` shows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.ask.request import NAME, keys_of
from hyrecall.ask.scoring import Fusion
from hyrecall.errors import OptionError, error
from hyrecall.hits.trace import Trace
from hyrecall.segments.segments import IndexFacts, State, gather_values
from hyrecall.table.arrow_values import join_texts, python_values
from hyrecall.table.schema import STAGE_COLUMNS

if TYPE_CHECKING:
    from hyrecall.hits.around import AroundHits
    from hyrecall.hits.confidence import Judged
    from hyrecall.hits.dropped import Dropped
    from hyrecall.hits.explain_text import Explanation
    from hyrecall.stages.session_signals import Phase


# ---- The arrays of a reply: some of them an entry a hit, some an entry a query ----

Arrays = dict[str, npt.NDArray[Any]]

QUERY_ARRAYS = ("offsets", "scales", "list_sizes", "totals")
"""What the native reply says of queries; the rest is an entry a hit."""

Facets = dict[str, list[tuple[Any, int]]]
"""By column, its values or ranges with the number of rows that have them."""


def facets_data(facets: Facets) -> dict[str, list[dict[str, Any]]]:
    """Return facets as JSON has them: a value or the ends of a range, with the number of rows."""
    return {
        name: [
            ({"from": one[0], "to": one[1]} if isinstance(one, tuple) else {"value": one})
            | {"count": count}
            for one, count in counts
        ]
        for name, counts in facets.items()
    }


JUDGED = ("confidence", "")
"""Under what values of a reply its confidence is kept."""

# What stands for no score and no rank of an arm, and the types of columns of them.
_MISSING: Final[dict[str, float]] = {"score": -np.inf, "rank": 0}
_TYPES: Final = {"score": pa.float32(), "rank": pa.int32()}


def only_queries(arrays: Arrays, asked: npt.NDArray[np.bool_]) -> Arrays:
    """Drop the hits of the other queries, which then have none."""
    counts = np.diff(arrays["offsets"])
    if not len(counts):
        return arrays
    kept = np.repeat(asked, counts)
    out = {"offsets": np.concatenate([[0], np.cumsum(np.where(asked, counts, 0))])}
    for name, array in arrays.items():
        if name == "offsets":
            continue
        if name in QUERY_ARRAYS:
            rows = array.reshape(len(counts), -1)
            out[name] = np.where(asked[:, None], rows, 0).reshape(array.shape)
        elif len(kept):
            rows = array.reshape(len(kept), -1)[kept]
            out[name] = rows.reshape(-1, *array.shape[1:])
        else:
            out[name] = array
    return out


def join_pieces(pieces: Sequence[Arrays]) -> Arrays:
    """Put the replies to the pieces of a batch back to back."""
    if len(pieces) == 1:
        return pieces[0]
    joined = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    counts = [np.diff(piece["offsets"]) for piece in pieces]
    joined["offsets"] = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    return joined


def arm_column(arrays: Arrays, kind: str, n_arms: int, places: Sequence[int]) -> pa.Array:
    """Return an arm's "score" or "rank" of every hit, null where it has none."""
    # ``places`` are those of the arm among ``n_arms``: one, one for each table, or none if it did
    # not run.
    values = _of_arm(arrays, kind, n_arms, places)
    if values is None:
        return pa.nulls(len(arrays["rank"]), _TYPES[kind])
    return pa.array(values, _TYPES[kind], mask=values == _MISSING[kind])


def arm_values(arrays: Arrays, kind: str, n_arms: int, places: Sequence[int]) -> list[Any]:
    """Return what :func:`arm_column` has as Python values."""
    values, missing = _of_arm(arrays, kind, n_arms, places), _MISSING[kind]
    if values is None:
        return [None] * len(arrays["rank"])
    return [None if one == missing else one for one in values.tolist()]


def _of_arm(
    arrays: Arrays, kind: str, n_arms: int, places: Sequence[int]
) -> npt.NDArray[Any] | None:
    if not places:
        return None
    rows = arrays[f"arm_{kind}s"].reshape(-1, n_arms)
    # A row lies in one table.
    return rows[:, places[0]] if len(places) == 1 else rows[:, places].max(axis=1)


def arrow_column(array: npt.NDArray[Any]) -> pa.Array:
    """Return an array of a reply as a column of a table; several values a hit become a list."""
    if array.ndim == 1:
        return pa.array(array, from_pandas=True)  # NaN is null
    offsets = np.arange(len(array) + 1, dtype=np.int32) * array.shape[1]
    return pa.ListArray.from_arrays(offsets, array.reshape(-1))


# ---- The reply to a batch as data, and what :class:`hyrecall.Hits` and their parts read of it ----

MOST_DROPPED = 100
"""Rows that ``explain_dropped`` describes for one query, unless a call asks for another number."""


class ReplySource(Protocol):
    """The snapshot and the request of a reply, from which it can be explained."""

    @property
    def state(self) -> State:
        """The snapshot that was searched."""
        ...

    @property
    def request(self) -> _core.BatchRequest:
        """The native request, with the index's own arms."""
        ...

    def text_query(self, place: int, query: int) -> _core.queries.TextQuery | None:
        """Return what a text arm was asked, by its place among the arms that ran."""
        ...

    def evidence(self, arm: str, query: int, segment: int, row: int) -> Any:
        """Return why an arm of ``arms=`` found a document; None if it did not find it."""
        ...

    def totals(self, begin: int, end: int) -> list[int]:
        """Count the rows that the queries [begin, end) match."""
        ...

    def judge(
        self, reply: Reply, begin: int, end: int, models: Mapping[str, str] | None = None
    ) -> list[Judged]:
        """Return how sure the replies to the queries [begin, end) are."""
        ...

    def explain(self, reply: Reply, query: int, at: int) -> Explanation:
        """Recompute the score of a hit, which is the reply's number ``at``."""
        ...

    def explain_dropped(self, reply: Reply, query: int, most: int) -> Dropped:
        """Run the stages of a query again and say what each dropped; ``most`` rows in all."""
        ...


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ReplyBase(ABC):
    """Base of replies to a batch, by one recipe or by several."""

    # It is frozen, and shared by the hits and tables that show it.

    facts: IndexFacts
    arms: tuple[str, ...]
    columns: tuple[str, ...]
    now: datetime
    trace: Trace
    query_keys: pa.Array | None = None
    _values: dict[tuple[str, str], list[Any]] = field(default_factory=dict)  # by cached()

    @property
    def n_queries(self) -> int:
        """Queries of the batch."""
        return self.trace.n_queries

    @property
    @abstractmethod
    def n_hits(self) -> int:
        """Hits of all queries together."""

    @property
    @abstractmethod
    def offsets(self) -> npt.NDArray[np.int64]:
        """Query q has the hits offsets[q] to offsets[q + 1] of :meth:`table`."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Reply, ...]:
        """The replies by one recipe that it is made of."""

    @abstractmethod
    def part_of(self, query: int) -> Reply:
        """Return the part that holds the hits of a query."""

    @abstractmethod
    def only(self, asked: npt.NDArray[np.bool_]) -> Self:
        """Return the reply to some of the queries; the others have no hits and no key in it."""

    @abstractmethod
    def column(self, name: str) -> pa.Array:
        """Return a row column (key, cell, attribute or stored) of every hit, in order."""

    @abstractmethod
    def arm_scores(self, arm: str) -> pa.Array:
        """Return an arm's score of every hit, float32; null where it was not computed."""

    @abstractmethod
    def arm_ranks(self, arm: str) -> pa.Array:
        """Return an arm's rank of every hit, int32 from 1; null outside the arm's list."""

    @abstractmethod
    def results(self) -> pa.Table:
        """Return what the recall found out of its hits: query, rank, key, cell, scores."""

    def texts(self, arm: str) -> pa.Array:
        """Return the text of a lexical arm of every hit: its columns, joined."""
        columns = self.facts.schema.text_arms[arm].columns
        return join_texts([self.column(name) for name in columns])

    def table(self) -> pa.Table:
        """Return the results, the queries' keys and the columns asked for; see ``to_arrow``."""
        table = self.results()
        if self.query_keys is not None:
            table = table.add_column(1, NAME, self.query_keys.take(table["query"]))
        for name in self.columns:
            if name not in table.column_names:
                table = table.append_column(name, self.column(name))
        return table

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of :meth:`table` as dicts."""
        table = self.table()
        values = zip(*map(python_values, table.columns), strict=True)
        return [dict(zip(table.column_names, row, strict=True)) for row in values]

    def cached(self, kind: str, name: str) -> list[Any]:
        """Return a "row" column, or an arm's "text", "score" or "rank", as Python values."""
        if (kind, name) not in self._values:
            self._values[kind, name] = self._read(kind, name)
        return self._values[kind, name]

    def _read(self, kind: str, name: str) -> list[Any]:
        read = {"row": self.column, "text": self.texts}
        read |= {"score": self.arm_scores, "rank": self.arm_ranks}
        return python_values(read[kind](name))

    def check_arm(self, arm: str) -> None:
        """Refuse an arm that the call did not know."""
        if arm not in self.arms:
            raise error(OptionError, "arm", f"an arm of {list(self.arms)}", repr(arm))

    def __copy__(self) -> Self:
        """Return the reply itself: it is frozen."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the reply itself: it is frozen."""
        return self


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Reply(ReplyBase):
    """The reply to a batch by one recipe, or by the options of a call."""

    arrays: Arrays
    ran: tuple[str, ...]
    bases: tuple[str, ...]
    fusion: Fusion | None
    normalize: bool
    phases: Sequence[Phase] | None
    around: AroundHits | None
    kept_source: ReplySource | None
    _gathered: dict[str, pa.Array]  # by column()
    facets: tuple[Facets, ...] | None = None  # of each query; None: none was asked for
    min_confidence: float | None = None  # below which a query has no hits

    def __init__(
        self,
        *,
        facts: IndexFacts,
        arms: tuple[str, ...],
        columns: tuple[str, ...],
        now: datetime,
        trace: Trace,
        arrays: Arrays,
        ran: tuple[str, ...],
        bases: tuple[str, ...],
        fusion: Fusion | None,
        normalize: bool,
        kept_source: ReplySource | None,
        query_keys: pa.Array | None = None,
        phases: Sequence[Phase] | None = None,
        around: AroundHits | None = None,
        facets: tuple[Facets, ...] | None = None,
        min_confidence: float | None = None,
        _values: dict[tuple[str, str], list[Any]] | None = None,
        _gathered: dict[str, pa.Array] | None = None,
    ) -> None:
        """Take all fields at once, which costs every call less than to set them one by one."""
        vars(self).update(
            facts=facts, arms=arms, columns=columns, now=now, trace=trace, query_keys=query_keys,
            arrays=arrays, ran=ran, bases=bases, fusion=fusion, normalize=normalize, phases=phases,
            around=around, kept_source=kept_source, facets=facets, min_confidence=min_confidence,
            _values={} if _values is None else _values,
            _gathered={} if _gathered is None else _gathered,
        )  # fmt: skip

    @property
    def source(self) -> ReplySource:
        """The call that the reply came from."""
        if self.kept_source is None:
            wish = "hits as a recall gives them"
            got = "unpickled ones, which hold values and no index"
            raise error(OptionError, "hits", wish, got, "recall again where the index is open")
        return self.kept_source

    @property
    def state(self) -> State:
        """The snapshot that was searched."""
        return self.source.state

    @property
    def n_hits(self) -> int:
        """Hits of all queries together."""
        return len(self.arrays["rank"])

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Query q has the hits offsets[q] to offsets[q + 1]."""
        return self.arrays["offsets"]

    def span(self, query: int) -> tuple[int, int]:
        """Return where the hits of a query begin and end."""
        offsets = self.arrays["offsets"]
        return int(offsets[query]), int(offsets[query + 1])

    @property
    def parts(self) -> tuple[Reply, ...]:
        """The reply itself."""
        return (self,)

    def part_of(self, query: int) -> Reply:
        """Return the reply itself."""
        return self

    def only(self, asked: npt.NDArray[np.bool_]) -> Reply:
        """Return the reply to some of the queries; the others have no hits and no key in it."""
        gathered: dict[str, pa.Array] = {}
        if self.kept_source is None:  # then what was gathered is all that there is
            kept = pa.array(np.repeat(asked, np.diff(self.offsets)))
            gathered = {name: one.filter(kept) for name, one in self._gathered.items()}
        return replace(
            self,
            arrays=only_queries(self.arrays, asked),
            query_keys=None if self.query_keys is None else keys_of(self.query_keys, asked),
            around=None if self.around is None else self.around.only(asked),
            facets=None
            if self.facets is None
            else tuple(own if one else {} for own, one in zip(self.facets, asked, strict=True)),
            _gathered=gathered,
            _values={},
        )

    def column(self, name: str) -> pa.Array:
        """Return a row column (key, cell, attribute or stored) of every hit, in order."""
        if name not in self.facts.returned_columns:
            known = list(self.facts.returned_columns)
            raise error(OptionError, "columns", f"columns of {known}", repr(name))
        if name not in self._gathered:
            state = self.state
            with state.reading():
                gathered = gather_values(
                    self.facts, state.segments, self.arrays["segment"], self.arrays["row"], name
                )
            self._gathered[name] = gathered
        return self._gathered[name]

    def values(self) -> dict[str, pa.Array]:
        """Return what hits without an index keep: every row column, and vectors if asked for."""
        names = dict.fromkeys((*self.facts.schema.row_columns, *self.columns))
        return {name: self.column(name) for name in names}

    def arm_scores(self, arm: str) -> pa.Array:
        """Return an arm's score of every hit, float32; null where it was not computed."""
        return arm_column(self.arrays, "score", len(self.ran), self.places(arm))

    def arm_ranks(self, arm: str) -> pa.Array:
        """Return an arm's rank of every hit, int32 from 1; null outside the arm's list."""
        return arm_column(self.arrays, "rank", len(self.ran), self.places(arm))

    def _read(self, kind: str, name: str) -> list[Any]:
        if kind in ("row", "text"):
            return super()._read(kind, name)
        return arm_values(self.arrays, kind, len(self.ran), self.places(name))

    def places(self, arm: str) -> list[int]:
        """Return the places of an arm among those that ran: one for each table, one, or none."""
        if arm not in self.ran:
            self.check_arm(arm)
        pairs = zip(self.ran, self.bases, strict=True)
        return [at for at, names in enumerate(pairs) if arm in names]

    def values_of_arms(self) -> tuple[dict[str, tuple[Any, ...]], dict[str, tuple[Any, ...]]]:
        """Return scores and ranks of every arm that ran, and of those over several tables."""
        if self.ran != self.bases:
            names = dict.fromkeys((*self.ran, *self.bases))
            scores, ranks = (
                {arm: tuple(self.cached(kind, arm)) for arm in names} for kind in ("score", "rank")
            )
            return scores, ranks
        if not self.ran:
            return {}, {}
        n, scores, ranks = len(self.ran), {}, {}
        for kind, found in (("score", scores), ("rank", ranks)):
            rows, missing = self.arrays[f"arm_{kind}s"].reshape(-1, n), _MISSING[kind]
            for at, arm in enumerate(self.ran):
                values = rows[:, at].tolist()
                found[arm] = tuple([None if one == missing else one for one in values])
        return scores, ranks

    def totals(self, begin: int, end: int) -> list[int]:
        """Count the rows that the queries [begin, end) match."""
        if "totals" in self.arrays:
            return [int(one) for one in self.arrays["totals"][begin:end]]
        return self.source.totals(begin, end)

    def facets_of(self, query: int) -> Facets:
        """Return the facets of a query."""
        return {} if self.facets is None else self.facets[query]

    def judged(self, query: int, models: Mapping[str, str] | None = None) -> Judged:
        """Return the confidence of the reply to a query and of its hits, computed once."""
        # ``models`` are those of vector arms, where the index does not know them.
        known = self._values.setdefault(JUDGED, [None] * self.n_queries)
        if known[query] is None:
            (known[query],) = self.source.judge(self, query, query + 1, models)
        found: Judged = known[query]
        return found

    def all_judged(self) -> list[Judged]:
        """Return the same of every query, computed as a batch."""
        known = self._values.setdefault(JUDGED, [None] * self.n_queries)
        if any(one is None for one in known):
            known[:] = self.source.judge(self, 0, self.n_queries)
        return known

    def n_candidates(self, query: int) -> dict[str, int]:
        """Return how many documents each arm that ran put into its list."""
        if not self.ran:
            return {}
        sizes = self.arrays["list_sizes"].reshape(-1, len(self.ran))[query]
        return dict(zip(self.ran, sizes.tolist(), strict=True))

    def is_exact(self, at: int) -> bool:
        """Say whether a hit comes first because it holds the query whole."""
        return "exact" in self.arrays and bool(self.arrays["exact"][at])

    def is_fill(self, at: int) -> bool:
        """Say whether a hit was not found but fills the list."""
        return "from_fill" in self.arrays and bool(self.arrays["from_fill"][at])

    def cell(self, at: int) -> tuple[Any, ...]:
        """Return the cell of a hit, a value per cell column."""
        return tuple(self.cached("row", name)[at] for name in self.facts.schema.cell_columns)

    def results(self) -> pa.Table:
        """Return what the recall found out of its hits: query, rank, key, cell, scores."""
        offsets = self.offsets
        names = ["query", "rank", "key"]
        columns: list[pa.Array] = [
            pa.array(np.arange(self.n_queries, dtype=np.int32).repeat(np.diff(offsets))),
            pa.array(self.arrays["rank"]),
            self.column(self.facts.schema.key),
        ]
        for name in self.facts.schema.cell_columns:
            names.append(name)
            columns.append(self.column(name))
        names.append("score")
        columns.append(pa.array(self.arrays["score"], from_pandas=True))  # NaN is null
        for arm in self.arms:
            names += [f"{arm}_score", f"{arm}_rank"]
            columns += [self.arm_scores(arm), self.arm_ranks(arm)]
        if "from_fill" in self.arrays:
            names.append("origin")
            columns.append(pa.array(np.where(self.arrays["from_fill"], "fill", "hit")))
        for name in STAGE_COLUMNS:
            if name in self.arrays:
                names.append(name)
                columns.append(arrow_column(self.arrays[name]))
        return pa.Table.from_arrays(columns, names=names)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the values, without the index: every row column of the hits, and no snapshot."""
        rows = self.values()
        places = ("segment", "row")  # in the snapshot
        given = {one.name: getattr(self, one.name) for one in fields(self)} | {
            "arrays": {name: one for name, one in self.arrays.items() if name not in places},
            "facts": self.facts.plain(),
            "kept_source": None,
            "_gathered": rows,
            "_values": {},
        }
        return _unpickled, (given,)


def _unpickled(given: dict[str, Any]) -> Reply:
    return Reply(**given)
