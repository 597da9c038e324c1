"""Nodes with descriptions and data, and a graph of edges and hyperedges over them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

import hyrecall as hr
from hyrecall import recipes
from seams import Recipe

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
DIM = 5
QUERY = [1.0, 0.0, 0.0, 0.0, 0.0]
hypergraph, by_force = recipes.hypergraph, recipes.hypergraph_regex
SCHEMA = hr.Schema(
    key="key", cell="cell", text="description", vector="vector", stored=("description", "data")
)
EDGES = hr.GraphSchema(key="id", cell="cell")


@dataclass(frozen=True)
class Node:
    key: str
    description: str = "nothing"
    data: str = "{}"
    vector: Sequence[float] | None = None
    cell: str = "home"


@dataclass(frozen=True)
class Edge:
    id: int
    participants: tuple[str, ...]
    label: str = "beside"
    description: str = ""
    cell: str = "home"


@dataclass(frozen=True)
class World:
    index: hr.Index
    graph: hr.Graph

    def recall(
        self, texts: Sequence[Any], vectors: Any = None, *, recipe: Any = hypergraph, **options: Any
    ) -> hr.Hits:
        options = {"scope": "home", "now": NOW, "limit": 50} | options
        if vectors is not None:
            options["vectors"] = vectors
        graphs = {"graph": self.graph}
        return self.index.recall(text=texts, recipe=recipe, graphs=graphs, **options)

    def ask(self, text: Any, vector: Any = None, **options: Any) -> hr.QueryHits:
        return self.recall([text], None if vector is None else [vector], **options)[0]

    def signals(self, text: Any, vector: Any = None, **options: Any) -> dict[str, dict[str, float]]:
        """Key -> score and signals, in the order of the hits."""
        table = self.recall([text], None if vector is None else [vector], **options).to_arrow()
        names = ("score", "fused_score", "general_score", "topical_score", "session_score")
        return {row["key"]: {name: row[name] for name in names} for row in table.to_pylist()}


def build(nodes: Sequence[Node], edges: Sequence[Edge] = ()) -> World:
    names = ("key", "description", "data", "cell")
    table = pa.table({name: pa.array([getattr(n, name) for n in nodes], "str") for name in names})
    rows = [[0.0] * DIM if n.vector is None else n.vector for n in nodes]  # a zero row has none
    vectors = {"vector": np.array(rows, np.float32).reshape(-1, DIM)}
    index = hr.Index.build(table, SCHEMA, vectors=vectors)
    ends = pa.array([list(e.participants) for e in edges], pa.list_(pa.string()))
    texts = ("label", "description", "cell")
    columns = {name: pa.array([getattr(e, name) for e in edges], "str") for name in texts}
    ids = pa.array([e.id for e in edges], pa.int64())
    made = pa.table({"id": ids, "participants": ends, **columns})
    return World(index, hr.Graph.build(made, EDGES, nodes=index))


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def cosine_of(value: float, axis: int = 1) -> list[float]:
    """A vector with this cosine to QUERY."""
    out = [0.0] * DIM
    out[0], out[axis] = value, float(np.sqrt(1 - value**2))
    return out


WORDS = ("oak", "ash", "elm", "fir", "yew", "pine", "larch", "birch")


def drawn(seed: int, n: int = 40) -> tuple[list[Node], list[Edge]]:
    """Random nodes and edges of two cells; every third node has no vector."""
    rng = np.random.default_rng(seed)

    def words(most: int) -> str:
        return " ".join(rng.choice(WORDS, rng.integers(0, most + 1)))

    nodes = [
        Node(
            f"{rng.choice(WORDS)}_{at:03}",
            words(4),
            json.dumps({"note": words(2)}),
            None if at % 3 == 0 else rng.standard_normal(DIM).tolist(),
            str(rng.choice(["home", "home", "home", "work"])),
        )
        for at in rng.permutation(n)
    ]
    keys = [node.key for node in nodes]
    edges = [
        Edge(
            at,
            tuple(rng.choice(keys, rng.integers(2, 5), replace=False).tolist()),
            words(2),
            words(2),
            str(rng.choice(["home", "home", "work"])),
        )
        for at in range(n)
    ]
    return nodes, edges


def drawn_session(rng: np.random.Generator, nodes: Sequence[Node]) -> hr.Session:
    met = rng.choice([node.key for node in nodes], rng.integers(1, 12), replace=False)
    times = {str(key): ago(float(rng.integers(-60, 12_000))) for key in met}
    return hr.Session(times, int(rng.integers(0, 14)))


def response(hits: hr.QueryHits) -> dict[str, Any]:
    """All that a reply says, as plain data."""
    return {
        "results": [
            {
                "key": hit.key,
                "score": hit.score.hex(),
                "context": [(one.key, one.edge, one.score.hex()) for one in hit.context],
                "evidence": [hit.evidence(arm) for arm in ("edges", "regex")],
            }
            for hit in hits
        ],
        "phase": repr(hits.phase),
        "tiers": hits.n_candidates,
    }


def show() -> str:
    """What fixed recalls of three worlds give, as JSON: the same in every process."""
    out = []
    for seed in range(3):
        nodes, edges = drawn(seed)
        world = build(nodes, edges)
        rng = np.random.default_rng(seed)
        texts = ["oak ash", "larch", "(fir|yew)_0", "arch", "pine birch elm"]
        vectors = rng.standard_normal((len(texts), DIM)).astype(np.float32)
        recipe: list[Recipe] = [hypergraph, hypergraph, hypergraph, by_force, hypergraph]
        sessions: list[hr.Session | None] = [drawn_session(rng, nodes) for _ in texts]
        hits = world.recall(texts, vectors, recipe=recipe, session=sessions, limit=12)
        out += [json.dumps(response(one)) for one in hits]
        after = [hr.Session().after(one.keys, now=hits.now) for one in hits]
        out.append(repr([sorted(one.accessed.items()) for one in after]))
    return "\n".join(out)


if __name__ == "__main__":
    print(show())
