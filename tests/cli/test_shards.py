"""hyrecall shards builds, shows and rebalances the shards of Parquet files."""

import json

import pyarrow.parquet as pq
import pytest

import hyrecall as hr
from hyrecall.distributed import ShardedIndex, Shards

ARMS = ["--key", "id", "--cell", "tenant", "--text", "body=title+text", "--attribute", "stars"]
ARMS += ["--vector", "embedding"]


def replies(index):
    return index.recall(text=["amber delta", "kelp"], scope=["acme", "bolt"], limit=50).to_arrow()


@pytest.fixture
def folder(table, tmp_path):
    (tmp_path / "in").mkdir()
    for at in range(3):
        pq.write_table(table.slice(at * 100, 100), tmp_path / "in" / f"{at}.parquet")
    return tmp_path


def test_shards_are_built_shown_and_rebalanced(run, table, folder):
    pq.write_table(table, folder / "corpus.parquet")
    whole = run("index", folder / "corpus.parquet", "-o", folder / "whole", *ARMS)
    made = run("shards", "build", folder / "in", folder / "out", *ARMS, "--shards", "2")
    assert (whole.code, made.code, made.out) == (0, 0, ""), made.err
    assert "600 of 600 steps (two a row)" in made.err
    assert "indexed 300 documents in 2 shards" in made.err
    want = replies(hr.Index.open(folder / "whole"))
    with ShardedIndex.open(folder / "out") as index:
        assert replies(index).equals(want)

    shown = run("shards", "info", folder / "out", "--verify")
    assert shown.code == 0, shown.err
    entries = Shards.read(folder / "out").shards
    for one in entries:
        (line,) = (line for line in shown.out.splitlines() if line.startswith(one.name))
        assert f"{one.rows:,}" in line
        assert f"{one.bytes:,}" in line
        assert f"{one.rows / 300:.1%}" in line
    assert "all checksums and places are right" in shown.err
    data = json.loads(run("shards", "info", folder / "out", "--json").out)
    assert [one["rows"] for one in data["shards"]] == [one.rows for one in entries]

    moved = run("shards", "rebalance", folder / "out", "--shards", "3")
    assert moved.code == 0, moved.err
    assert "generation 2: 3 shards" in moved.err
    with ShardedIndex.open(folder / "out") as index:
        assert replies(index).equals(want)
    assert "nothing to move" in run("shards", "rebalance", folder / "out", "--shards", "3").err


def test_a_damaged_shard_is_found_by_verify(run, folder):
    made = run("shards", "build", folder / "in", folder / "out", *ARMS, "--shards", "2")
    assert made.code == 0, made.err
    (path, *_) = (folder / "out" / Shards.read(folder / "out").shards[0].folder).glob("*-terms-*")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.unlink()
    path.write_bytes(content)
    assert run("shards", "info", folder / "out").code == 0
    reply = run("shards", "info", folder / "out", "--verify")
    assert reply.code == 3
    assert path.name in reply.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "--shards: expected --shards or --shard-rows, got neither"),
        (
            ["--shards", "2", "--shard-rows", "9"],
            "--shards: expected --shards or --shard-rows, got",
        ),
        (["--shards", "0"], "shards: expected an int in [1, 4096]"),
        (["--shards", "2", "--memory", "much"], "--memory: expected a size"),
        (["--shards", "2", "--memory", "1MB"], "memory_limit: expected an int of at least"),
        (["--shards", "2", "--attribute", "none"], "none: expected one column of"),
    ],
)
def test_wrong_options_are_refused(run, folder, options, words):
    reply = run("shards", "build", folder / "in", folder / "out", *ARMS, *options)
    assert reply.code == 1
    assert words in reply.err
    assert not (folder / "out").exists()
