"""Rows made against the bound of heads of 4 bits: their scores lie at its edge, and scans find all
of them, whichever plane they read first."""

from dataclasses import dataclass

import numpy as np
import pytest

import hyrecall as hr
from engine.head_definition import REST, Floats, Head, unpacked
from engine.planted_planes import with_heads
from engine.test_dense_heads import built, heads_of

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
