"""BatchRecall returns what Index.recall replies, for tables cut in any way, in any process."""

from __future__ import annotations

import pickle
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hyrecall as hr
from distributed.datasets import HOW, N_QUERIES, ROLES, World, equal, hits_of
from hyrecall.distributed import BatchRecall
from seams import slices


def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_WORK_BYTES", "_SHARED_BYTES"):
        monkeypatch.setattr(slices, name, 1 << 20)


@pytest.fixture(params=["one", "shards"])
def recall(world: World, request: pytest.FixtureRequest) -> BatchRecall:
    folders: Any = world.shards if request.param == "shards" else world.folder / "one"
    return BatchRecall(folders, **ROLES, **HOW, device="cpu", threads=1)


@pytest.mark.slow
def test_tables_cut_in_any_way_have_the_hits_of_one_call(
    world: World, recall: BatchRecall, monkeypatch: pytest.MonkeyPatch
) -> None:
    want = world.want()
    assert want.num_rows > N_QUERIES
    assert equal(recall(world.queries), want)
    for size in (1, 7):
        batches = world.queries.to_batches(max_chunksize=size)
        assert equal(pa.Table.from_batches(recall.map(batches)), want)
    small_slices(monkeypatch)
    assert equal(recall(world.queries), want)
    assert recall.schema_of(world.queries.schema).equals(want.schema)
    assert recall.columns == ("words", "vec", "who", "qid")


@pytest.mark.slow
def test_it_is_sent_to_another_process(world: World) -> None:
    code = (
        "import pickle, sys, pyarrow as pa\n"
        "recall = pickle.loads(sys.stdin.buffer.read())\n"
        "table = pa.ipc.open_file(sys.argv[1]).read_all()\n"
        "with pa.ipc.new_file(sys.argv[2], recall.schema_of(table.schema)) as out:\n"
        "    out.write_table(recall(table))\n"
    )
    given, made = world.folder / "q.arrow", world.folder / "h.arrow"
    with pa.ipc.new_file(given, world.queries.schema) as out:
        out.write_table(world.queries)
    subprocess.run(
        [sys.executable, "-c", code, given, made], input=pickle.dumps(world.recall()), check=True
    )
    assert equal(pa.ipc.open_file(made).read_all(), world.want())


def test_columns_of_values_that_documents_must_have(world: World) -> None:
    years = world.queries.column("year").to_pylist()
    every = hr.Filter(year=(2001, None))
    own = [None if one is None else hr.Filter(year=one) for one in years]
    for options, filters in (
        ({}, own),
        ({"filter": every}, [every if one is None else one & every for one in own]),
    ):
        recall = world.recall(equals={"year": "year"}, **options)
        want = world.want(filter=filters)
        assert equal(recall(world.queries), want)
        assert not equal(want, world.want())


def test_one_scope_of_all_queries(world: World) -> None:
    scope = hr.Scope(["bob"])
    recall = BatchRecall(world.shards, **{**ROLES, "scope": scope}, **HOW)
    moved = world.queries.set_column(4, "who", pa.array([["bob"]] * N_QUERIES))
    assert equal(recall(world.queries), hits_of(world.one, moved, **HOW))


def test_a_query_that_is_refused_raises_with_its_key_or_is_a_row(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_slices(monkeypatch)
    who = world.queries.column("who").to_pylist()
    who[11] = who[30] = None
    asked = world.queries.set_column(4, "who", pa.array(who, pa.list_(pa.string())))
    with pytest.raises(hr.ScopeError, match=r"query 11 .*\(query_key 'q11'\)|\[11\].*'q11'"):
        world.recall()(asked)
    made = world.recall(on_error="column")(asked)
    refused = made.filter(pc.is_valid(made.column("error")))
    assert refused.column("query_key").to_pylist() == ["q11", "q30"]
    assert all("scope" in one for one in refused.column("error").to_pylist())
    assert refused.column("key").null_count == refused.num_rows
    rest = made.filter(pc.is_null(made.column("error"))).drop_columns("error")
    kept = [at for at in range(N_QUERIES) if at not in (11, 30)]
    assert equal(rest, hits_of(world.one, world.queries.take(kept), **HOW))


def test_wrong_arguments_are_refused_before_any_query(world: World) -> None:
    for wrong, argument in (
        ({"scope": None}, "scope"), ({"scope": ()}, "scope"), ({"text": 3}, "text"),
        ({"on_error": "skip"}, "on_error"), ({"limit": -1}, "limit"), ({"vectors": None}, None),
        ({"shaping": (hr.RerankBy(len, window=3),)}, "shaping"), ({"columns": ["none"]}, "columns"),
    ):  # fmt: skip
        if argument is None:
            BatchRecall(world.shards, **{**ROLES, **wrong})
            continue
        with pytest.raises(hr.HyrecallError) as fault:
            BatchRecall(world.shards, **{**ROLES, **wrong})
        assert fault.value.argument == argument
    with pytest.raises(hr.OptionError, match="expected a column 'vec'"):
        world.recall()(world.queries.drop_columns("vec"))
    with pytest.raises(hr.UnknownOptionError, match="limit"):
        world.recall(top_k=3)


def test_an_index_that_was_saved_anew_is_refused(world: World, tmp_path: Path) -> None:
    world.one.save(tmp_path / "own")
    recall = BatchRecall(tmp_path / "own", **ROLES)
    sent = pickle.loads(pickle.dumps(recall))
    newer = hr.Index.open(tmp_path / "own")
    assert newer.delete(["k1"], scope="bob") == 1
    newer.save(tmp_path / "own")
    with pytest.raises(hr.errors.IndexMismatchError, match="the version with which"):
        sent(world.queries)
    with pytest.raises(hr.errors.IndexMismatchError):
        recall.check_current()


def test_the_time_of_ages_is_fixed_and_sent(world: World) -> None:
    now = datetime(2020, 1, 2, tzinfo=UTC)
    recall = world.recall(now=now)
    assert recall.now == now
    assert pickle.loads(pickle.dumps(recall)).now == now
    assert recall.at(datetime(2021, 1, 2, tzinfo=UTC)).now.year == 2021
    assert recall.identity == world.recall().identity


class ScopesMovedByOne(BatchRecall):
    """The scope of each query is that of the next."""

    def _answer(self, queries: pa.Table, first: int) -> pa.Table:
        if queries.num_rows:
            values = queries.column("who").to_pylist()
            moved = pa.array([*values[1:], values[0]], queries.schema.field("who").type)
            queries = queries.set_column(queries.column_names.index("who"), "who", moved)
        return super()._answer(queries, first)


class JoinedByText(BatchRecall):
    """Queries with one text are answered once."""

    def _answer(self, queries: pa.Table, first: int) -> pa.Table:
        seen: dict[str | None, int] = {}
        texts = queries.column("words").to_pylist()
        alike = [seen.setdefault(text, at) for at, text in enumerate(texts)]
        for name in ("who", "vec"):
            at = queries.column_names.index(name)
            column = queries.column(name).combine_chunks().take(pa.array(alike, pa.int64()))
            queries = queries.set_column(at, name, column)
        return super()._answer(queries, first)


class FiltersLeftOut(BatchRecall):
    """The columns of values are read, and not used."""

    def _answer(self, queries: pa.Table, first: int) -> pa.Table:
        asked, self._asked = self._asked, self._asked.__class__(
            **{**vars(self._asked), "equals": {}}
        )  # fmt: skip
        try:
            return super()._answer(queries, first)
        finally:
            self._asked = asked


class KeysOfAnotherSlice(BatchRecall):
    """Keys are taken from the first slice of a table."""

    first: pa.Table | None = None

    def _answer(self, queries: pa.Table, first: int) -> pa.Table:
        if queries.num_rows and not first:
            self.first = queries
        made = super()._answer(queries, first)
        if not first or self.first is None:
            return made
        names = dict(zip(queries.column("qid").to_pylist(),
                         self.first.column("qid").to_pylist(), strict=False))  # fmt: skip
        keys = [names.get(one, one) for one in made.column("query_key").to_pylist()]
        return made.set_column(0, "query_key", pa.array(keys))


@pytest.mark.parametrize(
    "planted", [ScopesMovedByOne, JoinedByText, FiltersLeftOut, KeysOfAnotherSlice]
)
def test_planted_mistakes_are_seen(
    world: World, planted: type[BatchRecall], monkeypatch: pytest.MonkeyPatch
) -> None:
    small_slices(monkeypatch)
    years = world.queries.column("year").to_pylist()
    want = world.want(filter=[None if one is None else hr.Filter(year=one) for one in years])
    how = {**ROLES, **HOW, "equals": {"year": "year"}, "device": "cpu", "threads": 1}
    assert equal(BatchRecall(world.shards, **how)(world.queries), want)
    assert not equal(planted(world.shards, **how)(world.queries), want)
