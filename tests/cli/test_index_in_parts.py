"""hyrecall index --memory builds a Parquet file in parts, and goes on where it was interrupted."""

import pyarrow.parquet as pq
import pytest

import hyrecall as hr
from seams import index_in_parts, parts, read_size

ARMS = ["--key", "id", "--cell", "tenant", "--text", "body=title+text", "--attribute", "stars"]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Parts of some rows each."""
    monkeypatch.setattr(parts, "_LEAST_PART", 2_500)
    monkeypatch.setattr(parts, "_PEAK_PER_INPUT_BYTE", 1e6)
    monkeypatch.setattr(index_in_parts, "_BATCH_ROWS", 16)


def replies(index):
    return index.recall(text=["amber delta", "kelp"], scope=["acme", "bolt"], limit=50).to_arrow()


def test_a_parquet_file_in_parts_gives_the_index_of_the_file(run, table, tmp_path):
    corpus = tmp_path / "corpus.parquet"
    pq.write_table(table, corpus, row_group_size=70)
    whole = run("index", corpus, "-o", tmp_path / "whole", *ARMS)
    options = ["--memory", "1GB", "--no-join"]
    reply = run("index", corpus, "-o", tmp_path / "index", *ARMS, *options)
    assert (whole.code, reply.code, reply.out) == (0, 0, ""), reply.err
    made = hr.Index.open(tmp_path / "index")
    assert made.stats()["n_segments"] > 2
    assert "300 of 300 rows" in reply.err
    assert f"{made.stats()['n_segments']} segments" in reply.err
    assert replies(made).equals(replies(hr.Index.open(tmp_path / "whole")))


def test_the_parts_are_joined_by_tenant(run, table, tmp_path):
    corpus = tmp_path / "corpus.parquet"
    pq.write_table(table, corpus, row_group_size=70)
    run("index", corpus, "-o", tmp_path / "whole", *ARMS)
    reply = run("index", corpus, "-o", tmp_path / "index", *ARMS, "--memory", "1GB")
    assert reply.code == 0, reply.err
    told = [line for line in reply.err.splitlines() if "300 rows joined by cell, " in line]
    assert told[0].startswith("0 of 300 rows"), "before the first piece is joined"
    assert told[-1].startswith("300 of 300 rows")
    made = hr.Index.open(tmp_path / "index")
    tenants = len(table["tenant"].unique())
    assert sum(segment["n_cells"] for segment in made.stats()["segments"]) == tenants
    assert replies(made).equals(replies(hr.Index.open(tmp_path / "whole")))


def test_an_interrupted_build_is_resumed(run, table, tmp_path, monkeypatch):
    corpus = tmp_path / "corpus.parquet"
    pq.write_table(table, corpus)
    add, left = parts.PartsBuild._add, [2]

    def stopped(build, folder, part):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        add(build, folder, part)

    monkeypatch.setattr(parts.PartsBuild, "_add", stopped)
    command = ["index", corpus, "-o", tmp_path / "index", *ARMS, "--memory", "1GB"]
    assert run(*command).code != 0
    monkeypatch.setattr(parts.PartsBuild, "_add", add)
    refused = run(*command)
    assert refused.code != 0
    assert "index.unfinished, which exists" in refused.err
    assert run(*command, "--resume").code == 0
    assert len(hr.Index.open(tmp_path / "index")) == 300


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--memory", "much"], "--memory: expected a size such as 2GB"),
        (["--memory", "10MB"], "memory_limit: expected an int of at least"),
        (["--memory", "1GB", "--replace"], "--replace: expected nothing with --memory"),
        (["--resume"], "--resume: expected --memory with it"),
        (["--no-join"], "--no-join: expected --memory with it"),
    ],
)
def test_options_that_do_not_fit_are_refused(run, table, tmp_path, options, told):
    corpus = tmp_path / "corpus.parquet"
    pq.write_table(table, corpus)
    reply = run("index", corpus, "-o", tmp_path / "index", *ARMS, *options)
    assert reply.code != 0
    assert told in reply.err


def test_a_file_that_cannot_be_read_in_parts_is_refused(run, tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("{}")
    reply = run("index", corpus, "-o", tmp_path / "index", *ARMS, "--memory", "1GB")
    assert reply.code != 0
    assert "--memory: expected a .parquet file" in reply.err


def test_sizes_are_read_in_both_kinds_of_units():
    assert read_size("--memory", "2GB") == 2 * 10**9
    assert read_size("--memory", "1.5 GiB") == 3 * 2**29
    assert read_size("--memory", "700") == 700
    for wrong in ("", "GB", "2 Gb s", "-1GB", "2PB"):
        with pytest.raises(hr.OptionError):
            read_size("--memory", wrong)
