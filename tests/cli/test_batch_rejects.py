"""Queries that are refused: one ends the run, or is listed, and its neighbours are answered."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hyrecall as hr

pytest.importorskip("typer", reason="the extra [cli] is not installed")

from seams import FileRecall, dataset

N_QUERIES = 40
ASKED = (
    "--query-text", "words", "--query-vector", "vec", "--query-key", "qid", "--query-scope", "who",
)  # fmt: skip


def rows(n_queries=N_QUERIES):
    """Return good queries as plain data."""
    vectors = np.random.default_rng(2).standard_normal((n_queries, 8), dtype=np.float32)
    return [
        {"qid": f"q{at}", "words": "amber delta", "vec": vectors[at].tolist(), "who": "acme"}
        for at in range(n_queries)
    ]


def write_parquet(path, given, vector=None):
    columns = {name: [row[name] for row in given] for name in given[0]}
    columns["vec"] = pa.array(columns["vec"], vector or pa.list_(pa.float32()))
    pq.write_table(pa.table(columns), path)
    return path


def write_lines(path, given):
    lines = (one if isinstance(one, str) else json.dumps(one) for one in given)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def listed(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(params=[7, 4096])
def n_at_once(request, monkeypatch):
    monkeypatch.setattr(dataset, "FILE_ROWS", request.param)
    return request.param


def test_bad_rows_are_listed_and_lose_no_neighbour(run, folder, tmp_path, n_at_once):
    given = rows()
    given[3]["vec"][5] = float("nan")
    given[4]["who"] = None
    given[11]["vec"] = [1.0, 2.0]
    given[39]["vec"][0] = float("inf")
    path = write_parquet(tmp_path / "q.parquet", given)
    output = tmp_path / "h.parquet"
    reply = run("batch", folder, path, "-o", output, *ASKED, "--on-error", "skip")
    assert reply.code == 0, reply.err
    rejects = tmp_path / "h.parquet.rejects.jsonl"
    assert f"4 queries were refused, and listed in {rejects}" in reply.err
    assert [(one["query"], one["key"]) for one in listed(rejects)] == [
        (3, "q3"), (4, "q4"), (11, "q11"), (39, "q39"),
    ]  # fmt: skip
    errors = [one["error"] for one in listed(rejects)]
    assert errors[0] == "vectors: expected finite values, got nan in query 3"
    assert errors[1].startswith("scope[4]: expected a cell")
    assert errors[2] == "vectors: expected 8 values in every query, got 2 in query 11"
    good = [at for at in range(N_QUERIES) if at not in (3, 4, 11, 39)]
    index = hr.Index.open(folder)
    hits = index.recall(
        text=["amber delta"] * len(good),
        vectors=np.array([given[at]["vec"] for at in good], np.float32),
        scope="acme",
    ).to_arrow()
    made = pq.read_table(output)
    assert made["query"].to_pylist() == [good[at] for at in hits["query"].to_pylist()]
    assert made["query_key"].to_pylist() == [f"q{good[at]}" for at in hits["query"].to_pylist()]
    for name in ("rank", "key", "score", "body_score", "embedding_score"):
        assert made[name].equals(hits[name])


def test_lines_that_cannot_be_read_are_queries_that_are_refused(run, folder, tmp_path, n_at_once):
    given = [*rows(12)]
    given[2] = '{"qid": "q2", "words": '
    given[5] = "[1, 2]"
    given[6]["words"] = 7
    given[7]["words"] = "\ud800"
    given[9]["vec"] = ["a"] * 8
    given[10]["who"] = {"tenant": "acme"}
    path = write_lines(tmp_path / "q.jsonl", given)
    with path.open("ab") as file:
        file.write(b'{"qid": "q12", "words": "\xff", "who": "acme"}\n')
    output = tmp_path / "h.csv"
    reply = run("batch", folder, path, "-o", output, *ASKED, "--on-error", "skip")
    assert reply.code == 0, reply.err
    refused = listed(tmp_path / "h.csv.rejects.jsonl")
    keys = [(one["query"], one["key"]) for one in refused]
    assert keys == [(2, None), (5, None), (6, "q6"), (7, "q7"), (9, "q9"), (10, "q10"), (12, None)]
    assert refused[0]["error"].startswith(f"{path} line 3: expected a JSON object, got ")
    assert refused[2]["error"].endswith("column 'words', got 7 in " + f"{path} line 7")
    answered = {int(line.split(",")[0]) for line in output.read_text().splitlines()[1:]}
    assert answered == {0, 1, 3, 4, 8, 11}


def test_rows_of_csv_that_do_not_fit_are_refused_alone(run, tmp_path, n_at_once):
    table = pa.table({"id": ["a", "b"], "n": [1, 2], "text": ["tea", "tea"]})
    hr.Index.build(table, hr.Schema(key="id", cell="n", text="text")).save(tmp_path / "i")
    lines = ["k,q,n", "k0,tea,1", "k1,tea,x", "k2,tea", "k3,tea,2,more", "k4,\xff,1", "k5,tea, 2"]
    (tmp_path / "q.csv").write_bytes("\n".join(lines).encode("latin-1") + b"\nk6,tea,\n")
    output = tmp_path / "h.jsonl"
    reply = run(
        "batch", tmp_path / "i", tmp_path / "q.csv", "-o", output, "--query-text", "q",
        "--query-key", "k", "--query-scope", "n", "--on-error", "skip",
    )  # fmt: skip
    assert reply.code == 0, reply.err
    assert [(one["query"], one["key"]) for one in listed(output)] == [(0, "a"), (5, "b")]
    refused = listed(tmp_path / "h.jsonl.rejects.jsonl")
    assert [(one["query"], one["key"]) for one in refused] == [
        (1, "k1"), (2, "k2"), (3, "k3"), (4, "k4"), (6, "k6"),
    ]  # fmt: skip
    assert "expected int64 in column 'n'" in refused[0]["error"]
    assert refused[1]["error"].endswith("line 4: expected 3 values, got 2")
    assert "expected UTF-8 in column 'q'" in refused[3]["error"]
    assert "null cell is" in refused[4]["error"]


def test_text_of_parquet_that_is_no_utf8_is_a_typed_refusal(run, folder, tmp_path):
    raw = pa.array([b"amber", b"\xff\xfe", b"delta"]).cast(pa.binary())
    texts = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    good = pa.array(["acme"] * 3)
    for name, columns in (
        ("text", {"words": texts, "who": good, "qid": good}),
        ("scope", {"words": good, "who": texts, "qid": good}),
        ("key", {"words": good, "who": good, "qid": texts}),
    ):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table(columns), path)
        asked = [one for one in ASKED if one not in ("--query-vector", "vec")]
        output = tmp_path / f"{name}.jsonl"
        reply = run("batch", folder, path, "-o", output, *asked)
        assert reply.code == 1
        last = reply.err.splitlines()[-1]
        assert last.startswith(f"error: --query-{name}: expected UTF-8 in column ")
        assert "(query 1" in last
        again = (*asked, "--on-error", "skip", "--resume")
        assert run("batch", folder, path, "-o", output, *again).code == 0
        (refused,) = listed(tmp_path / f"{name}.jsonl.rejects.jsonl")
        assert refused["query"] == 1


def test_a_run_that_ended_at_a_bad_query_goes_on_past_it(run, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(dataset, "FILE_ROWS", 8)
    given = rows()
    for at in (13, 30):
        given[at]["vec"][1] = float("nan")
    path = write_parquet(tmp_path / "q.parquet", given)
    output = tmp_path / "h.parquet"
    reply = run("batch", folder, path, "-o", output, *ASKED)
    assert reply.code == 1
    assert "note: 13 queries are done" in reply.err
    assert "with --resume --on-error skip continues" in reply.err
    assert reply.err.splitlines()[-1].startswith("error: vectors: expected finite values, got nan")
    reply = run("batch", folder, path, "-o", output, *ASKED, "--resume", "--on-error", "skip")
    assert reply.code == 0, reply.err
    assert "2 queries were refused" in reply.err
    assert [one["query"] for one in listed(tmp_path / "h.parquet.rejects.jsonl")] == [13, 30]
    numbers = sorted(set(pq.read_table(output)["query"].to_pylist()))
    assert numbers == [at for at in range(N_QUERIES) if at not in (13, 30)]


def test_refused_queries_are_listed_once_across_interrupts(run, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(dataset, "FILE_ROWS", 8)
    given = rows()
    for at in (2, 12, 35):
        given[at]["who"] = None
    path = write_parquet(tmp_path / "q.parquet", given)
    answer = FileRecall._answer

    def interrupted(job, some, first):
        if first == 16:
            raise KeyboardInterrupt
        return answer(job, some, first)

    asked = (
        "batch", folder, path, "-o", tmp_path / "h.csv", *ASKED,
        "--on-error", "skip", "--rejects", tmp_path / "bad.jsonl",
    )  # fmt: skip
    monkeypatch.setattr(FileRecall, "_answer", interrupted)
    assert run(*asked).code == 130
    assert not (tmp_path / "bad.jsonl").exists()
    monkeypatch.setattr(FileRecall, "_answer", answer)
    reply = run(*asked[:-4], "--resume")  # would forget the queries that were refused
    assert reply.code == 1
    assert reply.err == (
        "error: --resume: expected --on-error skip as before (2 queries were refused), "
        "got --on-error fail\n"
    )
    reply = run(*asked, "--resume")
    assert reply.code == 0, reply.err
    assert "3 queries were refused" in reply.err
    assert [one["query"] for one in listed(tmp_path / "bad.jsonl")] == [2, 12, 35]


def test_a_run_in_which_nothing_is_refused_leaves_an_empty_list(run, folder, tmp_path):
    path = write_parquet(tmp_path / "q.parquet", rows(3))
    (tmp_path / "h.csv.rejects.jsonl").write_text("of yesterday")
    asked = ("batch", folder, path, "-o", tmp_path / "h.csv", *ASKED)
    assert run(*asked, "--on-error", "skip").code == 0
    assert (tmp_path / "h.csv.rejects.jsonl").read_text() == ""


def test_where_every_query_is_refused_the_columns_are_written_without_a_row(run, folder, tmp_path):
    given = [{**one, "who": None} for one in rows(9)]
    path = write_parquet(tmp_path / "q.parquet", given)
    asked = ("batch", folder, path, *ASKED, "--on-error", "skip")
    assert run(*asked, "-o", tmp_path / "h.parquet").code == 0
    made = pq.read_table(tmp_path / "h.parquet")
    assert made.num_rows == 0
    assert made.column_names[:3] == ["query", "query_key", "rank"]
    assert len(listed(tmp_path / "h.parquet.rejects.jsonl")) == 9


def test_options_that_do_not_fit_refuse_the_run_and_not_each_query(run, folder, tmp_path):
    path = write_parquet(tmp_path / "q.parquet", rows(3))
    asked = ("batch", folder, path, "-o", tmp_path / "h.csv", *ASKED, "--on-error", "skip")
    for more, line in (
        (("--limit", 500), "error: limit: expected <= 100 (depth), got 500"),
        (("--fusion", "rrf:other=1"), "error: weights: expected arms of"),
        (("--columns", "absent"), "error: columns: expected"),
    ):
        reply = run(*asked, *more)
        assert reply.code == 1
        assert reply.err.startswith(line), reply.err
        assert sorted(one.name for one in tmp_path.iterdir()) == ["q.parquet"]


def test_a_slice_without_a_bad_row_is_asked_once_and_whole(run, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(dataset, "FILE_ROWS", 10)
    given = rows()
    given[25]["vec"][0] = float("nan")
    path = write_parquet(tmp_path / "q.parquet", given)
    sizes = []
    answer = FileRecall._answer
    monkeypatch.setattr(
        FileRecall,
        "_answer",
        lambda job, some, first: sizes.append(some.num_rows) or answer(job, some, first),
    )
    asked = ("batch", folder, path, "-o", tmp_path / "h.csv", *ASKED, "--on-error", "skip")
    assert run(*asked).code == 0
    assert sizes[1:4] == [10, 10, 10]
    assert sizes[-1] == 10
    assert len(sizes) <= 1 + 4 + 2 * 4  # halves of the third slice, down to the row


def test_the_file_of_refused_queries_is_no_file_of_the_run_or_the_index(run, folder, tmp_path):
    path = write_parquet(tmp_path / "q.parquet", rows(3))
    asked = ("batch", folder, path, "-o", tmp_path / "h.csv", *ASKED, "--on-error", "skip")
    for rejects, line in (
        (path, "error: --rejects: expected another file than"),
        (tmp_path / "h.csv", "error: --rejects: expected another file than"),
        (folder / "MANIFEST", "error: --rejects: expected a file outside"),
        (tmp_path, "error: --rejects: expected a file, got the folder"),
    ):
        reply = run(*asked, "--rejects", rejects)
        assert reply.code == 1
        assert reply.err.startswith(line)
