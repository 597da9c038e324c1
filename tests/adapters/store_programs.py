"""Random calls to a LangGraph store, and the comparison of two stores' replies to them."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from langgraph.store.memory import InMemoryStore

DIM = 12
WORDS = ("green", "tea", "black", "coffee", "größe", "INV-7", "straße", "tea.time")
LABELS = ("a", "b", "ab", "a b", "ä", "*x")
KEYS = ("k1", "k2", "k 3", "κ")
MOST = 10_000


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Return unit vectors that depend on the text alone."""
    rows = []
    for text in texts:
        row = np.random.default_rng(list(text.encode())).standard_normal(DIM).astype(np.float32)
        rows.append((row / np.linalg.norm(row)).tolist())
    return rows


EMBEDDED: Any = {"dims": DIM, "embed": embed, "fields": ["$"]}


class Program:
    """Calls that a seed draws."""

    def __init__(self, seed: int, length: int = 120) -> None:
        """Draw nothing yet."""
        self.rng, self.length = np.random.default_rng(seed), length

    def one(self, of: Any) -> Any:
        """Draw one of several values, as it is."""
        return of[int(self.rng.integers(len(of)))]

    def namespace(self, least: int = 1) -> tuple[str, ...]:
        """Draw labels."""
        return tuple(self.one(LABELS) for _ in range(self.rng.integers(least, 4)))

    def scalar(self) -> Any:
        """Draw neither 0 nor 1, which equal bools in Python and not in JSON."""
        return self.one((2, 2.5, -3, True, False, None, "x", "y", "2"))

    def value(self, number: int) -> dict[str, Any]:
        """Draw a value, which has its number: no two texts are equal."""
        made = {"number": number, "text": " ".join(self.one(WORDS) for _ in range(3))}
        if self.rng.random() < 0.8:
            made["size"] = float(self.rng.integers(0, 6))
        if self.rng.random() < 0.6:
            made["kind"] = self.scalar()
        if self.rng.random() < 0.5:
            made["tags"] = [self.one(("x", "y", 1)) for _ in range(self.rng.integers(0, 3))]
        if self.rng.random() < 0.5:
            made["in"] = {"kind": self.scalar(), "a.b": 1}
        return made

    def filter(self) -> dict[str, Any] | None:
        """Draw a filter; ordered ones ask for a field that is a number or is not there."""
        drawn: dict[str, Any] = self.one(
            (
                {},
                {"kind": self.one((True, 2, 2.5, None, "x", "2"))},
                {"kind": {"$ne": self.one((2, None, "x"))}},
                {"kind": {"$eq": self.one((2.5, "y"))}},
                {"tags": [self.one(("x", "y"))]},
                {"tags": "x"},
                {"tags": {"$ne": "x"}},
                {"in": {"kind": self.one((2, "x", None))}},
                {"in": {}},
                {"in": {"a.b": 1}},
                {"number": {"$gte": int(self.rng.integers(60)), "$lt": 90}},
                {"number": {"$gt": 10.5, "$lte": 40}, "kind": self.one((-3, "x"))},
            )
        )
        return drawn or None

    def calls(self) -> Iterator[tuple[str, Any, dict[str, Any]]]:
        """Draw names of methods with their arguments."""
        for number in range(self.length):
            kind = self.rng.choice(["put", "delete", "get", "search", "list"], p=[0.4, 0.05, 0.1, 0.35, 0.1])  # fmt: skip # noqa: E501
            if kind == "put":
                options = {"index": False} if self.rng.random() < 0.1 else {}
                yield "put", (self.namespace(), self.one(KEYS), self.value(number)), options
            elif kind in ("get", "delete"):
                yield str(kind), (self.namespace(), self.one(KEYS)), {}
            elif kind == "search":
                asked = {"query": " ".join(self.one(WORDS) for _ in range(2))}
                page = {"limit": self.one((1, 3, 10, 200)), "offset": self.one((0, 0, 2))}
                options = asked if self.rng.random() < 0.6 else {}
                yield "search", (self.namespace(0)[:2],), options | page | {"filter": self.filter()}
            else:
                ends: dict[str, Any] = {}
                for end in ("prefix", "suffix"):
                    if self.rng.random() < 0.4:
                        ends[end] = tuple(self.one((*LABELS, "*")) for _ in range(2))
                depth = {"max_depth": self.one((None, 1, 2)), "limit": self.one((2, 100))}
                yield "list_namespaces", (), ends | depth | {"offset": self.one((0, 1))}


def play(program: Program, ours: Any, theirs: InMemoryStore) -> int:
    """Call both stores; return how many replies were compared.

    Raises
    ------
    AssertionError
        A reply differs; the message names the call.
    """
    n_compared = 0
    for name, args, options in program.calls():
        reply = getattr(ours, name)(*args, **options)
        if name == "put" and options:  # without this, theirs goes on to find the value before
            theirs.delete(*args[:2])
        if name == "list_namespaces":
            expected = only_with_items(theirs).list_namespaces(**options)
        else:
            expected = getattr(theirs, name)(*args, **options)
        told = f"{name}{args} {options}"
        if name == "get":
            assert shown(reply) == shown(expected), told
        elif name == "search" and "query" in options:
            compare_ranked(reply, ranked(theirs, args, options), told)
        elif name == "search":
            every = theirs.search(*args, **options | {"limit": MOST, "offset": 0})
            assert len(reply) == len(expected), told
            assert {place(one) for one in reply} <= {place(one) for one in every}, told
            assert all(one.score is None for one in reply), told
            times = [one.updated_at for one in reply]
            assert times == sorted(times, reverse=True), told
        else:
            assert reply == expected, told
        n_compared += name not in ("put", "delete")
    return n_compared


def ranked(theirs: InMemoryStore, args: Any, options: dict[str, Any]) -> list[Any]:
    """Return their page of items that have a score; unindexed ones only fill it."""
    every = theirs.search(*args, **options | {"limit": MOST, "offset": 0})
    with_score = [one for one in every if one.score is not None]
    return with_score[options["offset"] : options["offset"] + options["limit"]]


def compare_ranked(reply: list[Any], expected: list[Any], told: str) -> None:
    """Compare order, values and cosines."""
    assert [place(one) for one in reply] == [place(one) for one in expected], told
    assert [one.value for one in reply] == [one.value for one in expected], told
    scores = np.array([one.score for one in reply]) - np.array([one.score for one in expected])
    assert (np.abs(scores) < 1e-5).all(), told


def only_with_items(theirs: InMemoryStore) -> InMemoryStore:
    """Return a store that has seen no namespace but those of its items."""
    made = InMemoryStore()
    for one in theirs.search((), limit=MOST):
        made.put(one.namespace, one.key, one.value)
    return made


def place(item: Any) -> tuple[tuple[str, ...], str]:
    """Return where an item is."""
    return item.namespace, item.key


def shown(item: Any) -> Any:
    """Return an item without its times."""
    return None if item is None else (item.namespace, item.key, item.value)
