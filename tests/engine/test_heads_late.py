"""Heads that nothing has checked yet, and rows made against the bound of heads of 4 bits."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from engine.head_definition import REST, Floats, Head, unpacked
from engine.planted_planes import with_heads
from engine.test_dense_heads import World, built, heads_of, spectral
from seams import disk

# ---- a reply is right, or damage is told, whichever plane a scan takes ----

BLOCK = 4096
CELLS = 5
ROLES = ("heads-0", "plane-0", "vectors-0")
FRONTS = (None, "head8", "int8", "rows")


@dataclass
class Saved:
    """A saved index with heads, and what it was made of."""

    folder: Path
    world: World


@pytest.fixture(scope="module", params=["head8", pytest.param("head4", marks=pytest.mark.slow)])
def saved(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Saved]:
    world = spectral(20_000, 64)
    folder = tmp_path_factory.mktemp("heads") / "index"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "BLOCK_BYTES", BLOCK)
        patch.setenv("HYRECALL_FRONT_PLANE", request.param)
        built(world.rows, threads=2, cells=CELLS).save(folder)
        patch.delenv("HYRECALL_FRONT_PLANE")
        yield Saved(folder, world)


def everyone() -> hr.Scope:
    return hr.Scope([(cell,) for cell in range(CELLS)])


Ask = Callable[[hr.Index, World], pa.Table]


def one(index: hr.Index, world: World) -> pa.Table:
    """A query over all rows, which reads heads by choice."""
    return index.recall(vectors=world.queries[:1], scope=everyone(), limit=5, depth=5).to_arrow()


def several(index: hr.Index, world: World) -> pa.Table:
    return index.recall(vectors=world.queries[:20], scope=everyone(), limit=30).to_arrow()


def scoped(index: hr.Index, world: World) -> pa.Table:
    """Queries of different cells."""
    scope = [(number % CELLS,) for number in range(7)]
    return index.recall(vectors=world.queries[:7], scope=scope, limit=10).to_arrow()


def narrow(index: hr.Index, world: World) -> pa.Table:
    """A query over a few rows, which are scored without a plane."""
    few = hr.Filter(at=[3])
    asked = index.recall(vectors=world.queries[1:2], scope=(2,), filter=few, depth=200)
    return asked.to_arrow()


ASKS: tuple[Ask, ...] = (one, several, scoped, narrow)


@contextmanager
def damaged(folder: Path, role: str, block: int) -> Iterator[Path]:
    """Overwrite a block of a role's file for a while."""
    file = next(folder.glob(f"*-{role}.arrow"))
    whole = file.read_bytes()
    assert 1 <= block < len(whole) // BLOCK - 2, "a block that opening leaves"
    try:
        file.unlink()  # what others have mapped stays as it is
        file.write_bytes(whole[: block * BLOCK] + b"\xff" * BLOCK + whole[(block + 1) * BLOCK :])
        yield file
    finally:
        file.unlink()
        file.write_bytes(whole)


def opened(folder: Path, threads: int = 1) -> hr.Index:
    return hr.Index.open(folder, verify="structure", device="cpu", threads=threads)


Outcome = tuple[str | None, str, str]  # the first plane, the question, and how it was answered


def outcome(saved: Saved, ask: Ask, expected: pa.Table, damage: Path, threads: int) -> str:
    """Whether a reply is "right", "wrong" or "refused"."""
    try:
        index = opened(saved.folder, threads)
        return "right" if ask(index, saved.world).equals(expected) else "wrong"
    except hr.CorruptIndexError as fault:
        return "refused" if str(fault).startswith(f"{damage}: expected checksum") else "wrong"


def outcomes(saved: Saved, role: str, patch: pytest.MonkeyPatch, threads: int) -> Iterator[Outcome]:
    """The outcomes of all questions, with one block of a file damaged after another."""
    n_blocks = next(saved.folder.glob(f"*-{role}.arrow")).stat().st_size // BLOCK
    healthy = hr.Index.open(saved.folder, verify="full", device="cpu")
    expected = {ask: ask(healthy, saved.world) for ask in ASKS}
    for block in np.linspace(1, n_blocks - 4, 8).astype(int):
        with damaged(saved.folder, role, int(block)) as file:
            for front in FRONTS:
                with patch.context() as switch:
                    if front is not None:
                        switch.setenv("HYRECALL_FRONT_PLANE", front)
                    for ask in ASKS:
                        how = outcome(saved, ask, expected[ask], file, threads)
                        yield front, ask.__name__, how


EVERY_ASK = {"one", "several", "scoped", "narrow"}

READERS = {  # which questions read a file somewhere, by the first plane
    "heads-0": {None: {"one"}, "head8": EVERY_ASK, "int8": set(), "rows": set()},
    "plane-0": {
        None: {"one", "several", "scoped"},
        "head8": EVERY_ASK,
        "int8": EVERY_ASK,
        "rows": set(),
    },
    "vectors-0": dict.fromkeys(FRONTS, EVERY_ASK),
}


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize(
    ("role", "threads"),
    [
        *((role, 1) for role in ROLES),
        ("plane-0", 2),
        *(pytest.param(role, 2, marks=pytest.mark.slow) for role in ROLES if role != "plane-0"),
    ],
)
def test_a_reply_beside_damage_is_right_or_refused(
    saved: Saved, role: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = set(outcomes(saved, role, monkeypatch, threads))
    assert "wrong" not in {reply for _, _, reply in seen}
    refused = {(front, ask) for front, ask, reply in seen if reply == "refused"}
    assert refused == {(front, ask) for front in FRONTS for ask in READERS[role][front]}


@pytest.mark.parametrize("role", ROLES)
def test_the_case_above_notices_blocks_that_nobody_compares(
    saved: Saved, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: without the checks the same damage makes wrong replies."""
    monkeypatch.setattr(disk, "late_checks", lambda *_: None)
    assert any(reply == "wrong" for _, _, reply in outcomes(saved, role, monkeypatch, 1))


def add_and_compact(index: hr.Index, _: Path) -> None:
    columns = {"id": [20_000], "cell": [0], "at": [0]}
    index.add(pa.table(columns), vectors={"embedding": np.ones((1, 64), np.float32)})
    index.compact()


def delete_and_compact(index: hr.Index, _: Path) -> None:
    index.delete([1], scope=everyone())
    index.compact()


def save_elsewhere(index: hr.Index, folder: Path) -> None:
    index.save(folder)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("change", [add_and_compact, delete_and_compact, save_elsewhere])
def test_damage_gets_no_new_checksum(
    saved: Saved, role: str, change: Callable[[hr.Index, Path], None], tmp_path: Path
) -> None:
    with damaged(saved.folder, role, 20) as file:
        with pytest.raises(hr.CorruptIndexError) as caught:
            change(opened(saved.folder), tmp_path / "other")
        assert str(caught.value).startswith(f"{file}: expected checksum")
        assert not (tmp_path / "other" / "MANIFEST").exists()


# ---- scores at the edge of the bound: scans find all of them, whichever plane ----

DIM, DIRECTIONS = 48, 24
ROWS = 12_288  # three windows of a scan
SAMPLE = 2_048  # of them: so many, spread evenly, tell the directions
MADE = 400
SCORE = 0.08  # of the rows that are made; the others score below 0
LIMITS = (1, 5, 20, 50, 100, 149)


@dataclass
class Edge:
    rows: Floats
    query: Floats  # [1, DIM]


def random_codes(rng: np.random.Generator, n: int) -> Floats:
    """Odd numbers as those of rows whose elements are alike, and 1 for each element of the rest."""
    magnitudes = 2 * np.floor(np.abs(rng.standard_normal((n, DIRECTIONS))) * 5.9 / 2) + 1
    codes = np.minimum(magnitudes, 15) * rng.choice((-1, 1), size=magnitudes.shape)
    return np.concatenate([codes, np.ones((n, REST))], axis=1)


def edge(exponent: int) -> Edge:
    """Heads that are ``codes + e * query``: what codes leave of them lies along the query, so the
    bound says no more than the score. Codes that are orthogonal to the query stay as they are.

    Rows and query lie in the span of the directions, and beside it along one vector.
    """
    rng = np.random.default_rng(1)
    turn, _ = np.linalg.qr(rng.standard_normal((DIM, DIM)))
    basis, outside = turn[:DIRECTIONS], turn[DIRECTIONS]
    drawn = rng.standard_normal((ROWS, DIRECTIONS))
    drawn[:, 0] = -1.5 - 0.3 * np.abs(drawn[:, 0])  # far from the query
    rows = drawn @ basis
    (head,) = heads_of(built(rows.astype(np.float32)))
    assert head is not None
    directions = head[0].reshape(DIRECTIONS, DIM).astype(np.float64)
    along = directions @ basis[0]
    codes_of_query = np.round(along / np.abs(along).max() * 127)  # held exactly
    rest = 4
    query = codes_of_query @ directions + 2 * rest * outside
    direction = np.concatenate([codes_of_query, np.full(REST, rest)])
    direction /= np.linalg.norm(direction)
    codes = random_codes(rng, 60_000)
    cosines = codes @ direction / np.linalg.norm(codes, axis=1)
    codes = codes[np.abs(cosines) < 0.004][:MADE]
    assert len(codes) == MADE
    least, most = np.zeros(MADE), np.full(MADE, 4.0)
    for _ in range(60):
        share = (least + most) / 2
        heads = codes + share[:, None] * direction
        is_low = heads @ direction / np.linalg.norm(heads, axis=1) < SCORE + 1e-6 * np.arange(MADE)
        least, most = np.where(is_low, share, least), np.where(is_low, most, share)
    beside = 2 * heads[:, DIRECTIONS:].mean(axis=1, keepdims=True)
    made = heads[:, :DIRECTIONS] @ directions + beside * outside
    # The first of them give a threshold, the others come later. None of them is in the sample.
    free = np.setdiff1d(np.arange(ROWS), np.arange(SAMPLE) * ROWS // SAMPLE)
    early, late = free[free < 4_096], free[free >= 8_192]
    places = [rng.choice(early, 150, replace=False), rng.choice(late, MADE - 150, replace=False)]
    rows[np.concatenate(places)] = rng.permutation(made)
    scaled = (rows * 2.0**exponent, query * 2.0**-exponent)
    return Edge(scaled[0].astype(np.float32), scaled[1].astype(np.float32)[None])


def room(index: hr.Index, made: Edge) -> Floats:
    """How far the bound of heads lies above the scores of the best rows."""
    (head,) = heads_of(index)
    assert head is not None
    directions = head[0].reshape(DIRECTIONS, DIM).astype(np.float64)
    unit = made.query[0].astype(np.float64)
    unit /= np.linalg.norm(unit)
    along = directions @ unit
    rest = np.sqrt(max(0.0, 1 - along @ along))
    codes, scales, residuals = unpacked(head[1], ROWS, DIRECTIONS + REST)
    held = codes * scales[:, None].astype(np.float64)
    most = held @ np.concatenate([along, np.full(REST, rest / 2)]) + residuals
    rows = made.rows.astype(np.float64)
    scores = rows @ unit / np.linalg.norm(rows, axis=1)
    best = np.argsort(-scores)[:MADE]
    return np.asarray(most[best] - scores[best])


def finds_all(index: hr.Index, made: Edge, patch: pytest.MonkeyPatch) -> bool:
    def reply(front: str, limit: int) -> object:
        with patch.context() as switch:
            switch.setenv("HYRECALL_FRONT_PLANE", front)
            return index.recall(vectors=made.query, scope=0, limit=limit, depth=limit).to_arrow()

    return all(reply("head4", limit) == reply("rows", limit) for limit in LIMITS)


@pytest.mark.parametrize("exponent", [0, -50, 50])
def test_rows_at_the_edge_of_the_bound_are_found(
    exponent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYRECALL_FRONT_PLANE", "head4")
    made = edge(exponent)
    index = built(made.rows)
    rooms = room(index, made)
    assert rooms.min() > 0
    assert np.quantile(rooms, 0.1) < 1e-5, "rows at the edge"
    assert finds_all(index, made, monkeypatch)

    def less(head: Head) -> Head:
        """Residuals that are a hundredth less than what codes leave."""
        directions, (codes, scales, residuals) = head
        return directions, (codes, scales, residuals * np.float32(0.99))

    broken = with_heads(built(made.rows), less)
    assert not finds_all(broken, made, monkeypatch)
