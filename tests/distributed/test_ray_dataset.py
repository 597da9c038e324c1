"""recall_dataset on Ray: the same files, and an actor that ends loses and doubles nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.datasets import N_QUERIES, World, equal
from hyrecall.distributed import BatchRecall, recall_dataset
from hyrecall.errors import error

ray = pytest.importorskip("ray", reason="ray is not installed")

pytestmark = pytest.mark.filterwarnings("ignore")  # of Ray, at its start


class EndsOnce(BatchRecall):
    """Ends its process once in the middle of a part, as the system does that has no memory left."""

    mark: Path

    def _answer(self, queries: pa.Table, first: int) -> pa.Table:
        import os

        made = super()._answer(queries, first)
        if "q24" in queries.column("qid").to_pylist() and not self.mark.exists():
            self.mark.touch()
            os._exit(1)
        return made


class Stops(BatchRecall):
    """Refuses one query, as long as a file is not there."""

    mark: Path

    def _answer(self, queries: pa.Table, first: int) -> pa.Table:
        if "q24" in queries.column("qid").to_pylist() and not self.mark.exists():
            raise error(hr.ScopeError, "scope", "a file", "none")
        return super()._answer(queries, first)


class SeesGpus(BatchRecall):
    """Notes what Ray reserved for its actor, in a file for each part."""

    folder: Path

    def _answer(self, queries: pa.Table, first: int) -> pa.Table:
        import secrets

        import ray

        had = ray.get_runtime_context().get_assigned_resources()
        (self.folder / secrets.token_hex(8)).write_text(f"{had.get('GPU', 0):g}", "utf-8")
        return super()._answer(queries, first)


class WritesTwice(BatchRecall):
    """A try that is begun again has a file of its own."""

    folder: Path

    def _answer(self, queries: pa.Table, first: int) -> pa.Table:
        import secrets

        import pyarrow.parquet as pq

        made = super()._answer(queries, first)
        pq.write_table(made, self.folder / f"part-{secrets.token_hex(8)}.parquet")
        return made


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    tests = str(Path(__file__).parents[1])  # an actor imports the classes of this file
    ray.init(
        num_cpus=2, num_gpus=2, include_dashboard=False, log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": _python_path(tests)}},
    )  # fmt: skip
    yield
    ray.shutdown()


def _python_path(tests: str) -> str:
    import os

    package = str(Path(hr.__file__).parents[1])
    return os.pathsep.join([tests, package, os.environ.get("PYTHONPATH", "")])


def as_a(kind: type[BatchRecall], recall: BatchRecall, **more: Path) -> BatchRecall:
    made = object.__new__(kind)
    vars(made).update(recall.__getstate__(), **more)
    return made


def test_actors_write_the_files_of_this_process(world: World, tmp_path: Path) -> None:
    here = recall_dataset(world.recall(), world.files, tmp_path / "here", rows=7)
    told: list[tuple[int, int]] = []
    there = recall_dataset(
        world.recall(), world.files, tmp_path / "ray", rows=7, on_ray=True, num_cpus=0.5,
        concurrency=2, progress=lambda *at: told.append(at),
    )  # fmt: skip
    assert [one.read_bytes() for one in here.files] == [one.read_bytes() for one in there.files]
    assert equal(world.read(there), world.want())
    assert told[-1] == (N_QUERIES, N_QUERIES)


def test_an_actor_that_ends_loses_and_doubles_nothing(world: World, tmp_path: Path) -> None:
    recall = as_a(EndsOnce, world.recall(), mark=tmp_path / "ended")
    done = recall_dataset(
        recall, world.files, tmp_path / "h", rows=7, on_ray=True, num_cpus=0.5, concurrency=2
    )
    assert (tmp_path / "ended").exists()
    assert equal(world.read(done), world.want())
    names = sorted(one.name for one in (tmp_path / "h").glob("*.parquet"))
    assert names == [one.name for one in done.files]


def test_a_run_that_stopped_goes_on(world: World, tmp_path: Path) -> None:
    how: dict[str, Any] = {"rows": 7, "on_ray": True, "num_cpus": 0.5, "concurrency": 2}
    recall = as_a(Stops, world.recall(), mark=tmp_path / "goes on")
    with pytest.raises(hr.ScopeError, match=r"part \d, rows .*; resume=True keeps the others"):
        recall_dataset(recall, world.files, tmp_path / "h", **how)
    kept = {one.name: one.stat().st_ino for one in (tmp_path / "h").glob("part-*.parquet")}
    assert kept
    (tmp_path / "goes on").touch()
    told: list[tuple[int, int]] = []
    done = recall_dataset(
        recall, world.files, tmp_path / "h", resume=True,
        progress=lambda *at: told.append(at), **how,
    )  # fmt: skip
    assert done.n_parts_kept == len(kept) == len(done.files) - 1
    assert {one.name: one.stat().st_ino for one in done.files if one.name in kept} == kept
    assert equal(world.read(done), world.want())
    assert told[0][0] > 0, "what was kept counts as done"
    assert told[-1] == (N_QUERIES, N_QUERIES)
    again = recall_dataset(recall, world.files, tmp_path / "h", resume=True, **how)
    assert again.n_parts_kept == len(done.files)


@pytest.mark.parametrize(
    ("named", "how", "gpus"),
    [("auto", {"concurrency": 2}, "1"), ("auto", {"concurrency": 3}, "0"), ("auto", {}, "0"),
     ("cpu", {"concurrency": 2}, "0"), ("auto", {"concurrency": 2, "num_gpus": 0.5}, "0.5")],
)  # fmt: skip
def test_each_actor_has_a_gpu_where_there_are_enough(
    world: World, tmp_path: Path, named: str, how: dict[str, Any], gpus: str
) -> None:
    (tmp_path / "seen").mkdir()
    recall = as_a(SeesGpus, world.recall(), folder=tmp_path / "seen")
    vars(recall)["_opening"] = replace(recall._opening, device=named)
    done = recall_dataset(
        recall, world.files, tmp_path / "h", rows=7, on_ray=True, num_cpus=0.5, **how
    )
    assert equal(world.read(done), world.want())
    assert {one.read_text("utf-8") for one in (tmp_path / "seen").iterdir()} == {gpus}


def test_a_part_written_twice_is_seen(world: World, tmp_path: Path) -> None:
    (tmp_path / "h").mkdir()
    recall = as_a(WritesTwice, world.recall(), folder=tmp_path / "h")
    done = recall_dataset(
        recall, world.files, tmp_path / "h", rows=30, on_ray=True, num_cpus=0.5, concurrency=1
    )
    names = sorted(one.name for one in (tmp_path / "h").glob("*.parquet"))
    assert names != [one.name for one in done.files]
