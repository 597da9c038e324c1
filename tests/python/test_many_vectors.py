"""Rows of many vectors: forms of input, refusals, files, shards, a service; replies: tests/laws."""

import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hyrecall as hr
from engine import forge
from hyrecall.distributed import ShardedIndex, build_shards
from hyrecall.embed import HashEmbedder
from laws.engine import ipc_bytes

DIM = 24
Bundle = np.ndarray[Any, Any]


def bundles(seed: int, n: int) -> list[Bundle | None]:
    """Rows of none to eight vectors, a few of them null."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 9, n)
    made = [rng.normal(size=(count, DIM)).astype(np.float32) for count in counts]
    return [None if at % 17 == 5 else one for at, one in enumerate(made)]


def table(n: int) -> pa.Table:
    words = ("red fox", "blue fox", "red hen")
    return pa.table(
        {
            "id": [f"k{i}" for i in range(n)],
            "user": [("ann", "bob", "cyd")[i % 3] for i in range(n)],
            "text": [words[i % 3] for i in range(n)],
        }
    )


def lists(rows: list[Bundle | None], kind: pa.DataType) -> pa.Array:
    return pa.array([None if one is None else one.tolist() for one in rows], kind)


SCHEMA = hr.Schema(key="id", cell="user", text="text", vector=hr.MaxSim("tokens"))
ROWS = bundles(3, 600)  # with more than 512 vectors, so that there is a plane
QUERIES = [one for one in bundles(4, 12) if one is not None and len(one)]
SCOPE = hr.Scope(["ann", "cyd"])


@pytest.fixture(scope="module")
def index() -> hr.Index:
    return hr.Index.build(table(600), SCHEMA, vectors={"tokens": ROWS}, device="cpu")


def reply(index: Any, **options: Any) -> bytes:
    return ipc_bytes(index.recall(vectors=QUERIES, scope=SCOPE, limit=20, **options).to_arrow())


COLUMNS: dict[str, Callable[[list[Bundle | None]], Any]] = {
    "lists of lists": lambda rows: lists(rows, pa.list_(pa.list_(pa.float32()))),
    "lists of fixed lists": lambda rows: lists(rows, pa.large_list(pa.list_(pa.float32(), DIM))),
    "lists of doubles": lambda rows: lists(rows, pa.list_(pa.list_(pa.float64(), DIM))),
    "chunks with offsets": lambda rows: pa.chunked_array(
        [
            lists([rows[0], *rows[:100]], pa.list_(pa.list_(pa.float32(), DIM)))[1:],
            lists(rows[100:], pa.list_(pa.list_(pa.float32(), DIM))),
        ]
    ),
    "values and offsets": lambda rows: (
        np.concatenate([one for one in rows if one is not None]),
        np.cumsum([0, *(0 if one is None else len(one) for one in rows)]),
    ),
    "nested lists": lambda rows: [None if one is None else one.tolist() for one in rows],
}


@pytest.mark.parametrize("form", COLUMNS)
def test_every_form_of_rows_gives_the_same_index(form: str, index: hr.Index) -> None:
    made = hr.Index.build(table(600), SCHEMA, vectors={"tokens": COLUMNS[form](ROWS)}, device="cpu")
    assert reply(made) == reply(index)


def test_every_form_of_queries_gives_the_same_reply(index: hr.Index) -> None:
    values = np.concatenate(QUERIES)
    offsets = np.cumsum([0, *map(len, QUERIES)])
    forms = [
        {"tokens": QUERIES},
        (values, offsets),
        [one.tolist() for one in QUERIES],
        [one.astype(np.float64) for one in QUERIES],
        lists(QUERIES, pa.list_(pa.list_(pa.float32(), DIM))),
    ]
    wanted = reply(index)
    for form in forms:
        assert ipc_bytes(index.recall(vectors=form, scope=SCOPE, limit=20).to_arrow()) == wanted
    alike = [one[:1] for one in QUERIES]
    stacked = index.recall(vectors=np.stack(alike), scope=SCOPE).to_arrow()
    assert stacked.equals(index.recall(vectors=alike, scope=SCOPE).to_arrow())
    one = index.recall_one(vector=QUERIES[0], scope=SCOPE, limit=20)
    assert one.keys == index.recall(vectors=QUERIES[:1], scope=SCOPE, limit=20)[0].keys


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rows_of_half_precision_score_as_their_values(dtype: Any) -> None:
    schema = hr.Schema(key="id", cell=None, vector=hr.MaxSim("tokens", dtype=dtype))
    rows = table(600).select(["id"])
    made = hr.Index.build(rows, schema, vectors={"tokens": ROWS}, device="cpu")
    kept = made.get([f"k{i}" for i in range(600)], columns=["tokens"])["tokens"].to_pylist()
    if dtype == "bfloat16":  # comes back as bits
        widen = lambda one: (np.array(one, np.uint32) << 16).view(np.float32)  # noqa: E731
        kept = [None if one is None else widen(one).reshape(-1, DIM) for one in kept]
    again = [None if one is None else np.array(one, np.float32).reshape(-1, DIM) for one in kept]
    plain = hr.Schema(key="id", cell=None, vector=hr.MaxSim("tokens"))
    wide = hr.Index.build(rows, plain, vectors={"tokens": again}, device="cpu")
    found = [one.recall(vectors=QUERIES, limit=20).to_arrow() for one in (made, wide)]
    assert found[0].equals(found[1])


@pytest.mark.parametrize("memory", ["ram", "mmap"])
def test_a_saved_index_replies_the_same(index: hr.Index, tmp_path: Path, memory: Any) -> None:
    index.save(tmp_path / "saved")
    opened = hr.Index.open(tmp_path / "saved", memory=memory, verify="structure", device="cpu")
    assert reply(opened) == reply(index)
    assert opened.schema == index.schema
    assert reply(opened, text=["red"] * len(QUERIES)) == reply(index, text=["red"] * len(QUERIES))


FORGED = {
    "falls": lambda begins: np.concatenate([begins[:3], begins[-1:], begins[4:]]),
    "ends early": lambda begins: np.minimum(begins, begins[-1] - 1),
    "begins late": lambda begins: np.maximum(begins, 1),
}


@pytest.mark.parametrize("how", FORGED)
def test_numbers_of_vectors_that_do_not_fit_are_refused(
    how: str, index: hr.Index, tmp_path: Path
) -> None:
    """Also where the checksums fit them."""
    index.save(tmp_path / "saved")
    data = forge.read_manifest(tmp_path / "saved")
    file = data["segments"][0]["files"]["bundles-0"]
    content = (tmp_path / "saved" / file["name"]).read_bytes()
    begins = index._state.segments[0].dense["tokens"].begins
    assert content.count(begins.tobytes()) == 1
    wrong = FORGED[how](begins).astype(np.uint32)
    forge.reseal(tmp_path / "saved", data, file, content.replace(begins.tobytes(), wrong.tobytes()))
    with pytest.raises(hr.CorruptIndexError, match=r"bundles-0|vectors-0"):
        hr.Index.open(tmp_path / "saved", verify="structure", device="cpu")


@pytest.mark.parametrize("n_shards", [1, 2, 5])
def test_shards_reply_as_one_index(index: hr.Index, n_shards: int) -> None:
    rows = lists(ROWS, pa.list_(pa.list_(pa.float32(), DIM)))
    whole = table(600).append_column("tokens", rows)
    cuts = np.linspace(0, 600, n_shards + 1).astype(int)
    parts = [whole[int(a) : int(b)] for a, b in pairwise(cuts)]
    shards = ShardedIndex.build(parts, SCHEMA, device="cpu")
    assert reply(shards) == reply(index)
    words = ["red"] * len(QUERIES)
    assert reply(shards, text=words) == reply(index, text=words)


def test_vectors_come_back_and_an_update_leaves_them(index: hr.Index) -> None:
    made = hr.Index.build(table(60), SCHEMA, vectors={"tokens": ROWS[:60]}, device="cpu")
    made.update([{"id": "k0", "user": "ann", "text": "green hen"}])
    made.update([{"id": "k3", "user": "ann", "tokens": np.eye(2, DIM).tolist()}])
    found = made.get(["k0", "k3"], scope="ann", columns=["tokens"])["tokens"].to_pylist()
    assert np.array_equal(np.array(found[0], np.float32), ROWS[0])
    assert np.array_equal(np.array(found[1], np.float32), np.eye(2, DIM))


def test_an_explanation_names_what_met_what(index: hr.Index) -> None:
    hit = index.recall_one(vector=QUERIES[1], scope=SCOPE)[0]
    (part,) = hit.explain().components
    assert [pair.query_vector for pair in part.pairs] == list(range(len(QUERIES[1])))
    row = ROWS[int(hit.key[1:])]
    assert row is not None
    for pair in part.pairs:
        one, other = QUERIES[1][pair.query_vector], row[pair.vector]
        cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
        assert cosine == pytest.approx(pair.cosine, abs=1e-5)
    assert part.score == hit.score == np.float32(sum(np.float64(p.cosine) for p in part.pairs))
    text = str(hit.explain())
    assert f"the sum of {len(part.pairs)} greatest cosines" in text
    assert "query vector 0 met vector" in text


WRONG: dict[str, tuple[dict[str, Any], type[hr.HyrecallError], str]] = {
    "one vector a query": (
        {"vectors": np.ones((2, DIM), np.float32)}, hr.ShapeError, r"vectors: expected a list with",
    ),
    "a row": (
        {"vectors": [np.ones(DIM, np.float32)]}, hr.ShapeError,
        r"vectors\[0\]: expected a query of shape \(n_vectors, dim\)",
    ),
    "numbers": ({"vectors": [1.0]}, hr.DTypeError, r"vectors\[0\]: expected a NumPy"),
    "ragged lists": (
        {"vectors": [[[1.0], [1.0, 2.0]]]}, hr.ShapeError, r"vectors\[0\]: expected a query of",
    ),
    "another dim": ({"vectors": [np.ones((2, 3), np.float32)]}, hr.ShapeError, "vectors: expected"),
    "two dims": (
        {"vectors": [np.ones((2, 3), np.float32), np.ones((2, 4), np.float32)]}, hr.DTypeError,
        "vectors: expected arrays of one type and dim",
    ),
    "offsets that fall": (
        {"vectors": (np.ones((2, DIM), np.float32), [0, 2, 1, 2])}, hr.OptionError,
        "vectors: expected offsets that rise from 0 to 2",
    ),
    "offsets that end early": (
        {"vectors": (np.ones((2, DIM), np.float32), [0, 1])}, hr.OptionError, "offsets that rise",
    ),
    "one vector a row": (
        {"vectors": pa.array([[1.0] * DIM], pa.list_(pa.float32()))},
        hr.DTypeError,
        "vectors: expected",
    ),
    "not a number": (
        {"vectors": [np.full((1, DIM), np.nan, np.float32)]}, hr.OptionError,
        "vectors: expected finite values",
    ),
    "too long": (
        {"vectors": [np.full((1, DIM), 1e30, np.float32)]}, hr.OptionError,
        r"expected a norm in \[2\^-60, 2\^60\]",
    ),
    "MMR": ({"shaping": hr.MMR(0.5)}, hr.OptionError, "MMR.vector: expected an index with"),
    "Dedup": (
        {"shaping": hr.Dedup(0.5, vector="tokens")},
        hr.OptionError,
        "Dedup.vector: expected one of",
    ),
    "Feedback": (
        {"shaping": hr.Feedback()}, hr.OptionError, "Feedback.dense: expected 0 beside 'tokens'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_argument_is_refused_by_name(wrong: str, index: hr.Index) -> None:
    said, kind, words = WRONG[wrong]
    call: dict[str, Any] = {"vectors": QUERIES[:1], "scope": SCOPE, **said}
    with pytest.raises(kind, match=words):
        index.recall(**call)


def max_sim(query: Bundle, row: Bundle) -> float:
    one = query / np.linalg.norm(query, axis=1, keepdims=True)
    other = row / np.linalg.norm(row, axis=1, keepdims=True)
    return float((one @ other.T).max(axis=1).sum())


def test_a_second_stage_scores_the_candidates_of_other_arms_alone(index: hr.Index) -> None:
    call: dict[str, Any] = {
        "text": ["fox"], "vectors": QUERIES[2:3], "scope": SCOPE, "depth": 200,
        "fusion": hr.RRF(weights={"tokens": 0}),
    }  # fmt: skip
    found = index.recall(**call, shaping=hr.Rerank(window=200, vector="tokens"), limit=200)
    first = index.recall(text=["fox"], scope=SCOPE, fusion=hr.RRF(), depth=200, limit=200)
    assert sorted(found[0].keys) == sorted(first[0].keys)  # nothing that the text did not find
    rows = [ROWS[int(key[1:])] for key in found[0].keys]
    has = [at for at, row in enumerate(rows) if row is not None and len(row)]
    scores = [max_sim(QUERIES[2], rows[at]) for at in has]  # type: ignore[arg-type]
    assert scores == sorted(scores, reverse=True)
    shown = [found[0][at].explain().components[1] for at in has[:3]]
    assert [one.score for one in shown] == pytest.approx(scores[:3], abs=1e-5)
    assert {one.rank for one in shown} == {None}
    with pytest.raises(hr.OptionError, match=r"Rerank.vector: expected an arm that runs"):
        index.recall(**call | {"fusion": hr.Max(weights={"tokens": 0})}, shaping=hr.Rerank())


def test_rows_of_another_shape_are_refused(index: hr.Index) -> None:
    for rows in (np.ones((600, DIM), np.float32), [np.ones((1, 3), np.float32)] * 600):
        with pytest.raises(hr.HyrecallError, match="tokens"):
            index.add(table(600), vectors={"tokens": rows})
    with pytest.raises(hr.ShapeError, match="600 rows, got 3"):
        index.add(table(600), vectors={"tokens": ROWS[:3]})


def test_a_query_of_no_vector_finds_nothing(index: hr.Index) -> None:
    none = [None, np.zeros((0, DIM), np.float32), np.zeros((2, DIM), np.float32)]
    assert [len(one) for one in index.recall(vectors=none, scope=SCOPE)] == [0, 0, 0]


def test_a_second_stage_counts_and_fills_as_without_it(index: hr.Index) -> None:
    stage = hr.Rerank(window=5, vector="tokens")
    call: dict[str, Any] = {
        "text": ["red fox", "nothing", "hen"], "vectors": QUERIES[:3], "scope": SCOPE,
        "fusion": hr.RRF(weights={"tokens": 0}),
    }  # fmt: skip
    totals = [
        [one.total for one in index.recall(**call, shaping=shaping)] for shaping in ((), (stage,))
    ]
    assert totals[0] == totals[1]
    assert totals[0][1] == 0
    with pytest.raises(hr.OptionError, match=r"min_score: expected arms of \['text'\]"):
        index.recall(**call, shaping=stage, min_score={"tokens": 3.0})


def test_tensors_of_bfloat16_are_read_as_rows_and_queries() -> None:
    torch = pytest.importorskip("torch")
    rows = [None if one is None else torch.from_numpy(one).bfloat16() for one in ROWS[:80]]
    table_of = table(80).select(["id"])
    schema = hr.Schema(key="id", cell=None, vector=hr.MaxSim("tokens"))
    made = hr.Index.build(table_of, schema, vectors={"tokens": rows}, device="cpu")
    assert made.schema.vector_arms["tokens"].dtype == "bfloat16"
    wide = [None if one is None else one.float().numpy() for one in rows]
    same = hr.Index.build(table_of, schema, vectors={"tokens": wide}, device="cpu")
    asked = [torch.from_numpy(one).bfloat16() for one in QUERIES]
    found = made.recall(vectors=asked, limit=20).to_arrow()
    assert found.equals(same.recall(vectors=[one.float() for one in asked], limit=20).to_arrow())


def test_tensors_of_an_encoder_are_read_as_they_are() -> None:
    """``MultiVectorEncoder.encode`` gives the rows of a padded batch that a mask leaves."""
    torch = pytest.importorskip("torch")
    counts = torch.tensor([5, 1, 3])
    with torch.inference_mode():
        batch = torch.from_numpy(np.random.default_rng(5).normal(size=(3, 5, DIM))).float()
        masks = torch.arange(5) < counts[:, None]
        given = [one[mask] for one, mask in zip(batch, masks, strict=True)]
        views = [one[:n] for one, n in zip(batch, counts.tolist(), strict=True)]
    schema = hr.Schema(key="id", cell=None, vector=hr.MaxSim("tokens"))
    rows = table(3).select(["id"])
    arrays = [one.numpy() for one in given]  # convert_to_numpy=True
    index = hr.Index.build(rows, schema, vectors={"tokens": arrays}, device="cpu")
    wanted = index.recall(vectors=arrays).to_arrow()
    for form in (given, views):
        made = hr.Index.build(rows, schema, vectors={"tokens": form}, device="cpu")
        assert made.recall(vectors=form).to_arrow().equals(wanted)
    one = index.recall_one(vector=given[1])  # of one text
    assert one.keys == index.recall(vectors=arrays[1:2])[0].keys


def test_rows_and_queries_without_vectors_in_every_form(index: hr.Index) -> None:
    made = hr.Index.build(table(3), SCHEMA, vectors={"tokens": ROWS[:3]}, device="cpu")
    made.update([{"id": "k0", "user": "ann", "tokens": None}])
    made.update([{"id": "k1", "user": "bob", "tokens": []}])
    found = made.recall(vectors=[QUERIES[0]], scope=[hr.Scope(["ann", "bob", "cyd"])])[0]
    assert found.keys == ["k2"]
    assert [len(one) for one in index.recall(vectors=[[], None, QUERIES[0]], scope=SCOPE)] == [
        0, 0, 10,
    ]  # fmt: skip


@pytest.mark.parametrize("offsets", [3, None, [], [[0]], [0.5, 1]])
def test_offsets_of_another_kind_are_refused(offsets: Any, index: hr.Index) -> None:
    with pytest.raises(hr.ShapeError, match=r"vectors: expected \(values, offsets\)"):
        index.recall(vectors=(QUERIES[0], offsets), scope=SCOPE)


def test_an_embedder_of_texts_is_refused_for_the_arm(index: hr.Index, tmp_path: Path) -> None:
    embedder = HashEmbedder()
    with pytest.raises(hr.OptionError, match=r"embed: expected None \(no vector arm\)"):
        hr.Index.build(table(3), SCHEMA, vectors={"tokens": ROWS[:3]}, embed=embedder)
    index.save(tmp_path / "saved")
    with pytest.raises(hr.OptionError, match=r"embed: expected arms of \[\]"):
        hr.Index.open(tmp_path / "saved", embed={"tokens": embedder})


def test_shards_of_files_reply_as_one_index(index: hr.Index, tmp_path: Path) -> None:
    rows = lists(ROWS, pa.list_(pa.list_(pa.float32())))
    pq.write_table(table(600).append_column("tokens", rows), tmp_path / "rows.parquet")
    build_shards(tmp_path / "rows.parquet", SCHEMA, tmp_path / "shards", shards=2)
    with ShardedIndex.open(tmp_path / "shards", device="cpu") as shards:
        assert set(shards.recall(vectors=QUERIES[:1], scope=SCOPE)[0].keys) == set(
            index.recall(vectors=QUERIES[:1], scope=SCOPE)[0].keys
        )


CUT = """
import os, sys
from pathlib import Path
import numpy as np
import hyrecall as hr
from hyrecall.segments import segments
index = hr.Index.open(sys.argv[1], memory="mmap", verify="structure", device="cpu")
# As if the file were cut within the call, behind the check at its beginning.
segments.CheckedFiles.__enter__ = segments.CheckedFiles.__exit__ = lambda self, *fault: None
(file,) = Path(sys.argv[1]).glob("*bundles-0*")
os.truncate(file, file.stat().st_size // 3)
print(len(index.recall(vectors=[np.eye(2, dtype=np.float32)], limit=40_000)[0]))
"""


def test_a_file_that_is_cut_takes_no_row_its_end(tmp_path: Path) -> None:
    n = 40_000
    rows = (np.tile(np.eye(2, dtype=np.float32), (n // 2, 1)), np.arange(n + 1))
    schema = hr.Schema(key="id", cell=None, vector=hr.MaxSim("tokens"))
    ids = pa.table({"id": np.arange(n)})
    hr.Index.build(ids, schema, vectors={"tokens": rows}, device="cpu").save(tmp_path / "saved")
    done = subprocess.run(
        [sys.executable, "-c", CUT, str(tmp_path / "saved")],
        capture_output=True, text=True, check=False, timeout=120,
        env=os.environ | {"PYTHONPATH": str(Path(hr.__file__).parents[1])},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, f"{n}\n"), done.stderr
