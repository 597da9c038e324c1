"""A call whose options an index knows answers and refuses as the first one did."""

import datetime as dt
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.recipe import Dense, Lexical, TieBreak
from seams import PlainReply, known_options, linear, shown_threads

N, DIM = 60, 8
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
RNG = np.random.default_rng(5)
VECTORS = RNG.normal(size=(N, DIM)).astype(np.float32)
WORDS = ("tea", "leaf", "green", "cup", "water")
QUERIES = ["tea leaf", "green cup tea", "water", "leaf leaf"]
ASKED = RNG.normal(size=(len(QUERIES), DIM)).astype(np.float32)
SCOPES = ["ann", "bob", "ann", hr.Scope(["ann", "bob"])]


def rows(first: int = 0, n: int = N) -> pa.Table:
    """Return rows whose columns differ from those of another ``first``, and so do their values."""
    others = range(first // N, first // N + n)
    n_talks = 4 + first // N
    return pa.table(
        {
            "id": np.arange(first, first + n),
            "user": [("ann", "bob", "cy")[at % 3] for at in range(n)],
            "talk": [None if at % 3 else f"t{at % n_talks}" for at in range(n)],
            "turn": np.arange(n),
            "year": [at % 7 for at in others],
            "at": [None if at % 5 == 0 else NOW - dt.timedelta(days=at) for at in others],
            "tags": [None if at % 6 == 0 else [f"g{at % 4}", f"h{at % 3}"] for at in others],
            "half": pa.array([np.float16(at % 3 / 3) for at in others], pa.float16()),
            "text": [f"{WORDS[at % 5]} {WORDS[at % 3]} n{at}" for at in range(n)],
        }
    )


def build(*, threads: bool = False) -> hr.Index:
    thread = {"thread": "talk", "place": "turn"} if threads else {}
    schema = hr.Schema(
        key="id", cell="user", text="text", vector="embedding",
        attributes=("year", "at", "tags", "half", "talk"), **thread
    )  # fmt: skip
    return hr.Index.build(rows(), schema, vectors={"embedding": VECTORS}, device="cpu")


@pytest.fixture(autouse=True)
def _records_no_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that records spans takes the long way, whatever other tests have imported."""
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)


@pytest.fixture(scope="module")
def index() -> hr.Index:
    return build()


RECIPE = hr.Recipe(name="mine", arms=(Lexical(), Dense(min_score=0.1)), fusion=hr.RRF())
OPTIONS: list[dict[str, Any]] = [
    {},
    {"limit": 3, "offset": 1},
    {"depth": 20, "limit": 20},
    {"fusion": hr.RRF()},
    {"fusion": hr.RRF({"text": 2.0})},
    {"fusion": hr.Max(), "min_fused": 0.2},
    {"fusion": hr.DBSF()},
    {"bm25": hr.BM25("bm25+")},
    {"min_score": hr.Above(0.1), "text": None},
    {"normalize": True},
    {"columns": ("year",)},
    {"filter": hr.Filter(year=(2, 4))},
    {"filter": ~hr.Filter(year=[1, 3])},
    {"recipe": hr.recipes.default},
    {"recipe": hr.recipes.conversation},
    {"recipe": RECIPE},
    {"vectors": None},
    {"text": None},
    {"scope": "ann"},
    {"scope": hr.Scope([])},
]


def call_of(options: dict[str, Any]) -> dict[str, Any]:
    return {"text": QUERIES, "vectors": ASKED, "scope": SCOPES} | options


def one_of(call: dict[str, Any], at: int) -> dict[str, Any]:
    """The call of one query of a batch."""
    texts, vectors, scope = call.pop("text"), call.pop("vectors"), call.pop("scope")
    return {
        "text": None if texts is None else texts[at],
        "vector": None if vectors is None else vectors[at],
        "scope": scope[at] if isinstance(scope, list) else scope,
        **call,
    }


def said(trace: hr.Trace) -> hr.Trace:
    """A trace without its times."""
    stages = tuple(replace(one, milliseconds=0.0) for one in trace.stages)
    return replace(trace, milliseconds=dict.fromkeys(trace.milliseconds, 0.0), stages=stages)


def alike(first: hr.Hits, again: hr.Hits) -> None:
    assert again.to_arrow().equals(first.to_arrow())
    assert said(again.trace) == said(first.trace)
    assert len(again) == len(first)
    for one, other in zip(first, again, strict=True):
        assert [hit.explain() for hit in other] == [hit.explain() for hit in one]
        assert other.explain_dropped() == one.explain_dropped()
        assert other.n_candidates == one.n_candidates
        assert said(other.trace) == said(one.trace)
    assert pickle.loads(pickle.dumps(again)).to_arrow().equals(first.to_arrow())


@contextmanager
def forgetting(index: hr.Index) -> Iterator[None]:
    """Within it the index knows no options."""
    held, index._known = index._known, known_options.KnownOptions()
    try:
        yield
    finally:
        index._known = held


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_known_options_answer_as_unknown_ones(index: hr.Index, options: dict[str, Any]) -> None:
    call = call_of(options)
    with forgetting(index):
        first = index.recall(**call)
    index.recall(**call)
    again = index.recall(**call)
    assert type(again._reply) is PlainReply
    alike(first, again)
    for at in range(len(QUERIES)):
        one = one_of(dict(call), at)
        with forgetting(index):
            alone = index.recall_one(**one)
        index.recall_one(**one)
        hits = index.recall_one(**one)
        assert type(hits._reply) is PlainReply
        assert hits.to_arrow().equals(alone.to_arrow())
        assert said(hits.trace) == said(alone.trace)
        assert [hit.explain() for hit in hits] == [hit.explain() for hit in alone]


GROUPED: list[dict[str, Any]] = [
    {},
    {"limit": 2, "offset": 1},
    {"recipe": hr.recipes.conversation},
    {"fusion": hr.RRF(), "filter": hr.Filter(year=(1, 5))},
    {"vectors": None, "limit": 20},
    {"text": None, "min_score": 0.0},
    {"scope": hr.Scope([])},
]


@pytest.fixture(scope="module")
def threaded() -> hr.Index:
    """An index of threads whose rows lie in three segments, some of them deleted."""
    index = build(threads=True)
    for first in (N, 2 * N):
        index.add(rows(first), vectors={"embedding": np.roll(VECTORS, first, axis=1)})
    index.delete([3, N + 6, N + 9], scope=["ann"] * 3)
    assert index.stats()["n_segments"] == 3
    return index


def shown(hits: hr.Hits) -> list[Any]:
    """The threads that hits stand for."""
    return [(hit.key, hit.thread_rows, hit.surrounding) for one in hits for hit in one]


@pytest.mark.parametrize("options", GROUPED, ids=str)
def test_known_options_group_as_unknown_ones(threaded: hr.Index, options: dict[str, Any]) -> None:
    call = call_of({"group": "thread"} | options)
    with forgetting(threaded):
        first = threaded.recall(**call)
    threaded.recall(**call)
    again = threaded.recall(**call)
    assert type(again._reply) is PlainReply
    alike(first, again)
    assert shown(again) == shown(first)
    assert shown(pickle.loads(pickle.dumps(again))) == shown(first)


def test_members_of_another_page_are_caught(
    threaded: hr.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Askew(PlainReply):
        @property
        def around(self) -> Any:
            begins, *columns = self._answer.members
            members = ([0, *(one - 1 for one in begins[1:])], *columns)
            offsets = self.arrays["offsets"]
            return shown_threads(self.facts, self._state, members, offsets)

    monkeypatch.setattr(known_options, "PlainReply", Askew)
    with pytest.raises(AssertionError):
        test_known_options_group_as_unknown_ones(threaded, {})


LEARNT = hr.Linear({"fused": 1.0, "agreement": 0.2, "text_score": 0.5, "text_rank": 0.1})
BESIDE = hr.Linear(
    {
        "fused": 0.5, "agreement": -0.3, "text_score": 0.5, "embedding_score": 0.2,
        "embedding_rank": 0.1, "neighbour_1": 0.7, "neighbour_2": 0.3, "thread": 0.4,
        "length": 0.2, "prior": 0.9, "text_before_1": 0.3, "embedding_after_2": -0.2,
        "year=3": 0.4, "recency(at, 30d)": 0.3, "shared(tags)": 0.6,
    }
)  # fmt: skip
COLUMNS = hr.Linear(
    {
        "talk=t1": 0.5, "half=0.333": 0.25, "year=4": 0.2, "at=2025-12-30T00:00:00Z": 0.3,
        "recency(at, 1d)": 0.3, "shared(talk)": 0.1, "shared(tags)": 0.6,
    }
)  # fmt: skip
PRIOR = hr.Prior("year", {3: 0.5})
LINEAR: list[dict[str, Any]] = [
    {"shaping": (LEARNT,)},
    {"shaping": (LEARNT,), "limit": 3, "offset": 2, "scope": "bob"},
    {"shaping": (LEARNT,), "vectors": None, "fusion": hr.RRF()},
    {"shaping": (hr.Around(), PRIOR, BESIDE), "depth": 15, "limit": 15, "now": NOW},
    {"shaping": (COLUMNS,), "now": NOW, "limit": 20},
    {"shaping": (COLUMNS,), "now": NOW.replace(tzinfo=None), "vectors": None},
    {"shaping": (hr.Linear({"fused": 1.0, "embedding_score": 0.5}),), "vectors": None},
    {"shaping": (hr.Around((0.3,)), hr.Linear({"neighbour_1": 1.0, "text_after_1": -1.0}))},
    {"shaping": (hr.Linear({"text_rank": 0.0}),), "limit": 20},  # all scores are equal
    {"recipe": hr.recipes.conversation.replace(shaping=(hr.Around(), LEARNT))},
]


@pytest.mark.parametrize("options", LINEAR, ids=str)
def test_known_options_weigh_features_as_unknown_ones(
    threaded: hr.Index, options: dict[str, Any]
) -> None:
    call = call_of(options)
    with forgetting(threaded):
        first = threaded.recall(**call)
        again = threaded.recall(**call)
    assert type(again._reply) is PlainReply
    alike(first, again)


def test_ages_are_of_each_call(threaded: hr.Index) -> None:
    call = one_of(call_of({"shaping": (hr.Linear({"recency(at, 1d)": -1.0}),)}), 0)
    times = [NOW, NOW + dt.timedelta(days=9)]
    with forgetting(threaded):
        alone = [threaded.recall_one(**call, now=now) for now in times]
        again = [threaded.recall_one(**call, now=now) for now in times]
    assert [type(one._reply) for one in again] == [PlainReply] * 2
    assert [one._reply.now for one in again] == times
    assert [one.to_arrow() for one in again] == [one.to_arrow() for one in alone]
    assert alone[0][0].score < alone[1][0].score
    with pytest.raises(hr.DTypeError, match="now: expected a datetime, got int"):
        threaded.recall_one(**call, now=3)


@pytest.mark.parametrize("at", range(len(BESIDE.weights)))
def test_terms_that_the_engine_reads_wrongly_are_caught(
    threaded: hr.Index, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    native_rules, term = linear.native_rules, linear._term
    names = list(BESIDE.names)

    def askew(feature: Any, name: str, *rest: Any) -> tuple[Any, ...]:
        kind, place, steps, tick, half_life, value, weight = term(feature, name, *rest)
        if name != names[at]:
            return kind, place, steps, tick, half_life, value, weight
        # Another feature, another addend or column, or the row on the other side.
        if kind == 4:
            place = (place + 1) % 5
        elif kind > 4:
            kind, place, half_life = 6, 1, 7.0 * half_life
        elif not steps:
            kind, place = (kind + 1) % 4, 0
        return kind, place, -steps, tick, half_life, value, weight

    def wrong(*given: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(linear, "_term", askew)
            return native_rules(*given)

    monkeypatch.setattr(linear, "native_rules", wrong)
    with pytest.raises(AssertionError):
        test_known_options_weigh_features_as_unknown_ones(threaded, LINEAR[3])


STAGED: list[dict[str, Any]] = [
    {"shaping": hr.MMR(0.6)},
    {"shaping": (hr.Dedup(0.5), hr.Budget(40, column="text"), hr.MMR(0.7)), "limit": 4},
    {"shaping": (hr.Prior("year", {3: 0.5}), hr.Rerank(window=5)), "limit": 3, "offset": 2},
    {"shaping": (hr.Gate(0.2),), "filter": hr.Filter(year=(1, 5)), "scope": "ann"},
    {"recipe": hr.recipes.default.replace(shaping=(hr.Linear({"fused": 1.0, "id=3": 0.5}),))},
    {
        "recipe": RECIPE.replace(
            shaping=(hr.Provenance("year", {2: 0.5}),), tie_break=(TieBreak("year"),)
        )
    },
    {"shaping": (hr.MMR(0.4),), "text": None},
]


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The queries of the calls whose stages ran on what known options found."""
    staged, sizes = known_options._staged, list[int]()

    def seen(found: Any, answer: Any, *rest: Any) -> Any:
        sizes.append(answer.n_queries)
        return staged(found, answer, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(known_options, "_staged", seen)
        yield sizes


@pytest.mark.parametrize("options", STAGED, ids=str)
def test_stages_run_on_what_known_options_found(
    index: hr.Index, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    call = call_of(options)
    with forgetting(index):
        first = index.recall(**call)
    index.recall(**call)
    with counting(monkeypatch) as sizes:
        again = index.recall(**call)
        index.recall(
            **call
            | {name: call[name] * 200 for name in ("text", "scope") if isinstance(call[name], list)}
            | {"vectors": np.tile(ASKED, (200, 1))}
        )
    assert sizes == [4]  # a longer batch is shaped in pieces
    alike(first, again)
    one = one_of(dict(call), 1)
    with forgetting(index):
        alone = index.recall_one(**one)
    index.recall_one(**one)
    hits = index.recall_one(**one)
    assert hits.to_arrow().equals(alone.to_arrow())
    assert said(hits.trace) == said(alone.trace)
    assert [hit.explain() for hit in hits] == [hit.explain() for hit in alone]


@pytest.mark.parametrize("n", [512, 513, 1024, 1025])
@pytest.mark.parametrize("options", [{}, {"shaping": hr.MMR(0.6)}, {"group": "thread"}], ids=str)
def test_options_may_be_met_first_in_a_batch_of_any_length(
    threaded: hr.Index, options: dict[str, Any], n: int
) -> None:
    call = {"text": QUERIES * 257, "vectors": np.tile(ASKED, (257, 1)), "scope": "ann"} | options
    call |= {"text": call["text"][:n], "vectors": call["vectors"][:n]}
    few = call | {"text": QUERIES, "vectors": ASKED}
    with forgetting(threaded):
        alone = threaded.recall(**few)
    with forgetting(threaded):
        first = threaded.recall(**call)
        for _ in range(2):
            assert threaded.recall(**few).to_arrow().equals(alone.to_arrow())
            assert threaded.recall(**call).to_arrow().equals(first.to_arrow())


def test_stages_that_are_not_told_of_are_caught(
    index: hr.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace_of = known_options.trace_of
    monkeypatch.setattr(known_options, "trace_of", lambda *given: trace_of(*given[:4]))
    with pytest.raises(AssertionError):
        test_stages_run_on_what_known_options_found(index, STAGED[0], monkeypatch)


def refusal(call: Callable[[], object]) -> tuple[type, str]:
    with pytest.raises(hr.HyrecallError) as caught:
        call()
    return type(caught.value), str(caught.value)


WRONG: list[dict[str, Any]] = [
    {"limit": 10.0},
    {"limit": True},
    {"limit": -1},
    {"offset": 200},
    {"depth": 0},
    {"normalize": 1},
    {"scope": None},
    {"scope": ["ann"]},
    {"scope": 3},
    {"scope": hr.ANY},
    {"text": ["tea"]},
    {"text": "tea"},
    {"text": ["tea", 3, "x", "y"]},
    {"text": ["\ud800", "tea", "x", "y"]},
    {"vectors": ASKED[:, :3]},
    {"vectors": ASKED[:2]},
    {"vectors": ASKED * np.nan},
    {"vectors": ASKED * np.float32(1e-30)},
    {"vectors": np.ma.array(ASKED, mask=ASKED > 0)},
    {"filter": hr.Filter(colour="red")},
    {"filter": {"year": 3}},
    {"candidates": {"x": []}},
    {"session": 3},
    {"graphs": {"x": 3}},
    {"now": "today"},
    {"query_keys": [1]},
    {"min_score": {"sound": 0.1}},
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: next(iter(wrong)))
def test_what_is_wrong_is_refused_in_the_same_words(index: hr.Index, wrong: dict[str, Any]) -> None:
    call = call_of({})
    with forgetting(index):
        words = refusal(lambda: index.recall(**call | wrong))
    index.recall(**call)
    assert refusal(lambda: index.recall(**call | wrong)) == words


OTHERS: list[dict[str, Any]] = [  # right, but not of the kinds that the short way takes
    {"text": ["tea leaf", None, "water", ""]},
    {"text": [hr.Phrase("tea leaf"), "cup", "water", "leaf"]},
    {"vectors": ASKED.astype(np.float64)},
    {"vectors": [None, *ASKED[1:]]},
    {"vectors": np.asfortranarray(ASKED)},
    {"scope": np.array(["ann", "bob", "ann", "cy"])},
    {"scope": hr.Scope.matching(user=hr.ANY)},
    {"filter": [None, hr.Filter(year=3), None, None]},
    {"recipe": hr.recipes.default, "text": ["n7", '"tea leaf"', " ", "leaf"]},
    {"recipe": hr.recipes.default, "text": ["\u0663x", "\u3000", "tea\u2003n3", "x-1"]},
    {"recipe": [hr.recipes.default] * 4},
    {"fusion": hr.WeightedSum({"text": 0.0, "embedding": 1.0})},
    {"shaping": hr.MMR(0.5)},
    {"min_score": {"text": 0.1}},
    {"query_keys": [1, 2, 3, 4]},
]


@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_other_kinds_of_arguments_mean_the_same(index: hr.Index, other: dict[str, Any]) -> None:
    call = call_of(other)
    index.recall(**call_of({name: other[name] for name in other if name == "recipe"}))
    with forgetting(index):
        first = index.recall(**call)
    alike(first, index.recall(**call))


def check_floors(index: hr.Index) -> None:
    floors = {"text": 0.0, "embedding": -1.0}
    call = call_of({"min_score": floors})
    before = [index.recall(**call) for _ in range(2)][1]
    floors["embedding"] = 1.0
    assert not index.recall(**call).to_arrow().equals(before.to_arrow())


def test_options_that_can_change_are_read_each_time(index: hr.Index) -> None:
    check_floors(index)


def check_types(index: hr.Index) -> None:
    for _ in range(2):
        index.recall(**call_of({"limit": 1}))
    assert refusal(lambda: index.recall(**call_of({"limit": True})))[0] is hr.OptionError


def test_equal_values_of_another_type_are_other_options(index: hr.Index) -> None:
    check_types(index)


def test_a_change_of_the_index_is_seen_at_once() -> None:
    index = build()
    call = {"text": "tea leaf", "vector": ASKED[0], "scope": "ann"}
    for _ in range(2):
        index.recall_one(**call)
    (best,) = index.recall_one(**call, limit=1)
    index.delete(keys=[best.key], scope="ann")
    assert best.key not in index.recall_one(**call).keys
    index.add(rows(1000, 3), vectors={"embedding": np.stack([ASKED[0]] * 3)})
    assert {1000} <= set(index.recall_one(**call).keys)
    index.close()
    assert refusal(lambda: index.recall_one(**call))[0] is hr.OptionError


@pytest.mark.parametrize("scope", ["ann", "bob"])
def test_a_recipe_answers_threads_by_its_form_for_them(scope: str) -> None:
    index = build(threads=True)
    call = {"text": "tea leaf", "vector": ASKED[0], "recipe": hr.recipes.default}
    first = index.recall_one(**call, scope=scope)
    index.recall_one(**call, scope="ann" if scope == "bob" else "bob")
    again = index.recall_one(**call, scope=scope)
    assert type(again._reply) is PlainReply
    assert [hit.explain() for hit in again] == [hit.explain() for hit in first]
    assert again.to_arrow().equals(first.to_arrow())


def test_nothing_of_a_caller_is_kept(index: hr.Index) -> None:
    with forgetting(index):
        secret = {"text": "sesame door", "vector": ASKED[3], "scope": "cy"}
        index.recall_one(**secret)
        ((frozen,),) = (forms.values() for forms in index._known._known.values())
        assert frozen.plan.request is None
        assert frozen.plan.scope is None
        assert not frozen.plan.sessions
        told = index.recall_one(text="water", vector=ASKED[1], scope="ann").trace
        assert "sesame" not in repr((frozen, told))


def test_few_options_are_known(index: hr.Index) -> None:
    with forgetting(index):
        for limit in range(200):
            index.recall_one(text="tea", vector=ASKED[0], scope="ann", limit=limit % 100)
        assert len(index._known._known) <= 64


def test_threads_that_ask_at_the_same_time_get_their_own_replies(index: hr.Index) -> None:
    wanted = [index.recall_one(**one_of(call_of({}), at)).keys for at in range(4)]
    wrong: list[int] = []

    def ask(at: int) -> None:
        call = one_of(call_of({}), at)
        wrong.extend(at for _ in range(100) if index.recall_one(**call).keys != wanted[at])

    threads = [Thread(target=ask, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- what teaches an index no options ----


def known_after(index: hr.Index, call: dict[str, Any]) -> int:
    """How many options the index knows after a call."""
    with forgetting(index):
        index.recall(**call)
        return len(index._known._known)


@pytest.mark.parametrize(
    "call",
    [
        {"vectors": {}},
        {"text": {}},
        {"vectors": {"embedding": ASKED}},
        {"fusion": hr.WeightedSum({"text": 0.0, "embedding": 1.0})},
        {"fusion": hr.WeightedSum({"text": 1.0, "embedding": 0.0})},
        {"recipe": hr.Recipe(name="d", arms=(Dense(),), fusion=hr.RRF(), on_empty="error")},
        {"recipe": replace(hr.recipes.default, arms=(Lexical(weight=0.0), Dense()))},
        {"min_score": type("Above", (hr.Above,), {"__module__": "mine"})(0.1), "text": None},
        {"text": ["tea"] * 1025, "vectors": np.repeat(ASKED[:1], 1025, 0), "scope": "ann"},
    ],
    ids=range(9),
)
def test_calls_that_teach_no_options(index: hr.Index, call: dict[str, Any]) -> None:
    assert known_after(index, call_of({})) == 1
    assert known_after(index, call_of(call)) == 0


@pytest.mark.parametrize("options", [{}, {"fusion": hr.RRF()}, {"normalize": True}], ids=str)
def test_options_of_a_batch_in_pieces_are_those_of_a_small_one(
    index: hr.Index, options: dict[str, Any]
) -> None:
    with forgetting(index):
        first = index.recall(**call_of(options))
    with forgetting(index):
        n = 4100
        many = {"text": ["tea"] * n, "vectors": np.repeat(ASKED[:1], n, 0), "scope": "ann"}
        index.recall(**many, **options)
        assert index.recall(**call_of(options)).to_arrow().equals(first.to_arrow())


def test_segments_whose_texts_were_not_checked_yet_are_checked(tmp_path: Path) -> None:
    def part(user: str, first: int) -> pa.Table:
        n = 5000  # a column of terms of more than 64 KiB is checked late
        words = [f"tea w{at * 7919 % 9973}" for at in range(n)]
        return pa.table({"id": np.arange(first, first + n), "user": [user] * n, "text": words})

    made = hr.Index.build(
        part("ann", 0), hr.Schema(key="id", cell="user", text="text"), device="cpu"
    )
    made.add(part("cy", 5000))
    made.save(tmp_path / "index")
    with hr.Index.open(tmp_path / "index", verify="structure", device="cpu") as opened:
        for scope in ("ann", "cy", "ann"):
            assert (
                opened.recall_one(text="tea", scope=scope).keys
                == made.recall_one(text="tea", scope=scope).keys
            )


def test_a_scope_that_lies_about_equality_changes_nobody_elses_form() -> None:
    class Other(str):
        __slots__ = ()

        def __hash__(self) -> int:
            return hash("ann")

        def __eq__(self, other: object) -> bool:
            return True

    call = {"text": "tea leaf", "vector": ASKED[0], "recipe": hr.recipes.default}
    wanted = [hit.explain() for hit in build(threads=True).recall_one(**call, scope="ann")]
    index = build(threads=True)
    index.recall_one(**call, scope=Other("zz"))
    for _ in range(3):
        hits = index.recall_one(**call, scope="ann")
        assert [hit.explain() for hit in hits] == wanted


def test_the_first_of_two_faults_is_told(index: hr.Index) -> None:
    call: dict[str, Any] = {"text": "tea", "vector": ASKED[0], "scope": ["ann"], "now": "x"}
    with forgetting(index):
        words = refusal(lambda: index.recall_one(**call))
    index.recall_one(**call | {"scope": "ann", "now": None})
    assert refusal(lambda: index.recall_one(**call)) == words


# ---- planted bugs ----


def test_options_known_by_their_values_are_caught(
    index: hr.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_options, "id", lambda one: one, raising=False)
    with forgetting(index), pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        check_types(index)


def test_options_that_change_and_are_known_are_caught(
    index: hr.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_options, "_is_fixed", lambda value: True)
    with forgetting(index), pytest.raises(AssertionError):
        check_floors(index)


def test_a_recipe_whose_rules_for_texts_are_forgotten_is_caught(
    index: hr.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    freeze = known_options._freeze
    monkeypatch.setattr(
        known_options, "_freeze", lambda plan, reply, recipe, *how: freeze(plan, reply, None, *how)
    )
    with forgetting(index), pytest.raises(AssertionError):
        test_other_kinds_of_arguments_mean_the_same(index, OTHERS[8])
