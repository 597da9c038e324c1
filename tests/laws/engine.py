"""The engine as a subject of the laws; this file alone knows how plain data is said in the public
API.
"""

import math
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import hyrecall as hr
from hyrecall.recipe import Dense, Lexical, Recipe, WithThreads
from laws.planes import check_forced
from oracle import fusion, scope, words
from oracle.bm25 import Bm25
from oracle.documents import Above, Call, Hit, Key, Page, Reply, Row, Scope, Shape
from oracle.staged import NOW


class EngineSubject:
    """The engine, through its public face."""

    def __init__(
        self,
        shape: Shape,
        rows: Sequence[Row],
        *,
        device: str = "cpu",
        threads: int | None = None,
        cluster: str | None = None,
        threaded: bool = False,
    ) -> None:
        self.shape = shape
        self.index = hr.Index.build(
            table(shape, rows),
            schema(shape, cluster, threaded=threaded),
            analyzer=hr.Analyzer("word") if shape.lexical else None,
            device=device,
            threads=threads,
        )
        check_forced(self.index)

    def add(self, rows: Sequence[Row]) -> None:
        self.index.add(table(self.shape, rows))
        check_forced(self.index)

    def upsert(self, rows: Sequence[Row]) -> None:
        self.index.upsert(table(self.shape, rows))
        check_forced(self.index)

    def delete(self, keys: Sequence[Key], scopes: Sequence[Scope]) -> int:
        if not self.shape.cell:
            return self.index.delete(list(keys))
        return self.index.delete(list(keys), scope=[engine_scope(cells) for cells in scopes])

    def delete_where(self, cells: Scope, predicate: scope.Predicate | None) -> int:
        said: dict[str, object] = {"scope": engine_scope(cells)} if self.shape.cell else {}
        said |= {"everything": True} if predicate is None else {"filter": engine_filter(predicate)}
        return self.index.delete(**said)

    def update(self, rows: Sequence[Row], names: Collection[str]) -> None:
        whole = table(self.shape, rows)
        self.index.update(whole.select(["id", *self.shape.cell, *names]))
        check_forced(self.index)

    def replace(self, rows: Sequence[Row], cells: Scope, predicate: scope.Predicate) -> int:
        said: dict[str, object] = {"scope": engine_scope(cells)} if self.shape.cell else {}
        new, how = table(self.shape, rows), engine_filter(predicate)
        n_removed = self.index.replace(new, filter=how, **said)
        check_forced(self.index)
        return n_removed

    def compact(self) -> None:
        self.index.compact()
        check_forced(self.index)

    def reopen(self) -> "EngineSubject":
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "index"
            self.index.save(path)
            return self.opened(path)  # in memory: the folder is gone when this returns

    def opened(self, path: Path, memory: str = "ram") -> "EngineSubject":
        """A saved index of the same shape."""
        again = object.__new__(type(self))
        again.shape = self.shape
        again.index = hr.Index.open(path, memory=memory, device=self.index.device)
        check_forced(again.index)
        return again

    def hits(self, call: Call) -> "hr.Hits":
        return self.index.recall(**arguments(self.shape, call))

    def recall(self, call: Call) -> list[Reply]:
        return self.replies(call, self.hits(call))

    def replies(self, call: Call, hits: "hr.Hits") -> list[Reply]:
        """One reply a query, with what stands around its hits if the call asks for it."""
        table, signed = hits.to_arrow(), bool(call.shaping)
        more = [arm.name for arm in call.more]
        plain = replies(self.shape, table, len(call.scopes), more=more, signed=signed)
        if call.page is not None:
            plain = [
                tuple(hit._replace(counted=(shown.total, facets_of(shown))) for hit in own)
                for own, shown in zip(plain, hits, strict=True)
            ]
        if not call.is_grouped:
            return plain
        return [
            tuple(
                one._replace(
                    around=tuple((row.step, row.key) for row in shown.surrounding),
                    thread=tuple((row.key, row.score) for row in shown.thread_rows),
                )
                for one, shown in zip(own, of_query, strict=True)
            )
            for own, of_query in zip(plain, hits, strict=True)
        ]

    def recall_bytes(self, call: Call) -> bytes:
        hits = self.hits(call)
        is_more = call.is_grouped or call.page is not None
        shown = repr(self.replies(call, hits)).encode() if is_more else b""
        return ipc_bytes(hits.to_arrow()) + shown


def facets_of(shown: "hr.QueryHits") -> tuple[object, ...]:
    """The facets of a query as plain data."""
    return tuple((name, tuple(counts)) for name, counts in shown.facets.items())


# Rows -> table


def table(shape: Shape, rows: Sequence[Row]) -> pa.Table:
    """The rows as an Arrow table, every column with a fixed type."""
    columns: dict[str, pa.Array] = {
        "id": pa.array([row.key for row in rows], pa.int64() if shape.integer_keys else pa.string())
    }
    for at, name in enumerate(shape.cell):
        columns[name] = pa.array([row.cell[at] for row in rows], pa.string())
    for name in shape.text_columns:
        columns[name] = pa.array([row.texts[name] for row in rows], pa.string())
    for name, dim in shape.dense.items():
        make = (
            bundle_column
            if name in shape.many
            else weight_column
            if name in shape.sparse
            else vector_column
        )
        columns[name] = make([row.vectors[name] for row in rows], dim)
    types = {
        "kind": pa.string(),
        "number": pa.int64(),
        "price": pa.float64(),
        "at": pa.timestamp("us", "UTC"),
        "tags": pa.list_(pa.string()),
    }
    for name, kind in types.items():
        columns[name] = pa.array([row.attributes[name] for row in rows], kind)
    return pa.table(columns)


def bundle_column(bundles: Sequence[np.ndarray | None], dim: int) -> pa.ListArray:
    """Many vectors a row as list<fixed_size_list<float32>[dim]>, null where there is none."""
    made = [None if one is None else one.tolist() for one in bundles]
    return pa.array(made, pa.list_(pa.list_(pa.float32(), dim)))


def weight_column(rows: Sequence[np.ndarray | None], dim: int) -> pa.MapArray:
    """Weights of terms as map<string, float32>, null where there is none."""
    made = [None if one is None else [*said_weights(one).items()] for one in rows]
    return pa.array(made, pa.map_(pa.string(), pa.float32()))


def said_weights(vector: np.ndarray) -> dict[str, float]:
    """A vector of weights as a mapping, in no order of the terms."""
    return {str(term): float(vector[term]) for term in np.flatnonzero(vector)[::-1]}


def vector_column(vectors: Sequence[np.ndarray | None], dim: int) -> pa.FixedSizeListArray:
    """Vectors as fixed_size_list<float32>[dim], null where there is none."""
    flat = np.concatenate(
        [np.zeros(dim, np.float32) if v is None else v for v in vectors]
        or [np.zeros(0, np.float32)]
    )
    missing = pa.array([v is None for v in vectors], pa.bool_())
    return pa.FixedSizeListArray.from_arrays(pa.array(flat, pa.float32()), dim, mask=missing)


def schema(shape: Shape, cluster: str | None = None, *, threaded: bool = False) -> "hr.Schema":
    """The schema of such a table."""
    threads = {"thread": "kind", "place": "number"} if threaded else {}
    return hr.Schema(
        **threads,
        key="id",
        cell=shape.cell or None,
        text={
            arm: hr.Text(*columns, weights=shape.weights.get(arm))
            for arm, columns in shape.lexical.items()
        },
        vector=tuple(
            (hr.MaxSim if a in shape.many else hr.Sparse if a in shape.sparse else hr.Vector)(a)
            for a in shape.dense
        ),
        attributes=("kind", "number", "price", "at", "tags"),
        cluster=cluster,
    )


# Call -> arguments of Index.recall


def arguments(shape: Shape, call: Call) -> dict[str, Any]:
    """A call in the words of the public API; an option that is not set is not said."""
    said: dict[str, Any] = {"limit": call.limit}
    if call.texts:
        said["text"] = {
            arm: [engine_query(text) for text in texts] for arm, texts in call.texts.items()
        }
    if call.vectors:
        said["vectors"] = {
            arm: [None if one is None else said_weights(one) for one in vectors]
            if arm in shape.sparse
            else list(vectors)
            if arm in shape.many
            else query_vectors(vectors)
            for arm, vectors in call.vectors.items()
        }
    for arm in call.more:
        if arm.name in call.inputs:
            place = "candidates" if isinstance(arm, hr.arms.Listed) else "text"
            given = {arm.name: list(call.inputs[arm.name])}
            said[place] = {**said.get(place, {}), **given}
    if call.more:
        said["arms"] = call.more
    if shape.cell:
        said["scope"] = [engine_scope(cells) for cells in call.scopes]
    if call.filters is not None:
        said["filter"] = [None if f is None else engine_filter(f) for f in call.filters]
    if call.offset:
        said["offset"] = call.offset
    if call.shaping:
        said["now"] = NOW
    if call.by_thread:
        said["group"] = call.group or "thread"
        if call.per_group != 5:
            said["per_group"] = call.per_group
    if call.n_around:
        said["surrounding"] = call.n_around
    if call.page is not None:
        said |= page_of(call.page)
        if call.page.sort is not None:
            call = replace(call, depth=None)  # no arm hands anything on
    return said | (options(call) if call.recipe is None else {"recipe": recipe_of(call, shape)})


def page_of(page: Page) -> dict[str, object]:
    """The columns that order a page, and what it counts."""
    said: dict[str, object] = {}
    if page.sort:
        said["sort"] = [(name, "desc") if descends else name for name, descends in page.sort]
    if page.facets or page.edges:
        buckets = [hr.Buckets("price", page.edges)] if page.edges else []
        said["facets"] = [*page.facets, *buckets]
    return said


def options(call: Call) -> dict[str, object]:
    """What a recipe says, if there is one."""
    said: dict[str, object] = {}
    if call.depth is not None:
        said["depth"] = call.depth
    if call.fusion is not None:
        said["fusion"] = engine_fusion(call.fusion)
    if call.min_score:
        said["min_score"] = {arm: engine_floor(floor) for arm, floor in call.min_score.items()}
    if call.min_fused is not None:
        said["min_fused"] = call.min_fused
    if call.bm25 is not None:
        said["bm25"] = engine_bm25(call.bm25)
    if call.shaping:
        said["shaping"] = call.shaping
    return said


def recipe_of(call: Call, shape: Shape, *, exact: bool = True) -> Recipe:
    """The options of a call as a recipe: with ``exact``, or with the threads of a scope."""
    if call.recipe == "threads":
        return THREADS.replace(shaping=call.shaping, depth=call.depth)
    weights = {} if call.fusion is None else dict(call.fusion.weights or {})

    def shared(arm: str) -> dict[str, Any]:
        floor = call.min_score.get(arm)
        return {
            "arms": (arm,),
            "weight": weights.get(arm, 1.0),
            "min_score": None if floor is None else engine_floor(floor),
        }

    bm25 = None if call.bm25 is None else engine_bm25(call.bm25)
    fusion = hr.recipes.default.fusion
    if call.fusion is not None:
        fusion = engine_fusion(replace(call.fusion, weights=None))
    elif bm25 is None and (len(call.arms) > 1 or call.stage("Around") or call.stage("Prior")):
        bm25 = hr.BM25("lucene", k1=0.75, b=0.25)
    return Recipe(
        name="exact",
        arms=(
            *(Lexical(**shared(arm), bm25=bm25) for arm in shape.lexical if arm in call.texts),
            *(Dense(**shared(arm)) for arm in shape.dense if arm in call.vectors),
        ),
        fusion=fusion,
        fuse_one_arm=call.fusion is not None,
        min_fused=call.min_fused,
        depth=100 if call.depth is None else call.depth,
        shaping=call.shaping,
        exact=exact,
    )


THREADS = Recipe(
    name="law",
    arms=(Lexical(bm25=hr.BM25(k1=0.75, b=0.25)), Dense()),
    fusion=hr.WeightedSum(balance=0.85),
    with_threads=WithThreads(hr.Around(), hr.BM25(k1=1.5, b=(0.25, 0.75))),
)


def query_vectors(vectors: Sequence[np.ndarray | None]) -> object:
    """A matrix where no vector is missing, else a list with None."""
    present = [vector for vector in vectors if vector is not None]
    return np.stack(present) if len(present) == len(vectors) and present else list(vectors)


def engine_scope(cells: Scope) -> "hr.Scope":
    """A scope in a fixed order; a cell of one column is its value."""
    ordered = sorted(cells, key=repr)
    return hr.Scope([cell[0] if len(cell) == 1 else cell for cell in ordered])


def engine_query(query: words.Query | None) -> object:  # noqa: PLR0911 - a case each
    """A typed text query."""
    match query:
        case None:
            return None
        case words.Words(text):
            return text
        case words.Phrase(text, slop, prefix_last):
            return hr.Phrase(text, slop=slop, prefix_last=prefix_last)
        case words.Fuzzy(text, edits):
            return hr.Fuzzy(text, edits=edits)
        case words.Prefix(text):
            return hr.Prefix(text)
        case words.All(children):
            return hr.All(*map(engine_query, children))
        case words.Any(children):
            return hr.Any(*map(engine_query, children))
        case words.Boost(child, factor):
            return hr.Boost(engine_query(child), factor)
        case words.Not(child):
            return hr.Not(engine_query(child))
    raise TypeError(f"no such query: {query!r}")


def engine_filter(predicate: scope.Predicate) -> "hr.Filter":  # noqa: PLR0911 - a case each
    """A filter expression."""
    match predicate:
        case scope.And(left, right):
            return engine_filter(left) & engine_filter(right)
        case scope.Or(left, right):
            return engine_filter(left) | engine_filter(right)
        case scope.Not(inner):
            return ~engine_filter(inner)
        case scope.Equal(column, value):
            return hr.Filter(**{column: value})
        case scope.Range(column, low, high):
            return hr.Filter(**{column: hr.Between(low, high)})
        case scope.AnyOf(column, values):
            return hr.Filter(**{column: list(values)})
        case scope.NoneOf(column, values):
            return hr.Filter(**{column: hr.NoneOf(*values)})
        case scope.AllOf(column, values):
            return hr.Filter(**{column: hr.AllOf(*values)})
        case scope.IsNull(column):
            return hr.Filter(**{column: hr.IsNull()})
        case scope.NotNull(column):
            return hr.Filter(**{column: hr.NotNull()})
    raise TypeError(f"no such predicate: {predicate!r}")


def engine_fusion(chosen: fusion.Fusion) -> object:
    """A fusion with its options."""
    if isinstance(chosen, fusion.Rrf):
        if chosen.alpha is not None:
            return hr.RRF(alpha=chosen.alpha)
        if chosen.weights is None:
            return hr.RRF(rank_constant=chosen.rank_constant)
        return hr.RRF(weights=dict(chosen.weights), rank_constant=chosen.rank_constant)
    weights = None if chosen.weights is None else dict(chosen.weights)
    if isinstance(chosen, fusion.Dbsf):
        return hr.DBSF(weights, complete=chosen.complete)
    options = {"normalize": chosen.normalize, "complete": chosen.complete}
    if chosen.largest:
        return hr.Max(weights, **options)
    return hr.WeightedSum(weights, **options, balance=chosen.balance)


def engine_floor(floor: float | Above) -> object:
    """A floor, strict or inclusive."""
    return hr.Above(floor.value) if isinstance(floor, Above) else floor


def engine_bm25(bm25: Bm25) -> "hr.BM25":
    """A variant and its constants."""
    b = bm25.b if bm25.b_mixed is None else (bm25.b, bm25.b_mixed)
    return hr.BM25(bm25.variant, k1=bm25.k1, b=b, delta=bm25.delta)


# Table of hits -> replies


def replies(
    shape: Shape, hits: pa.Table, n_queries: int, *, more: Sequence[str] = (), signed: bool = False
) -> list[Reply]:
    """The table of hits as one reply a query, after checking what no table of hits may hold."""
    columns = {name: hits.column(name).to_pylist() for name in hits.column_names}
    nothing, arms = [None] * hits.num_rows, (*shape.arms, *more)
    scores = [columns.get(f"{arm}_score", nothing) for arm in arms]
    ranks = [columns.get(f"{arm}_rank", nothing) for arm in arms]
    cells = [columns[name] for name in shape.cell]
    out: list[list[Hit]] = [[] for _ in range(n_queries)]
    places = list(zip(columns["query"], columns["rank"], strict=True))
    assert places == sorted(set(places)), "hits must be ordered by (query, rank), each once"
    for at, (query, rank) in enumerate(places):
        hit = Hit(
            rank,
            columns["key"][at],
            tuple(values[at] for values in cells),
            columns["score"][at],
            tuple(values[at] for values in scores),
            tuple(values[at] for values in ranks),
        )
        check_numbers(hit, signed=signed)
        out[query].append(hit)
    return [tuple(reply) for reply in out]


def check_numbers(hit: Hit, *, signed: bool) -> None:
    """No score is NaN, infinite or -0 (but where a stage has multiplied it: ``signed``); equality
    is then equality of bits.
    """
    values = hit.arm_scores if signed else (hit.score, *hit.arm_scores)
    for value in values:
        assert value is None or math.copysign(1.0, value or 1.0) == math.copysign(1.0, value), hit
    assert all(value is None or math.isfinite(value) for value in (hit.score, *hit.arm_scores)), hit


def ipc_bytes(hits: pa.Table) -> bytes:
    """The table as the bytes of an Arrow IPC stream, in one chunk."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, hits.schema) as stream:
        stream.write_table(hits.combine_chunks())
    return sink.getvalue().to_pybytes()
