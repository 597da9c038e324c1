"""Which files of a folder a build of shards, and a batch, reads; nothing is left out in silence."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import hyrecall as hr
from distributed.building_worlds import built
from hyrecall.distributed import ShardedIndex
from seams import query_files, source_files

ROWS = pa.table({"id": ["a", "b"], "user": ["ann", "bob"], "text": ["tea", "tea"]})


def write(path: Path, table: pa.Table = ROWS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path


def test_endings_in_capitals_are_read(tmp_path: Path) -> None:
    write(tmp_path / "in" / "0.parquet", ROWS.slice(0, 1))
    write(tmp_path / "in" / "1.PARQUET", ROWS.slice(1))
    (tmp_path / "in" / "README.md").write_text("about")
    schema = hr.Schema(key="id", cell="user", text="text")
    assert built(tmp_path / "in", schema, tmp_path / "out", shards=1).rows == 2
    with ShardedIndex.open(tmp_path / "out", device="cpu") as index:
        assert index.recall_one(text="tea", scope="bob").keys == ["b"]
    assert [one.name for one in query_files([tmp_path / "in"])] == ["0.parquet", "1.PARQUET"]


def test_partitions_are_refused_and_the_first_is_named(tmp_path: Path) -> None:
    write(tmp_path / "top.parquet")
    hive = {"partitioning": ["user"], "partitioning_flavor": "hive"}
    kept = "overwrite_or_ignore"
    ds.write_dataset(ROWS, tmp_path, format="parquet", existing_data_behavior=kept, **hive)
    with pytest.raises(hr.OptionError) as caught:
        source_files(tmp_path)
    assert f"got the folder {tmp_path / 'user=ann'} with part-0.parquet" in str(caught.value)
    assert "partitioning='hive'" in caught.value.remedy


TABLES = [
    "b.jsonl",
    "b.JSONL",
    "b.ndjson",
    "b.csv",
    "c/d/b.CSV",
    "b.csv.gz",
    "b.parquet.zst",
    "b.orc",
]


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_other_formats_are_refused(tmp_path: Path, name: str) -> None:
    write(tmp_path / "a.parquet")
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("{}")
    told = r"the folder .*/c with b\.CSV" if "/" in name else name
    with pytest.raises(hr.OptionError, match=told):
        source_files(tmp_path)
    with pytest.raises(hr.OptionError, match=rf"queries: expected Parquet .*{name}"):
        query_files([tmp_path])


def test_a_link_to_nothing_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").symlink_to(tmp_path / "gone")
    with pytest.raises(hr.OptionError, match=r"the link .*b\.parquet to nothing"):
        source_files(tmp_path)


def test_what_holds_no_rows_is_left_out(tmp_path: Path) -> None:
    only = write(tmp_path / "a.parquet")
    for name in ("_SUCCESS", "docs/notes.txt", "_temporary/b.parquet", ".git/c.parquet", ".b.csv",
                 "_c.parquet", "about.json", "notes.txt.gz"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert source_files(tmp_path) == [only]
    assert query_files([tmp_path]) == [only.absolute()]
    only.unlink()
    with pytest.raises(hr.OptionError, match="got none at"):
        source_files(tmp_path)
