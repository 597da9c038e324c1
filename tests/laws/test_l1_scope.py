"""L1: nothing is read or written without a scope, and nothing outside it is seen."""

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import _core
from hyrecall.distributed import Request
from hyrecall.errors import HyrecallError
from laws.checks import CALLS_PER_TABLE, QUERIES_PER_CALL, compare_with
from laws.effort import Effort
from laws.engine import EngineSubject
from laws.subject import Make
from oracle.corpus import Draw, Mix, draw_rows
from oracle.documents import Row, Shape
from oracle.recall import Oracle
from seams import reply_of

# Every public callable of an index, by how it keeps the law. A new one fails the walk until it is
# entered here, and in `without_scope` if it takes a scope.
TAKES_A_SCOPE = {
    *("recall", "recall_one", "arecall", "arecall_one", "get", "count", "delete"),
    "replace",
    *("statistics", "candidates"),  # in their request
}
ROWS_NAME_THEIR_CELLS = {"build", "build_in_parts", "add", "upsert", "update"}
GIVES_NO_DOCUMENT = {"compact", "save", "open", "reload", "stats", "close"}

# Native callables that meet the documents of a snapshot: they name cells or scopes, or belong
# to an execution, whose request holds the scopes.
NATIVE_DOORS = {
    "Snapshot": {"locate_rows", "locate_keys", "matching", "placed"},
    "Execution": {
        "statistics",
        "candidates",
        "hits",
        "leaves",
        "refused_queries",
        "empty_queries",
        "host_queries",
        "matches",
        "excludes",
        "leaf_freqs",
        "sparse_pairs",
        "vector_pairs",
    },
    "Matches": {"counts", "rows", "empty_queries", "refused_queries"},
    "MatchedRows": {"count", "ordered", "values", "between"},
}

# The same among the submodules. Functions of numbers alone meet no document.
NATIVE_MODULES = {
    "shaping": {
        "by an execution": {
            "dedup",
            "diversify",
            "row_cosine",
            "second_look",
        },
        "no document": {
            "FusedLists",
            "LinearRules",
            "age_seconds",
            "asked_again",
            "composite_means",
            "composite_sums",
            "exp2",
            "mmr_value",
            "order",
            "recency_factors",
            "sum_addends",
            "weigh",
        },
    },
    "rows": {
        "columns that Python holds": {"Column", "Gathered", "gather", "has_text"},
        "numbers of rows, for a writer": {"cut_merge", "merge_order"},
    },
    "queries": {"no document": {"TextQuery", "find_marks"}},
    "arms": {
        "by a request": {"Adjacency", "Audience", "Neighbours"},
        "no document": {"place_score"},
    },
}

NOTHING = dict.fromkeys(("kind", "number", "price", "at", "tags"))


def without_scope(index: hr.Index) -> dict[str, Callable[[], object]]:
    """Each callable that takes a scope, called without."""
    request, seen = Request(text=["ash"]), Request(text=["ash"], scope=hr.Scope([]))
    return {
        "statistics": lambda: index.statistics(request),
        "candidates": lambda: index.candidates(
            request, replace(index.statistics(seen), request=request.id)
        ),
        "recall": lambda: index.recall(text=["ash"]),
        "recall_one": lambda: index.recall_one(text="ash"),
        "arecall": lambda: asyncio.run(index.arecall(text=["ash"])),
        "arecall_one": lambda: asyncio.run(index.arecall_one(text="ash")),
        "get": lambda: index.get(["k"]),
        "count": index.count,
        "delete": lambda: index.delete(["k"]),
        "replace": lambda: index.replace([], filter=hr.Filter(kind="x")),
    }


def row(key: str, cell: tuple[str | None, ...]) -> Row:
    return Row(key, cell, {"text": "ash"}, {}, NOTHING)


@pytest.fixture
def one_column(make_engine: Callable[..., EngineSubject]) -> hr.Index:
    shape = Shape(dense={})
    cells = (("ana",), ("bob",), (None,), ("",), ("ana",))
    return make_engine(shape, [row(f"k{at}", cell) for at, cell in enumerate(cells)]).index


@pytest.fixture
def two_columns(make_engine: Callable[..., EngineSubject]) -> hr.Index:
    shape = Shape(cell=("tenant", "visibility"), dense={})
    cells = (("ana", "private"), ("ana", "shared"), ("bob", "shared"), ("bob", None))
    return make_engine(shape, [row(f"k{at}", cell) for at, cell in enumerate(cells)]).index


def keys(index: hr.Index, scope: object) -> list[str]:
    return index.recall(text=["ash"], scope=scope).to_arrow()["key"].to_pylist()


def test_random_replies_are_those_of_the_oracle_to_the_last_bit(make: Make, effort: Effort) -> None:
    cases = effort.cases(quick=1_000, full=100_000)
    tables = -(-cases // (CALLS_PER_TABLE * QUERIES_PER_CALL))
    assert compare_with(Oracle, make, range(tables)) >= cases


def test_every_public_callable_is_known_to_the_law() -> None:
    public = {
        name
        for name, member in inspect.getmembers(hr.Index)
        if not name.startswith("_") and callable(member)
    }
    assert public <= TAKES_A_SCOPE | ROWS_NAME_THEIR_CELLS | GIVES_NO_DOCUMENT
    assert public >= TAKES_A_SCOPE | ROWS_NAME_THEIR_CELLS


def test_no_function_of_the_package_is_a_door_beside_the_index() -> None:
    routines = {name for name in hr.__all__ if inspect.isroutine(getattr(hr, name))}
    assert routines == {"parse"}, "which reads a text alone"


@pytest.mark.parametrize("kind", NATIVE_DOORS)
def test_every_native_callable_that_meets_documents_is_known_to_the_law(kind: str) -> None:
    members = vars(getattr(_core, kind)).items()
    public = {name for name, member in members if not name.startswith("_") and callable(member)}
    assert public <= NATIVE_DOORS[kind]


def test_a_native_execution_tells_nothing_of_rows_outside_its_scope(one_column: hr.Index) -> None:
    """k0 is ana's, and only ana is asked for."""
    state = one_column._state
    hits = one_column.recall(text=["ash"], scope=["ana"])
    execution = _core.Execution(state.snapshot, reply_of(hits[0]).source.request)
    own = set(
        zip(
            reply_of(hits[0]).arrays["segment"].tolist(),
            reply_of(hits[0]).arrays["row"].tolist(),
            strict=True,
        )
    )
    assert own
    for segment, held in enumerate(state.segments):
        for row in range(held.rows.num_rows):
            for look in (execution.leaf_freqs, execution.matches):
                if (segment, row) in own:
                    assert look(0, 0, segment, row)
                else:
                    with pytest.raises(HyrecallError, match="scope"):
                        look(0, 0, segment, row)
    for segment, row in ((len(state.segments), 0), (0, 10**6)):
        with pytest.raises(HyrecallError):
            execution.leaf_freqs(0, 0, segment, row)


def test_vectors_that_met_are_told_of_rows_in_scope_alone() -> None:
    rows = [np.eye(2, 3, dtype=np.float32)] * 2
    table = pa.table({"id": ["k0", "k1"], "user": ["ana", "bob"]})
    schema = hr.Schema(key="id", cell="user", vector=hr.MaxSim("tokens"))
    index = hr.Index.build(table, schema, vectors={"tokens": rows}, device="cpu")
    hits = index.recall(vectors=[rows[0]], scope=["ana"])
    execution = _core.Execution(index._state.snapshot, reply_of(hits[0]).source.request)
    assert execution.vector_pairs(0, 0, 0, 0) == [(0, 0, 1.0), (1, 1, 1.0)]
    with pytest.raises(HyrecallError, match="scope"):
        execution.vector_pairs(0, 0, 0, 1)


def test_terms_that_are_shared_are_told_of_rows_in_scope_alone() -> None:
    table = pa.table({"id": ["k0", "k1"], "user": ["ana", "bob"]})
    schema = hr.Schema(key="id", cell="user", vector=hr.Sparse("terms"))
    index = hr.Index.build(table, schema, vectors={"terms": [{"a": 2.0}] * 2}, device="cpu")
    hits = index.recall(vectors=[{"a": 0.5, "b": 1.0}], scope=["ana"])
    execution = _core.Execution(index._state.snapshot, reply_of(hits[0]).source.request)
    assert execution.sparse_pairs(0, 0, 0, 0) == [(b"a", 0.5, 2.0)]
    with pytest.raises(HyrecallError, match="scope"):
        execution.sparse_pairs(0, 0, 0, 1)


@pytest.mark.parametrize("module", NATIVE_MODULES)
def test_every_native_function_beside_them_is_known_to_the_law(module: str) -> None:
    public = {name for name in vars(getattr(_core, module)) if not name.startswith("_")}
    assert public == set().union(*NATIVE_MODULES[module].values())


def test_native_stages_tell_nothing_of_rows_outside_their_scope(
    make_engine: Callable[..., EngineSubject],
) -> None:
    """k0 and k2 are ana's, k1 is bob's; the queries are ana's and bob's."""
    shape = Shape(dense={"embedding": 2})
    cells = (("ana",), ("bob",), ("ana",))
    rows = [
        Row(f"k{at}", cell, {"text": "ash"}, {"embedding": np.float32([1, at])}, NOTHING)
        for at, cell in enumerate(cells)
    ]
    index = make_engine(shape, rows).index
    hits = index.recall(text=["ash"] * 2, scope=["ana", "bob"])
    places = list(
        zip(
            reply_of(hits[0]).arrays["segment"].tolist(),
            reply_of(hits[0]).arrays["row"].tolist(),
            strict=True,
        )
    )
    first, second, other = places
    execution = _core.Execution(index._state.snapshot, reply_of(hits[0]).source.request)

    def pools(offsets: list[int], rows: list[tuple[int, int]]) -> _core.shaping.FusedLists:
        segment, row = (np.array(part, np.uint32) for part in zip(*rows, strict=True))
        return _core.shaping.FusedLists(np.array(offsets), np.ones(len(rows)), segment, row)

    none = np.zeros(0, np.int64)
    stages = (
        lambda pool: _core.shaping.dedup(pool, execution, 0, 0.9, False, none),
        lambda pool: _core.shaping.diversify(pool, execution, 0, 0.5, "max", 5, none, none),
    )
    for stage in stages:
        assert stage(pools([0, 2, 3], [first, second, other]))
        for offsets, seen in (
            ([0, 1, 2], [other, first]),
            ([0, 3, 3], places),
            ([0, 1], [first]),  # of one query
            ([0, 1, 1], [(0, 10**6)]),
            ([0, 1, 1], [(10**6, 0)]),
        ):
            with pytest.raises(HyrecallError):
                stage(pools(offsets, seen))
    cosine = _core.shaping.row_cosine
    assert 0 < cosine(execution, 0, 0, first, second) < 1
    for query, one, two in (
        (0, first, other),
        (0, other, first),
        (1, first, other),
        (2, first, first),
    ):
        with pytest.raises(HyrecallError):
            cosine(execution, 0, query, one, two)


def test_a_native_request_cannot_be_made_without_scopes() -> None:
    with pytest.raises(TypeError):
        _core.BatchRequest(filters=[], filter_of=None, depth=1, limit=1, offset=0, threads=1)


@pytest.mark.parametrize("name", sorted(TAKES_A_SCOPE))
def test_no_scope_is_an_error(name: str, one_column: hr.Index) -> None:
    with pytest.raises((HyrecallError, TypeError), match="scope"):
        without_scope(one_column)[name]()
    assert keys(one_column, hr.Scope(["ana", "bob", None, ""])) == ["k0", "k1", "k2", "k3", "k4"]


@pytest.mark.parametrize("scope", [None, [None]], ids=repr)
def test_none_is_no_scope(scope: object, one_column: hr.Index) -> None:
    with pytest.raises(HyrecallError, match="scope"):
        one_column.recall(text=["ash"], scope=scope)
    for call in (
        lambda: one_column.delete(["k0"], scope=scope),
        lambda: one_column.delete(filter=hr.Filter(), scope=scope),
        lambda: one_column.delete(everything=True, scope=scope),
        lambda: one_column.get(["k0"], scope=scope),
        lambda: one_column.count(scope=scope),
    ):
        with pytest.raises(HyrecallError, match="scope"):
            call()
    assert len(one_column) == 5


def test_the_empty_scope_sees_and_deletes_nothing(one_column: hr.Index) -> None:
    assert keys(one_column, hr.Scope([])) == []
    assert one_column.delete(["k0"], scope=hr.Scope([])) == 0
    assert keys(one_column, "ana") == ["k0", "k4"]


@pytest.mark.parametrize("scope", [hr.Scope([]), "nobody"], ids=repr)
def test_what_a_scope_does_not_hold_is_not_read_counted_or_deleted(
    scope: object, one_column: hr.Index
) -> None:
    assert one_column.get(["k0", "k1"], scope=scope).num_rows == 0
    assert one_column.count(scope=scope) == 0
    assert one_column.delete(everything=True, scope=scope) == 0
    assert one_column.delete(filter=hr.Filter(kind=hr.IsNull()), scope=scope) == 0
    assert one_column.get(["k1", "k0"], scope="ana")["key"].to_pylist() == ["k0"]
    assert one_column.count(scope="ana") == 2
    assert one_column.delete(everything=True, scope="ana") == 2
    assert keys(one_column, hr.Scope(["ana", "bob", None, ""])) == ["k1", "k2", "k3"]


def test_an_unknown_cell_is_an_empty_cell(one_column: hr.Index) -> None:
    assert keys(one_column, "nobody") == []
    assert keys(one_column, hr.Scope(["nobody", "bob"])) == ["k1"]
    assert one_column.delete(["k0"], scope="nobody") == 0


def test_the_null_cell_is_a_cell_of_its_own(one_column: hr.Index) -> None:
    assert keys(one_column, hr.Scope([None])) == ["k2"]
    assert keys(one_column, "ana") == ["k0", "k4"]
    assert keys(one_column, "") == ["k3"]
    assert keys(one_column, "None") == []


def test_a_list_is_one_entry_per_query(one_column: hr.Index) -> None:
    hits = one_column.recall(text=["ash"] * 3, scope=["bob", hr.Scope([]), hr.Scope(["ana"])])
    assert [[hit.key for hit in hits[query]] for query in range(3)] == [["k1"], [], ["k0", "k4"]]


@pytest.mark.parametrize("scope", [[], ["ana", "bob"]], ids=repr)
def test_a_list_of_another_length_is_refused(scope: list[str], one_column: hr.Index) -> None:
    with pytest.raises(HyrecallError, match="scope"):
        one_column.recall(text=["ash"], scope=scope)


def test_one_scope_holds_for_every_query(one_column: hr.Index) -> None:
    hits = one_column.recall(text=["ash"] * 2, scope="bob")
    assert [hit.key for query in range(2) for hit in hits[query]] == ["k1", "k1"]


def test_a_cell_named_twice_is_seen_once(one_column: hr.Index) -> None:
    once = one_column.recall(text=["ash"], scope=hr.Scope(["ana"]))
    twice = one_column.recall(text=["ash"], scope=hr.Scope(["ana", "ana"]))
    assert once.to_arrow().equals(twice.to_arrow())


def test_a_scope_may_name_100_000_cells(one_column: hr.Index) -> None:
    many = [f"tenant {number}" for number in range(100_000)]
    assert keys(one_column, hr.Scope([*many, "bob"])) == ["k1"]


def test_a_tuple_is_one_cell(two_columns: hr.Index) -> None:
    assert keys(two_columns, ("ana", "shared")) == ["k1"]
    assert keys(two_columns, ("bob", None)) == ["k3"]
    assert keys(two_columns, hr.Scope([("ana", "private"), ("bob", "shared")])) == ["k0", "k2"]
    assert keys(two_columns, ("ana", "ana")) == []


@pytest.mark.parametrize("scope", ["ana", ("ana",), ("ana", "shared", "x")], ids=repr)
def test_a_cell_of_another_width_is_refused(scope: object, two_columns: hr.Index) -> None:
    with pytest.raises(HyrecallError, match="scope"):
        two_columns.recall(text=["ash"], scope=scope)


def test_a_pattern_names_every_column(two_columns: hr.Index) -> None:
    every = hr.Scope.matching(tenant=hr.ANY, visibility="shared")
    assert keys(two_columns, every) == ["k1", "k2"]
    assert keys(two_columns, hr.Scope.matching(tenant="bob", visibility=hr.ANY)) == ["k2", "k3"]
    assert keys(two_columns, hr.Scope.matching(tenant="nobody", visibility=hr.ANY)) == []
    for pattern in (hr.Scope.matching(tenant="ana"), hr.Scope.matching(tenant="ana", other="x")):
        with pytest.raises(HyrecallError):
            two_columns.recall(text=["ash"], scope=pattern)


def test_a_table_with_one_audience_takes_no_scope(
    make_engine: Callable[..., EngineSubject],
) -> None:
    index = make_engine(Shape(cell=(), dense={}), [row("k0", ()), row("k1", ())]).index
    assert index.recall(text=["ash"]).to_arrow()["key"].to_pylist() == ["k0", "k1"]
    for scope in ("ana", hr.Scope([]), hr.Scope(["ana"])):
        with pytest.raises(HyrecallError, match="scope"):
            index.recall(text=["ash"], scope=scope)
    assert index.delete(["k0", "absent"]) == 1


def test_the_same_key_in_another_cell_is_another_document(
    make_engine: Callable[..., EngineSubject],
) -> None:
    shape = Shape(dense={})
    subject = make_engine(shape, [row("k", ("ana",)), row("k", ("bob",))])
    subject.upsert([replace(row("k", ("bob",)), texts={"text": "bay"})])
    assert keys(subject.index, "ana") == ["k"]
    assert keys(subject.index, "bob") == []
    assert subject.index.delete(["k"], scope="bob") == 1
    assert keys(subject.index, "ana") == ["k"]


def test_written_rows_obey_their_scope_at_once(make_engine: Callable[..., EngineSubject]) -> None:
    shape = Shape(dense={"embedding": 3})
    subject = make_engine(shape, [])
    for number, cell in enumerate((("ana",), ("bob",), (None,)) * 5):
        (drawn,) = draw_rows(Draw(number), shape, Mix(n_rows=1, null=0.0, empty=0.0))
        subject.add([replace(drawn, key=f"k{number}", cell=cell, texts={"text": "ash"})])
        for at, scope in enumerate(("ana", "bob", hr.Scope([None]))):
            assert len(keys(subject.index, scope)) == (number + 3 - at) // 3
