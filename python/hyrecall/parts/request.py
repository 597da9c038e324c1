"""The request of a recall over parts: the arguments of a call, frozen, as plain data."""

from __future__ import annotations

import inspect
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.ask.arms import EdgeLexical, Regex, Tags
from hyrecall.ask.expansion import HasParts, graphs_of, names_in, parts_of, read_expansion
from hyrecall.ask.recipe import Recipe, to_data
from hyrecall.ask.request import CallOptions, Floors, Search, Texts, read_query_keys
from hyrecall.ask.scope import scope_entries
from hyrecall.base.arguments import check_keywords, set_fields
from hyrecall.base.times import call_time
from hyrecall.errors import OptionError, ShapeError, error
from hyrecall.parts.counts import are_ends, check_arrays
from hyrecall.parts.frames import decode, encode, pack, pack_table, reading, unpack, unpack_table
from hyrecall.recall.arms import ArmQueries, KnownTags
from hyrecall.recall.graph_views import BoundGraphs, EdgeCredits, Matches
from hyrecall.recall.plan import Plan
from hyrecall.segments.lookup import read_columns
from hyrecall.segments.segments import IndexFacts
from hyrecall.stages.stage import check_stages
from hyrecall.table.tensors import query_vectors

if TYPE_CHECKING:
    from hyrecall.ask.arms import Arm
    from hyrecall.ask.filter_json import FilterLike
    from hyrecall.ask.scoring import Above, Fusion
    from hyrecall.stages.session import Session
    from hyrecall.stages.stage import Stage
    from hyrecall.text.bm25 import BM25


# ---- Answers that a request carries to a shard: rows that the caller found in other shards ----
# Some arms read more than the documents of one shard, such as the edges of a graph. The caller of
# the shards finds these answers once, and each shard gets those of its own queries.


@dataclass(frozen=True, eq=False)
class ToldLists:
    """A list of rows for each query; queries that ask the same may share one."""

    offsets: npt.NDArray[np.int64]
    rows: pa.Table
    number: npt.NDArray[np.int64]

    @staticmethod
    def of(n_queries: int, query: npt.NDArray[Any], rows: pa.Table) -> ToldLists:
        """Make lists of rows that are ordered by ``query``, one for each query."""
        offsets = np.searchsorted(query, np.arange(n_queries + 1)).astype(np.int64)
        return ToldLists(offsets, rows, np.arange(n_queries, dtype=np.int64))

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return len(self.number)

    @property
    def own_sizes(self) -> npt.NDArray[np.int64]:
        """The number of rows of each query, which share no list: rows are ordered by query."""
        sizes = np.diff(self.offsets)
        if not np.array_equal(self.number, np.arange(len(sizes))):
            raise error(OptionError, "request", "a list of answers for each query", "shared ones")
        return sizes

    @property
    def query(self) -> npt.NDArray[np.int64]:
        """The query of each row; raises as :attr:`own_sizes`."""
        return np.repeat(np.arange(self.n_queries), self.own_sizes)

    def list_of(self, query: int) -> pa.Table:
        """Return the rows of one query."""
        at = int(self.number[query])
        begin, end = int(self.offsets[at]), int(self.offsets[at + 1])
        return self.rows.slice(begin, end - begin)

    def of_queries(self, queries: npt.NDArray[np.int64]) -> ToldLists:
        """Return the lists of some queries, in the order given, without rows of others."""
        _, first, number = np.unique(self.number[queries], return_index=True, return_inverse=True)
        order = np.argsort(first)  # a list's number is the place of its first query
        lists = self.number[queries][first[order]]
        sizes = np.diff(self.offsets)[lists]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        begins = self.offsets[:-1][lists]
        places = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - begins, sizes)
        rows = self.rows.take(pa.array(places)).combine_chunks()
        return ToldLists(offsets, rows, np.argsort(order)[number].astype(np.int64, copy=False))


Told: TypeAlias = Mapping[str, ToldLists]
"""The answers to each question of a request, by :func:`question_of`."""


def question_of(arm: object, *more: object) -> str:
    """Return the name of what an arm asks; arms with equal settings ask the same."""
    # The arm must be plain data: it has the name of a graph, not the graph.
    return json.dumps([to_data(arm), *more], sort_keys=True)


def told_to(told: Told | None, question: str, n_queries: int | None = None) -> ToldLists:
    """Return the answers to a question of a request."""
    found = None if told is None else told.get(question)
    if found is None:
        raise error(OptionError, "request", f"answers to {question}", "none")
    if n_queries not in (None, found.n_queries):
        wish = f"answers to {question} for {n_queries} queries"
        raise error(OptionError, "request", wish, f"those of {found.n_queries} queries")
    return found


def pack_told(told: Told) -> dict[str, npt.NDArray[Any] | bytes]:
    """Return the arrays of a packed request that have the answers, in the order of ``told``."""
    arrays: dict[str, npt.NDArray[Any] | bytes] = {}
    for at, lists in enumerate(told.values()):
        arrays[f"told.{at}.offsets"] = lists.offsets
        arrays[f"told.{at}.number"] = lists.number
        arrays[f"told.{at}.rows"] = pack_table(lists.rows)
    return arrays


def unpack_told(questions: Sequence[Any], arrays: Mapping[str, Any]) -> dict[str, ToldLists]:
    """Return the answers that :func:`pack_told` packed, checked."""
    named = [f"told.{at}.{one}" for at in range(len(questions)) for one in ("offsets", "number")]
    check_arrays("data", arrays, dict.fromkeys(named, np.int64))
    out = {}
    for at, question in enumerate(questions):
        offsets, rows = arrays[f"told.{at}.offsets"], unpack_table(arrays[f"told.{at}.rows"])
        if not len(offsets) or not are_ends(offsets, len(offsets) - 1, rows.num_rows):
            raise error(OptionError, "data", "offsets that fit their rows", "others")
        number = arrays[f"told.{at}.number"]
        if not ((number >= 0) & (number < len(offsets) - 1)).all():
            raise error(OptionError, "data", "numbers of lists", "others")
        out[str(question)] = ToldLists(offsets, rows, number)
    return out


# ---- The request of a recall over parts: the arguments of a call, frozen, as plain data ----

KIND = "hyrecall request"

_RANKING = {
    "fusion": "fusion", "arms": "more", "min_score": "min_score", "min_fused": "min_fused",
    "bm25": "bm25", "normalize": "normalize", "shaping": "shaping", "depth": "depth",
}  # fmt: skip


class ReadRequest(NamedTuple):
    """A request, read for one index."""

    asked: Search
    options: CallOptions
    recipe: Recipe | list[Recipe] | None


@check_keywords
@dataclass(frozen=True, init=False, eq=False, repr=False)
class Request:
    """The arguments of a recall of an index or of its shards, as frozen, serialisable data.

    Parameters
    ----------
    text, vectors, scope, filter, limit, offset, depth, fusion, min_score, min_fused, bm25
        As in :meth:`hyrecall.Index.recall`. Arrays must not change while the request is used. Texts
        are not embedded here: an index with vectors needs ``vectors`` for its vector arms.
    normalize, arms, candidates, shaping, session, recipe, group, columns, query_keys, now
        As in :meth:`hyrecall.Index.recall`. The request fixes ``now``.

    Raises
    ------
    OptionError
        The request needs more of the index than candidates: a graph, an expansion,
        :class:`hyrecall.Feedback` or :class:`hyrecall.arms.Tags`.

    Attributes
    ----------
    id : str
        Random; statistics and parts with another id are refused.

    Examples
    --------
    >>> request = Request(text=["green tea"], scope="ann", limit=3)
    >>> again = Request.from_bytes(request.to_bytes())
    >>> again.id == request.id
    True
    """

    id: str
    given: Mapping[str, Any]
    _bytes: bytes | None = field(init=False, default=None)  # made once for all shards
    _told: Told | None = field(init=False, default=None)  # None: the request needs no answers

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
        columns: Sequence[str] = (),
        query_keys: Sequence[str] | Sequence[int] | None = None, now: datetime | None = None,
    ) -> None:  # fmt: skip
        given = {
            "text": text, "vectors": vectors, "scope": scope, "filter": filter, "limit": limit,
            "offset": offset, "depth": depth, "fusion": fusion, "min_score": min_score,
            "min_fused": min_fused, "bm25": bm25, "normalize": normalize, "arms": arms,
            "candidates": candidates, "shaping": shaping, "session": session, "recipe": recipe,
            "group": group, "columns": columns, "query_keys": query_keys, "now": call_time(now),
        }  # fmt: skip
        _check_parts(given, may_ask=False)
        set_fields(self, id=secrets.token_hex(16), given=_own(given))

    @classmethod
    def _asking(cls, given: Mapping[str, Any], told: Told | None = None) -> Request:
        """Make a request with parts that read more than a shard, which names them."""
        # Shards answer it once :meth:`_with_told` has added what they cannot know.
        given = {**_DEFAULTS, "expansion": (), **given}
        given["now"] = call_time(given["now"])
        _check_parts(given, may_ask=True)
        made = object.__new__(cls)
        set_fields(made, id=secrets.token_hex(16), given=_own(given), _told=told)
        return made

    def _with_told(self, told: Told) -> Request:
        """Return the request with answers to what its parts ask outside of a shard."""
        return self._with(self.id, self.given, told)

    def read(self, facts: IndexFacts) -> ReadRequest:
        """Return the call as an index with these facts reads it; raises the errors of recall."""
        given = self.given
        named = read_columns(facts, given["columns"])
        plain = ("text", "vectors", "filter", "session", "candidates", "limit", "offset", "group")
        asked = Search(
            now=given["now"],
            scope=scope_entries(facts.cell_types, given["scope"]),
            columns=named,
            query_keys=read_query_keys(given["query_keys"], (*facts.schema.cell_columns, *named)),
            **{name: given[name] for name in plain},
        )
        options = CallOptions(**{field: given[name] for name, field in _RANKING.items()})
        options = options._replace(expansion=given.get("expansion"))
        if facts.embedded and given["vectors"] is None:
            from hyrecall.recall.embedders import with_missing_vectors  # loads clients of endpoints

            asked = with_missing_vectors(facts, asked, given["recipe"], options)
        return ReadRequest(asked, options, given["recipe"])

    def to_bytes(self) -> bytes:
        """Return the request as bytes for another process: Arrow and JSON, with a checksum.

        Raises
        ------
        DTypeError
            An argument that is not plain data, such as a reranker that is a function.
        ShapeError, OptionError
            The vectors are invalid.
        """
        if self._bytes is None:
            set_fields(self, _bytes=self._packed())
        assert self._bytes is not None
        return self._bytes

    @property
    def _n_packed(self) -> int | None:
        """The number of packed bytes; None: not packed yet."""
        return None if self._bytes is None else len(self._bytes)

    def _packed(self) -> bytes:
        given = {name: encode(name, one) for name, one in self.given.items() if name != "vectors"}
        vectors = self.given["vectors"]
        by_arm = vectors if isinstance(vectors, Mapping) else {"": vectors}
        form = "none" if vectors is None else "arms" if isinstance(vectors, Mapping) else "one"
        arms = list(by_arm) if vectors is not None else []
        called = {arm: f"vectors[{arm!r}]" if arm else "vectors" for arm in arms}
        columns = [pack_table(pa.table({"v": _column(by_arm[arm], called[arm])})) for arm in arms]
        header = {"id": self.id, "given": given, "vectors": form, "arms": arms}
        packed: dict[str, Any] = {f"v{at}": one for at, one in enumerate(columns)}
        if self._told is not None:
            header["told"] = list(self._told)
            packed |= pack_told(self._told)
        return pack(KIND, header, packed)

    @classmethod
    def from_bytes(cls, data: bytes) -> Request:
        """Make a request from the bytes of :meth:`to_bytes`.

        Raises
        ------
        OptionError
            The bytes are not a request, of another version, or damaged.
        DTypeError
            Not bytes.
        """
        header, arrays = unpack(KIND, data)
        with reading("the bytes of a request"):
            given = {name: decode(name, one) for name, one in header["given"].items()}
            columns = [unpack_table(arrays[f"v{at}"]) for at in range(len(header["arms"]))]
            made = [table.column(0).combine_chunks() for table in columns]
            form = header["vectors"]
            given["vectors"] = (
                None if form == "none"
                else made[0] if form == "one"
                else dict(zip(header["arms"], made, strict=True))
            )  # fmt: skip
            told = None if "told" not in header else unpack_told(header["told"], arrays)
            again = cls(**given) if told is None else cls._asking(given, told)
            return again._with(str(header["id"]), again.given, told)

    def of_queries(self, given: Mapping[str, Any], queries: npt.NDArray[np.int64]) -> Request:
        """Return the request with the arguments of some of its queries, and the same id."""
        told = self._told
        if told is not None:
            told = {name: lists.of_queries(queries) for name, lists in told.items()}
        return self._with(self.id, given, told)

    def _for_counts(self) -> Request:
        """Return the request without answers, which counts do not need."""
        return self if not self._told else self._with(self.id, self.given, {})

    def _with(self, id: str, given: Mapping[str, Any], told: Told | None) -> Request:  # noqa: A002
        made = object.__new__(type(self))
        set_fields(made, id=id, given=given, _told=told)
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the packed bytes, which can be made from the arguments."""
        return {"id": self.id, "given": self.given, "_bytes": None, "_told": self._told}

    def __repr__(self) -> str:
        """Show the arguments that are not their defaults, without arrays."""
        named = ("text", "scope", "filter", "limit", "recipe")
        shown = [f"{name}={self.given[name]!r}" for name in named if self.given[name] is not None]
        return f"Request({', '.join(shown)})"


_DEFAULTS: Mapping[str, Any] = {
    name: one.default
    for name, one in inspect.signature(Request.__init__).parameters.items()
    if name != "self"
}


def _own(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with copies of their lists: the caller may change its own."""
    return {name: list(one) if isinstance(one, list) else one for name, one in given.items()}


def _with_nulls(matrix: Any, valid: Any) -> pa.Array:
    flat = pa.array(np.ascontiguousarray(matrix, np.float32).reshape(-1))
    mask = None if valid is None else pa.array(~valid)
    return pa.FixedSizeListArray.from_arrays(flat, matrix.shape[1], mask=mask)


def _column(value: Any, argument: str) -> pa.Array:
    """Return query vectors as a column of lists of float32, read as an index reads them."""
    if isinstance(value, pa.Array | pa.ChunkedArray):
        return value
    shape = getattr(value, "shape", None)
    if shape is not None and len(shape) == 2:
        return _with_nulls(*query_vectors(value, dim=int(shape[1]), argument=argument))
    if isinstance(value, list | tuple):
        dim = next((len(one) for one in value if hasattr(one, "__len__")), None)
        if dim is None and all(one is None for one in value):
            return pa.nulls(len(value), pa.list_(pa.float32()))
        if dim:
            return _with_nulls(*query_vectors(value, dim=dim, argument=argument))
    wish = "an array of shape (n_queries, dim), an Arrow column of lists, or a list of vectors"
    raise error(ShapeError, argument, wish, type(value).__name__)


def _check_parts(given: Mapping[str, Any], *, may_ask: bool) -> None:
    """Refuse arguments that need more of an index than candidates."""
    # ``may_ask``: parts that name what they read outside of a shard are allowed.
    recipe = given["recipe"]
    options = CallOptions(
        more=given["arms"], shaping=given["shaping"], expansion=given.get("expansion")
    )
    recipes = recipe if isinstance(recipe, list) else [recipe]
    hows: list[Any] = [options, *(one for one in recipes if isinstance(one, Recipe))]
    for how in hows:
        for part in parts_of(how):
            for name, graph in graphs_of(part):
                if not (may_ask and isinstance(graph, str)):
                    wish = "no graph in a recall over parts of an index"
                    raise error(OptionError, name, wish, "one")
            if isinstance(part, Tags) and not may_ask:
                wish = "no Tags in a recall over parts of an index (its hops cross whole cells)"
                raise error(OptionError, part.name, wish, "Tags")
        if read_expansion(how.expansion) and not may_ask:
            wish = "no expansion in a recall over parts of an index (it reads whole cells)"
            raise error(
                OptionError, "expansion", wish, repr(how.expansion), "replace(expansion=())"
            )
        for one in check_stages(how.shaping):
            if one.over_shards is not None:
                wish = f"no {one.name} in a recall over parts of an index ({one.over_shards})"
                raise error(OptionError, "shaping", wish, one.name)


# ---- Graphs of a request in one shard: what their edges say was found outside, and came with it

KEY, SCORE, PLACE = "key", "score", "place"
"""Columns of what is told: a participant, the score of its edge, the place of a column."""


class ToldGraph:
    """The answers of a graph that arms need, in place of the graph."""

    def __init__(self, key_type: pa.DataType, told: Told | None) -> None:
        self._key_type = key_type
        self._told = told

    def credits(
        self, arm: EdgeLexical, texts: Sequence[object], scope: object, depth: int
    ) -> EdgeCredits:
        """Return the participants of each query's best edges; their edges are not known here."""
        del scope
        lists = told_to(self._told, question_of(arm, depth), len(texts))
        self._check(lists, SCORE, pa.float32())
        scores = lists.rows.column(SCORE).to_numpy()
        if not np.isfinite(scores).all():
            raise error(OptionError, "request", "finite scores of edges", "others")
        query, edge = lists.query.astype(np.uint32), np.arange(len(scores))
        return EdgeCredits(query, lists.rows.column(KEY).combine_chunks(), edge, scores, None)

    def matching(
        self, arm: Regex, place: int, query: int, scope: object, matches: Matches
    ) -> pa.Array:
        """Return the participants of the edges that a query's pattern matches."""
        import pyarrow.compute as pc

        del scope, matches
        lists = told_to(self._told, question_of(arm))
        if not 0 <= query < lists.n_queries:
            got = f"those of {lists.n_queries} queries"
            raise error(OptionError, "request", f"answers for query {query}", got)
        self._check(lists, PLACE, pa.int32())
        rows = lists.list_of(query)
        found = rows.filter(pc.equal(rows.column(PLACE), place))
        return found.column(KEY).combine_chunks()

    def _check(self, lists: ToldLists, name: str, kind: pa.DataType) -> None:
        """Refuse rows of other types; they may come from another process."""
        wanted = pa.schema([(KEY, self._key_type), (name, kind)])
        columns = lists.rows.columns
        if lists.rows.schema != wanted or any(one.null_count for one in columns):
            raise error(OptionError, "request", f"answers of {wanted}", lists.rows.schema)


def told_graphs(facts: IndexFacts, how: HasParts, told: Told | None) -> BoundGraphs:
    """Return the replacements of a recipe's or a call's graphs in one shard."""
    # A shard searches arms. It does not walk along edges, which stages and expansions do.
    graph = ToldGraph(facts.row_types[facts.schema.key], told)
    return cast(BoundGraphs, {name: graph for name, _ in names_in(how)})


# ---- The tags that the queries of a request reach, as its shards are told them ----

TOLD = {"tag": pa.large_string(), "hops": pa.uint8(), "documents": pa.int64()}
"""What is told of each tag: its hops, and the most documents of a tag that the query names."""


def with_known_tags(plan: Plan, told: Told | None) -> Plan:
    """Return a plan whose arms ``Tags`` list documents by the tags that its request tells."""
    searches = plan.searches
    if searches is None:
        return plan
    asked = [
        (arm, _known(arm, own, told) if isinstance(arm, Tags) else own)
        for arm, own in searches.asked
    ]
    return plan._replace(searches=searches._replace(asked=asked))


def _known(arm: Tags, asked: Any, told: Told | None) -> ArmQueries | KnownTags:
    asks = np.array([one is not None for one in asked.entries], np.bool_)
    if not asks.any():
        return cast("ArmQueries", asked)
    lists = told_to(told, question_of(arm), len(asks))
    rows = lists.rows
    if dict(zip(rows.schema.names, rows.schema.types, strict=True)) != TOLD:
        raise error(OptionError, "request", f"columns {list(TOLD)}", rows.schema.names)
    sizes = lists.own_sizes
    kept = rows.filter(pa.array(np.repeat(asks, sizes)))
    tags, hops, documents = (kept.column(name).combine_chunks() for name in TOLD)
    offsets = np.concatenate([[0], np.cumsum(sizes * asks)]).astype(np.int64)
    most = np.zeros(len(asks), np.int64)
    firsts = offsets[:-1][np.diff(offsets) > 0]
    most[np.diff(offsets) > 0] = np.asarray(documents)[firsts]
    return KnownTags(offsets, tags, np.asarray(hops), most, asked.notes)
