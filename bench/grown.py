"""Rows as embedding models make them, grown to any number by mixing real ones.

A model's rows have most of their energy in few directions, and each row has near neighbours.
Gaussian rows have neither, so they are the worst case for any first pass. Copies with isotropic
noise keep the neighbours, but have too much energy in directions that a model leaves empty. Here
each new row is a mixture of a seed row, one of its neighbours, and a neighbour of that neighbour,
with weights from a Dirichlet distribution and a little white noise.

Such rows are easier than the model's own: a mixture keeps what neighbours share and averages away
what sets them apart. Of 12,465 rows of all-MiniLM-L6-v2 (SciFact, LoCoMo, Cranfield) the first 64,
128 and 192 directions hold .67, .83 and .92 of the energy, of rows grown from them .74, .86 and
.93; of 44,617 rows of more sets .59, .78 and .89. More noise makes grown rows harder:
``HYRECALL_BENCH_NOISE=0.35`` gives .69, .82 and .90.

Seeds are the embeddings that ``HYRECALL_BENCH_DATA`` names (one or more folders, as in PATH, each
with ``corpus.parquet`` and ``queries.parquet``). Without it they are drawn with the spectrum of a
sentence model, so that each benchmark runs everywhere; the data's name says which.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from bench.corpus import Floats, Ints, generator, unit

DIM = 384
N_NEIGHBOURS = 8
USUAL_NOISE = 0.2  # length of the white noise beside a unit row
NOISE = float(os.environ.get("HYRECALL_BENCH_NOISE", USUAL_NOISE))
_ROWS_AT_A_TIME = 16_384
_DRAWN_ROWS, _DRAWN_QUERIES = 4_000, 256
# Share of the energy in the first directions of all-MiniLM-L6-v2's rows (44,617 real texts).
SPECTRUM = {0: 0.0, 32: 0.44, 64: 0.59, 96: 0.70, 128: 0.78, 192: 0.89, 256: 0.96, 384: 1.0}


@dataclass(frozen=True)
class Seeds:
    """Rows and queries of a model, of length 1, and who is near whom."""

    rows: Floats  # [n, dim]
    queries: Floats  # [n_queries, dim]
    neighbours: Ints  # [n, N_NEIGHBOURS]: rows nearest by cosine, the row itself left out
    is_real: bool


@cache
def seeds() -> Seeds:
    """Read the sets that the environment names, or draw some."""
    folders = data_folders()
    if folders:
        rows = np.concatenate([_embeddings(folder / "corpus.parquet") for folder in folders])
        queries = np.concatenate([_embeddings(folder / "queries.parquet") for folder in folders])
    else:
        rows, queries = _drawn(_DRAWN_ROWS, "seeds"), _drawn(_DRAWN_QUERIES, "seed queries")
    return Seeds(unit(rows), unit(queries), _neighbours(rows), bool(folders))


def named(kind: str) -> str:
    """Return a kind of grown rows with what is unusual about them: drawn seeds, another noise."""
    drawn = "" if data_folders() else " from drawn seeds"
    return f"{kind}{drawn}" + ("" if NOISE == USUAL_NOISE else f", noise {NOISE:g}")


def data_folders() -> list[Path]:
    """Return the folders of real sets that the environment names."""
    named = os.environ.get("HYRECALL_BENCH_DATA", "").split(os.pathsep)
    return [Path(folder) for folder in named if folder]


def _embeddings(path: Path) -> Floats:
    """Read the embeddings of a table, without rows that a model gave no direction."""
    column = pq.read_table(path, columns=["embedding"]).column(0).combine_chunks()
    dim = column.type.list_size
    rows = np.asarray(column.flatten().to_numpy(zero_copy_only=False), np.float32).reshape(-1, dim)
    kept: Floats = rows[np.linalg.norm(rows, axis=1) > 0]
    return kept


def _drawn(n: int, name: str) -> Floats:
    """Draw rows whose energy is spread over directions as a sentence model's is."""
    ends = np.array(list(SPECTRUM))
    energy = np.diff(np.interp(np.arange(DIM + 1), ends, list(SPECTRUM.values())))
    turn, _ = np.linalg.qr(generator("directions of drawn seeds").standard_normal((DIM, DIM)))
    drawn = generator(name).standard_normal((n, DIM)) * np.sqrt(energy)
    return np.asarray(drawn @ turn, np.float32)


def _neighbours(rows: Floats) -> Ints:
    """Return the nearest rows of each, by cosine."""
    found = np.empty((len(rows), N_NEIGHBOURS), np.int64)
    for begin in range(0, len(rows), 1_024):
        scores = rows[begin : begin + 1_024] @ rows.T
        scores[np.arange(len(scores)), np.arange(begin, begin + len(scores))] = -np.inf
        found[begin : begin + 1_024] = np.argpartition(scores, -N_NEIGHBOURS)[:, -N_NEIGHBOURS:]
    return found


def rows(n: int, dim: int = DIM, *, part: int = 0) -> Floats:
    """Grow the seeds to n rows; of twice their width where ``dim`` is that.

    A wide row is two mixtures around one seed row, side by side. Parts of different numbers have
    different rows.
    """
    held = seeds()
    sides = _sides(dim)
    name = "grown" if part == 0 else f"grown {part}"
    base = generator(name).integers(len(held.rows), size=n)
    out = np.empty((n, dim), np.float32)
    width = held.rows.shape[1]
    for side in range(sides):
        rng = generator(f"{name}, side {side}")
        _mix(held, base, rng, out[:, side * width : (side + 1) * width])
    return unit(out)


def queries(n: int, dim: int = DIM) -> Floats:
    """Return n queries of the seeds, repeated if there are fewer; wide ones hold each twice."""
    held = seeds().queries
    asked = held[np.arange(n) % len(held)]
    return unit(np.concatenate([asked] * _sides(dim), axis=1))


def _sides(dim: int) -> int:
    width = int(seeds().rows.shape[1])
    if dim not in (width, 2 * width):
        raise ValueError(f"dim: expected {width} or {2 * width}, got {dim}")
    return dim // width


def _mix(held: Seeds, base: Ints, rng: np.random.Generator, out: Floats) -> None:
    """Write a mixture around each base row; by pieces, so that noise needs little memory."""
    width = held.rows.shape[1]
    for begin in range(0, len(base), _ROWS_AT_A_TIME):
        first = base[begin : begin + _ROWS_AT_A_TIME]
        near = held.neighbours[first, rng.integers(N_NEIGHBOURS, size=len(first))]
        nearer = held.neighbours[near, rng.integers(N_NEIGHBOURS, size=len(first))]
        weights = rng.dirichlet((1.0, 1.0, 1.0), size=len(first)).astype(np.float32)
        part = weights[:, :1] * held.rows[first]
        part += weights[:, 1:2] * held.rows[near]
        part += weights[:, 2:] * held.rows[nearer]
        unit(part)
        noise = rng.standard_normal(part.shape, dtype=np.float32)
        out[begin : begin + len(first)] = part + noise * np.float32(NOISE / np.sqrt(width))


def energy(rows: Floats, directions: tuple[int, ...] = (64, 128, 192)) -> dict[int, float]:
    """Return the share of a sample's squared length in its first principal directions.

    The directions are those of the second moments, not centred: a score is not centred either.
    """
    sample = rows[:: max(len(rows) // 20_000, 1)].astype(np.float64)
    values = np.linalg.eigvalsh(sample.T @ sample)[::-1]
    return {m: float(values[:m].sum() / values.sum()) for m in directions if m < len(values)}


def rotation(rows: Floats) -> npt.NDArray[np.float32]:
    """Return the principal directions of a sample of rows as columns, the strongest first."""
    sample = rows[:: max(len(rows) // 20_000, 1)].astype(np.float64)
    _, vectors = np.linalg.eigh(sample.T @ sample)
    return np.ascontiguousarray(vectors[:, ::-1].astype(np.float32))
