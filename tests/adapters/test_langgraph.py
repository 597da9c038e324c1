"""``HyrecallStore`` beside LangGraph's own store in memory, and what it promises beyond that."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

base = pytest.importorskip("langgraph.store.base", reason="langgraph is not installed")

from langchain_core.embeddings import Embeddings  # noqa: E402
from langgraph.store.memory import InMemoryStore  # noqa: E402

import hyrecall as hr  # noqa: E402
from adapters.published import outcomes, sources, told  # noqa: E402
from hyrecall.adapters.degraded import DegradedWarning  # noqa: E402
from hyrecall.adapters.langgraph import HyrecallStore  # noqa: E402
from hyrecall.memory import EVERYONE, MemorySync  # noqa: E402
from memory.stores import HOUR, Clock  # noqa: E402
from seams import items, langgraph_embedding  # noqa: E402

ANN, BOB = ("users", "ann"), ("users", "bob")

# What LangGraph's own tests ask and we refuse: docs/frameworks/langgraph.md has the reasons.
REFUSED = {"test_vector_store_initialization", "test_embed_with_path"}


@pytest.fixture
def store() -> Iterator[HyrecallStore]:
    with HyrecallStore.open(":memory:", scope=EVERYONE, embedder=None) as made:
        yield made


# ---- random calls to a store, and the comparison of two stores' replies to them ----

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


# ---- beside LangGraph's store ----


def ours() -> HyrecallStore:
    return HyrecallStore.open(":memory:", scope=EVERYONE, index=EMBEDDED, alpha=1.0)


@pytest.mark.plain_cases(6)
@pytest.mark.parametrize("seed", range(60))
def test_random_calls_have_the_replies_of_the_store_in_memory(seed: int) -> None:
    with ours() as made:
        n_compared = play(Program(seed), made, InMemoryStore(index=EMBEDDED))
    assert n_compared > 40


def _every_prefix_is_text(self: Any, prefix: tuple[str, ...]) -> list[tuple[str, ...]]:
    found = self.memory.list(user_id=".", limit=1_000)
    named = sorted(tuple(one.id.split(".")) for one in found)
    return [one for one in named if ".".join(one).startswith(".".join(prefix))]


def _a_first_page_is_enough(read: Any, wanted: int, test: Callable[[Any], bool]) -> list[Any]:
    return [one for one in read(wanted) if test(one)]


@pytest.mark.parametrize(
    ("place", "name", "bug"),
    [
        (items, "passes", lambda *_: True),
        (items, "_enough", _a_first_page_is_enough),
        (items.Items, "under", _every_prefix_is_text),
    ],
    ids=["filters let all through", "a page ends early", "a prefix is that of a text"],
)
def test_the_comparison_finds_a_planted_bug(
    place: Any, name: str, bug: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play_all() -> None:
        for seed in range(6):
            with ours() as made:
                play(Program(seed), made, InMemoryStore(index=EMBEDDED))

    monkeypatch.setattr(place, name, bug)
    with pytest.raises(AssertionError, match=r"search|list_namespaces"):
        play_all()


def test_langgraphs_own_tests_of_a_store_pass(tmp_path: Path) -> None:
    pytest.importorskip("pytest_mock", reason="LangGraph's tests need pytest-mock")
    folder = sources("langgraph-checkpoint")
    found = outcomes(
        folder, ["tests/test_store.py"], "adapters.langgraph_in_place", tmp_path / "report.xml",
        "-o", "anyio_mode=auto",
    )  # fmt: skip
    print(told("langgraph-checkpoint", found))
    assert {name for name, one in found.items() if one == "failed"} <= REFUSED
    assert sum(one == "passed" for one in found.values()) >= 20


def test_async_calls_run_off_the_event_loop(store: HyrecallStore) -> None:
    names = []
    plain = store.batch

    def batch(ops: Any) -> Any:
        names.append(threading.current_thread().name)
        return plain(ops)

    async def use() -> Any:
        await store.aput(ANN, "tea", {"text": "green tea"})
        found = await store.asearch(("users",), query="tea")
        await store.adelete(ANN, "tea")
        return [one.key for one in found], await store.aget(ANN, "tea")

    store.batch = batch  # type: ignore[method-assign]
    assert asyncio.run(use()) == (["tea"], None)
    assert len(names) == 4
    assert threading.main_thread().name not in names


def test_an_async_embedding_function_embeds_items_and_queries() -> None:
    async def later(texts: Any) -> list[list[float]]:
        await asyncio.sleep(0)
        return embed(texts)

    index: Any = {"dims": EMBEDDED["dims"], "embed": later, "fields": ["text"]}
    with HyrecallStore.open(":memory:", scope=("users",), index=index, alpha=1.0) as made:
        made.put(ANN, "tea", {"text": "green tea"})
        (item,) = made.search(ANN, query="green tea")
    assert item.score == pytest.approx(1.0)


class Failing:
    """Embeddings that fail, or hang, at queries alone."""

    def __init__(self, wait: float) -> None:
        self.wait, self.go_on = wait, threading.Event()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return embed(texts)

    def embed_query(self, text: str) -> list[float]:
        self.go_on.wait(self.wait)
        raise OSError("the service is down")


@pytest.mark.parametrize("wait", [0.0, 60.0])
def test_a_query_that_cannot_be_embedded_is_searched_by_words(
    wait: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(langgraph_embedding, "QUERY_TIMEOUT", 0.1)
    embeddings: Any = type("Theirs", (Failing, Embeddings), {})(wait)
    index: Any = {"dims": EMBEDDED["dims"], "embed": embeddings}
    with HyrecallStore.open(":memory:", scope=("users",), index=index, alpha=1.0) as made:
        made.put(ANN, "tea", {"text": "green tea"})
        made.put(ANN, "milk", {"text": "cold milk"})
        with pytest.warns(DegradedWarning, match="embed_query gave no vector"):
            found = made.search(ANN, query="tea")
        assert [one.key for one in found] == ["tea"]
        embeddings.go_on.set()


# ---- the scope ----


@pytest.mark.parametrize("scope", [None, (), "users", [], ["users"]])
def test_a_store_without_a_scope_is_not_made(scope: Any) -> None:
    with pytest.raises(hr.ScopeError, match="scope: expected a namespace such as"):
        HyrecallStore.open(":memory:", scope=scope, embedder=None)


def test_an_opened_store_lies_in_its_partition(tmp_path: Path) -> None:
    options: list[dict[str, Any]] = [{}, {"org": "acme"}, {"org": "acme", "workspace": "dev"}]
    for turn in range(2):
        for number, partition in enumerate(options):
            with HyrecallStore.open(
                tmp_path / "s", scope=("users",), embedder=None, **partition
            ) as made:
                if not turn:
                    assert made.get(ANN, "tea") is None
                    made.put(ANN, "tea", {"text": f"tea {number}"})
                assert [one.value for one in made.search(("users",), query="tea")] == [
                    {"text": f"tea {number}"}
                ]


def test_no_operation_leaves_the_scope(store: HyrecallStore) -> None:
    store.put(BOB, "plan", {"text": "a surprise party"})
    ann = HyrecallStore(store._items.memory, scope=ANN)
    ann.put((*ANN, "notes"), "n", {"text": "a party"})
    outside: list[Callable[[], Any]] = [
        lambda: ann.get(BOB, "plan"),
        lambda: ann.put(BOB, "plan", {"text": "mine"}),
        lambda: ann.delete(BOB, "plan"),
        lambda: ann.search(BOB, query="party"),
        lambda: ann.search(("users",), query="party"),
        lambda: ann.search(()),
        lambda: ann.get(("users", "anna"), "plan"),
    ]
    for call in outside:
        with pytest.raises(hr.ScopeError, match=r"one in the scope \('users', 'ann'\)"):
            call()
    assert [one.key for one in ann.search(ANN, query="party")] == ["n"]
    assert ann.list_namespaces() == [(*ANN, "notes")]
    assert store.get(BOB, "plan") is not None


def test_a_batch_that_leaves_the_scope_writes_nothing(store: HyrecallStore) -> None:
    ann = HyrecallStore(store._items.memory, scope=ANN)
    ops = [base.PutOp(ANN, "a", {"text": "x"}), base.PutOp(BOB, "b", {"text": "y"})]
    with pytest.raises(hr.ScopeError):
        ann.batch(ops)
    assert store.search(()) == []


def test_other_namespaces_change_no_score(store: HyrecallStore) -> None:
    def replies() -> list[Any]:
        return [(one.key, one.score) for one in store.search(ANN, query="green tea")]

    for at, text in enumerate(["green tea", "black tea", "green apples"]):
        store.put(ANN, str(at), {"text": text})
    before = replies()
    for at in range(30):
        store.put(("users", "anna"), str(at), {"text": "green tea for anna"})
        store.put(BOB, str(at), {"text": "tea"})
    assert len(before) == 3
    assert replies() == before


@pytest.mark.parametrize("namespace", [("a.b",), ("a", ""), ("a\0",), (1,), "users"])
def test_a_batch_refuses_labels_that_are_none(store: HyrecallStore, namespace: Any) -> None:
    for op in (
        base.GetOp(namespace, "k"),
        base.PutOp(namespace, "k", {}),
        base.SearchOp(namespace),
    ):
        with pytest.raises((hr.OptionError, hr.DTypeError), match="namespace"):
            store.batch([op])


# ---- items ----


def test_a_store_keeps_its_items_when_it_is_closed(tmp_path: Path) -> None:
    for turn in range(2):
        with HyrecallStore.open(tmp_path / "s", scope=("users",), embedder=None) as made:
            if not turn:
                made.put(ANN, "tea", {"text": "green tea", "n": [1, {"a": None}]})
            (item,) = made.search(("users",), query="tea")
            assert item.value == {"text": "green tea", "n": [1, {"a": None}]}


def test_a_second_put_keeps_the_time_of_the_first(store: HyrecallStore) -> None:
    clock = Clock()
    timed = HyrecallStore(store._items.memory, scope=("users",), clock=clock)
    timed.put(ANN, "tea", {"v": 1})
    clock.now += HOUR
    timed.put(ANN, "tea", {"v": 2})
    item: Any = timed.get(ANN, "tea")
    assert (item.value, item.updated_at - item.created_at) == ({"v": 2}, HOUR)
    timed.delete(ANN, "tea")
    timed.put(ANN, "tea", {"v": 3})
    again: Any = timed.get(ANN, "tea")
    assert again.created_at == clock.now


def test_the_key_of_another_memory_is_refused(store: HyrecallStore) -> None:
    store._items.memory.remember("mine", id="m", user_id="users.ann")
    assert store.get(ANN, "m") is None
    assert store.search(ANN, query="mine") == []
    with pytest.raises(hr.KeyConflictError, match="key: expected a new key"):
        store.put(ANN, "m", {"v": 1})


def test_a_delete_leaves_what_is_no_item(store: HyrecallStore) -> None:
    memory = store._items.memory
    memory.remember("mine", id="m", user_id="users.ann")
    store.delete(ANN, "m")
    assert memory.get("m", user_id="users.ann") is not None


@pytest.mark.parametrize(
    ("op", "kind", "told"),
    [
        (base.PutOp(ANN, 5, {}), hr.DTypeError, "key: expected a str, got 5"),
        (base.GetOp(ANN, 5), hr.DTypeError, "key: expected a str, got 5"),
        (base.PutOp(ANN, "k", [1]), hr.DTypeError, "value: expected a dict, or None, got list"),
        (
            base.PutOp(ANN, "k", {}, ttl=1e12),
            hr.OptionError,
            r"ttl: expected minutes in \(0, 10+\]",
        ),
        (base.PutOp(ANN, "k", {}, ttl=0), hr.OptionError, "ttl: expected minutes"),
        (base.PutOp(ANN, "k", {}, ttl="5"), hr.DTypeError, "ttl: expected minutes"),
        (base.ListNamespacesOp(limit=-1), hr.OptionError, "limit: expected an int >= 0, got -1"),
        (base.ListNamespacesOp(offset=-1), hr.OptionError, "offset: expected an int >= 0"),
        (base.ListNamespacesOp(max_depth=0), hr.OptionError, "max_depth: expected an int >= 1"),
        (base.SearchOp(ANN, limit=-1), hr.OptionError, "limit: expected an int >= 0, got -1"),
        (base.PutOp(ANN, "", {}), hr.OptionError, "key: expected 1 to 512 bytes"),
        (base.GetOp(ANN, "k" * 513), hr.OptionError, "key: expected 1 to 512 bytes"),
        (base.PutOp((" ",), "k", {}), hr.OptionError, "namespace: expected 1 to 512 bytes, not bl"),
        (
            base.PutOp(("é" * 256,), "k", {}),
            hr.OptionError,
            "namespace: .* 511 bytes.*, got 512 by",
        ),
        (base.SearchOp(("x" * 512,)), hr.OptionError, "namespace_prefix: expected at most 511 byt"),
        (
            base.PutOp(ANN, "k", {"a": [float("nan")]}),
            hr.DTypeError,
            r"metadata\['value'\]\['a'\]\[0\]: expected a JSON value .*, got float nan",
        ),
        (base.PutOp(ANN, "k", {"a": {1}}), hr.DTypeError, r"\['a'\]: expected a JSON value"),
    ],
)
def test_a_batch_with_an_operation_that_cannot_be_writes_nothing(
    store: HyrecallStore, op: Any, kind: type, told: str
) -> None:
    with pytest.raises(kind, match=told):
        store.batch([base.PutOp(ANN, "first", {"text": "x"}), op])
    assert store.search(()) == []


def test_only_the_indexed_fields_are_searched(store: HyrecallStore) -> None:
    value = {"title": "tea", "notes": [{"text": "green"}, {"text": "black"}], "secret": "gin"}
    made = HyrecallStore(store._items.memory, scope=("users",), fields=["title"])
    made.put(ANN, "default", value)
    made.put(ANN, "named", value, index=["notes[*].text"])
    made.put(ANN, "none", value, index=False)

    def found(query: str) -> list[str]:
        return [one.key for one in made.search(ANN, query=query)]

    assert [found(query) for query in ("tea", "green", "gin")] == [["default"], ["named"], []]
    assert len(made.search(ANN)) == 3


def test_threads_that_put_one_key_lose_nothing_but_all_but_the_last(store: HyrecallStore) -> None:
    def put(number: int) -> None:
        for turn in range(5):
            store.put(ANN, "k", {"by": number, "turn": turn})
            store.put(("users", f"u{number}"), "k", {"by": number})

    threads = [threading.Thread(target=put, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    item: Any = store.get(ANN, "k")
    assert item.value["turn"] == 4
    assert store.list_namespaces() == [ANN, *(("users", f"u{number}") for number in range(4))]


def test_erased_items_leave_no_history(store: HyrecallStore) -> None:
    memory = store._items.memory
    for erase in (False, True):
        made = HyrecallStore(memory, scope=ANN, erase=erase)
        made.put(ANN, "tea", {"text": "tea"})
        made.delete(ANN, "tea")
        assert bool(memory.history("tea", user_id="users.ann")) is not erase


def test_scores_of_vectors_alone_are_cosines() -> None:
    with ours() as made:
        made.put(ANN, "tea", {"text": "green tea"})
        (item,) = made.search(ANN, query="something else")
        expected = np.dot(*embed(['{"text": "green tea"}', "something else"]))
    assert item.score == pytest.approx(float(expected), abs=1e-6)


# ---- the time to live of items, and settings that would be ignored ----


@pytest.fixture
def timed(store: HyrecallStore) -> tuple[HyrecallStore, Clock, MemorySync]:
    clock, memory = Clock(), store._items.memory
    ttl: Any = {"default_ttl": 60.0, "refresh_on_read": True, "omit_expired": True}
    return HyrecallStore(memory, scope=("users",), ttl=ttl, clock=clock), clock, memory


def test_an_item_expires_after_it_was_last_read(timed: Any) -> None:
    made, clock, memory = timed
    made.put(ANN, "read", {"text": "tea"})
    made.put(ANN, "found", {"text": "tea"})
    made.put(ANN, "left", {"text": "tea"})
    made.put(ANN, "kept", {"text": "tea"}, ttl=None)
    clock.now += 0.75 * HOUR
    assert made.get(ANN, "read") is not None
    assert made.get(ANN, "left", refresh_ttl=False) is not None
    assert len(made.search(ANN, query="tea", filter={"text": "tea"}, limit=2)) == 2
    renewed = {one.key for one in made.search(ANN, refresh_ttl=False, limit=9)}
    assert renewed == {"read", "found", "left", "kept"}
    clock.now += 0.75 * HOUR
    alive = {one.key for one in made.search(ANN, query="tea", refresh_ttl=False)}
    assert "read" in alive
    assert "kept" in alive
    assert alive == {one.key for one in made.search(ANN, refresh_ttl=False)}
    clock.now += 2 * HOUR
    assert [one.key for one in made.search(ANN)] == ["kept"]
    assert made.get(ANN, "read") is None
    assert made.sweep_ttl() == 3
    assert len(memory.list(user_id="users.ann")) == 1


def test_an_expired_namespace_is_not_listed(timed: Any) -> None:
    made, clock, _ = timed
    made.put(ANN, "tea", {"text": "tea"}, ttl=1)
    made.put(BOB, "tea", {"text": "tea"}, ttl=None)
    assert made.list_namespaces() == [ANN, BOB]
    clock.now += timedelta(minutes=1)
    assert made.list_namespaces() == [BOB]


def test_reading_an_item_keeps_its_value_and_its_times(timed: Any) -> None:
    made, clock, _ = timed
    made.put(ANN, "tea", {"text": "tea"})
    first = made.get(ANN, "tea")
    clock.now += 0.5 * HOUR
    assert made.get(ANN, "tea") == first
    assert made.search(ANN)[0].updated_at == first.updated_at


def test_a_sweep_leaves_what_was_renewed_meanwhile(
    timed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, clock, memory = timed
    made.put(ANN, "tea", {"v": 1})
    clock.now += 2 * HOUR
    forget = memory.forget

    def late(*args: Any, **options: Any) -> Any:
        made.put(ANN, "tea", {"v": 2})
        return forget(*args, **options)

    monkeypatch.setattr(type(memory), "forget", lambda self, *a, **o: late(*a, **o))
    assert made.sweep_ttl() == 0
    assert made.get(ANN, "tea").value == {"v": 2}


@pytest.mark.parametrize(
    ("ttl", "told"),
    [({"omit_expired": False}, "omit_expired"), ({"sweep_interval_minutes": 5}, "sweep_ttl")],
)
def test_options_of_ttl_that_would_be_ignored_are_refused(
    store: HyrecallStore, ttl: Any, told: str
) -> None:
    with pytest.raises(hr.OptionError, match=told):
        HyrecallStore(store._items.memory, scope=ANN, ttl=ttl)


@pytest.mark.parametrize(
    ("options", "kind", "told"),
    [
        ({"ttl": {"default": 5}}, hr.OptionError, "ttl: expected keys of .*'default_ttl'.*got 'de"),
        ({"ttl": {"default_ttl": 1e12}}, hr.OptionError, "ttl: expected minutes"),
        ({"ttl": 5}, hr.DTypeError, "ttl: expected a dict"),
        ({"index": {"embedding": embed}}, hr.OptionError, "index: expected keys of .*'embed'"),
        ({"index": {"dims": 12}}, hr.OptionError, "index: expected embed beside dims"),
    ],
)
def test_settings_that_would_be_ignored_are_refused(options: Any, kind: type, told: str) -> None:
    with pytest.raises(kind, match=told):
        HyrecallStore.open(":memory:", scope=ANN, **options)
