"""A list of recipes, one per query: each query is answered as if it were alone."""

from typing import Any

import pyarrow as pa
import pytest

import hyrecall as hr
from laws.effort import Effort
from seams import JoinedReply, reply_of
from several_recipes import NOW, Ask, World, asks, world


def said(one: hr.QueryHits) -> list[Any]:
    """All that a query's reply says; floats in hexadecimal show their last bit."""
    names = reply_of(one).trace.arms
    hits = [
        [
            hit.rank,
            hit.key,
            hit.cell,
            hit.text,
            hit.score.hex(),
            [(hit.arm_score(arm), hit.arm_rank(arm), hit.evidence(arm)) for arm in names],
            hit.context,
            repr(hit.explain()),
            hit.explain().score == hit.score or hit.explain(),
        ]
        for hit in one
    ]
    return [hits, one.keys, one.n_candidates, one.phase, one.related, repr(one)]


def test_each_query_is_answered_as_if_it_were_alone(effort: Effort) -> None:
    n_hits, fell_back = 0, set()
    for seed in range(effort.cases(quick=7, full=300)):
        here = world(seed)
        asked = asks(seed, 14)
        hits = here.together(asked)
        assert len(hits) == len(list(hits)) == 14
        for ask, one in zip(asked, hits, strict=True):
            assert said(one) == said(here.alone(ask))
            n_hits += len(one)
            last = tuple(arm.name for arm in ask.recipe.on_no_match)
            if last and set(one.n_candidates) <= set(last):
                fell_back.add((ask.recipe.name, len(one) > 0))
        assert hits.n_hits == sum(len(one) for one in hits)
        assert hits.now == NOW
    assert n_hits > 500
    assert fell_back >= {("fallback", True), ("fallback", False), ("graph", True), ("forced", True)}


# ---- as tables


@pytest.fixture(scope="module")
def asked() -> list[Ask]:
    return asks(11, 24)


@pytest.fixture(scope="module")
def here() -> World:
    return world(11)


@pytest.fixture(scope="module")
def hits(here: World, asked: list[Ask]) -> hr.Hits:
    made = here.together(asked, columns=("data", "user", "data"))
    assert isinstance(reply_of(made), JoinedReply)
    assert len({ask.recipe.name for ask in asked}) > 5
    assert len(made.parts) > 7  # some fell back
    return made


COLUMNS = ("data", "user", "data")


def test_the_table_has_the_rows_of_each_alone_and_nulls_elsewhere(
    here: World, asked: list[Ask], hits: hr.Hits
) -> None:
    table = hits.to_arrow()
    assert table.column("query").type == table.column("rank").type == pa.int32()
    assert not table.column("query").null_count
    places = list(zip(table["query"].to_pylist(), table["rank"].to_pylist(), strict=True))
    assert places == sorted(set(places))
    names = table.column_names
    assert names[:5] == ["query", "rank", "key", "user", "score"]
    assert names[-1] == "data"
    assert names.count("data") == names.count("user") == 1
    rows = table.to_pylist()
    assert pa.table(hits).equals(table)  # by the Arrow stream
    n_null = 0
    for query, ask in enumerate(asked):
        alone = here.alone(ask, COLUMNS).to_arrow()
        assert set(alone.column_names) <= set(names)
        for name in alone.column_names:
            assert table.schema.field(name).type == alone.schema.field(name).type
        own = [row for row in rows if row["query"] == query]
        expected = [dict.fromkeys(names) | row | {"query": query} for row in alone.to_pylist()]
        assert own == expected
        n_null += sum(value is None for row in own for value in row.values())
    assert n_null > 1000
    assert hits.to_list() == [[row for row in rows if row["query"] == q] for q in range(24)]


def test_columns_and_arm_scores_are_in_the_order_of_the_table(hits: hr.Hits) -> None:
    table = hits.to_arrow()
    assert hits.column("id").equals(table["key"].combine_chunks())
    for name in ("user", "data"):
        assert hits.column(name).equals(table[name].combine_chunks())
    assert len(hits.column("tags")) == hits.n_hits == table.num_rows
    known = [name.removesuffix("_rank") for name in table.column_names if name.endswith("_rank")]
    assert set(known) >= {"text", "v", "pattern", "tags", "edges", "newest", "hints"}
    n_ranked = 0
    for arm in known:
        assert hits.arm_scores(arm).equals(table[f"{arm}_score"].combine_chunks())
        assert hits.arm_ranks(arm).equals(table[f"{arm}_rank"].combine_chunks())
        n_ranked += hits.arm_ranks(arm).null_count < hits.n_hits
    assert n_ranked > 5
    for read in (hits.arm_scores, hits.arm_ranks):
        with pytest.raises(hr.OptionError, match=r"arm: expected an arm of .*, got 'nope'"):
            read("nope")
    with pytest.raises(hr.OptionError, match="columns: expected columns of"):
        hits.column("nope")


def test_the_trace_covers_all_parts(hits: hr.Hits) -> None:
    trace = hits.trace
    assert trace.n_queries == 24
    assert set(trace.arms) >= {"text", "v", "pattern", "tags", "edges"}
    assert trace.depth == 100
    for step in ("plan", "statistics", "candidates", "fusion", "shaping", "expansion"):
        parts = [part.trace.milliseconds.get(step, 0.0) for part in hits.parts]
        assert trace.milliseconds[step] == pytest.approx(sum(parts))
    stages = {stage.stage for stage in trace.stages}
    assert stages == {"Recency", "Budget", "Composite", "SessionSignals"}
    assert not hits.degraded


def test_each_query_is_drawn_with_the_arms_of_its_recipe(here: World) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    asked = asks(2, 6, ("both", "listed", "fallback"))
    hits = here.together(asked)
    drawn = set()
    for query, ask in enumerate(asked):
        ax = hits.plot(query)
        names = [bars.get_label() for bars in ax.containers]
        alone = here.alone(ask)
        assert names == list(alone.n_candidates)
        ends = [sum(bars[at].get_width() for bars in ax.containers) for at in range(len(alone))]
        assert ends == pytest.approx([hit.score for hit in alone])
        assert ax.get_title() == f"query {query}"
        drawn.add(tuple(names))
    assert drawn >= {("text", "v"), ("v", "hints")}
    with pytest.raises(IndexError):
        hits.plot(6)
    pyplot.close("all")
