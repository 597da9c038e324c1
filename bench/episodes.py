"""One user's memories as the recipes read them: texts, vectors, tags, times, edges, a conversation.

Texts have 40 words of a Zipf vocabulary of 20,000, queries 5 of the same. Every memory has two of
200 tags, and the queries of the tag graph name one. As many edges as memories, every tenth with
three to six ends. A tenth as many memories of another user lie in the same index.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

import hyrecall as hr
from bench import THREADS, corpus, reference
from hyrecall import recipes
from hyrecall.ask.recipe import Recipe

N_QUERIES, LIMIT = 256, 5
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
USER = "ana"
_VOCABULARY, _WORDS, _QUERY_WORDS, _TAGS = 20_000, 40, 5, 200


def _words(n: int, length: int, name: str) -> corpus.Texts:
    share = 1.0 / np.arange(1, _VOCABULARY + 1)
    tokens = corpus.generator(name).choice(_VOCABULARY, n * length, p=share / share.sum())
    return corpus.Texts(tokens.astype(np.int32), np.arange(n + 1, dtype=np.int64) * length)


def _times(rng: np.random.Generator, n: int) -> pa.Array:
    seconds = int(NOW.timestamp()) - rng.integers(0, 400 * 86_400, n)
    return pa.array(seconds * 1_000_000, pa.timestamp("us", "UTC"))


@dataclass
class Episodes:
    """``n`` memories of one user, then those of another; keys are their numbers as text."""

    n: int
    dim: int

    @cached_property
    def texts(self) -> corpus.Texts:
        return _words(self.n, _WORDS, "episodes")

    @cached_property
    def rows(self) -> corpus.Floats:
        return corpus.gaussian_rows(self.n + self.n // 10, self.dim, "episodes")

    @cached_property
    def table(self) -> pa.Table:
        rng = corpus.generator("columns of episodes")
        others = self.n // 10
        n = self.n + others
        keys = pa.array([f"e{at:06}" for at in range(n)])
        texts = pa.concat_arrays([self.texts.strings, _words(others, _WORDS, "others").strings])
        tags = pa.array([f"tag{one:03}" for one in rng.integers(_TAGS, size=2 * n)])
        columns = ("occurred_at", "updated_at", "created_at", "last_accessed")
        return pa.table(
            {
                "id": keys,
                "key": keys,
                "user": [USER] * self.n + ["bob"] * others,
                "description": texts,
                "data": pa.nulls(n, pa.string()),
                "tags": pa.ListArray.from_arrays(
                    pa.array(np.arange(n + 1, dtype=np.int32) * 2), tags
                ),
                "importance": rng.integers(0, 11, n).astype(np.float64),
                "pinned": rng.random(n) < 0.05,
                "source": rng.choice(("memory", "summary", "session"), n),
                **{name: _times(rng, n) for name in columns},
            }
        )

    def index(self, recipe: Recipe, *, scoped: bool = True) -> hr.Index:
        """Build what a recipe asks; not scoped: the user's memories alone, for everybody."""
        table, rows = self.table, self.rows
        if not scoped:
            table, rows = table.slice(0, self.n), rows[: self.n]
        attributes = {"occurred_at", "last_accessed", "tags"}.intersection(recipe.columns)
        key = "key" if recipe.name == "hypergraph" else "id"
        stored = {"description", *recipe.columns} - {key, *attributes}
        schema = hr.Schema(
            key=key,
            cell="user" if scoped else None,
            text={"text": hr.Text("description")},
            vector="embedding",
            attributes=tuple(sorted(attributes)),
            stored=tuple(sorted(stored)),
        )
        return hr.Index.build(
            table,
            schema,
            vectors={"embedding": rows},
            analyzer=hr.Analyzer(recipe.analyzer or "unicode"),
            device="cpu",
            threads=THREADS,
        )

    def graph(self, nodes: hr.Index) -> hr.Graph:
        """Connect random memories; a label of four words an edge."""
        rng = corpus.generator("edges")
        many = rng.random(self.n) < 0.1
        sizes = np.where(many, rng.integers(3, 7, self.n), 2)
        ends = pa.array([f"e{at:06}" for at in rng.integers(self.n, size=sizes.sum())])
        offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))
        columns = {
            "id": np.arange(self.n),
            "label": _words(self.n, 4, "labels").strings,
            "participants": pa.ListArray.from_arrays(offsets, ends),
        }
        cell = nodes.schema.cell
        if cell is not None:
            columns["user"] = pa.array([USER] * self.n)
        schema = hr.GraphSchema(key="id", cell=cell, text="label")
        return hr.Graph.build(pa.table(columns), schema, nodes=nodes, threads=THREADS)

    @cached_property
    def words(self) -> list[list[int]]:
        """The queries' words; each once."""
        tokens = _words(N_QUERIES, _QUERY_WORDS, "asking").tokens.reshape(N_QUERIES, -1)
        return [list(dict.fromkeys(one.tolist())) for one in tokens]

    @cached_property
    def queries(self) -> corpus.Floats:
        return corpus.gaussian_rows(N_QUERIES, self.dim, "asking")

    def strings(self, recipe: Recipe) -> list[str]:
        """Spell the queries; where a recipe has tags, with one."""
        spelled = [corpus.spell(one) for one in self.words]
        if "tags" not in recipe.columns:
            return spelled
        named = corpus.generator("named tags").integers(_TAGS, size=N_QUERIES)
        return [f"{text} tag{tag:03}" for text, tag in zip(spelled, named, strict=True)]

    @cached_property
    def sessions(self) -> list[hr.Session | None]:
        """What each conversation met: twenty memories of the last half hour."""
        rng = corpus.generator("sessions")
        return [
            hr.Session(
                {
                    f"e{at:06}": NOW - timedelta(seconds=int(age))
                    for at, age in zip(
                        rng.integers(self.n, size=20), rng.integers(1, 1800, 20), strict=True
                    )
                },
                n_recalls=5,
            )
            for _ in range(N_QUERIES)
        ]


def loom_by_definition(made: Episodes, at: corpus.Ints) -> reference.Answer:
    """Return Loom's scores of some queries: two full rankings in float64, joined by ranks.

    Equal scores share a rank.
    """
    depth, constant = recipes.loom.depth, 60.0
    # Okapi's factor k1 + 1 leaves the ranks alone.
    bm25 = reference.Bm25(made.texts, k1=1.5, b=0.75)
    lexical = bm25.rank([made.words[q] for q in at], depth)
    dense = reference.dense(made.rows[: made.n], made.queries[at], depth)
    scores = np.zeros((len(at), made.n))
    for ranked in (lexical, dense):
        for query, ids in enumerate(ranked.ids):
            is_held = (ids >= 0) & (ranked.scores[query] > 0)
            reached = ranked.scores[query][is_held].astype(np.float32)
            n_above = np.count_nonzero(reached[None, :] > reached[:, None], axis=1)
            scores[query, ids[is_held]] += 1.0 / (constant + 1 + n_above)
    return reference.best(np.where(scores > 0, scores, -np.inf), LIMIT)


Found = list[list[tuple[Any, float]]]


def found(hits: Any) -> list[tuple[Any, float]]:
    """Read one query's hits as a caller would."""
    return [(hit.key, hit.score) for hit in hits]
