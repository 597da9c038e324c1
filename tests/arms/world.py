"""A random small world of documents, tags and edges, and what each arm means, in plain Python."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import hyrecall as hr

USERS = ("ann", "bob", "cy")
WORDS = ("ash", "birch", "cedar", "elm", "fir", "oak", "pine", "yew")
TAGS = ("red oak", "oak", "fir tree", "wood", "woodland", "tea", "Tea time", "pine")
SCHEMA = hr.Schema(
    key="id",
    cell="user",
    text="text",
    attributes=("tags", "at", "kind"),
    stored=("text", "data"),
)
GRAPH = hr.GraphSchema(key="id", cell="user", participants="who")


@dataclass(frozen=True)
class Doc:
    key: str
    user: str
    text: str | None
    data: str | None
    tags: tuple[str, ...] | None
    at: int | None
    kind: int


@dataclass(frozen=True)
class Edge:
    key: int
    user: str
    label: str
    description: str
    who: tuple[str, ...]


def docs_table(docs: Sequence[Doc]) -> pa.Table:
    types = {
        "id": pa.string(),
        "user": pa.string(),
        "text": pa.string(),
        "data": pa.string(),
        "tags": pa.list_(pa.string()),
        "at": pa.timestamp("us", "UTC"),
        "kind": pa.int64(),
    }
    names = ("key", "user", "text", "data", "tags", "at", "kind")
    return pa.table(
        {
            column: pa.array([getattr(doc, name) for doc in docs], types[column])
            for column, name in zip(types, names, strict=True)
        }
    )


def edges_table(edges: Sequence[Edge]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([edge.key for edge in edges], pa.int64()),
            "user": pa.array([edge.user for edge in edges], pa.string()),
            "label": pa.array([edge.label for edge in edges], pa.string()),
            "description": pa.array([edge.description for edge in edges], pa.string()),
            "who": pa.array([list(edge.who) for edge in edges], pa.list_(pa.string())),
        }
    )


class Draw:
    """Random documents and edges; keys repeat between users."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def words(self, most: int) -> str:
        return " ".join(self.rng.choice(WORDS, self.rng.integers(0, most + 1)))

    def maybe(self, value: object) -> object:
        return None if self.rng.random() < 0.1 else value

    def doc(self, key: str, user: str) -> Doc:
        tags = tuple(self.rng.choice(TAGS, self.rng.integers(0, 4)).tolist())
        return Doc(
            key,
            user,
            self.maybe(self.words(4)),
            self.maybe('{"note": "' + self.words(2) + '"}'),
            self.maybe(tags),
            self.maybe(int(self.rng.integers(0, 6))),
            int(self.rng.integers(0, 3)),
        )

    def docs(self, n: int) -> list[Doc]:
        pairs = dict.fromkeys(
            (f"n{self.rng.integers(0, n)}", str(self.rng.choice(USERS))) for _ in range(n)
        )
        return [self.doc(key, user) for key, user in pairs]

    def edge(self, key: int, user: str, n: int) -> Edge:
        who = tuple(f"n{self.rng.integers(0, n + 2)}" for _ in range(self.rng.integers(1, 5)))
        return Edge(key, user, self.words(3), self.words(3), who)

    def edges(self, n: int, n_docs: int) -> list[Edge]:
        return [self.edge(key, str(self.rng.choice(USERS)), n_docs) for key in range(n)]

    def scope(self) -> tuple[str, ...]:
        return tuple(user for user in USERS if self.rng.random() < 0.5)


def said(scope: Iterable[str]) -> hr.Scope:
    return hr.Scope(list(scope))


def f32(value: float) -> float:
    return float(np.float32(value))


# ---- the arms; a list of (score, doc), best first, of documents in the order of seq


Ranked = list[tuple[float, Doc]]


def seen(docs: Sequence[Doc], scope: Iterable[str]) -> list[Doc]:
    return [doc for doc in docs if doc.user in scope]


def ranked(scored: Iterable[tuple[float, Doc]], depth: int) -> Ranked:
    return sorted(scored, key=lambda pair: -pair[0])[:depth]  # stable: ties stay by seq


def newest(docs: Sequence[Doc], depth: int) -> Ranked:
    times = sorted({doc.at for doc in docs if doc.at is not None}, reverse=True)
    return ranked(
        ((f32(1 / (1 + times.index(doc.at))), doc) for doc in docs if doc.at is not None), depth
    )


def listed(docs: Sequence[Doc], keys: Sequence[str], depth: int) -> Ranked:
    return ranked(
        ((f32(1 / (1 + keys.index(doc.key))), doc) for doc in docs if doc.key in keys), depth
    )


def regex(
    docs: Sequence[Doc], edges: Sequence[Edge], pattern: str, columns: Sequence[str], depth: int
) -> Ranked:
    """``edges`` in columns stands for the texts of a document's edges."""
    found = re.compile(pattern, re.IGNORECASE)
    out = []
    for doc in docs:
        texts = {"id": [doc.key], "text": [doc.text], "data": [doc.data]}
        mine = [edge for edge in edges if doc.key in edge.who]
        texts["edges"] = [text for edge in mine for text in (edge.label, edge.description)]
        for place, column in enumerate(columns, start=1):
            if any(text is not None and found.search(text) for text in texts[column]):
                out.append((f32(1 / place), doc))
                break
    return ranked(out, depth)


def tokens(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def named_tags(tags: Iterable[str], query: str, partial: bool) -> set[str]:
    def alike(a: str, b: str) -> bool:
        short, long = sorted((a, b), key=len)
        return a == b or (partial and len(short) >= 3 and short in long)

    return {
        tag
        for tag in tags
        if any(alike(mine, word) for mine in tokens(tag) for word in tokens(query))
    }


def tag_list(
    docs: Sequence[Doc], query: str, depth: int, *, hops: int = 1, partial: bool = False
) -> Ranked:
    every = {tag for doc in docs for tag in doc.tags or ()}
    named = named_tags(every, query, partial)
    most = max((sum(tag in (doc.tags or ()) for doc in docs) for tag in named), default=0)
    base = min(0.5 + 0.5 * (most / max(most, 5)), 0.9)
    far = distances([set(doc.tags or ()) for doc in docs], named, hops)
    out = []
    for doc in docs:
        near = [far[tag] for tag in doc.tags or () if tag in far]
        if near:
            out.append((f32(base * 0.5 ** min(near)), doc))
    return ranked(out, depth)


def distances(groups: Sequence[set[str]], sources: Iterable[str], most: int) -> dict[str, int]:
    """Hops where the members of a group are one apart."""
    far = dict.fromkeys(sources, 0)
    for hop in range(1, most + 1):
        for group in groups:
            if any(far.get(one, most + 1) == hop - 1 for one in group):
                for one in group:
                    far.setdefault(one, hop)
    return far


def related_keys(
    docs: Sequence[Doc], results: Sequence[Doc], n: int, hops: int = 0
) -> list[tuple[str, int]]:
    """Key and number of shared tags; with a hop, those with tags beside the shared ones after."""
    tags = {tag for doc in results for tag in doc.tags or ()}
    others = [(doc, set(doc.tags or ())) for doc in docs if doc not in results]
    best = ranked(((float(len(tags & own)), doc) for doc, own in others if tags & own), n)
    found = [(doc.key, int(count)) for count, doc in best]
    if hops:
        near = set().union(*(set(doc.tags or ()) for doc in docs if tags & set(doc.tags or ())))
        near -= tags
        rest = [(doc, own) for doc, own in others if not tags & own]
        more = ranked(((float(len(near & own)), doc) for doc, own in rest if near & own), n)
        found += [(doc.key, 0) for _, doc in more]
    return found[:n]


def groups_of(docs: Sequence[Doc], edges: Sequence[Edge]) -> list[set[str]]:
    """Who is together in an edge, of those that are there."""
    there = {doc.key for doc in docs}
    return [set(edge.who) & there for edge in edges]


# ---- replies


def ranking(hits: hr.QueryHits, arm: str) -> list[tuple[float, str, str]]:
    """(score, key, user) of the documents that an arm lists, by its ranks."""
    mine = [hit for hit in hits if hit.arm_rank(arm) is not None]
    mine.sort(key=lambda hit: hit.arm_rank(arm))
    scores = [hit.arm_score(arm) for hit in mine]
    shared = [1 + sum(other > own for other in scores) for own in scores]
    assert [hit.arm_rank(arm) for hit in mine] == shared
    return [(hit.arm_score(arm), hit.key, hit.cell[0]) for hit in mine]


def plain(expected: Ranked) -> list[tuple[float, str, str]]:
    return [(score, doc.key, doc.user) for score, doc in expected]
