"""hyrecall batch answers a file as Index.recall would in one go, in bounded memory."""

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hyrecall as hr

N_QUERIES = 25
DIM = 8  # as the corpus of conftest.py has it
WORDS = ["amber", "basin", "cedar", "delta", "ember", "fjord", "kelp", "ledge"]


@pytest.fixture(scope="session")
def queries() -> pa.Table:
    """Queries of all kinds: some without a text, some without a vector, one that finds nothing."""
    rng = np.random.default_rng(11)
    texts = [" ".join(rng.choice(WORDS, 3)) for _ in range(N_QUERIES)]
    vectors = [row.tolist() for row in rng.standard_normal((N_QUERIES, DIM), dtype=np.float32)]
    texts[3], vectors[4], texts[5] = None, None, "zebra"
    tenants = [("acme", "bolt", "corp", "nobody")[row % 4] for row in range(N_QUERIES)]
    return pa.table(
        {
            "qid": [f"q{row}" for row in range(N_QUERIES)],
            "words": texts,
            "vec": pa.array(vectors, pa.list_(pa.float32(), DIM)),
            "who": tenants,
            "many": [[tenant, "corp"] if row % 2 else [] for row, tenant in enumerate(tenants)],
        }
    )


ALL = ["--query-text", "words", "--query-vector", "vec", "--query-key", "qid"]


def in_one_go(folder, queries, scope, **options):
    """Return what the command should: hits.to_arrow() with the query's key, none degraded."""
    index = hr.Index.open(folder)
    hits = index.recall(
        text=queries.column("words"), vectors=queries.column("vec"), scope=scope, **options
    ).to_arrow()
    numbers = hits.column("query")
    hits = hits.add_column(1, "query_key", pc.take(queries.column("qid"), numbers))
    return hits.append_column("degraded", pa.nulls(len(hits), pa.string()))


@pytest.mark.parametrize("n_at_once", [1, 9, 4096])
def test_a_file_in_batches_gives_the_reply_of_one_call(
    run, folder, queries, tmp_path, monkeypatch, n_at_once
):
    from seams import dataset

    monkeypatch.setattr(dataset, "FILE_ROWS", n_at_once)
    pq.write_table(queries, tmp_path / "q.parquet", row_group_size=10)
    options = ["--limit", 4, "--fusion", "rrf:alpha=0.4", "--columns", "stars,text"]
    reply = run(
        "batch", folder, tmp_path / "q.parquet", "-o", tmp_path / "h.parquet", *ALL,
        "--query-scope", "who", *options,
    )  # fmt: skip
    assert reply.code == 0, reply.err
    assert reply.out == ""
    assert f"{N_QUERIES} queries" in reply.err
    assert "queries/s" in reply.err
    made = pq.read_table(tmp_path / "h.parquet")
    expected = in_one_go(
        folder, queries, queries.column("who").to_pylist(), limit=4, fusion=hr.RRF(alpha=0.4),
        columns=["stars", "text"],
    )  # fmt: skip
    assert made.equals(expected)
    assert made.num_rows > N_QUERIES
    assert [file.name for file in tmp_path.glob("h.*")] == ["h.parquet"]


def test_replies_below_a_floor_of_confidence_have_no_rows(run, folder, queries, tmp_path):
    pq.write_table(queries.drop_columns("vec").slice(6), tmp_path / "q.parquet")
    asked = ("batch", folder, tmp_path / "q.parquet", "--query-text", "words",
             "--query-scope", "who")  # fmt: skip
    who = queries["who"].to_pylist()[6:]
    index = hr.Index.open(folder)
    sure = index.recall(text=queries["words"].to_pylist()[6:], scope=who).confidence
    floor = sorted(sure)[len(sure) // 2]
    reply = run(*asked, "-o", tmp_path / "h.parquet", "--min-confidence", floor)
    assert reply.code == 0, reply.err
    found = set(pq.read_table(tmp_path / "h.parquet")["query"].to_pylist())
    assert found == {at for at, one in enumerate(sure) if one >= floor}
    assert 0 < len(found) < len(sure)
    pq.write_table(queries.slice(1), tmp_path / "q.parquet")
    refused = run(*asked, "-o", tmp_path / "h.parquet", "--min-confidence", floor)
    assert refused.code == 1
    assert "got query 2 with neither" in refused.err


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_a_file_of_more_queries_than_a_query_number_can_tell_is_refused(
    run, folder, queries, tmp_path, monkeypatch, suffix
):
    from seams import dataset

    monkeypatch.setattr(dataset, "_MOST_QUERIES", N_QUERIES - 1)
    monkeypatch.setattr(dataset, "FILE_ROWS", 4)
    file, output = tmp_path / f"q.{suffix}", tmp_path / "h.parquet"
    if suffix == "parquet":
        pq.write_table(queries, file)
    else:
        file.write_text("".join(json.dumps(row) + "\n" for row in queries.to_pylist()))
    asked = ["batch", folder, file, "-o", output, *ALL, "--scope", "acme"]
    reply = run(*asked)
    assert reply.code != 0
    assert (
        f"expected at most {N_QUERIES - 1} queries in a file, got {N_QUERIES} or more" in reply.err
    )
    assert not output.exists()
    monkeypatch.setattr(dataset, "_MOST_QUERIES", N_QUERIES)
    goes_on = ["--resume"] if suffix == "jsonl" else []  # Parquet was refused before any work
    assert run(*asked, *goes_on).code == 0


def test_a_list_column_names_several_cells_and_scope_holds_for_all(run, folder, queries, tmp_path):
    pq.write_table(queries, tmp_path / "q.parquet")
    output = tmp_path / "h.parquet"
    reply = run(
        "batch", folder, tmp_path / "q.parquet", "-o", output, *ALL, "--query-scope", "many"
    )
    assert reply.code == 0, reply.err
    scopes = [hr.Scope(cells) for cells in queries.column("many").to_pylist()]
    assert pq.read_table(output).equals(in_one_go(folder, queries, scopes))
    reply = run("batch", folder, tmp_path / "q.parquet", "-o", output, *ALL, "--scope", "acme")
    assert reply.code == 0, reply.err
    assert pq.read_table(output).equals(in_one_go(folder, queries, "acme"))


def test_scopes_of_two_columns_come_from_two_columns_or_lists_of_pairs(run, tmp_path):
    rows = {"id": ["a", "b", "c"], "org": ["x", "x", "y"], "n": [1, 2, 1], "text": ["tea"] * 3}
    schema = hr.Schema(key="id", cell=("org", "n"), text="text")
    hr.Index.build(pa.table(rows), schema).save(tmp_path / "i")
    pairs = [[{"o": "x", "n": 1}], [{"o": "x", "n": 2}, {"o": "y", "n": 1}]]
    asked = pa.table({"t": ["tea", "tea"], "o": ["x", "y"], "k": [2, 1], "pairs": pairs})
    pq.write_table(asked, tmp_path / "q.parquet")

    def keys(columns):
        reply = run(
            "batch", tmp_path / "i", tmp_path / "q.parquet", "-o", tmp_path / "h.parquet",
            "--query-text", "t", "--query-scope", columns,
        )  # fmt: skip
        assert reply.code == 0, reply.err
        return pq.read_table(tmp_path / "h.parquet", columns=["query", "key"]).to_pylist()

    assert keys("o,k") == [{"query": 0, "key": "b"}, {"query": 1, "key": "c"}]
    assert keys("pairs") == [
        {"query": 0, "key": "a"},
        {"query": 1, "key": "b"},
        {"query": 1, "key": "c"},
    ]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ([], "error: --query-scope: expected --query-scope COLUMN (a cell of tenant per query)"),
        (["--query-scope", "who", "--scope", "acme"], "error: --query-scope: expected --query-s"),
        (["--query-scope", "absent"], "error: --query-scope: expected a column of"),
        (["--query-scope", "who,qid"], "error: --query-scope: expected a column for each of"),
        (["--query-scope", "who", "--query-text", "vec"], "error: --query-text: expected strings"),
        (["--query-scope", "who", "--limit", "101", "--depth", "100"], "error: limit: expected"),
        (["--query-scope", "who", "--query-vector", "other=vec"], "error: vectors: expected arms"),
    ],
)
def test_what_batch_refuses_leaves_no_file(run, folder, queries, tmp_path, options, line):
    pq.write_table(queries, tmp_path / "q.parquet")
    given = [] if "--query-text" in options else ["--query-text", "words"]
    given += [] if "--query-vector" in options else ["--query-vector", "vec"]
    output = tmp_path / "h.parquet"
    reply = run("batch", folder, tmp_path / "q.parquet", "-o", output, *given, *options)
    assert reply.code == 1
    assert reply.err.splitlines()[-1].startswith(line)
    assert not list(tmp_path.glob("h.*"))


def test_a_bad_query_in_a_later_batch_keeps_the_old_file_and_is_named(
    run, folder, queries, tmp_path, monkeypatch
):
    from seams import dataset

    monkeypatch.setattr(dataset, "FILE_ROWS", 10)
    rows = queries.to_pylist()
    rows[17]["vec"][2] = float("nan")
    pq.write_table(pa.Table.from_pylist(rows, schema=queries.schema), tmp_path / "q.parquet")
    output = tmp_path / "h.parquet"
    output.write_text("yesterday's")
    reply = run("batch", folder, tmp_path / "q.parquet", "-o", output, *ALL, "--query-scope", "who")
    assert reply.code == 1
    assert reply.err.splitlines()[-1] == (
        "error: vectors: expected finite values, got nan in query 17 "
        f"(query 17, key 'q17', of {tmp_path / 'q.parquet'}; the first is 0)"
    )
    assert "note: 17 queries are done and kept in" in reply.err
    assert output.read_text() == "yesterday's"


def test_batch_never_writes_over_its_own_queries(run, folder, queries, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(queries, "q.parquet")
    (tmp_path / "sub").mkdir()
    (tmp_path / "link.parquet").symlink_to("q.parquet")
    before = (tmp_path / "q.parquet").read_bytes()
    for given, output in (
        ("q.parquet", "q.parquet"),
        ("q.parquet", tmp_path / "sub" / ".." / "q.parquet"),
        (tmp_path / "q.parquet", "./q.parquet"),
        ("link.parquet", "q.parquet"),
    ):
        reply = run("batch", folder, given, "-o", output, *ALL, "--query-scope", "who")
        assert reply.code == 1
        assert reply.err == (
            f"error: --output: expected another file than QUERIES, got {str(Path(output))!r}\n"
        )
        assert (tmp_path / "q.parquet").read_bytes() == before
    assert (tmp_path / "link.parquet").is_symlink()


def test_long_stored_texts_make_batches_smaller(run, folder, queries, tmp_path, monkeypatch):
    from seams import FileRecall, dataset, slices

    seen = []
    answer = FileRecall._answer
    monkeypatch.setattr(slices, "_REPLY_BYTES", 1)
    monkeypatch.setattr(dataset, "FILE_ROWS", 8)
    monkeypatch.setattr(
        FileRecall,
        "_answer",
        lambda job, q, first: seen.append(q.num_rows) or answer(job, q, first),
    )
    pq.write_table(queries, tmp_path / "q.parquet")
    output = tmp_path / "h.parquet"
    reply = run("batch", folder, tmp_path / "q.parquet", "-o", output, *ALL, "--query-scope", "who")
    assert reply.code == 0, reply.err
    assert seen[:2] == [0, 8]  # without a query first: the options fit
    assert set(seen[4:]) == {1}
    assert sum(seen) == N_QUERIES
    scopes = queries.column("who").to_pylist()
    assert pq.read_table(output).equals(in_one_go(folder, queries, scopes))


def test_progress_outside_a_terminal_is_lines_with_rate_and_eta(capsys, monkeypatch):
    from seams import progress

    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    with progress.BatchProgress(1000) as shown:
        shown.advance(250, 900)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("250 of 1,000 queries, ")
    assert " queries/s, ETA " in err
    assert shown.summary().startswith("250 queries, 900 hits in ")


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_stays_flat_over_a_file_far_larger_than_a_batch(process, folder, tmp_path):
    """60,000 queries in one row group, 46 MB of vectors, 600,000 hits.

    Measured: 192 MB at the peak, of which 130 are the interpreter and its libraries; 543 MB when
    the file is taken in one batch. The promise is index + 512 MB.
    """
    n_queries, dim = 60_000, 192
    rng = np.random.default_rng(3)
    rows = {"id": ["a", "b", "c"] * 4, "text": ["tea and cake"] * 12, "t": list("aabbccddeeff")}
    vectors = rng.standard_normal((12, dim), dtype=np.float32)
    schema = hr.Schema(key="id", cell="t", text="text", vector="v")
    table = pa.table({**rows, "id": [str(row) for row in range(12)]})
    hr.Index.build(table, schema, vectors={"v": vectors}).save(tmp_path / "i")
    values = pa.array(rng.standard_normal(n_queries * dim, dtype=np.float32))
    asked = pa.table(
        {
            "q": ["tea"] * n_queries,
            "v": pa.FixedSizeListArray.from_arrays(values, dim),
            "s": [["a", "b", "c", "d", "e"]] * n_queries,
        }
    )
    pq.write_table(asked, tmp_path / "q.parquet", row_group_size=n_queries, compression="none")
    del asked, values
    code = (
        "import sys, re, pathlib, hyrecall.cli\n"
        "try: hyrecall.cli.main()\n"
        "finally:\n"
        "    status = pathlib.Path('/proc/self/status').read_text()\n"
        "    print(re.search(r'VmHWM:\\s+(\\d+)', status)[1])\n"
    )
    done = process(
        "batch", tmp_path / "i", tmp_path / "q.parquet", "-o", tmp_path / "h.parquet",
        "--query-text", "q", "--query-vector", "v", "--query-scope", "s", code=code,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert pq.read_metadata(tmp_path / "h.parquet").num_rows == n_queries * 10
    peak_mebibytes = int(done.stdout) / 1024
    assert peak_mebibytes < 300


def test_batch_never_writes_into_the_index_or_over_a_neighbour(run, folder, queries, tmp_path):
    pq.write_table(queries, tmp_path / "q.parquet")
    asked = (*ALL, "--query-scope", "who")
    before = {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}
    reply = run("batch", folder, tmp_path / "q.parquet", "-o", folder / "MANIFEST", *asked)
    assert reply.err.startswith("error: --output: expected a file outside")
    assert {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()} == before
    for name in ("h.parquet.partial", "h.parquet.tmp"):
        (tmp_path / name).write_text("a neighbour's")
    output = tmp_path / "h.parquet"
    assert run("batch", folder, tmp_path / "q.parquet", "-o", output, *asked).code == 0
    for name in ("h.parquet.partial", "h.parquet.tmp"):
        assert (tmp_path / name).read_text() == "a neighbour's"


def test_a_stored_column_named_degraded_is_refused_beside_the_reasons(run, tmp_path):
    table = pa.table({"id": [1], "text": ["tea"], "degraded": ["no"]})
    schema = hr.Schema(key="id", cell=None, text="text", stored=("text", "degraded"))
    hr.Index.build(table, schema).save(tmp_path / "index")
    pq.write_table(pa.table({"words": ["tea"]}), tmp_path / "q.parquet")
    asked = ("batch", tmp_path / "index", tmp_path / "q.parquet", "-o", tmp_path / "h.parquet")
    reply = run(*asked, "--query-text", "words", "--columns", "degraded")
    assert reply.code == 1
    assert "error: --columns: expected no column named degraded, got one" in reply.err
