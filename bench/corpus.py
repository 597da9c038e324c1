"""Every drawn corpus of the benchmarks, from one seed: the same bytes on every machine.

``grown.py`` has rows as embedding models make them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bench import THREADS

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

SEED = 20_240_229
_CHUNK_ROWS = (
    65_536  # rows drawn at a time, so that float64 noise never stands beside the whole matrix
)


def generator(name: str) -> np.random.Generator:
    """Return the generator of one named corpus: adding a corpus leaves the others as they were."""
    return np.random.default_rng([SEED, *name.encode()])


# ---- vectors ----


def unit(rows: Floats) -> Floats:
    """Scale rows to length 1, in place; by pieces, since the norm squares them in a copy."""
    for begin in range(0, len(rows), _CHUNK_ROWS):
        part = rows[begin : begin + _CHUNK_ROWS]
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return rows


def gaussian_rows(n: int, dim: int, name: str = "rows") -> Floats:
    """Draw independent Gaussian directions: no structure, so nothing can be skipped."""
    rng = generator(f"gaussian {name} {dim}")
    return unit(rng.standard_normal((n, dim), dtype=np.float32))


def clustered_rows(
    n: int, dim: int, name: str = "rows", *, clusters: int = 256, spread: float = 0.5
) -> Floats:
    """Draw rows around shared centres, as sentence vectors lie: near neighbours abound."""
    centres = gaussian_rows(clusters, dim, "centres")
    rng = generator(f"clustered {name} {dim}")
    out = np.empty((n, dim), np.float32)
    for begin in range(0, n, _CHUNK_ROWS):
        part = out[begin : begin + _CHUNK_ROWS]
        rng.standard_normal(part.shape, dtype=np.float32, out=part)
        part *= spread / np.sqrt(dim)
        part += centres[rng.integers(clusters, size=len(part))]
    return unit(out)


def near_duplicates(n: int, dim: int, copies: int) -> tuple[Floats, Floats]:
    """Return rows of which the first ``copies`` are one row with noise, and queries beside it."""
    rows = gaussian_rows(n, dim, "duplicates")
    rng = generator("near duplicates")
    rows[:copies] = rows[0] + rng.standard_normal((copies, dim), dtype=np.float32) * np.float32(
        1e-4
    )
    queries = rows[:1] + rng.standard_normal((32, dim), dtype=np.float32) * np.float32(1e-2)
    return unit(rows), unit(queries.astype(np.float32))


# ---- tenants ----


def uniform_tenants(n: int, tenants: int) -> Ints:
    """Return every tenant the same number of rows, in random order."""
    return generator("uniform tenants").permutation(np.arange(n, dtype=np.int64) % tenants)


def zipf_tenants(n: int, tenants: int, exponent: float = 1.0) -> Ints:
    """Return tenant t a share that falls as 1 / (t + 1): a few are large, most are small."""
    share = 1.0 / np.arange(1, tenants + 1) ** exponent
    return generator("zipf tenants").choice(tenants, size=n, p=share / share.sum()).astype(np.int64)


# ---- texts ----

_SYLLABLES = [c + v for c in "bcdfghjklmnprstvwxyz" for v in "aeiou"]
VOCABULARY_SIZE = 50_000
_RARE_FROM = 100  # query words: without the hundred most frequent, which carry no wish
_RARE_TO = 20_000


def word(number: int) -> str:
    """Spell a word of the vocabulary: letters only, so that any analyzer keeps it whole."""
    high, low = divmod(number, 100)
    return _SYLLABLES[number // 10_000] + _SYLLABLES[high % 100] + _SYLLABLES[low]


@dataclass(frozen=True)
class Texts:
    """A corpus of words: document i holds ``tokens[offsets[i]:offsets[i + 1]]``."""

    tokens: npt.NDArray[np.int32]
    offsets: Ints

    @property
    def n_docs(self) -> int:
        """Documents."""
        return len(self.offsets) - 1

    @cached_property
    def strings(self) -> pa.LargeStringArray:
        """The documents as Arrow text."""
        words = pa.array([word(i) for i in range(VOCABULARY_SIZE)])

        def part(begin: int) -> pa.Array:
            offsets = self.offsets[begin : begin + _CHUNK_ROWS + 1]
            tokens = words.take(pa.array(self.tokens[offsets[0] : offsets[-1]]))
            rows = pa.ListArray.from_arrays(
                pa.array((offsets - offsets[0]).astype(np.int32)), tokens
            )
            return pc.binary_join(rows, " ").cast(pa.large_string())

        with ThreadPoolExecutor(THREADS) as pool:
            return pa.concat_arrays(list(pool.map(part, range(0, self.n_docs, _CHUNK_ROWS))))


def zipf_texts(
    n: int,
    shortest: int = 40,
    longest: int = 80,
    *,
    vocabulary: int = VOCABULARY_SIZE,
    exponent: float = 1.07,
    shift: float = 2.7,
    name: str = "texts",
) -> Texts:
    """Draw texts of 40 to 80 words whose frequencies fall as (rank + shift)^-exponent."""
    rng = generator(name)
    lengths = rng.integers(shortest, longest + 1, size=n)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    share = (np.arange(vocabulary) + shift) ** -exponent
    ends = np.cumsum(share / share.sum())
    ends[-1] = 1.0
    tokens = np.empty(offsets[-1], np.int32)
    for begin in range(0, len(tokens), 1 << 22):
        part = tokens[begin : begin + (1 << 22)]
        part[:] = np.searchsorted(ends, rng.random(len(part)), side="right")
    return Texts(np.minimum(tokens, vocabulary - 1, out=tokens), offsets)


def text_queries(n: int, fewest: int = 4, most: int = 8) -> list[list[int]]:
    """Draw queries of 4 to 8 words, log-uniform over the ranks: one is in about 1 % of texts."""
    rng = generator("text queries")
    out = []
    for length in rng.integers(fewest, most + 1, size=n):
        ranks = np.exp(rng.uniform(np.log(_RARE_FROM), np.log(_RARE_TO), size=length))
        out.append(list(dict.fromkeys(int(r) for r in ranks)))
    return out


def spell(query: list[int]) -> str:
    """Spell a query."""
    return " ".join(word(term) for term in query)
