"""Query files of every kind: what their columns become, and which line is refused."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hyrecall as hr

TEA = {"id": ["a", "b", "c"], "text": ["hot tea", "tea", "milk"]}


@pytest.fixture
def ask(run, tmp_path):
    """Save an index of a table with these cells; ask it a file; give the reply and the hits."""

    def call(name, content, *options, cells=None, vectors=None, code=0):
        columns = {} if cells is None else {f"c{i}": cell for i, cell in enumerate(cells)}
        schema = hr.Schema(
            key="id", cell=tuple(columns) or None, text="text", vector="v" if vectors else ()
        )
        rows = None if vectors is None else {"v": np.array(vectors, np.float32)}
        hr.Index.build(pa.table({**TEA, **columns}), schema, vectors=rows).save(
            tmp_path / "i", overwrite=True
        )
        if isinstance(content, pa.Table):
            pq.write_table(content, tmp_path / name)
        else:
            (tmp_path / name).write_text(content)
        output = tmp_path / "h.parquet"
        reply = run("batch", tmp_path / "i", tmp_path / name, "-o", output, *options)
        assert reply.code == code, reply.err
        return reply, pq.read_table(output) if code == 0 else None

    return call


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def pairs(hits, *names):
    return list(zip(*(hits.column(name).to_pylist() for name in names), strict=True))


TEXT = ("--query-text", "q")
KEY = (*TEXT, "--query-key", "k")


# ---- keys ----


def test_keys_of_json_lines_are_text_whatever_comes_first(ask, monkeypatch):
    from seams import dataset

    monkeypatch.setattr(dataset, "FILE_ROWS", 2)
    keys = [None, None, None, "x", 7, 2.5, True, [1, "a"], "ü"]
    content = lines(*({"q": "milk", "k": key} for key in keys))
    _, hits = ask("q.jsonl", content, *KEY)
    assert hits.schema.field("query_key").type == pa.string()
    wanted = [None, None, None, "x", "7", "2.5", "true", '[1, "a"]', "ü"]
    assert pairs(hits, "query", "query_key", "key") == [
        (query, key, "c") for query, key in enumerate(wanted)
    ]


def test_thousands_of_null_keys_before_a_string_are_no_fault_of_ours(ask):
    rows = [{"q": "milk", "k": None if at < 5000 else f"k{at}"} for at in range(9000)]
    _, hits = ask("q.jsonl", lines(*rows), *KEY)
    assert hits.column("query_key").null_count == 5000
    assert hits.column("query_key")[8999].as_py() == "k8999"


def test_a_key_that_is_the_scope_too_keeps_the_type_of_the_cell(ask):
    options = (*TEXT, "--query-key", "k", "--query-scope", "k")
    for name, content in (
        ("q.jsonl", lines({"q": "tea", "k": 1}, {"q": "tea", "k": 2})),
        ("q.csv", "q,k\ntea,1\ntea,2\n"),
    ):
        _, hits = ask(name, content, *options, cells=[[1, 2, 2]])
        assert pairs(hits, "query_key", "c0", "key") == [(1, 1, "a"), (2, 2, "b")]


def test_a_key_whose_type_changes_on_the_way_is_refused_by_name(ask, monkeypatch):
    from seams import dataset

    monkeypatch.setattr(dataset, "FILE_ROWS", 1)
    content = lines({"q": "tea", "k": ["1"]}, {"q": "tea", "k": "1"})
    options = (*TEXT, "--query-key", "k", "--query-scope", "k")
    reply, _ = ask("q.jsonl", content, *options, cells=[["1", "1", "2"]], code=1)
    assert reply.err.splitlines()[-1].startswith(
        "error: --query-key: expected keys of the type large_string, got list<item: string> ("
    )


# ---- what a column holds ----


def test_a_text_that_is_none_is_refused_with_its_line(ask, tmp_path):
    for bad, shown in ((5, "5"), (["tea"], "['tea']"), (True, "True"), ({"a": 1}, "{'a': 1}")):
        content = "\n" + lines({"q": "tea"}, {"q": None}, {"q": bad})
        reply, _ = ask("q.jsonl", content, *TEXT, code=1)
        where = f"{tmp_path / 'q.jsonl'} line 4"
        wish = "error: --query-text: expected a string or null in column 'q'"
        assert reply.err.splitlines()[-1].startswith(f"{wish}, got {shown} in {where} (query 2 of")


def test_of_a_column_of_mixed_values_the_row_that_does_not_fit_is_refused(ask):
    content = lines({"q": "tea", "s": "x"}, {"q": "tea", "s": 1})
    options = (*TEXT, "--query-scope", "s")
    reply, _ = ask("q.jsonl", content, *options, cells=[["1", "x", "x"]], code=1)
    assert reply.err.splitlines()[-1].startswith(
        "error: scope[1]: expected a str or None for c0, got int 1 (query 1 of "
    )
    content = lines({"q": "tea", "s": 2**70})
    assert "column 's'" in ask("q.jsonl", content, *options, cells=[[1, 2, 3]], code=1)[0].err


def test_vectors_of_whole_numbers_are_vectors(ask):
    vectors = [[1, 0], [1, 1], [0, 1]]
    rows = [{"v": [1, 0]}, {"v": [0, 2]}, {"v": None}, {"v": [3, 0.5]}]
    asked = ("--query-vector", "v", "--limit", 1)
    for some in (rows, rows[:2], rows[:3]):
        _, hits = ask("q.jsonl", lines(*some), *asked, vectors=vectors)
        wanted = [(0, "a"), (1, "c"), (3, "a")]
        assert pairs(hits, "query", "key") == wanted[: 3 if len(some) == 4 else 2]
    reply, _ = ask("q.jsonl", lines({"v": []}), *asked, vectors=vectors, code=1)
    assert "vectors: expected 2 values in every query, got 0 in query 0" in reply.err
    for bad in ([[True, False]], ["[1, 0]"], [7]):
        content = lines(*({"v": vector} for vector in bad))
        reply, _ = ask("q.jsonl", content, *asked, vectors=vectors, code=1)
        assert reply.err.startswith("error: vectors: expected ")


def test_csv_scopes_have_the_types_of_the_cells(ask):
    options = (*TEXT, "--query-scope", "s,t,u")
    cells = [[1, 2, 2], [True, True, False], ["1", "1", "true"]]
    content = "q,s,t,u\ntea,1,true,1\ntea,2,true,1\nmilk,2,false,true\nmilk,2,true,1\n"
    _, hits = ask("q.csv", content, *options, cells=cells)
    assert pairs(hits, "query", "key") == [(0, "a"), (1, "b"), (2, "c")]
    reply, _ = ask("q.csv", "q,s,t,u\ntea,x,true,1\n", *options, cells=cells, code=1)
    assert "--query-scope: expected int64 in column 's', got others in line 2 of " in reply.err
    assert "string: 'x'" in reply.err
    one = ("--query-text", "q", "--query-scope", "s")
    for cell, written in (([1, 0, 0], "1"), ([True, False, None], "true")):
        _, hits = ask("q.csv", f"q,s\ntea,{written}\n", *one, cells=[cell])
        assert pairs(hits, "key") == [("a",)]
    reply, _ = ask("q.csv", "q,s\ntea,\n", *one, cells=[[1, None, 0]], code=1)
    assert "null cell is" in reply.err


# ---- blank lines, no lines ----


@pytest.mark.parametrize("blank", ["\n", "  \n\n", "\t\r\n"])
def test_blank_lines_before_the_first_query_do_not_hide_a_missing_column(ask, blank):
    reply, _ = ask("q.jsonl", blank + lines({"words": "tea"}), *TEXT, code=1)
    assert "error: --query-text: expected a column of " in reply.err
    assert "(words), got 'q'" in reply.err
    _, hits = ask("q.jsonl", blank + lines({"q": "milk"}), *TEXT)
    assert pairs(hits, "query", "key") == [(0, "c")]


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv"])
def test_a_file_without_queries_gives_hits_without_rows(ask, kind):
    columns = {"q": pa.string(), "k": pa.string(), "s": pa.string()}
    options = [*KEY, "--query-scope", "s", "--columns", "text"]
    one = {"q": ["milk"], "k": ["x"], "s": ["y"]}
    if kind != "csv":
        columns["v"] = pa.list_(pa.float32())
        one["v"] = [[1, 0]]
        options += ["--query-vector", "v"]
    given = {"cells": [["x", "x", "y"]], "vectors": [[1, 0], [1, 1], [0, 1]]}
    full = pa.table(one).cast(pa.schema(list(columns.items())))
    _, wanted = ask("q.parquet", full, *options, **given)
    assert wanted.num_rows == 1
    empty = {"parquet": full.slice(0, 0), "jsonl": "", "csv": "q,k,s\n"}[kind]
    reply, hits = ask(f"q.{kind}", empty, *options, **given)
    assert hits.num_rows == 0
    assert hits.schema == wanted.schema
    assert "0 queries, 0 hits" in reply.err
