"""A saved index says by which model its vectors were made, and an opening checks it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.placement import index_of
from hyrecall.distributed import ShardedIndex
from hyrecall.embed import EmbedBy, HashEmbedder
from hyrecall.recipe import Lexical, Recipe
from seams import arrow_files, saving

TABLE = pa.table(
    {
        "id": ["a", "b", "c"],
        "user": ["ann", "ann", "bob"],
        "title": ["tea", "milk", "tea"],
        "text": ["hot green tea", "cold milk", "black tea"],
    }
)
SCHEMA = hr.Schema(key="id", cell="user", text="text", vector="embedding")
HASHES = HashEmbedder(dim=16)
MORE = pa.table({"id": ["d"], "user": ["ann"], "title": ["x"], "text": ["tea cup"]})


class Renamed:
    """HASHES by another name."""

    model = "another model"
    dim = 16

    def embed(self, texts: Sequence[str]) -> Any:
        return HASHES.embed(texts)


def saved(folder: Path, embed: Any = HASHES) -> hr.Index:
    index = hr.Index.build(TABLE, SCHEMA, embed=embed)
    index.save(folder)
    return index


def vectors_of(index: hr.Index) -> dict[str, str]:
    return dict(index.stats()["embedded_by"])


def reply(index: hr.Index, **options: Any) -> pa.Table:
    return index.recall(text=["green tea", "milk"], scope="ann", **options).to_arrow()


def test_an_opened_index_embeds_as_before_it_was_saved(tmp_path: Path) -> None:
    index = saved(tmp_path, EmbedBy(HASHES, columns=("title", "text")))
    with hr.Index.open(tmp_path, embed=HASHES) as opened:
        assert vectors_of(opened) == {"embedding": "hash-16"}
        assert reply(opened).equals(reply(index))
        for one in (index, opened):
            one.add(MORE)
        assert reply(opened).equals(reply(index))  # with the columns of the build
        opened.save(tmp_path)
    assert index.reload(discard_changes=True)
    with hr.Index.open(tmp_path, embed={"embedding": EmbedBy(HASHES, timeout=9)}) as again:
        assert reply(again).equals(reply(index))


def test_an_index_without_its_embedder_answers_texts_and_vectors_and_says_so(
    tmp_path: Path,
) -> None:
    index = saved(tmp_path)
    with hr.Index.open(tmp_path) as opened:
        assert vectors_of(opened) == {"embedding": "hash-16"}
        hits = opened.recall(text=["green tea", "milk"], scope="ann")
        told = "embedding did not run: its vectors are of 'hash-16', which is not to be had here "
        assert hits.trace.degraded == (told + "without embed=",)
        one_arm = opened.recall(text=["tea"], scope="ann", fusion=hr.RRF(alpha=0))
        assert not one_arm.degraded  # nobody asked the other one
        assert hits.to_arrow().equals(reply(index, vectors=[None, None]))
        assert opened.recall(text=["tea"], vectors={}, scope="ann").trace.degraded == ()
        vectors = HASHES.embed(["green tea", "milk"])
        assert reply(opened, vectors=vectors).equals(reply(index))
        with pytest.raises(hr.OptionError, match="embedding: expected one column of the table"):
            opened.add(MORE)
        opened.add(MORE, vectors={"embedding": HASHES.embed(["tea cup"])})
        opened.save(tmp_path / "copy")  # the name stays
    with hr.Index.open(tmp_path / "copy", embed=HASHES) as copy:
        index.add(MORE)
        assert reply(copy).equals(reply(index))


def test_shards_that_name_an_embedder_answer_texts_by_words_and_say_so(tmp_path: Path) -> None:
    for at in range(2):
        part = TABLE.slice(2 * at, 2)
        hr.Index.build(part, SCHEMA, embed=HASHES, first_seq=2 * at).save(tmp_path / str(at))
    what = "embedding did not run: its vectors are of 'hash-16', "
    with ShardedIndex.open(tmp_path) as opened:
        told = (f"{what}which is not to be had here without embed=",)
        assert opened.recall_one(text="tea", scope="ann").trace.degraded == told
        hits = opened.recall(text=["green tea", "milk"], scope="ann")
        assert hits.trace.degraded == hits[1].trace.degraded == told
        index = index_of([one.index for one in opened.shards], wire=True)
        told = (f"{what}and shards embed no texts: pass vectors=",)
        hits = index.recall(text=["green tea", "milk"], scope="ann")
        assert hits.trace.degraded == hits[1].trace.degraded == told
        assert index.recall_one(text="tea", scope="ann").trace.degraded == told
        asked: dict[str, Any] = {"text": ["green tea", "milk"], "scope": "ann"}
        in_full: list[dict[str, Any]] = [
            {"vectors": {}},
            {"vectors": HASHES.embed(asked["text"])},
            {"fusion": hr.RRF(alpha=0)},
            {"recipe": Recipe(name="words", arms=(Lexical(),), fusion=hr.RRF())},
        ]
        for options in in_full:
            assert not index.recall(**asked, **options).degraded, options
        with hr.Index.build(TABLE, SCHEMA, embed=HASHES) as whole:
            whole.save(tmp_path / "whole")
        with hr.Index.open(tmp_path / "whole") as one:
            assert hits.to_arrow().equals(one.recall(**asked).to_arrow())


OF_THE_ARM: list[dict[str, Any]] = [
    {"min_score": {"embedding": 0.5}},
    {"fusion": hr.WeightedSum({"text": 0})},
    {"fusion": hr.RRF(weights={"text": 1, "embedding": 2})},
    {"shaping": (hr.Rerank(),)},
]


@pytest.mark.parametrize("options", OF_THE_ARM, ids=str)
def test_settings_of_an_arm_whose_embedder_is_missing_are_taken_as_if_it_had_failed(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    saved(tmp_path)
    with hr.Index.open(tmp_path) as opened, hr.Index.open(tmp_path, embed="off") as failing:
        assert opened.recall(text=["tea"], scope="ann", **options).degraded
        assert reply(opened, **options).equals(reply(failing, **options))
        with pytest.raises(hr.DTypeError, match="min_score"):
            opened.recall(text=["tea"], scope="ann", min_score={"embedding": "high"})


class Longer(Renamed):
    model = HASHES.model
    dim = 32


MISMATCHES: list[tuple[Any, str]] = [
    (Renamed(), "the embedder 'hash-16' of text, vectors of 16 numbers, got 'another model'"),
    (Longer(), "got 'hash-16' of text, 32 numbers"),
    (EmbedBy(HASHES, columns="title"), "got 'hash-16' of title, 16 numbers"),
    ({"embedding": Renamed()}, "got 'another model'"),
]


@pytest.mark.parametrize(("given", "message"), MISMATCHES, ids=[one[1] for one in MISMATCHES])
def test_another_embedder_is_refused_at_open(tmp_path: Path, given: Any, message: str) -> None:
    saved(tmp_path)
    with pytest.raises(hr.IndexMismatchError, match=message) as raised:
        hr.Index.open(tmp_path, embed=given)
    assert raised.value.argument == "embed['embedding']"
    assert isinstance(raised.value, hr.OptionError)


def test_a_planted_opening_that_checks_no_model_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path)
    monkeypatch.setattr("hyrecall.recall.embedders._check", lambda *arguments: None)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_another_embedder_is_refused_at_open(tmp_path / "again", *MISMATCHES[0])


def test_an_index_whose_files_name_no_model_takes_one_of_its_length(tmp_path: Path) -> None:
    texts = TABLE["text"].to_pylist()
    vectors = {"embedding": HASHES.embed(texts)}
    hr.Index.build(TABLE, SCHEMA, vectors=vectors).save(tmp_path)
    with hr.Index.open(tmp_path) as plain:
        assert vectors_of(plain) == {}
        assert plain.recall(text=["tea"], scope="ann").trace.notes == ()
    with pytest.raises(hr.IndexMismatchError, match="vectors of 16 numbers, got 'hash-8'"):
        hr.Index.open(tmp_path, embed=HashEmbedder(dim=8))
    with hr.Index.open(tmp_path, embed=HASHES) as opened:
        assert reply(opened).equals(reply(saved(tmp_path / "other")))
        opened.add(MORE)
        opened.save(tmp_path)
    with hr.Index.open(tmp_path) as again:
        assert vectors_of(again) == {"embedding": "hash-16"}


def test_a_reload_refuses_vectors_of_another_embedder(tmp_path: Path) -> None:
    vectors = {"embedding": HASHES.embed(TABLE["text"].to_pylist())}
    hr.Index.build(TABLE, SCHEMA, vectors=vectors).save(tmp_path)  # names no model
    with (
        hr.Index.open(tmp_path, embed=HASHES) as reader,
        hr.Index.open(tmp_path, embed=Renamed()) as writer,
    ):
        before = reply(reader)
        writer.add(MORE)
        writer.save(tmp_path)
        message = "the embedder 'hash-16' of text, as the index has, got 'another model' of text"
        with pytest.raises(hr.IndexMismatchError, match=message):
            reader.reload()
        assert reader.is_stale
        assert reply(reader).equals(before)


def test_of_several_arms_the_named_one_gets_a_single_embedder(tmp_path: Path) -> None:
    schema = hr.Schema(key="id", cell="user", text="text", vector=("first", "second"))
    other = {"second": np.ones((3, 4), np.float32)}
    index = hr.Index.build(TABLE, schema, vectors=other, embed={"first": HASHES})
    index.save(tmp_path / "named")
    with hr.Index.open(tmp_path / "named", embed=HASHES) as opened:
        assert reply(opened).equals(reply(index))
    given = {**other, "first": HASHES.embed(TABLE["text"].to_pylist())}
    hr.Index.build(TABLE, schema, vectors=given).save(tmp_path / "plain")
    with hr.Index.open(tmp_path / "plain", embed=HASHES) as opened:
        assert reply(opened).equals(reply(index))
    with pytest.raises(hr.OptionError, match="embed: expected arms of"):
        hr.Index.open(tmp_path / "plain", embed={"third": HASHES})


def test_a_variable_that_switches_embedders_off_is_named_as_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path)
    monkeypatch.setenv("HYRECALL_EMBED_DISABLE", "1")
    with hr.Index.open(tmp_path) as opened:
        hits = opened.recall(text=["tea"], scope="ann")
        told = "embedding did not run: off (HYRECALL_EMBED_DISABLE is set)"
        assert hits.trace.degraded == (told,)
        opened.save(tmp_path / "copy")
    monkeypatch.delenv("HYRECALL_EMBED_DISABLE")
    with hr.Index.open(tmp_path / "copy", embed=HASHES) as again:  # the name of the model stays
        assert vectors_of(again) == {"embedding": "hash-16"}


# ---- the files ----


def test_older_versions_find_the_files_that_they_know(tmp_path: Path) -> None:
    """They compare the columns of a file, not its metadata; the MANIFEST has no new field."""
    saved(tmp_path / "named")
    vectors = {"embedding": HASHES.embed(TABLE["text"].to_pylist())}
    hr.Index.build(TABLE, SCHEMA, vectors=vectors).save(tmp_path / "plain")
    manifests, schemas = [], []
    for name in ("named", "plain"):
        folder = tmp_path / name
        manifests.append(json.loads((folder / "MANIFEST").read_text().splitlines()[0]))
        (path,) = folder.glob("*-vectors-0.arrow")
        schemas.append(pa.ipc.open_file(path).schema)
    assert manifests[0].keys() == manifests[1].keys()
    assert all(manifests[0][one] == manifests[1][one] for one in ("format", "schema", "dims"))
    assert schemas[0].equals(schemas[1])
    told = json.loads(schemas[0].metadata[b"embedded"])
    assert told == {"model": "hash-16", "columns": ["text"]}
    assert not schemas[1].metadata


@pytest.mark.parametrize("told", [b"no", b"[]", b"{}", b'{"model": 1, "columns": []}'])
def test_a_forged_name_is_refused(
    tmp_path: Path, told: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_files, "_told", lambda embedded: told)
    saved(tmp_path)
    with pytest.raises(hr.CorruptIndexError, match="the name of an embedder"):
        hr.Index.open(tmp_path)


def test_files_of_two_models_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = saved(tmp_path)
    monkeypatch.setattr(saving, "batches_of", _of_another_model)
    index.add(MORE)
    index.save(tmp_path)
    with pytest.raises(hr.CorruptIndexError, match=r"'other' beside|beside 'other'"):
        hr.Index.open(tmp_path)


def _of_another_model(segment: Any, schema: Any, embedded: Any) -> Any:
    other = {arm: type(one)("other", one.columns) for arm, one in embedded.items()}
    return arrow_files.batches_of(segment, schema, other)


class Opened(HashEmbedder):
    """An embedder that an index opens by name, and so has to close."""

    n_closed = 0

    def close(self) -> None:
        type(self).n_closed += 1


def test_an_opening_whose_device_has_no_room_closes_the_embedders_that_it_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise hr.DeviceMemoryError("device: expected room, got none")

    saved(tmp_path)
    monkeypatch.setattr(Opened, "n_closed", 0)
    monkeypatch.setattr("hyrecall.embed.choose.embedder", lambda _: Opened(dim=16))
    hr.Index.open(tmp_path, embed="opened by name").close()
    assert Opened.n_closed == 1
    monkeypatch.setattr("hyrecall.index.choose_device", full)
    with pytest.raises(hr.DeviceMemoryError):
        hr.Index.open(tmp_path, embed="opened by name")
    assert Opened.n_closed == 2


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> str:
    """The packaged model's name, as files record it."""
    from hyrecall.embed import StaticEmbedder

    for name in ("HYRECALL_EMBED_DISABLE", "LTM_EMBED_DISABLE"):
        monkeypatch.delenv(name, raising=False)
    try:
        return StaticEmbedder().model
    except hr.MissingExtraError:
        pytest.skip("the packaged model (extra [local]) is not installed")


def test_an_index_of_the_packaged_model_gets_it_again_without_being_told(
    tmp_path: Path, local: str
) -> None:
    index = saved(tmp_path, EmbedBy("static", columns=("title", "text"), timeout=60))
    with hr.Index.open(tmp_path) as opened:
        assert opened._embedders is not None
        opened._embedders.wait_until_loaded(60)
        hits = opened.recall(text=["green tea", "milk"], scope="ann")
        assert not hits.degraded
        assert "embedding" in hits.trace.arms
        assert hits.to_arrow().equals(reply(index))
        for one in (index, opened):
            one.add(MORE)  # with the columns that the files name
        assert reply(opened).equals(reply(index))
    with hr.Index.open(tmp_path, embed={}) as without:
        hits = without.recall(text=["green tea"], scope="ann")
        assert (hits.degraded, len(hits.trace.degraded)) == (True, 1)
        assert f"its vectors are of '{local}'" in hits.trace.degraded[0]
