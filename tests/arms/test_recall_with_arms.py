"""Listed arms beside text and vectors: fusion, floors, columns, explain, and what is refused."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from arms.channels import every_arm, indexes, say_everything
from arms.world import Draw, said
from hyrecall import arms
from hyrecall.errors import DTypeError, OptionError
from seams import (
    ArmQueries,
    Batch,
    FoundDocs,
    Lexical,
    RecallSource,
    Recipe,
    Steps,
    distinct_scopes,
    reply_of,
)
from seams import recall_batch_module as pieces_recall
from seams import scope as scopes
from small_index import ONE, built, documents, refused

# ---- listed arms ----

HINTS = arms.Listed("hints")


def recall(**options: object) -> hr.Hits:
    return built().recall(**{"scope": "ana", **options})


def test_an_arm_joins_the_fusion_as_others_do() -> None:
    hits = recall(
        text=["tea"], vectors=ONE, arms=HINTS, candidates={"hints": [["k1", "k4", "k0"]]},
        fusion=hr.RRF(),
    )  # fmt: skip
    table = hits.to_arrow()
    assert table.column_names[-6:] == [
        *("text_score", "text_rank", "embedding_score", "embedding_rank"),
        *("hints_score", "hints_rank"),
    ]
    assert hits.trace.arms == ("text", "embedding", "hints")
    rows = {row["key"]: row for row in hits.to_list()[0]}
    assert rows["k1"]["hints_rank"] == 1
    assert rows["k0"]["hints_score"] == 1 / np.float32(3)
    # A document outside the list has no score there: no completion, no 0.
    assert (rows["k2"]["hints_score"], rows["k2"]["hints_rank"]) == (None, None)
    for row in rows.values():
        ranks = [row[f"{arm}_rank"] for arm in hits.trace.arms]
        expected = sorted((1 / (60 + rank) for rank in ranks if rank is not None), reverse=True)
        assert row["score"] == sum(expected)


FUSIONS = [
    hr.RRF({"hints": 3, "text": 0.5}),
    hr.WeightedSum({"text": 0.4, "hints": 0.9}),
    hr.WeightedSum(normalize="none", complete=False),
    hr.Max({"hints": 2}),
]


@pytest.mark.parametrize("fusion", FUSIONS, ids=repr)
def test_explain_gives_the_bits_of_every_fusion(fusion: hr.RRF) -> None:
    hits = recall(
        text=["tea"], vectors=ONE, arms=(HINTS, arms.Newest("kind")), fusion=fusion,
        candidates={"hints": [{"k1": 0.3, "k2": -2.5}]}, normalize=True,
    )  # fmt: skip
    assert hits.n_hits == 3
    for hit in hits[0]:
        explained = hit.explain()
        assert explained.score == hit.score
        assert [c.arm for c in explained.components] == ["text", "embedding", "hints", "newest"]
        assert explained.components[2].score == hit.arm_score("hints")


def test_a_floor_acts_inside_the_arm_and_is_rounded_once() -> None:
    given = {"hints": [{"k0": 0.3, "k1": 0.2, "k2": 0.1}]}
    for floor, keys in ((0.2, ["k0", "k1"]), (hr.Above(0.2), ["k0"])):
        hits = recall(arms=HINTS, candidates=given, min_score={"hints": floor})
        assert hits[0].keys == keys


def test_a_key_given_twice_counts_once_with_its_best_score() -> None:
    (hits,) = recall(arms=HINTS, candidates={"hints": [["k2", "k0", "k2", "k1"]]})
    assert [(hit.key, hit.score) for hit in hits] == [("k2", 1.0), ("k0", 0.5), ("k1", 0.25)]
    assert repr(hits[0].score) == "1.0"


def test_equal_scores_are_ordered_by_seq_and_minus_zero_is_zero() -> None:
    given = {"hints": [{"k2": -0.0, "k1": 0.0, "k0": -0.0}]}
    (hits,) = recall(arms=HINTS, candidates=given)
    assert hits.keys == ["k0", "k1", "k2"]
    assert str(hits[0].score) == "0.0"


def test_depth_cuts_an_arm_and_limit_does_not() -> None:
    given = {"hints": [["k2", "k0", "k1"]]}
    hits = recall(text=["tea"], arms=HINTS, candidates=given, depth=2, limit=2)
    assert sum(rank is not None for rank in hits.arm_ranks("hints").to_pylist()) <= 2
    one = recall(arms=HINTS, candidates=given, depth=1, limit=3)  # one arm: depth grows along
    assert one[0].keys == ["k2", "k0", "k1"]


def test_an_arm_that_is_asked_nothing_does_not_run_and_the_trace_says_so() -> None:
    hits = recall(text={"text": ["tea"]}, arms=(HINTS, arms.Regex("text")))
    assert hits.trace.arms == ("text",)
    assert hits.trace.notes == (
        "hints did not run: nothing was asked",
        "regex did not run: nothing was asked",
    )
    table = hits.to_arrow()
    assert table["hints_score"].null_count == table["regex_rank"].null_count == len(table) > 0


def test_arms_that_ask_nothing_count_queries_by_their_scopes() -> None:
    index = built()
    arm = arms.Newest("kind")
    assert [one.keys for one in index.recall(arms=arm, scope=["bob", "ana"])] == [
        ["k3", "k4"],
        ["k1", "k0", "k2"],
    ]
    assert len(index.recall(arms=arm, scope="bob")) == 1
    assert index.recall_one(arms=arm, scope="bob").keys == ["k3", "k4"]


def test_one_query_and_its_async_twin() -> None:
    index = built()
    given = {"hints": ["k1", "k0"]}
    assert index.recall_one(arms=HINTS, candidates=given, scope="ana").keys == ["k1", "k0"]
    found = asyncio.run(index.arecall_one(arms=HINTS, candidates=given, scope="ana"))
    assert found.keys == ["k1", "k0"]


def test_typed_queries_go_to_text_arms_and_plain_ones_to_arms_that_read_words() -> None:
    texts = {"text": [hr.Phrase("hot tea")], "regex": ["hot|cold"]}
    hits = recall(text=texts, arms=arms.Regex("text"))
    assert hits[0].keys == ["k0", "k1"]
    refused(
        lambda: recall(text=[hr.Phrase("hot tea")], arms=arms.Regex("text")),
        DTypeError,
        "text['regex'][0]: expected a str or None (arm 'regex' reads plain text; "
        "pass text={arm: [...]}), got Phrase(text='hot tea', slop=0)",
    )


# ---- regex


def texts_index(texts: list[str | None], keys: pa.Array | None = None) -> hr.Index:
    ids = pa.array([f"k{i}" for i in range(len(texts))]) if keys is None else keys
    return hr.Index.build(
        pa.table({"id": ids, "text": pa.array(texts, pa.string())}),
        hr.Schema(key="id", cell=None, text="text"),
    )


def matches(index: hr.Index, text: str | None, **options: object) -> list[object]:
    columns = options.pop("columns", "text")
    arm = arms.Regex(columns, **options)
    return index.recall(text={"regex": [text]}, arms=arm)[0].keys


def test_case_line_breaks_and_ends_are_those_of_the_whole_text() -> None:
    index = texts_index(["Tea", "a\ntea", "TEAÄ", None, ""])
    assert matches(index, "tea") == ["k0", "k1", "k2"]
    assert matches(index, "tea", ignore_case=False) == ["k1"]
    assert matches(index, "^tea") == ["k0", "k2"]
    assert matches(index, "a.tea") == []
    assert matches(index, "teaä") == ["k2"]
    assert matches(index, "^$") == ["k4"]


def test_a_blank_or_missing_query_matches_nothing() -> None:
    index = texts_index(["a", " "])
    assert matches(index, "") == matches(index, "  ") == matches(index, None) == []


def test_integer_keys_are_searched_as_text() -> None:
    index = texts_index(["a", "b7"], pa.array([70, 8]))
    assert matches(index, "7", columns=("id", "text")) == [70, 8]


def test_a_pattern_of_the_arm_holds_for_every_query() -> None:
    index = texts_index(["tea", "milk"])
    hits = index.recall(text={"text": ["milk", "tea"]}, arms=arms.Regex("text", pattern="^m"))
    assert [[hit.key for hit in one if hit.arm_rank("regex")] for one in hits] == [["k1"], ["k1"]]


BAD = ["(", "[", "*a", "a{2,1}", r"(a)\1", "(?=a)", "(?P<x", "\\"]


@pytest.mark.parametrize("pattern", BAD)
def test_c08_a_bad_pattern_is_an_error_that_names_it_or_plain_text(pattern: str) -> None:
    index = texts_index([f"here: {pattern} .", "nothing"])
    with pytest.raises(OptionError) as caught:
        matches(index, pattern)
    assert caught.value.argument == "text['regex'][0]"
    assert repr(pattern) in str(caught.value)
    arm = arms.Regex("text", on_bad="literal")
    hits = index.recall(text={"regex": [pattern]}, arms=arm)
    assert hits[0].keys == ["k0"]
    assert hits.trace.notes == (f"text['regex'][0]: {pattern!r} is no pattern, searched as text",)


def test_edges_of_a_pattern_are_no_arm() -> None:
    with pytest.raises(DTypeError, match=r"^arms: expected Regex, .*, got Edges\(graph='net'\)$"):
        texts_index(["tea"]).recall(arms=arms.Edges("net"))  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"on_bad": "literal"}, {}])
def test_a_lone_surrogate_is_no_pattern(options: dict[str, str]) -> None:
    with pytest.raises(OptionError, match=r"text\[0\]: expected valid Unicode"):
        matches(texts_index(["a", "\N{REPLACEMENT CHARACTER}?"]), "\ud800", **options)


def test_what_is_a_pattern_has_a_metacharacter_and_compiles() -> None:
    assert [arms.is_pattern(text) for text in ("tea", "t.a", "a|b", "(", "", "C++")] == [
        *(False, True, True, False, False, False)
    ]


def test_c09_a_catastrophic_pattern_is_linear(capsys: pytest.CaptureFixture[str]) -> None:
    """A matcher that backtracks would not come back."""
    texts = ["a" * 1000] * 10_000
    texts[7] += "!"
    index = texts_index(list(texts))
    started = time.perf_counter()
    found = index.recall(text={"regex": ["(a+)+$"]}, arms=arms.Regex("text"), limit=9)[0].keys
    with capsys.disabled():
        print(f" (a+)+$ over 10,000 texts: {1e3 * (time.perf_counter() - started):.0f} ms", end="")
    assert found == [f"k{i}" for i in (*range(7), 8, 9)]


def test_an_arm_whose_columns_the_index_has_is_refused() -> None:
    table = documents().append_column("hints_score", pa.array([1] * 6))
    schema = hr.Schema(key="id", cell="user", text="text", stored="hints_score")
    index = hr.Index.build(table, schema)
    with pytest.raises(OptionError, match="hints_score"):
        index.recall(text=["tea"], scope="ana", arms=HINTS)


def test_what_is_newest_knows_dates_floats_and_their_gaps() -> None:
    values = {
        "float": pa.array([1.5, None, float("nan"), float("inf"), -2.0, 1.5]),
        "date": pa.array([3, None, 1, 9, -4, 3], pa.date32()),
        "big": pa.array([2**63, None, 1, 2**64 - 1, 0, 2**63], pa.uint64()),
    }
    table = pa.table({"id": [f"k{i}" for i in range(6)], "text": ["x"] * 6, **values})
    index = hr.Index.build(
        table, hr.Schema(key="id", cell=None, text="text", attributes=tuple(values))
    )
    expected = {
        "float": [("k3", 1.0), ("k0", 0.5), ("k5", 0.5), ("k4", 1 / 3)],
        "date": [("k3", 1.0), ("k0", 0.5), ("k5", 0.5), ("k2", 1 / 3), ("k4", 0.25)],
        "big": [("k3", 1.0), ("k0", 0.5), ("k5", 0.5), ("k2", 1 / 3), ("k4", 0.25)],
    }
    for column, wanted in expected.items():
        hits = index.recall(arms=arms.Newest(column))[0]
        assert [(hit.key, hit.score) for hit in hits] == [
            (key, float(np.float32(score))) for key, score in wanted
        ]


def test_the_newest_of_many_tiles_are_found_where_they_lie() -> None:
    rng = np.random.default_rng(4)
    at = rng.integers(0, 3000, 5000)
    table = pa.table({"id": np.arange(5000), "text": ["x"] * 5000, "at": at})
    for cluster in (None, "at"):
        schema = hr.Schema(key="id", cell=None, text="text", attributes="at", cluster=cluster)
        index = hr.Index.build(table, schema)
        index.delete(np.argsort(-at)[:20].tolist())
        left = sorted((i for i in np.argsort(-at)[20:].tolist()), key=lambda i: (-at[i], i))
        found = index.recall(arms=arms.Newest("at"), limit=150)[0].keys
        assert found == left[:150]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_patterns_find_edges_of_each_query_s_own_scope(order: tuple[int, int]) -> None:
    """Two scopes with the same documents have other edges, whichever query comes first."""
    people = pa.table({"id": ["n1", "n2"], "user": ["ann"] * 2, "text": ["x", "y"]})
    schema = hr.Schema(key="id", cell="user", text="text")
    index = hr.Index.build(people, schema)
    made = {"id": [1, 2], "user": ["ann", "bob"], "label": ["oak", "oak"], "who": [["n1"], ["n2"]]}
    how = hr.GraphSchema(key="id", cell="user", text="label", participants="who")
    graph = hr.Graph.build(pa.table(made), how, nodes=index)
    scopes = ["ann", hr.Scope.matching(user=hr.ANY)]
    pattern = arms.Regex(arms.Edges(graph))
    hits = index.recall(
        text={"regex": ["oak"] * 2}, arms=pattern, scope=[scopes[at] for at in order]
    )
    assert [hits[order.index(at)].keys for at in (0, 1)] == [["n1"], ["n1", "n2"]]


# ---- arms search for a part of a batch at a time, in the candidates step ----

SCOPE = ("ann", "cy")
PIECES_HINTS = ("n3", "n1", "n4", "n15")


@pytest.fixture
def world() -> tuple[hr.Index, hr.Graph]:
    draw = Draw(11)
    return indexes(draw.docs(40), draw.edges(25, 40))


def in_pieces(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    for name in ("BATCH_QUERIES", "SHAPED_QUERIES"):
        monkeypatch.setattr(pieces_recall, name, n)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_batch_in_pieces_says_what_it_says_whole(
    n: int, world: tuple[hr.Index, hr.Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = say_everything(*world, SCOPE, PIECES_HINTS)
    in_pieces(monkeypatch, n)
    assert say_everything(*world, SCOPE, PIECES_HINTS) == whole


@pytest.mark.parametrize("n", [1, 2])
def test_shaped_and_exact_lists_and_lists_of_scopes_come_in_pieces_too(
    n: int, world: tuple[hr.Index, hr.Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    index, graph = world
    recipe = Recipe(
        name="all", arms=(Lexical(),), more=every_arm(graph), fusion=hr.RRF(), exact=True,
        shaping=(hr.Gate(0.0),),
    )  # fmt: skip

    def ask(recipe: Recipe) -> tuple[Any, ...]:
        hits = index.recall(
            text=['"oak"', "fir tea", None, "(", '"elm"'],
            candidates={"hints": [["n1"], None, {"n2": 0.5, "n3": 2.0}, ["n4", "n5"], []]},
            scope=[said(SCOPE), "bob", "ann", "cy", said(("bob", "cy"))],
            recipe=recipe,
        )
        evidence = [[hit.evidence(arm.name) for arm in recipe.more] for one in hits for hit in one]
        scores = [[hit.explain().score for hit in one] for one in hits]
        assert scores == [[hit.score for hit in one] for one in hits]
        sizes = [one.n_candidates for one in hits]
        return hits.to_arrow(), evidence, sizes, hits.trace.notes, hits.trace.exact

    for one in (recipe, recipe.replace(shaping=())):
        whole = ask(one)
        assert whole[0].num_rows > 20
        assert any(whole[4].values())
        with monkeypatch.context() as patch:
            in_pieces(patch, n)
            assert ask(one) == whole


def test_an_arm_is_handed_a_piece_of_the_queries_and_its_time_is_that_of_the_candidates(
    world: tuple[hr.Index, hr.Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    search = arms.Regex._search

    def slow(arm: arms.Regex, batch: Batch, asked: ArmQueries) -> FoundDocs:
        seen.append((batch.n_queries, list(asked.entries)))
        time.sleep(0.05)
        return search(arm, batch, asked)

    monkeypatch.setattr(arms.Regex, "_search", slow)
    in_pieces(monkeypatch, 2)
    texts = ["o.k", "elm", "f.r", None, "tea"]
    hits = world[0].recall(text={"regex": texts}, arms=arms.Regex("text"), scope=said(SCOPE))
    assert seen == [(2, ["o.k", "elm"]), (2, ["f.r", None]), (1, ["tea"])]
    assert hits.trace.milliseconds["candidates"] >= 150
    assert {"plan", "statistics", "candidates", "fusion"} == set(hits.trace.milliseconds)
    source = reply_of(hits[0]).source
    assert isinstance(source, RecallSource)
    assert source.plan.searches.asked == ()  # a reply keeps no query


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"text": {"regex": ["a", "b", "("]}}, r"text\['regex'\]\[2\]: expected a regular"),
        ({"text": {"tags": ["a", "b", 5]}}, r"text\['tags'\]\[2\]: expected a str or None"),
        ({"text": {"edges": ["a", "b", 5]}}, r"text\['edges'\]\[2\]: expected a str, hr\.Phrase"),
        ({"candidates": {"hints": [[], [], [4]]}}, r"candidates\['hints'\]: expected str keys"),
        ({"candidates": {"hints": [[], [], 4]}}, r"candidates\['hints'\]\[2\]: expected a seq"),
    ],
    ids=["pattern", "tags", "edges", "keys", "hints"],
)
def test_a_bad_query_is_named_before_any_piece_runs(
    asked: Any, message: str, world: tuple[hr.Index, hr.Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    index, graph = world
    in_pieces(monkeypatch, 1)
    given = [arms.Regex("text"), *every_arm(graph)[1:3], arms.Listed("hints")]
    ran = []
    monkeypatch.setattr(Steps, "run", lambda *args: ran.append(args))
    with pytest.raises(hr.HyrecallError, match=message):
        index.recall(**asked, arms=given, scope="ann")
    assert ran == []


# ---- scopes of a batch are told apart by their cells, not by how they look ----


class Hidden(str):
    """A string that does not show its value, as types for secrets do."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "***"


USERS = [Hidden("ann"), Hidden("bob"), Hidden("ann")]


@pytest.mark.parametrize("form", [str, hr.Scope])
def test_strings_that_hide_their_value_are_scopes_of_their_own(form: type) -> None:
    asked = USERS if form is str else [hr.Scope([one]) for one in USERS]
    assert distinct_scopes(asked, 3).tolist() == [0, 1, 0]


def test_scopes_compared_by_how_they_look_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scopes, "scope_key", repr)  # the planted bug
    assert distinct_scopes(USERS, 3).tolist() != [0, 1, 0]


def test_distinct_scopes_are_told_apart_by_type_and_value() -> None:
    given = [
        1, True, "1", hr.Scope([1]), hr.Scope([True]), hr.Scope([]), (1, "a"), (True, "a"),
        hr.Scope.matching(user=hr.ANY), hr.Scope.matching(user="1"), hr.Scope([(1, "a")]),
    ]  # fmt: skip
    found = distinct_scopes(given + given[::-1], 2 * len(given))
    assert found.tolist() == [*range(len(given)), *reversed(range(len(given)))]
    assert distinct_scopes("ann", 3).tolist() == [0, 0, 0]
    assert distinct_scopes([np.int64(1), np.int64(1)], 2).tolist() == [0, 1]  # costs time alone
