"""hyrecall batch and recall --recipe rank an index as Index.recall does by that recipe."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hyrecall as hr

pytest.importorskip("typer", reason="the extra [cli] is not installed")

WORDS = ["amber", "basin", "cedar", "delta", "ember", "fjord", "kelp", "ledge"]


@pytest.fixture(scope="module")
def memories(tmp_path_factory):
    """An index that has the columns of the recipes hebb and loom."""
    days = [f"2026-01-{day:02d}T12:00:00Z" for day in range(1, 29)]
    rng = np.random.default_rng(3)
    table = pa.table(
        {
            "id": [f"m{row}" for row in range(28)],
            "who": ["acme"] * 28,
            "text": [" ".join(rng.choice(WORDS, 4)) for _ in days],
            "tags": [[WORDS[row % 5]] for row in range(28)],
            "importance": [float(row % 10) for row in range(28)],
            "last_accessed": pc.cast(pa.array(days), pa.timestamp("us", "UTC")),
            "occurred_at": pc.cast(pa.array(days), pa.timestamp("us", "UTC")),
        }
    )
    schema = hr.Schema(
        key="id",
        cell="who",
        text="text",
        attributes=("tags", "importance", "last_accessed", "occurred_at"),
    )
    index = hr.Index.build(table, schema, analyzer=hr.Analyzer("porter"))
    folder = tmp_path_factory.mktemp("memories") / "saved"
    index.save(folder)
    return folder


ASKED = pa.table({"words": [*WORDS, "amber kelp", "nothing else"], "who": ["acme"] * 10})
BY_WORDS = ("--query-text", "words", "--query-scope", "who")


def without_ages(table):
    """Return columns that do not depend on the time of the call."""
    names = ["query", "rank", "key", "text_score", "text_rank"]
    return table.select([name for name in names if name in table.column_names])


@pytest.mark.parametrize("name", ["default", "hebb", "loom"])
def test_a_recipe_ranks_a_batch_as_it_does_in_python(run, memories, tmp_path, monkeypatch, name):
    from seams import dataset

    monkeypatch.setattr(dataset, "FILE_ROWS", 3)
    pq.write_table(ASKED, tmp_path / "q.parquet")
    output = tmp_path / "hits.parquet"
    reply = run(
        "batch", memories, tmp_path / "q.parquet", "-o", output, *BY_WORDS, "--recipe", name
    )
    assert reply.code == 0, reply.err
    expected = hr.Index.open(memories).recall(
        text=ASKED.column("words"), scope="acme", recipe=getattr(hr.recipes, name)
    )
    written = pq.read_table(output)
    assert written.column_names == [*expected.to_arrow().column_names, "degraded"]
    assert without_ages(written).equals(without_ages(expected.to_arrow()))


def test_all_slices_of_a_run_count_ages_from_one_time(run, memories, tmp_path, monkeypatch):
    from seams import dataset

    monkeypatch.setattr(dataset, "FILE_ROWS", 1)
    times = []
    recall = hr.Index.recall

    def noted(index, **options):
        times.append(options["now"])
        return recall(index, **options)

    monkeypatch.setattr(hr.Index, "recall", noted)
    pq.write_table(ASKED, tmp_path / "q.parquet")
    output = tmp_path / "hits.parquet"
    asked = ("batch", memories, tmp_path / "q.parquet", "-o", output, *BY_WORDS)
    assert run(*asked, "--recipe", "hebb").code == 0
    assert len(times) == 1 + ASKED.num_rows  # the first is of no query: it shows the columns
    assert len(set(times[1:])) == 1


def test_a_resumed_run_counts_ages_from_the_time_of_the_first(run, memories, tmp_path, monkeypatch):
    from seams import dataset

    monkeypatch.setattr(dataset, "FILE_ROWS", 2)
    times = []
    recall = hr.Index.recall

    def noted(index, **options):
        times.append(options["now"])
        if len(times) == 4 and not stopped:
            stopped.append(True)
            raise KeyboardInterrupt
        return recall(index, **options)

    stopped: list[bool] = []
    monkeypatch.setattr(hr.Index, "recall", noted)
    pq.write_table(ASKED, tmp_path / "q.parquet")
    output = tmp_path / "hits.parquet"
    asked = ("batch", memories, tmp_path / "q.parquet", "-o", output, *BY_WORDS)
    assert run(*asked, "--recipe", "hebb").code == 130
    began = set(times[1:])  # the first is of no query: it shows the columns
    assert len(began) == 1
    other = run(*asked, "--recipe", "loom", "--resume")
    assert other.code == 1
    assert "--resume: expected --recipe as before (hebb), got loom" in other.err
    times.clear()
    resumed = run(*asked, "--recipe", "hebb", "--resume")
    assert resumed.code == 0, resumed.err
    assert set(times[1:]) == began
    assert pq.read_table(output).num_rows


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--fusion", "rrf"], "--fusion: expected no such option with --recipe (hebb has its own)"),
        (["--bm25", "okapi"], "--bm25: expected no such option with --recipe"),
        (["--min-score", "1"], "--min-score: expected no such option with --recipe"),
        (["--min-fused", "0.1"], "--min-fused: expected no such option with --recipe"),
        (["--normalize"], "--normalize: expected no such option with --recipe"),
        (
            ["--recipe", "no"],
            "--recipe: expected one of conversation, default, hebb, honeycomb, l0, ",
        ),
        (
            ["--recipe", "hypergraph"],
            "--recipe: expected one of conversation, default, hebb,",
        ),
        (["--recipe", "l0"], "recipe: expected the analyzer 'unicode61'"),
    ],
)
def test_what_does_not_go_with_a_recipe_is_refused(run, memories, tmp_path, options, told):
    pq.write_table(ASKED, tmp_path / "q.parquet")
    output = tmp_path / "hits.parquet"
    asked = (memories, tmp_path / "q.parquet", "-o", output, *BY_WORDS, "--recipe", "hebb")
    reply = run("batch", *asked, *options)
    assert (reply.code, output.exists()) == (1, False)
    assert reply.err.startswith(f"error: {told}"), reply.err


def test_recall_of_an_index_takes_a_recipe(run, memories):
    reply = run("recall", memories, "amber", "--scope", "acme", "--recipe", "loom", "--json")
    assert reply.code == 0, reply.err
    expected = hr.Index.open(memories).recall_one(
        text="amber", scope="acme", recipe=hr.recipes.loom
    )
    assert [hit["key"] for hit in reply.data["hits"]] == expected.keys
