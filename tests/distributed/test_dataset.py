"""recall_dataset writes each query's hits once, whatever ends, and goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import hyrecall as hr
from distributed.datasets import N_QUERIES, World, equal
from hyrecall.distributed import BatchRecall, DatasetHits, recall_dataset
from seams import BatchPart, dataset, disk


@pytest.fixture(scope="module")
def recall(world: World) -> BatchRecall:
    return world.recall()


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 4, 10, 65_536])
def test_files_have_the_hits_of_one_call_in_the_order_of_the_queries(
    world: World, recall: BatchRecall, tmp_path: Path, rows: int
) -> None:
    told: list[tuple[int, int]] = []
    done = recall_dataset(
        recall, world.files, tmp_path / "h", rows=rows, progress=lambda *at: told.append(at)
    )
    want = world.want()
    assert equal(world.read(done), want)
    assert equal(pq.read_table(tmp_path / "h"), want)  # readers of folders see the hits alone
    assert isinstance(done, DatasetHits)
    assert (done.folder, done.n_parts_kept) == (tmp_path / "h", 0)
    assert (done.n_queries, done.n_hits, done.n_refused) == (N_QUERIES, want.num_rows, 0)
    assert told[0] == (0, N_QUERIES)
    assert told[-1] == (N_QUERIES, N_QUERIES)
    assert [one for one, _ in told] == sorted(one for one, _ in told)
    counts = json.loads((tmp_path / "h" / "_done.json").read_bytes())
    assert counts == {"queries": N_QUERIES, "hits": want.num_rows, "refused": 0,
                      "parts": len(done.files)}  # fmt: skip


def stopping(monkeypatch: pytest.MonkeyPatch, at: int) -> list[int]:
    """Interrupt the run in the middle of a part; return the parts that were begun."""
    begun: list[int] = []
    written = dataset.write_answer

    def writing(recall: BatchRecall, part: BatchPart, path: Path) -> Any:
        begun.append(part.number)
        if part.number == at:
            (path.parent / ".hyrecall-left.tmp").write_bytes(b"half of a file")
            raise KeyboardInterrupt
        return written(recall, part, path)

    monkeypatch.setattr(dataset, "write_answer", writing)
    return begun


def test_an_interrupted_run_goes_on(
    world: World, recall: BatchRecall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        stopping(patch, 3)
        with pytest.raises(KeyboardInterrupt):
            recall_dataset(recall, world.files, tmp_path / "h", rows=7)
    kept = {one: one.stat().st_mtime_ns for one in (tmp_path / "h").glob("part-*")}
    assert len(kept) == 3
    assert not (tmp_path / "h" / "_done.json").exists()
    begun = stopping(monkeypatch, -1)
    with pytest.raises(hr.OptionError, match="resume=True"):
        recall_dataset(recall, world.files, tmp_path / "h", rows=7)
    done = recall_dataset(recall, world.files, tmp_path / "h", rows=7, resume=True)
    assert done.n_parts_kept == 3
    assert begun == list(range(3, len(done.files)))
    assert all(one.stat().st_mtime_ns == at for one, at in kept.items())
    assert equal(world.read(done), world.want())
    assert not list((tmp_path / "h").glob(".hyrecall*"))
    again = recall_dataset(recall, world.files, tmp_path / "h", rows=7, resume=True)
    assert again.n_parts_kept == len(done.files)
    assert (again.n_hits, again.files) == (done.n_hits, done.files)


def test_another_job_is_refused(world: World, recall: BatchRecall, tmp_path: Path) -> None:
    recall_dataset(recall, world.files, tmp_path / "h", rows=7)
    for other, files, rows, name in (
        (recall, world.files, 8, "rows"),
        (recall, world.files[:2], 7, "queries"),
        (world.recall(min_fused=0.0), world.files, 7, "options"),
        (world.recall(on_error="column"), world.files, 7, "errors in a column"),
    ):
        with pytest.raises(hr.OptionError, match=f"{name} as before"):
            recall_dataset(other, files, tmp_path / "h", rows=rows, resume=True)
    (tmp_path / "data").mkdir()
    pq.write_table(world.queries, tmp_path / "data" / "own.parquet")
    with pytest.raises(hr.OptionError, match="a new folder, or that of a job"):
        recall_dataset(recall, world.files, tmp_path / "data")


def test_a_change_in_the_middle_of_a_query_file_is_another_job(
    world: World, recall: BatchRecall, tmp_path: Path
) -> None:
    """Of files of random vectors, whose ends and sizes stay as they are."""
    n, dim = 100_000, 8
    vectors = np.random.default_rng(0).standard_normal((n, dim)).astype(np.float32)
    path = tmp_path / "q.parquet"

    def write() -> bytes:
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), dim)
        table = pa.table({"vec": column})
        pq.write_table(
            table, path, compression="none", use_dictionary=False, write_statistics=False
        )
        return path.read_bytes()

    before = write()
    known = dataset.identity_of([path])
    assert known == dataset.identity_of([path])
    vectors[n // 2] += 1
    after = write()
    ends = 1 << 20
    assert len(before) > 3 * ends
    assert (before[:ends], before[-ends:]) == (after[:ends], after[-ends:])
    assert len(before) == len(after)
    assert dataset.identity_of([path]) != known


@pytest.mark.parametrize(
    "content", [b"[]", b"null", b"7", b'{"job": [], "now": "2026-01-01T00:00:00+00:00"}',
                b'{"job": null, "now": "2026-01-01T00:00:00+00:00"}', b'{"job": {}, "now": 7}',
                b'{"job": {}, "now": "2026-01-01T00:00:00"}', b"\xff", b"[" * 100_000],
)  # fmt: skip
def test_a_damaged_file_of_a_job_is_refused(
    world: World, recall: BatchRecall, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "h" / "_job").mkdir(parents=True)
    (tmp_path / "h" / "_job" / "job.json").write_bytes(content)
    for resume in (False, True):
        with pytest.raises(hr.OptionError, match="output: expected the folder of a job, got a dam"):
            recall_dataset(recall, world.files, tmp_path / "h", resume=resume)


def test_two_runs_to_one_folder_are_refused(
    world: World, recall: BatchRecall, tmp_path: Path
) -> None:
    (tmp_path / "h" / "_job").mkdir(parents=True)
    with (
        disk.writer_lock(tmp_path / "h" / "_job"),
        pytest.raises(hr.errors.WriterBusyError, match="output: expected no other run"),
    ):
        recall_dataset(recall, world.files, tmp_path / "h")


def test_a_part_that_is_refused_is_named_and_the_others_are_kept(
    world: World, tmp_path: Path
) -> None:
    who = world.queries.column("who").to_pylist()
    who[12] = who[33] = None
    asked = world.queries.set_column(4, "who", pa.array(who, pa.list_(pa.string())))
    pq.write_table(asked, tmp_path / "q.parquet")
    with pytest.raises(hr.ScopeError) as fault:
        recall_dataset(world.recall(), tmp_path / "q.parquet", tmp_path / "h", rows=10)
    for told in ("query_key 'q12'", "part 1, rows 10 to 19 of", "1 other parts failed"):
        assert told in str(fault.value)
    kept = sorted(one.name for one in (tmp_path / "h").glob("part-*"))
    assert kept == [f"part-{at:06d}.parquet" for at in (0, 2, 4)]
    assert not (tmp_path / "h" / "_done.json").exists()
    recall = world.recall(on_error="column")
    done = recall_dataset(recall, tmp_path / "q.parquet", tmp_path / "marked", rows=10)
    assert (done.n_queries, done.n_refused) == (N_QUERIES, 2)
    made = world.read(done)
    refused = made.filter(pc.is_valid(made.column("error")))
    assert refused.column("query_key").to_pylist() == ["q12", "q33"]


def test_a_part_that_cannot_be_read_is_named(world: World, tmp_path: Path) -> None:
    path = tmp_path / "q.parquet"
    pq.write_table(world.queries, path, row_group_size=10, compression=None, use_dictionary=False)
    at = pq.read_metadata(path).row_group(2).column(2).data_page_offset
    data = bytearray(path.read_bytes())
    data[at : at + 20] = bytes(20)
    path.write_bytes(data)
    with pytest.raises(hr.HyrecallError, match="part 2, rows 20 to 29 of"):
        recall_dataset(world.recall(), path, tmp_path / "h", rows=10)
    assert len(list((tmp_path / "h").glob("part-*"))) == 4


def test_files_that_are_no_queries_are_refused(world: World, tmp_path: Path) -> None:
    recall = world.recall()
    (tmp_path / "q.parquet").write_bytes(b"no")
    for given, told in (
        (tmp_path / "none", "none"), ([world.files[0]] * 2, "one of them twice"),
        (tmp_path / "q.parquet", "a Parquet file"),
    ):  # fmt: skip
        with pytest.raises((hr.HyrecallError, FileNotFoundError), match=told):
            recall_dataset(recall, given, tmp_path / "h")
    pq.write_table(world.queries.drop_columns("who"), tmp_path / "q.parquet")
    with pytest.raises(hr.OptionError, match="a column 'who'"):
        recall_dataset(recall, tmp_path / "q.parquet", tmp_path / "h")


# ---- planted bugs: each is one that jobs over datasets have had ----


def twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that is answered again gets a file of its own beside the first."""

    answer = dataset.answer_part

    def written(recall: BatchRecall, part: BatchPart, folder: Path) -> Any:
        found = answer(recall, part, folder)
        if part.number == 2:
            path = folder / part.output
            path.with_name(f"{path.stem}-again.parquet").write_bytes(path.read_bytes())
        return found

    monkeypatch.setattr(dataset, "answer_part", written)


def lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that failed counts as one without hits."""
    answer = dataset.answer_part

    def silent(recall: BatchRecall, part: BatchPart, folder: Path) -> Any:
        if part.number != 1:
            return answer(recall, part, folder)
        found_of = answer(recall, part, folder)
        file = folder / part.output
        found = pq.read_metadata(file).metadata[dataset.COUNTS]
        with pq.ParquetWriter(file, pq.read_schema(file)) as out:
            out.add_key_value_metadata({dataset.COUNTS: found})
        return found_of

    monkeypatch.setattr(dataset, "answer_part", silent)


def overlapping(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part begins one row too early."""
    cut = dataset.parts_of

    def earlier(*given: Any) -> list[BatchPart]:
        return [one._replace(first=max(one.first - 1, 0)) for one in cut(*given)]

    monkeypatch.setattr(dataset, "parts_of", earlier)


def unordered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are numbered as they end."""
    cut = dataset.parts_of

    def others(*given: Any) -> list[BatchPart]:
        parts = cut(*given)
        swapped = [parts[1]._replace(number=0), parts[0]._replace(number=1), *parts[2:]]
        return swapped

    monkeypatch.setattr(dataset, "parts_of", others)


@pytest.mark.parametrize("plant", [twice, lost, overlapping, unordered])
def test_planted_mistakes_are_seen(
    world: World,
    recall: BatchRecall,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
) -> None:
    plant(monkeypatch)
    recall_dataset(recall, world.files, tmp_path / "h", rows=7)
    assert not equal(ds.dataset(tmp_path / "h").to_table(), world.want())
