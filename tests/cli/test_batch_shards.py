"""hyrecall batch over shards, and on Ray, writes what it writes over one index."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hyrecall as hr
from cli.conftest import DIM, SCHEMA, WORDS

pytest.importorskip("typer", reason="the extra [cli] is not installed")

from hyrecall.distributed import BatchRecall, ShardedIndex
from hyrecall.embed import HashEmbedder
from seams import FileRecall, dataset, ray_cluster

N_QUERIES = 30
ALL = ("--query-text", "words", "--query-vector", "vec", "--query-key", "qid")
Run = Callable[..., SimpleNamespace]


@pytest.fixture(scope="module")
def shards(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Save the corpus in three shards of different sizes."""
    out, begin = [], 0
    for at, end in enumerate((40, 190, table.num_rows)):
        out.append(tmp_path_factory.mktemp("shards") / str(at))
        own = table.slice(begin, end - begin)
        hr.Index.build(own, SCHEMA, first_seq=begin, device="cpu").save(out[-1])
        begin = end
    return out


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write queries, of which one has no scope and two have one text in different scopes."""
    rng = np.random.default_rng(3)
    texts = [" ".join(rng.choice(WORDS, 3)) for _ in range(N_QUERIES)]
    texts[4] = texts[5]
    vectors = rng.standard_normal((N_QUERIES, DIM), dtype=np.float32)
    table = pa.table(
        {
            "qid": [f"q{row}" for row in range(N_QUERIES)],
            "words": texts,
            "vec": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIM),
            "who": [None if row == 17 else ("acme", "bolt")[row % 2] for row in range(N_QUERIES)],
        }
    )
    path = tmp_path_factory.mktemp("queries") / "q.parquet"
    pq.write_table(table, path)
    return path


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "FILE_ROWS", 7)


def command(folders: list[Path], asked: Path, output: Path) -> list[object]:
    return ["batch", *folders, asked, "-o", output, *ALL, "--query-scope", "who", "--limit", 4,
            "--columns", "stars", "--on-error", "skip", "--threads", 1]  # fmt: skip


def files(
    run: Run, folders: list[Path], asked: Path, into: Path, *more: object, suffix: str = "parquet"
) -> tuple[object, bytes]:
    """Return the hits and the refused queries that the command writes."""
    into.mkdir(exist_ok=True)
    output = into / f"h.{suffix}"
    reply = run(*command(folders, asked, output), *more)
    assert reply.code == 0, reply.err
    hits = pq.read_table(output) if suffix == "parquet" else output.read_bytes()
    return hits, (into / f"h.{suffix}.rejects.jsonl").read_bytes()


@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_shards_give_the_files_of_one_index(
    run: Run, folder: Path, shards: list[Path], asked: Path, tmp_path: Path, suffix: str
) -> None:
    want = files(run, [folder], asked, tmp_path / "one", suffix=suffix)
    assert b'"query": 17' in want[1]
    assert files(run, shards, asked, tmp_path / "shards", suffix=suffix) == want


@pytest.mark.usefixtures("small_slices")
def test_the_folder_that_holds_the_shards_is_taken_as_they_are(
    run: Run, folder: Path, shards: list[Path], asked: Path, tmp_path: Path
) -> None:
    want = files(run, [folder], asked, tmp_path / "one")
    for one in shards:
        shutil.copytree(one, tmp_path / "corpus" / one.name)
    corpus = tmp_path / "corpus"
    assert files(run, [corpus], asked, tmp_path / "shards") == want
    recall = BatchRecall(corpus, key="qid", text="words", vectors="vec", scope=hr.Scope(["acme"]))
    assert len(recall.identity["index"]) == len(shards)
    (corpus / "1").rename(corpus / "1.unfinished")
    with pytest.raises(hr.IndexNotFoundError, match="got an unfinished build of"):
        BatchRecall(corpus, key="qid", text="words", scope=hr.Scope(["acme"]))


def slice_twice(part: Any) -> Any:
    """A slice that is asked again gets the number of the one before."""
    return Misnumbered(part, part.number - 7) if part.number == 14 else part


class Misnumbered:
    """A part whose rows have other numbers."""

    is_cut = True

    def __init__(self, part: Any, first: int) -> None:
        self.number, self.output = part.number, part.output
        self._rows, self._first = part.rows, first

    def pieces(self, columns: Any) -> Any:
        yield self._rows, self._first


@pytest.mark.usefixtures("small_slices")
def test_a_part_with_the_numbers_of_another_is_seen(
    run: Run,
    folder: Path,
    shards: list[Path],
    asked: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    want = files(run, [folder], asked, tmp_path / "one")
    answered = dataset.answer_part
    twice = lambda recall, part, folder: answered(recall, slice_twice(part), folder)  # noqa: E731
    monkeypatch.setattr(dataset, "answer_part", twice)
    assert files(run, shards, asked, tmp_path / "shards") != want


@pytest.mark.usefixtures("small_slices")
def test_a_batch_that_lacks_a_shard_stops_and_names_it(
    run: Run, shards: list[Path], asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = ShardedIndex.open

    def without_one(*args: Any, **options: Any) -> ShardedIndex:
        index = opened(*args, **options)

        def lost(request: Any) -> Any:
            raise hr.errors.ShardLostError(f"{index.shards[1].name}: expected an answer, got none")

        monkeypatch.setattr(index.shards[1], "statistics", lost)
        monkeypatch.setitem(vars(index._now), "joined", lambda *_: None)  # as if it were elsewhere
        return index

    monkeypatch.setattr(ShardedIndex, "open", without_one)
    output = tmp_path / "h.parquet"
    reply = run("batch", *shards, asked, "-o", output, *ALL, "--query-scope", "who",
                "--on-error", "skip")  # fmt: skip
    assert reply.code == 1
    assert "expected an answer of every shard" in reply.err
    assert f"{shards[1].name}: its documents are missing" in reply.err
    assert not output.exists()


@pytest.mark.usefixtures("small_slices")
def test_a_shard_that_is_saved_anew_while_a_batch_runs_is_refused(
    run: Run,
    shards: list[Path],
    table: pa.Table,
    asked: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = [tmp_path / one.name for one in shards]
    for one, copy in zip(shards, own, strict=True):
        shutil.copytree(one, copy)
    answer = FileRecall._answer

    def saving(job: Any, queries: pa.Table, first: int) -> pa.Table:
        if first == 14:
            index = hr.Index.open(own[0])
            index.add(table.slice(0, 1).set_column(0, "id", pa.array(["new"])), first_seq=999)
            index.save(own[0])
        return answer(job, queries, first)

    monkeypatch.setattr(FileRecall, "_answer", saving)
    reply = run("batch", *own, asked, "-o", tmp_path / "h.csv", *ALL, "--query-scope", "who",
                "--on-error", "skip")  # fmt: skip
    assert reply.code == 1
    assert "expected the version with which the batch began" in reply.err
    assert not (tmp_path / "h.csv").exists()


@pytest.mark.parametrize("option", ["--workers", "--num-gpus", "--start-timeout"])
def test_options_of_actors_without_ray_are_refused(
    run: Run, folder: Path, asked: Path, tmp_path: Path, option: str
) -> None:
    reply = run("batch", folder, asked, "-o", tmp_path / "h.csv", *ALL, option, 2)
    assert reply.code == 1
    assert reply.err == f"error: {option}: expected --ray with it, got none\n"


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    ray = pytest.importorskip("ray", reason="ray is not installed")
    ray.init(num_cpus=2, num_gpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.mark.filterwarnings("ignore")  # of Ray, at its start
@pytest.mark.usefixtures("small_slices", "ray")
@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_actors_give_the_files_of_one_index(
    run: Run, folder: Path, shards: list[Path], asked: Path, tmp_path: Path, suffix: str
) -> None:
    want = files(run, [folder], asked, tmp_path / "one", suffix=suffix)
    how = ["--ray", "--workers", 2]
    assert files(run, shards, asked, tmp_path / "ray", *how, suffix=suffix) == want
    assert files(run, [folder], asked, tmp_path / "alone", *how, suffix=suffix) == want


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("small_slices", "ray")
def test_a_batch_in_actors_that_was_interrupted_goes_on(
    run: Run,
    folder: Path,
    shards: list[Path],
    asked: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    want = files(run, [folder], asked, tmp_path / "one")
    ask = ray_cluster.RayWorkers.ask
    begun: list[int] = []

    def interrupted(crew: Any, part: Any) -> Callable[[], Any]:
        if part.number == 28:
            raise KeyboardInterrupt
        return ask(crew, part)

    def noted(crew: Any, part: Any) -> Callable[[], Any]:
        begun.append(part.number)
        return ask(crew, part)

    how = ("--ray", "--workers", 2)
    monkeypatch.setattr(ray_cluster.RayWorkers, "ask", interrupted)
    output = tmp_path / "ray" / "h.parquet"
    output.parent.mkdir()
    reply = run(*command(shards, asked, output), *how)
    assert reply.code == 130, reply.err
    assert "queries are done and kept in" in reply.err
    assert not output.exists()
    monkeypatch.setattr(ray_cluster.RayWorkers, "ask", noted)
    assert files(run, shards, asked, output.parent, *how, "--resume") == want
    assert min(begun) >= 7, "what was kept is not asked again"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("ray")
@pytest.mark.parametrize(
    ("how", "told"),
    [
        (("--workers", 3, "--start-timeout", 3), "start_timeout: expected 3 actors that start "
         "within 3 s, got "),
        (("--num-gpus", 1.5), "num_gpus: expected a number from 0 to 1, or a whole number of "
         "GPUs, got 1.5"),
        (("--start-timeout", 0), "start_timeout: expected seconds above 0"),
    ],
)  # fmt: skip
def test_actors_that_the_cluster_has_no_room_for_are_refused(
    run: Run, folder: Path, asked: Path, tmp_path: Path, how: tuple[object, ...], told: str
) -> None:
    reply = run(*command([folder], asked, tmp_path / "h.parquet"), "--ray", *how)
    assert reply.code == 1
    assert f"error: {told}" in reply.err
    assert not (tmp_path / "h.parquet").exists()


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "q.jsonl"
    path.write_text('{"words": "cedar", "who": "acme"}\n{"words": null, "who": "bolt"}\n')
    return path


@pytest.mark.parametrize("is_here", [True, False])
@pytest.mark.parametrize("n_shards", [1, 2])
def test_batch_embeds_by_the_model_that_the_files_name(
    run: Run, table: pa.Table, texts: Path, tmp_path: Path, n_shards: int, is_here: bool
) -> None:
    embedder: Any = "static" if is_here else HashEmbedder(dim=8)
    if is_here:
        pytest.importorskip("wordllama", reason="the extra [local] is not installed")
    folders = [tmp_path / str(at) for at in range(n_shards)]
    rows = table.drop_columns([name for name in table.column_names if name == "embedding"])
    for at, folder in enumerate(folders):
        begin, n = at * 100, 100 if n_shards > 1 else 200
        hr.Index.build(rows.slice(begin, n), SCHEMA, first_seq=begin, embed=embedder).save(folder)
    output = tmp_path / "h.parquet"
    options = ("--query-text", "words", "--query-scope", "who")
    reply = run("batch", *folders, texts, "-o", output, *options)
    assert reply.code == 0, reply.err
    assert ("not to be had here" in reply.err) != is_here
    made = pq.read_table(output)
    told = ["not to be had here" in (why or "") for why in made.column("degraded").to_pylist()]
    assert set(told) == {not is_here}
    hits = made.filter(made.column("rank").is_valid())  # not the row of a query without hits
    whole = hr.Index.build(rows.slice(0, 200), SCHEMA, embed=embedder)
    vectors = None if is_here else {}
    want = whole.recall(text=["cedar", None], scope=["acme", "bolt"], vectors=vectors)
    assert hits.column("key").to_pylist() == want.to_arrow().column("key").to_pylist()
    assert set(hits.column("query").to_pylist()) == {0}
    found = BatchRecall(folders, text="words", scope=("who",), key="words")
    again = found(pa.table({"words": ["cedar"], "who": ["acme"]}))
    assert again.column("key").to_pylist() == hits.column("key").to_pylist()
    assert (b"not to be had here" in (again.schema.metadata or {}).get(b"degraded", b"")) != is_here
    found.close()


def test_recall_of_a_folder_of_shards_says_what_one_index_says(
    run: Run, shards: list[Path], folder: Path, tmp_path: Path
) -> None:
    for one in shards:
        shutil.copytree(one, tmp_path / "shards" / one.name)
    query = ["amber delta kelp", "--scope", "acme", "--explain"]
    for more in (["--json", "--columns", "title,stars"], ["--json"], []):
        got, want = (run("recall", each, *query, *more) for each in (tmp_path / "shards", folder))
        assert got.code == want.code == 0, got.err
        assert got.out == want.out
        assert got.err == want.err
    alone = run("recall", tmp_path / "shards")  # a folder, no text
    assert alone.err == run("recall", folder).err
