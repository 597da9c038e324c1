"""Heads of vectors: which columns get them, what they hold, and that scans live by their bound."""

from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from engine import forge
from engine.head_definition import REST, Floats, Head, check_definition, is_narrow
from engine.planted_planes import (
    lost_rows,
    no_residual,
    no_rest,
    of_heads,
    other_directions,
    with_heads,
)
from engine.test_dense_plane import built, is_plain_reply
from hyrecall import _core

DIM = 64
PAYING_ROWS = 65_536  # from so many rows on a column may get heads by itself


@pytest.fixture(params=["head8", "head4"])
def _forced(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYRECALL_FRONT_PLANE", request.param)


@dataclass
class World:
    rows: Floats
    queries: Floats


def spectral(n: int, dim: int, seed: int = 0, fall: float = 8) -> World:
    """Rows of falling energy by direction, as sentence models make them, around some centres."""
    n_queries = 40
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    strength = np.exp(-np.arange(dim) * fall / dim)
    centres = rng.standard_normal((200, dim)) * strength
    near = centres[rng.integers(200, size=n + n_queries)]
    drawn = (near + 0.5 * rng.standard_normal(near.shape) * strength) @ turn
    return World(drawn[:n].astype(np.float32), drawn[n:].astype(np.float32))


def heads_of(index: hr.Index) -> list[Head | None]:
    return [segment.dense["embedding"].head for segment in index._state.segments]


# ---- who has heads ----


def test_rows_of_few_directions_get_heads_and_others_none() -> None:
    made = spectral(PAYING_ROWS, 128)
    index = built(made.rows, threads=2)
    (head,) = heads_of(index)
    assert head is not None
    planes = index._state.segments[0].dense["embedding"].nbytes - made.rows.nbytes
    assert planes <= 0.38 * made.rows.nbytes + 4 * len(made.rows)  # and the norms
    few = built(made.rows[: PAYING_ROWS - 1])
    assert heads_of(few) == [None]
    rng = np.random.default_rng(3)
    gaussian = rng.standard_normal((PAYING_ROWS, 128)).astype(np.float32)
    assert heads_of(built(gaussian, threads=2)) == [None]


def test_replies_with_heads_by_choice_are_the_plain_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    made = spectral(PAYING_ROWS, 128)
    index = built(made.rows, threads=2)
    for n_queries, limit in ((1, 10), (1, 100), (5, 10), (40, 10)):
        for first in range(0, 40, max(n_queries, 8)):
            queries = made.queries[first : first + n_queries]
            assert is_plain_reply(monkeypatch, index, queries, limit)


@pytest.mark.slow
def test_wide_rows_get_no_more_directions_than_a_column_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A third of their dimensions would be 693 directions."""
    rng = np.random.default_rng(5)
    basis, centres = rng.standard_normal((40, 2_080)), rng.standard_normal((200, 40))
    rows = np.empty((PAYING_ROWS, 2_080), ml_dtypes.bfloat16)
    for first in range(0, PAYING_ROWS, 4_096):
        near = centres[rng.integers(200, size=4_096)] + 0.5 * rng.standard_normal((4_096, 40))
        rows[first : first + 4_096] = (near @ basis).astype(ml_dtypes.bfloat16)
    index = built(rows, threads=2)
    (head,) = heads_of(index)
    assert head is not None
    assert len(head[0]) == 508 * 2_080
    for at in range(4):
        query = rows[at : at + 1].astype(np.float32) + 0.1
        assert is_plain_reply(monkeypatch, index, query, 10)


@pytest.mark.usefixtures("_forced")
def test_several_vector_columns_have_directions_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, other = spectral(3_000, 40), spectral(3_000, 24, seed=1)
    schema = hr.Schema(key="id", cell=None, text=(), vector=("a", "b"))
    vectors = {"a": made.rows, "b": other.rows}
    index = hr.Index.build(pa.table({"id": np.arange(3_000)}), schema, vectors=vectors)
    queries = {"a": made.queries, "b": other.queries}
    through_heads = index.recall(vectors=queries, limit=20).to_arrow()
    sizes = [len(index._state.segments[0].dense[arm].head[0]) for arm in ("a", "b")]
    assert sizes == [20 * 40, 12 * 24]
    monkeypatch.setenv("HYRECALL_FRONT_PLANE", "rows")
    assert through_heads.equals(index.recall(vectors=queries, limit=20).to_arrow())


# ---- life of an index ----


@pytest.mark.usefixtures("_forced")
def test_merges_keep_the_directions_that_most_rows_have(monkeypatch: pytest.MonkeyPatch) -> None:
    made = spectral(3_000, DIM)
    index = built(made.rows, cells=5)
    (before,) = heads_of(index)
    columns = {"id": np.arange(3_000, 3_900), "cell": np.arange(900) % 5, "at": np.arange(900) % 7}
    index.add(pa.table(columns), vectors={"embedding": spectral(900, DIM, seed=4).rows})
    index.delete([0], scope=0)
    assert is_plain_reply(monkeypatch, index, made.queries, 30, 5)
    index.compact()
    (after,) = heads_of(index)
    assert np.array_equal(before[0], after[0])
    rows = index._state.segments[0].dense["embedding"].rows.view(np.float32).reshape(-1, DIM)
    check_definition(rows, after)
    assert is_plain_reply(monkeypatch, index, made.queries, 30, 5)


def without(folder: Path, *parts: str) -> None:
    """Take parts of a saved index out of its MANIFEST."""
    data = forge.read_manifest(folder)
    for part in parts:
        del data["segments"][0]["files"][f"{part}-0"]
    forge.seal(folder, forge.json.dumps(data).encode() + b"\n")


@pytest.mark.usefixtures("_forced")
def test_an_index_saved_without_heads_opens_and_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = spectral(1_500, 30)
    built(made.rows, cells=2).save(tmp_path)
    without(tmp_path, "directions", "heads")
    opened = hr.Index.open(tmp_path)
    assert heads_of(opened) == [None]
    assert is_plain_reply(monkeypatch, opened, made.queries, 10, 2)


@pytest.mark.usefixtures("_forced")
@pytest.mark.parametrize("part", ["plane", "directions", "heads"])
def test_a_folder_with_a_part_of_the_heads_is_refused(part: str, tmp_path: Path) -> None:
    built(spectral(1_500, 30).rows).save(tmp_path)
    without(tmp_path, part)
    with pytest.raises(hr.CorruptIndexError, match="plane, directions and heads"):
        hr.Index.open(tmp_path)


@pytest.mark.parametrize("fronts", [("head8", "head4"), ("head4", "head8"), ("head4", "int8")])
def test_each_segment_keeps_the_heads_that_it_has(
    fronts: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, other = spectral(9_000, DIM), spectral(5_000, DIM, seed=6)
    monkeypatch.setenv("HYRECALL_FRONT_PLANE", fronts[0])
    index = built(made.rows, cells=5)
    monkeypatch.setenv("HYRECALL_FRONT_PLANE", fronts[1])
    columns = {"id": np.arange(9_000, 14_000), "cell": np.arange(5_000) % 5}
    table = pa.table(columns | {"at": np.arange(5_000) % 7})
    index.add(table, vectors={"embedding": other.rows})
    index.save(tmp_path)
    index = hr.Index.open(tmp_path, device="cpu")
    n_heads = DIM // 2 + REST
    narrow = [head and is_narrow(head[1], n_heads) for head in heads_of(index)]
    of = {"head8": False, "head4": True, "int8": None}
    assert narrow == [of[front] for front in fronts]
    for front in ("head4", "head8"):
        monkeypatch.setenv("HYRECALL_FRONT_PLANE", front)
        for queries in (made.queries[:1], other.queries[:1], made.queries):
            assert is_plain_reply(monkeypatch, index, queries, 30, 5)
    index.compact()
    (head,) = heads_of(index)
    assert head is not None
    assert is_narrow(head[1], n_heads) == narrow[0], "a merge keeps the heads of most rows"
    assert is_plain_reply(monkeypatch, index, made.queries, 30, 5)


# ---- heads themselves ----


@pytest.mark.usefixtures("_forced")
@pytest.mark.parametrize("dim", [1, 3, 31, 33, 100])
def test_heads_are_their_definition(dim: int) -> None:
    rows = spectral(600, dim).rows
    column = _core.DenseColumn.build(
        "v", "float32", dim, [rows], np.zeros(0, np.uint8), np.arange(600, dtype=np.uint32), 2
    )
    assert column.head is not None
    check_definition(rows, column.head)


@pytest.mark.usefixtures("_forced")
def test_directions_capture_the_energy_that_there_is_to_have() -> None:
    rows = spectral(4_000, DIM).rows
    unit = rows.astype(np.float64) / np.linalg.norm(rows, axis=1, keepdims=True)
    (head,) = heads_of(built(rows))
    directions = head[0].reshape(-1, DIM).astype(np.float64)
    most = np.sort(np.linalg.eigvalsh(unit.T @ unit))[::-1][: len(directions)].sum()
    assert ((unit @ directions.T) ** 2).sum() > 0.98 * most


@pytest.mark.usefixtures("_forced")
def test_directions_are_the_same_whatever_the_threads() -> None:
    rows = spectral(4_000, DIM).rows
    one, several = heads_of(built(rows)), heads_of(built(rows, threads=3))
    assert np.array_equal(one[0][0], several[0][0])


@pytest.mark.usefixtures("_forced")
@pytest.mark.parametrize("rows", [np.zeros((700, 24)), np.ones((700, 24)), np.eye(24)[:5]])
def test_rows_that_span_little_get_directions_all_the_same(
    rows: Floats, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = built(rows.astype(np.float32))
    assert is_plain_reply(monkeypatch, index, spectral(1, 24).queries, 5)


@pytest.mark.usefixtures("_forced")
def test_directions_that_are_no_basis_are_refused() -> None:
    column = built(spectral(600, 24).rows)._state.segments[0].dense["embedding"]
    directions, plane = column.head
    nan = directions.copy()
    nan[5] = np.nan
    for wrong in (directions * np.float32(1.01), nan, directions[:-1], np.zeros(0, np.float32)):
        with pytest.raises(hr.CorruptIndexError, match="directions"):
            _core.DenseColumn.from_parts(
                "v", "float32", 24, column.rows, column.inverse_norms,
                (column.int8_plane, (wrong, plane)),
            )  # fmt: skip


@pytest.mark.usefixtures("_forced")
def test_planes_of_heads_of_another_size_are_refused() -> None:
    column = built(spectral(600, 24).rows)._state.segments[0].dense["embedding"]
    directions, (codes, scales, residuals) = column.head
    for wrong in (
        (codes[:-64], scales, residuals),
        (np.concatenate([codes, codes]), scales, residuals),  # of twice or half the bits
        (codes[: len(codes) // 2], scales, residuals),
        (codes, scales[:-16], residuals[:-16]),
        (codes, scales, residuals[:-1]),
        (codes[:0], scales[:0], residuals[:0]),
    ):
        with pytest.raises(hr.CorruptIndexError, match="expected a plane of"):
            _core.DenseColumn.from_parts(
                "v", "float32", 24, column.rows, column.inverse_norms,
                (column.int8_plane, (directions, tuple(part.copy() for part in wrong))),
            )  # fmt: skip


# ---- planted bugs: heads that a scan must not be able to live with ----


PLANTED = {
    "no_rest": no_rest(DIM),
    "no_residual": of_heads(no_residual),
    "other_directions": other_directions(DIM),
    "lost_rows": of_heads(lost_rows),
}


@pytest.mark.plain_cases(1)
@pytest.mark.usefixtures("_forced")
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_in_the_heads_is_seen(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for fall in (8, 1):
        made = spectral(12_000, DIM, fall=fall)
        same = with_heads(built(made.rows), lambda head: head)
        assert is_plain_reply(monkeypatch, same, made.queries, 10)
        broken = with_heads(built(made.rows), PLANTED[bug])
        seen.append(not is_plain_reply(monkeypatch, broken, made.queries, 10))
    assert any(seen)
