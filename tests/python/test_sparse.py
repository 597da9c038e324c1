"""Sparse vectors: forms of input, refusals, files, shards, a large column; replies: tests/laws."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import hyrecall as hr
from engine import forge
from hyrecall.distributed import ShardedIndex, build_shards
from laws.engine import ipc_bytes

IDS = 200
Sparse = dict[int, float]


def vectors(seed: int, n: int) -> list[Sparse | None]:
    """Rows of none to eleven terms, a few of them null; small ids are frequent."""
    rng = np.random.default_rng(seed)
    out: list[Sparse | None] = []
    for at in range(n):
        ids = np.unique(rng.zipf(1.4, rng.integers(0, 12)) % IDS)
        weights = rng.gamma(1.0, 1.0, len(ids)).astype(np.float32) + np.float32(0.01)
        made = dict(zip(ids.tolist(), weights.tolist(), strict=True))
        out.append(None if at % 17 == 5 else made)
    return out


def table(n: int) -> pa.Table:
    return pa.table(
        {
            "id": [f"k{i}" for i in range(n)],
            "user": [("ann", "bob", "cyd")[i % 3] for i in range(n)],
            "text": [("red fox", "blue fox", "red hen")[i % 3] for i in range(n)],
            "hue": [("red", "blue")[i % 2] for i in range(n)],
        }
    )


def matrix(rows: list[Sparse | None]) -> sp.csr_matrix:
    sizes = [len(one or {}) for one in rows]
    ids = [id_ for one in rows for id_ in one or {}]
    weights = [weight for one in rows for weight in (one or {}).values()]
    parts = np.array(weights, np.float32), ids, np.cumsum([0, *sizes])
    return sp.csr_matrix(parts, shape=(len(rows), IDS))


def tensor(rows: list[Sparse | None]) -> Any:
    torch = pytest.importorskip("torch")
    found = matrix(rows).tocoo()
    places = torch.from_numpy(np.stack([found.row, found.col]).astype(np.int64))
    values = torch.from_numpy(found.data)
    return torch.sparse_coo_tensor(places, values, found.shape, check_invariants=True)


def encoded(rows: list[Sparse | None]) -> Any:
    """A tensor as ``SparseEncoder.encode`` of sentence-transformers makes it: not coalesced."""
    torch = pytest.importorskip("torch")
    with torch.inference_mode():
        made = torch.from_numpy(matrix(rows).toarray())
    return torch.stack([*made.to_sparse()])


def pairs(rows: list[Sparse | None]) -> list[Any]:
    return [None if one is None else (np.array([*one], int), [*one.values()]) for one in rows]


def column(rows: list[Sparse | None], kind: pa.DataType, key: Any = int) -> pa.Array:
    made = [None if one is None else [(key(k), w) for k, w in one.items()] for one in rows]
    if not pa.types.is_map(kind):
        names = [field.name for field in kind.value_type]
        made = [one and [dict(zip(names, e, strict=True)) for e in one] for one in made]
    return pa.array(made, kind)


CODES = pa.dictionary(pa.int32(), pa.string())
ENTRY = pa.struct([("token", pa.int32()), ("value", pa.float32())])
FORMS: dict[str, Callable[[list[Sparse | None]], Any]] = {
    "mappings of terms": lambda rows: [
        None if one is None else {str(k): w for k, w in one.items()} for one in rows
    ],
    "mappings of NumPy's ids": lambda rows: [
        None if one is None else {np.int64(k): np.float32(w) for k, w in one.items()}
        for one in rows
    ],
    "pairs": pairs,
    "maps of ids": lambda rows: column(rows, pa.map_(pa.int64(), pa.float64())),
    "maps of terms": lambda rows: column(rows, pa.map_(pa.string(), pa.float32()), str),
    "structs by term": lambda rows: pa.array(
        [None if one is None else {str(k): w for k, w in one.items()} for one in rows],
        pa.struct([(str(term), pa.float32()) for term in range(IDS)]),
    ),
    "lists of structs": lambda rows: column(rows, pa.large_list(ENTRY)),
    "chunks with offsets": lambda rows: pa.chunked_array(
        [
            column([rows[0], *rows[:5]], pa.map_(pa.int64(), pa.float32()))[1:],
            column(rows[5:], pa.map_(pa.int64(), pa.float32())),
        ]
    ),
    "a matrix of SciPy": matrix,
    "a matrix by columns": lambda rows: matrix(rows).tocsc(),
    "lists of structs of views and whole numbers": lambda rows: column(
        rows, pa.list_(pa.struct([("t", pa.string_view()), ("w", pa.float32())])), str
    ),
    "lists of structs of codes": lambda rows: column(
        rows, pa.list_(pa.struct([("t", CODES), ("w", pa.float64())])), str
    ),
    "a tensor": tensor,
    "a tensor by rows": lambda rows: tensor(rows).to_sparse_csr(),
    "tensors": lambda rows: [*tensor(rows)],
    "a tensor of an encoder": encoded,
    "tensors of an encoder": lambda rows: [*encoded(rows)],
}

SCHEMA = hr.Schema(
    key="id", cell="user", text="text", vector=hr.Sparse("terms"), attributes=("hue",)
)
ROWS = vectors(3, 600)
QUERIES = [one for one in vectors(4, 14) if one]
SCOPE = hr.Scope(["ann", "cyd"])


@pytest.fixture(scope="module")
def index() -> hr.Index:
    return hr.Index.build(table(600), SCHEMA, vectors={"terms": ROWS})


def reply(index: Any, asked: Any = QUERIES, **options: Any) -> bytes:
    return ipc_bytes(index.recall(vectors=asked, scope=SCOPE, limit=20, **options).to_arrow())


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_rows_and_queries_gives_the_same_reply(form: str, index: hr.Index) -> None:
    made = hr.Index.build(table(600), SCHEMA, vectors={"terms": FORMS[form](ROWS)})
    assert reply(made, FORMS[form]([*QUERIES])) == reply(index)


def test_one_query_by_the_name_of_its_arm(index: hr.Index) -> None:
    wanted = index.recall(vectors=QUERIES[:1], scope=SCOPE)[0].keys
    assert index.recall_one(vector={"terms": QUERIES[0]}, scope=SCOPE).keys == wanted
    assert index.recall_one(vector=pairs([QUERIES[0]])[0], scope=SCOPE).keys == wanted


def test_one_tensor_of_an_encoder_is_a_query_and_a_dense_one_is_refused(index: hr.Index) -> None:
    one = encoded(QUERIES[:1])[0]
    wanted = index.recall(vectors=QUERIES[:1], scope=SCOPE)[0].keys
    assert index.recall_one(vector=one, scope=SCOPE).keys == wanted
    for dense in ([one.to_dense()], one.to_dense()[None]):  # convert_to_sparse_tensor=False
        with pytest.raises(hr.DTypeError, match=r"vectors.*: expected .*, got Tensor"):
            index.recall(vectors=dense, scope=SCOPE)


def test_weights_of_half_precision_score_as_their_values() -> None:
    half = matrix(ROWS)
    rounded = half.copy()
    rounded.data = half.data.astype(np.float16).astype(np.float32)
    schema = hr.Schema(key="id", cell=None, vector=hr.Sparse("terms", dtype="float16"))
    rows = table(600).select(["id"])
    made = hr.Index.build(rows, schema, vectors={"terms": half})
    plain = hr.Schema(key="id", cell=None, vector=hr.Sparse("terms"))
    wide = hr.Index.build(rows, plain, vectors={"terms": rounded})
    found = [one.recall(vectors=QUERIES, limit=20).to_arrow() for one in (made, wide)]
    assert found[0].equals(found[1])
    sizes = [one._state.segments[0].dense["terms"].nbytes for one in (made, wide)]
    assert sizes[0] < sizes[1]


@pytest.mark.parametrize("memory", ["ram", "mmap"])
@pytest.mark.parametrize("verify", ["structure", "full"])
def test_a_saved_index_replies_the_same(
    index: hr.Index, tmp_path: Path, memory: Any, verify: Any
) -> None:
    index.save(tmp_path / "saved")
    opened = hr.Index.open(tmp_path / "saved", memory=memory, verify=verify)
    assert reply(opened) == reply(index)
    assert opened.schema == index.schema
    words = ["red"] * len(QUERIES)
    assert reply(opened, text=words) == reply(index, text=words)


FORGED: dict[str, Callable[[Any], Any]] = {
    "run_begins": lambda begins: begins + np.uint64(1 << 40),
    "run_pages": lambda pages: pages + np.uint32(7),
    "run_greatest": lambda greatest: greatest * np.float32("nan"),
    "term_runs": lambda runs: runs[::-1],
}


@pytest.mark.parametrize("part", FORGED)
def test_parts_that_do_not_fit_are_refused(part: str, index: hr.Index, tmp_path: Path) -> None:
    """Also where the checksums fit them."""
    index.save(tmp_path / "saved")
    data = forge.read_manifest(tmp_path / "saved")
    file = data["segments"][0]["files"]["sparse-0"]
    content = (tmp_path / "saved" / file["name"]).read_bytes()
    parts = index._state.segments[0].dense["terms"].sparse_parts()
    assert parts is not None
    held = parts[part]
    wrong = FORGED[part](held).astype(held.dtype)
    assert content.count(held.tobytes()) >= 1
    forge.reseal(tmp_path / "saved", data, file, content.replace(held.tobytes(), wrong.tobytes()))
    with pytest.raises(hr.CorruptIndexError, match=r"sparse-0"):
        hr.Index.open(tmp_path / "saved", verify="structure")


@pytest.mark.parametrize("part", ["rows", "weights", "sizes"])
def test_forged_postings_harm_only_the_reply(part: str, index: hr.Index, tmp_path: Path) -> None:
    """They are not compared with each other; no read or write goes past what they may lead to."""
    index.save(tmp_path / "saved")
    data = forge.read_manifest(tmp_path / "saved")
    role = "vectors-0" if part == "sizes" else "sparse-0"
    file = data["segments"][0]["files"][role]
    content = (tmp_path / "saved" / file["name"]).read_bytes()
    held = index._state.segments[0].dense["terms"].sparse_parts()[part].tobytes()  # type: ignore[index]
    wrong = (b"\xff" if part != "sizes" else b"\1") * len(held)
    forge.reseal(tmp_path / "saved", data, file, content.replace(held, wrong))
    opened = hr.Index.open(tmp_path / "saved", verify="full")
    for hits in opened.recall(vectors=QUERIES, scope=SCOPE, limit=500):
        assert all(np.isfinite(hit.score) for hit in hits)
    opened.delete(["k0"], scope="ann")
    opened.compact()
    assert opened.stats()["n_docs"] == 599


@pytest.mark.parametrize("n_shards", [1, 2, 5])
def test_shards_reply_as_one_index(index: hr.Index, n_shards: int) -> None:
    whole = table(600).append_column("terms", FORMS["maps of ids"](ROWS))
    cuts = np.linspace(0, 600, n_shards + 1).astype(int)
    parts = [whole[int(a) : int(b)] for a, b in pairwise(cuts)]
    shards = ShardedIndex.build(parts, SCHEMA)
    assert reply(shards) == reply(index)
    words = ["red"] * len(QUERIES)
    assert reply(shards, text=words) == reply(index, text=words)


def test_shards_of_files_reply_as_one_index(index: hr.Index, tmp_path: Path) -> None:
    whole = table(600).append_column("terms", FORMS["lists of structs"](ROWS))
    pq.write_table(whole, tmp_path / "rows.parquet")
    build_shards(tmp_path / "rows.parquet", SCHEMA, tmp_path / "shards", shards=2)
    with ShardedIndex.open(tmp_path / "shards") as shards:
        assert set(shards.recall(vectors=QUERIES[:1], scope=SCOPE)[0].keys) == set(
            index.recall(vectors=QUERIES[:1], scope=SCOPE)[0].keys
        )


def test_vectors_come_back_and_an_update_leaves_them() -> None:
    made = hr.Index.build(table(60), SCHEMA, vectors={"terms": ROWS[:60]})
    made.update([{"id": "k0", "user": "ann", "text": "green hen"}])
    made.update([{"id": "k3", "user": "ann", "terms": {"7": 2.5}}])
    found = made.get(["k0", "k3"], scope="ann", columns=["terms"])["terms"].to_pylist()
    assert dict(found[0]) == {str(k): w for k, w in (ROWS[0] or {}).items()}
    assert found[1] == [("7", 2.5)]


def test_an_explanation_names_the_terms_that_both_have(index: hr.Index) -> None:
    hit = index.recall_one(vector={"terms": QUERIES[1]}, scope=SCOPE)[0]
    (part,) = hit.explain().components
    row = ROWS[int(hit.key[1:])]
    assert row is not None
    both = sorted(map(str, QUERIES[1].keys() & row.keys()))
    assert [term.term for term in part.shared] == both
    total = 0.0
    for term in part.shared:
        weights = np.float32(QUERIES[1][int(term.term)]), np.float32(row[int(term.term)])
        assert (term.query_weight, term.weight) == weights
        total += float(weights[0]) * float(weights[1])
    assert part.score == hit.score == np.float32(total)
    assert f"the sum of {len(both)} products of weights" in str(hit.explain())


def broken() -> sp.csr_matrix:
    made = sp.csr_matrix(np.eye(3))
    made.indptr[1] = 9
    return made


WRONG: dict[str, tuple[Any, type[hr.HyrecallError], str]] = {
    "one query": ({"a": 1.0}, hr.OptionError, r"vectors: expected arms of \['terms'\], got 'a'"),
    "an array": (
        np.ones((2, IDS), np.float32), hr.DTypeError, "vectors: expected a list with a mapping",
    ),
    "numbers": ([1.0], hr.DTypeError, r"vectors\[0\]: expected a mapping {term or id: weight}"),
    "another number of weights": (
        [([1, 2], [1.0])], hr.ShapeError, r"vectors\[0\]: expected as many weights as ids",
    ),
    "a negative weight": (
        [{"a": -1.5}], hr.OptionError,
        r"vectors: expected weights in \[0, 2\^40\], got -1.5 of 'a' in query 0",
    ),
    "a weight that is no number": ([{"a": np.nan}], hr.OptionError, "got nan of 'a' in query 0"),
    "a weight without end": ([{}, {"a": 1e300}], hr.OptionError, "got inf of 'a' in query 1"),
    "a word as weight": ([{"a": "1.5"}], hr.DTypeError, "expected numbers as weights, got '1.5'"),
    "a term twice": (
        [{7: 1.0, "7": 2.0}], hr.OptionError, "expected each term once, got '7' twice in query 0",
    ),
    "a fraction as id": ([{1.5: 1.0}], hr.DTypeError, "expected a str or a whole number"),
    "ids below 0": ([{-1: 1.0}], hr.DTypeError, "expected a str or a whole number"),
    "a truth value as id": ([{True: 1.0}], hr.DTypeError, "expected a str or a whole number"),
    "half a character": ([{"\ud800": 1.0}], hr.DTypeError, "terms of valid Unicode"),
    "numbers as a weight": (
        [{"a": [1.0, 2.0]}], hr.DTypeError, r"vectors\[0\]: expected numbers as weights, got \[1",
    ),
    "no weight": ([{"a": None}], hr.DTypeError, "expected numbers as weights, got None"),
    "a truth value as weight": ([{"a": True}], hr.DTypeError, "numbers as weights, got True"),
    "a matrix of parts that do not fit": (
        broken(), hr.ShapeError, "vectors: expected a matrix whose parts fit together",
    ),
    "a column of vectors": (
        pa.array([[1.0]], pa.list_(pa.float32())), hr.DTypeError,
        "vectors: expected a column of maps",
    ),
    "a null weight": (
        pa.array([[("a", None)]], pa.map_(pa.string(), pa.float32())), hr.OptionError,
        "vectors: expected terms and weights that are not null",
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_query_is_refused_by_name(wrong: str, index: hr.Index) -> None:
    said, kind, words = WRONG[wrong]
    with pytest.raises(kind, match=words):
        index.recall(vectors=said, scope=SCOPE)


def test_wrong_rows_are_refused_by_name(index: hr.Index) -> None:
    rows: list[Any] = [*ROWS]
    rows[7] = {3: -2.0}
    with pytest.raises(hr.OptionError, match=r"terms: expected weights .* got -2 of '3' in row 7"):
        hr.Index.build(table(600), SCHEMA, vectors={"terms": rows})
    rows[7] = {3: 2.0, "3": 1.0}
    with pytest.raises(hr.OptionError, match=r"each term once, got '3' twice in row 7"):
        hr.Index.build(table(600), SCHEMA, vectors={"terms": rows})
    half = hr.Schema(key="id", cell=None, vector=hr.Sparse("terms", dtype="float16"))
    for weight in (1e6, float("nan"), -1e-8):
        with pytest.raises(hr.OptionError, match=r"weights in \[0, 65504\].* of 'a' in row 1"):
            hr.Index.build(table(2).select(["id"]), half, vectors={"terms": [{}, {"a": weight}]})
    with pytest.raises(hr.ShapeError, match="600 rows, got 3"):
        index.add(table(600), vectors={"terms": ROWS[:3]})
    with pytest.raises(hr.OptionError, match="dtype: expected 'float32', 'float16' or None"):
        hr.Sparse("terms", dtype="bfloat16")


STAGES: dict[str, tuple[Any, str]] = {
    "MMR": (hr.MMR(0.5), "MMR.vector: expected an index with"),
    "Dedup": (hr.Dedup(0.5, vector="terms"), "Dedup.vector: expected one of"),
    "Feedback": (hr.Feedback(), "Feedback.dense: expected 0 beside 'terms'"),
}


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_that_compares_vectors_is_refused(stage: str, index: hr.Index) -> None:
    made, words = STAGES[stage]
    with pytest.raises(hr.OptionError, match=words):
        index.recall(vectors=QUERIES[:1], scope=SCOPE, shaping=made)


def test_rows_of_python_have_every_form_of_mapping() -> None:
    schema = hr.Schema(key="id", cell=None, vector=hr.Sparse("terms"))
    said: list[Any] = [{5: 1.0}, {"5": 2.0}, ([5, 6], [3.0, 1.0]), None]
    made = hr.Index.build([{"id": at, "terms": one} for at, one in enumerate(said)], schema)
    made.update([{"id": 3, "terms": {5: 4.0}}])
    assert made.recall_one(vector={"terms": {5: 1.0}}).keys == [3, 2, 1, 0]


@pytest.mark.parametrize("memory", ["ram", "mmap"])
def test_damaged_postings_are_refused_where_blocks_are_read_late(
    index: hr.Index, tmp_path: Path, memory: Any
) -> None:
    index.save(tmp_path / "saved")
    (file,) = (tmp_path / "saved").glob("*sparse-0*")
    content = bytearray(file.read_bytes())
    weights = index._state.segments[0].dense["terms"].sparse_parts()["weights"]  # type: ignore[index]
    content[content.index(weights.tobytes()) + len(weights) - 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(hr.CorruptIndexError, match="sparse-0"):
        hr.Index.open(tmp_path / "saved", memory=memory, verify="structure")


def test_weights_that_are_nothing_are_no_vector() -> None:
    rows = [{"a": 0.0}, {"a": 1e-30}, {}, None, {"a": 1.0, "b": 0.0}]
    schema = hr.Schema(key="id", cell=None, vector=hr.Sparse("terms"))
    made = hr.Index.build(table(5).select(["id"]), schema, vectors={"terms": rows})
    found = made.recall(vectors=[{"a": 2.0}, {"b": 1.0}, {"a": 1e-30}, {}, None])
    assert [hits.keys for hits in found] == [["k4"], [], [], [], []]


def test_a_second_stage_scores_the_candidates_of_other_arms_alone(index: hr.Index) -> None:
    call: dict[str, Any] = {
        "text": ["fox"], "vectors": QUERIES[2:3], "scope": SCOPE, "depth": 200,
        "fusion": hr.RRF(weights={"terms": 0}), "limit": 200,
    }  # fmt: skip
    found = index.recall(**call, shaping=hr.Rerank(window=200, vector="terms"))[0]
    first = index.recall(text=["fox"], scope=SCOPE, fusion=hr.RRF(), depth=200, limit=200)[0]
    assert sorted(found.keys) == sorted(first.keys)  # nothing that the text did not find
    rows = [ROWS[int(key[1:])] for key in found.keys]
    scores = [sum(w * row.get(k, 0.0) for k, w in QUERIES[2].items()) for row in rows if row]
    assert scores == pytest.approx(sorted(scores, reverse=True), abs=1e-5)
    assert scores[0] > 0


def test_counts_and_facets_are_of_rows_that_share_a_term(index: hr.Index) -> None:
    hits = index.recall(vectors=QUERIES, scope=SCOPE, facets=("hue",), limit=1)
    for asked, own in zip(QUERIES, hits, strict=True):
        want = [
            at for at, row in enumerate(ROWS) if at % 3 != 1 and row and row.keys() & asked.keys()
        ]
        assert own.total == len(want)
        assert sum(n for _, n in own.facets["hue"]) == len(want)


# ---- a column of three pages, whose scans leave terms out


N, NNZ = 140_000, 10


@pytest.fixture(scope="module")
def wide() -> tuple[sp.csr_matrix, hr.Index]:
    rng = np.random.default_rng(6)
    ids = np.sort(np.minimum(rng.zipf(1.2, (N, NNZ)), 5_000), axis=1)
    keep = np.ones(ids.shape, bool)
    keep[:, 1:] = ids[:, 1:] != ids[:, :-1]
    weights = rng.gamma(1.0, 1.0, int(keep.sum())).astype(np.float16) + np.float16(0.01)
    weights[rng.random(len(weights)) < 0.1] = 1.0  # so that scores tie
    parts = weights.astype(np.float32), ids[keep], np.append(0, keep.sum(axis=1).cumsum())
    rows = sp.csr_matrix(parts, shape=(N, 5_001))
    ids_ = pa.table({"id": np.arange(N), "user": np.arange(N) % 50 // 10})
    schema = hr.Schema(key="id", cell="user", vector=hr.Sparse("terms", dtype="float16"), stored=())
    return rows, hr.Index.build(ids_, schema, vectors={"terms": rows}, threads=2)


def exact(rows: sp.csr_matrix, query: dict[int, float]) -> Any:
    """Scores as docs/scoring.md defines them; 0 where no term is shared."""
    by_term, total = rows.tocsc(), np.zeros(rows.shape[0])
    for term in sorted(query, key=str):
        own = slice(by_term.indptr[term], by_term.indptr[term + 1])
        total[by_term.indices[own]] += float(np.float32(query[term])) * by_term.data[own].astype(
            np.float64
        )
    return total.astype(np.float32)


@pytest.mark.parametrize("limit", [1, 10, 500])
def test_a_large_column_is_searched_exactly(limit: int, wide: Any) -> None:
    rows, index = wide
    rng = np.random.default_rng(limit)
    cells = np.arange(N) % 50 // 10
    for users in ([0, 1, 2, 3, 4], [1], [0, 4]):
        asked = []
        for n in (2, 30):
            ids = np.unique(np.minimum(rng.zipf(1.2, n), 5_000))
            asked.append({int(one): float(rng.gamma(0.5, 2.0) + 0.01) for one in ids})
        asked.append({1: 1e-6, 2: 1e-5, 4_000: 9.0})  # two terms that hardly add anything
        asked.append({1: 1.0})  # thousands of equal scores
        for threads_of in (asked, asked[:1]):
            found = index.recall(
                vectors=threads_of, scope=hr.Scope(users), limit=limit, depth=limit
            )
            for query, hits in zip(threads_of, found, strict=True):
                scores = np.where(np.isin(cells, users), exact(rows, query), 0)
                best = np.lexsort((np.arange(N), -scores.astype(np.float64)))[:limit]
                best = best[scores[best] > 0]
                assert hits.keys == best.tolist()
                assert [hit.score for hit in hits] == scores[best].tolist()


def test_a_score_that_is_off_by_a_bit_is_seen(wide: Any) -> None:
    rows, index = wide
    (hits,) = index.recall(vectors=[{2: 1.5, 3: 0.5}], scope=hr.Scope([0, 1, 2, 3, 4]), limit=5)
    scores = exact(rows, {2: np.nextafter(np.float32(1.5), 2), 3: 0.5})
    assert [hit.score for hit in hits] != scores[hits.keys].tolist()
