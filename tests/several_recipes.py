"""Recipes of every kind, a random world for them, and batches of queries by several of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

import hyrecall as hr
from seams import (
    Dense,
    EdgeLexical,
    Edges,
    Fill,
    Lexical,
    Newest,
    Recipe,
    Regex,
    SessionSignals,
    Tags,
    TieBreak,
)
from seams import ask_Listed as Listed

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
WORDS = ("oak", "ash", "elm", "fir", "yew", "pine")
TAGS = ("oak", "wood", "tea", "fir")
DIM = 4
SCHEMA = hr.Schema(
    key="id", cell="user", text="text", vector="v",
    attributes=("tags", "at", "rating"), stored=("text", "data"),
    thread="rating",
    place="at",
)  # fmt: skip

RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(name="both", arms=(Lexical(), Dense()), fusion=hr.RRF()),
        Recipe(
            name="words",
            arms=(Lexical(bm25=hr.BM25(k1=0.9, b=0.4)),),
            fusion=hr.RRF(),
            fill=Fill("at", when="always"),
            on_empty="newest",
        ),
        Recipe(
            name="sum",
            arms=(Lexical(weight=0.3), Dense(weight=0.7, min_score=0.1)),
            fusion=hr.WeightedSum(),
            shaping=(hr.Recency("at", half_life="3d"), hr.Budget(40)),
            normalize=True,
            depth=60,
        ),
        Recipe(
            name="fallback",
            arms=(Lexical(mode="all"),),
            fusion=hr.RRF(),
            on_no_match=(Regex(("text", "data"), name="pattern", on_bad="literal"),),
            tie_break=(TieBreak("id"),),
        ),
        Recipe(
            name="tagged",
            arms=(Dense(scale="clip"),),
            more=(Tags("tags"),),
            fusion=hr.Max(normalize="none"),
            shaping=(hr.Composite(time="at", half_life="5d", rating="rating"),),
            expansion=(hr.SharedTags("tags", n=4),),
        ),
        Recipe(
            name="graph",
            arms=(Lexical(),),
            more=(EdgeLexical("net"),),
            on_no_match=(Newest("at"),),
            fusion=hr.RRF(),
            shaping=(SessionSignals("net"),),
            expansion=(hr.Context("net", top=3, n=2), hr.SharedTags("tags", n=2)),
        ),
        Recipe(name="listed", arms=(Dense(),), more=(Listed("hints"),), fusion=hr.DBSF()),
        Recipe(
            name="forced",
            arms=(),
            more=(Regex(("id", "text", Edges("net")), name="pattern", on_bad="literal"),),
            on_no_match=(EdgeLexical("net"), Listed("last")),
            fusion=hr.RRF(),
            on_empty="error",
        ),
    )
}
QUERIES = ("oak ash", "fir", "elm yew pine", "e.m", "o(", "ak", "nowhere", "", "  ", "tea wood")


@dataclass(frozen=True)
class Ask:
    """One query of a batch."""

    recipe: Recipe
    text: str
    vector: Any
    scope: Any
    session: hr.Session | None
    hints: list[str] | None
    last: list[str] | None


@dataclass(frozen=True)
class World:
    index: hr.Index
    graph: hr.Graph

    def options(self, asks: Sequence[Ask], columns: Sequence[str]) -> dict[str, Any]:
        """What a call gives: only what one of its recipes reads."""
        names = "".join(ask.recipe.to_json() for ask in asks)
        options: dict[str, Any] = {"now": NOW, "limit": 12, "columns": columns}
        options["graphs"] = {"net": self.graph} if '"net"' in names else None
        lists = {name: [getattr(ask, name) for ask in asks] for name in ("hints", "last")}
        lists = {name: given for name, given in lists.items() if f'"{name}"' in names}
        return options | {"candidates": lists or None}

    def together(self, asks: Sequence[Ask], columns: Sequence[str] = ()) -> hr.Hits:
        """All in one call."""
        has_session = any(ask.recipe.name == "graph" for ask in asks)
        return self.index.recall(
            text=[ask.text for ask in asks],
            vectors=np.array([ask.vector for ask in asks]),
            scope=[ask.scope for ask in asks],
            recipe=[ask.recipe for ask in asks],
            session=[ask.session for ask in asks] if has_session else None,
            **self.options(asks, columns),
        )

    def alone(self, ask: Ask, columns: Sequence[str] = ()) -> hr.QueryHits:
        options = self.options([ask], columns)
        lists = options.pop("candidates") or {}
        return self.index.recall_one(
            text=ask.text, vector=ask.vector, scope=ask.scope, recipe=ask.recipe,
            session=ask.session if ask.recipe.name == "graph" else None,
            candidates={name: one[0] for name, one in lists.items()} or None, **options,
        )  # fmt: skip


def world(seed: int, n: int = 40) -> World:
    rng = np.random.default_rng(seed)

    def words(most: int) -> str:
        return " ".join(rng.choice(WORDS, rng.integers(1, most + 1)))

    keys = [f"k{at:02}" for at in rng.permutation(n)]
    ages = [None if rng.random() < 0.1 else NOW - timedelta(hours=int(rng.integers(-9, 400)))
            for _ in keys]  # fmt: skip
    users = rng.choice(["ann", "ann", "bob"], n)
    table = pa.table(
        {
            "id": keys,
            "user": users,
            "text": [None if rng.random() < 0.1 else words(5) for _ in keys],
            "data": [f"({words(1)})" for _ in keys],
            "tags": [rng.choice(TAGS, rng.integers(0, 3)).tolist() for _ in keys],
            "at": pa.array(ages, pa.timestamp("us", "UTC")),
            "rating": rng.integers(0, 11, n),
        }
    )
    vectors = rng.standard_normal((n, DIM)).astype(np.float32)
    vectors[rng.random(n) < 0.2] = 0
    index = hr.Index.build(table.slice(0, n // 2), SCHEMA, vectors={"v": vectors[: n // 2]})
    index.add(table.slice(n // 2), vectors={"v": vectors[n // 2 :]})
    who = [rng.choice(keys, rng.integers(2, 4), replace=False).tolist() for _ in range(n)]
    edges = pa.table({"id": np.arange(n), "user": users, "label": [words(2) for _ in who],
                      "description": [words(2) for _ in who], "participants": who})  # fmt: skip
    return World(index, hr.Graph.build(edges, hr.GraphSchema(key="id", cell="user"), nodes=index))


def asks(seed: int, n: int, names: Sequence[str] = tuple(RECIPES)) -> list[Ask]:
    rng = np.random.default_rng(seed)
    made = []
    for name in rng.choice(names, n):
        texts = QUERIES if name != "forced" else [text for text in QUERIES if text.strip()]
        met = {f"k{at:02}": NOW - timedelta(minutes=int(rng.integers(0, 90)))
               for at in rng.integers(0, 40, 5)}  # fmt: skip
        keys = [f"k{at:02}" for at in rng.permutation(50)[:6]]
        made.append(
            Ask(
                RECIPES[name],
                str(rng.choice(texts)),
                rng.standard_normal(DIM).astype(np.float32),
                [("ann"), ("bob"), hr.Scope(["ann", "bob"])][rng.integers(3)],
                None if rng.random() < 0.3 else hr.Session(met, int(rng.integers(0, 12))),
                None if rng.random() < 0.3 else keys[:4],
                None if rng.random() < 0.5 else keys[4:],
            )
        )
    return made
