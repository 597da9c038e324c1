"""Facts that do not hold: at every door, by every recipe they are left out unless asked for."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from mcp.client import Client

import hyrecall as hr
from hyrecall import recipes
from hyrecall.embed import HashEmbedder
from hyrecall.memory import Fact, Memory, MemorySync
from hyrecall.serve import Caller, create_app
from hyrecall.serve.mcp import create_server
from hyrecall.systems.hypergraph import hm_recall
from mcp_world import data_of, refusal_of
from seams import ARROW, RecallArguments, Recipe, call, recalling
from serve_client import calling

HOUSE = {"org": "acme", "workspace": "lab"}
ANN = {"user_id": "ann", **HOUSE}
QUERY = "deploy window"
BEGIN, CHANGE, NOW = (datetime(year, 1, 1, tzinfo=UTC) for year in (2024, 2025, 2026))
LATER = NOW + timedelta(days=400)
SUNDAY = "Sunday, with all auditors and the people of the night shift"  # no near copy
READS = frozenset(("read", "write"))
NAMES = ("default", "loom", "hypergraph", "l0", "honeycomb", "hebb")
WITH_VECTORS = pytest.mark.parametrize("embedder", [None, HashEmbedder(16)], ids=["words", "both"])
BY_RECIPE = pytest.mark.parametrize("recipe", [getattr(recipes, name) for name in NAMES], ids=NAMES)


def fact(object_: str, begin: datetime, **more: Any) -> Fact:
    said = {"subject": QUERY, "predicate": "is", "object": object_, "valid_from": begin}
    return Fact(**said, **ANN, **more)


def fill(memory: MemorySync) -> MemorySync:
    """Friday until 2025, then Tuesday, and a freeze that will end."""
    memory.remember_fact(fact("Friday", BEGIN, id="friday"))
    memory.remember_fact(fact("Tuesday", CHANGE, id="tuesday"))
    freeze = {"predicate": "has a", "object": "freeze", "valid_to": LATER}
    memory.remember_fact(fact("x", CHANGE, id="freeze").model_copy(update=freeze))
    memory.remember("the deploy window is discussed here", id="talk", **ANN)
    memory.link(["talk", "friday"], "speaks of", **ANN)
    memory.link(["talk", "tuesday"], "speaks of", **ANN)
    return memory


def opened(recipe: Recipe, embedder: Any = None) -> MemorySync:
    options = {"recall_timeout": 30.0, "write_timeout": 30.0, "clock": lambda: NOW}
    return MemorySync.in_memory(recipe=recipe, embedder=embedder, **options)


def ids(matches: Any) -> set[str]:
    return {one.episode.id for one in matches}


HOLD = {"tuesday", "freeze", "talk"}


@pytest.mark.plain_cases(4)
@WITH_VECTORS
@BY_RECIPE
def test_E53_facts_that_do_not_hold_are_left_out_of_every_search(
    recipe: Recipe, embedder: Any
) -> None:
    with fill(opened(recipe, embedder)) as memory:
        memory.remember_fact(fact(SUNDAY, LATER, id="sunday"))
        memory.link(["talk", "sunday"], "speaks of", **ANN)
        agent = memory.agent("ann", **HOUSE)
        for matches in (
            memory.search(QUERY, **ANN),
            memory.search(QUERY, **ANN, token_budget=1000),
            memory.search(QUERY, **ANN, limit=3),
            agent.search(QUERY),
        ):
            assert not matches.degraded
            assert ids(matches) == HOLD
            shown = [*matches.related, *(one for near in matches.context for one in near)]
            assert not {"friday", "sunday"} & {one.id for one in shown}
            assert [one.valid_to for one in matches if one.episode.id == "freeze"] == [LATER]
        if recipe.name != "hypergraph":  # its formula is the store's, which needs a whole query
            assert ids(agent.recall_scored(QUERY, kind=None)) == HOLD
        asked = memory.search(QUERY, **ANN, include_ended=True)
        ends = {one.episode.id: one.valid_to for one in asked}
        assert set(ends) == HOLD | {"friday", "sunday"}
        assert (ends["tuesday"], ends["sunday"]) == (LATER, None)
        for now, wanted in (
            (BEGIN - timedelta(microseconds=1), {"talk"}),
            (BEGIN, {"talk", "friday"}),
            (LATER - timedelta(microseconds=1), HOLD),
            (LATER, {"talk", "sunday"}),
            (datetime.max, {"talk", "sunday"}),
        ):
            assert ids(memory.search(QUERY, **ANN, now=now)) == wanted, now


@pytest.mark.plain_cases(4)
@WITH_VECTORS
@BY_RECIPE
def test_E53_an_ended_fact_that_is_asked_for_says_so_and_stands_behind_its_successor(
    recipe: Recipe, embedder: Any
) -> None:
    with fill(opened(recipe, embedder)) as memory:
        for search in (memory.agent("ann", **HOUSE).search, partial(memory.search, **ANN)):
            matches = search(QUERY, include_ended=True)
            found = [one.episode.id for one in matches]
            assert set(found) == HOLD | {"friday"}
            assert found.index("friday") > found.index("tuesday")
            ends = {one.episode.id: one.valid_to for one in matches}
            assert ends == {"tuesday": None, "talk": None, "freeze": LATER, "friday": CHANGE}
            for n in range(5):  # a shorter list is the beginning of a longer one
                part = search(QUERY, include_ended=True, limit=n)
                assert [one.episode.id for one in part] == found[:n]
                rest = search(QUERY, include_ended=True, limit=4, offset=n)
                assert [one.episode.id for one in rest] == found[n:]


def test_of_many_ended_facts_those_of_one_predicate_alone_are_put_in_order() -> None:
    with opened(recipes.honeycomb) as memory:
        for at, name in enumerate(("Monday", "Friday", "Sunday")):
            memory.remember_fact(fact(name, BEGIN + timedelta(days=at), id=name))
        ended = fact("none", BEGIN, id="other", valid_to=CHANGE)
        memory.remember_fact(ended.model_copy(update={"subject": "the other deploy window"}))
        found = [one.episode.id for one in memory.search(QUERY, **ANN, include_ended=True)]
        assert [one for one in found if one != "other"] == ["Sunday", "Friday", "Monday"]
        plain = [one.episode.id for one in memory.search("other window", **ANN, include_ended=True)]
        assert plain[0] == "other", "nothing has followed it"


@BY_RECIPE
def test_a_fact_that_another_one_replaced_from_its_beginning_on_stands_behind_it(
    recipe: Recipe,
) -> None:
    with opened(recipe) as memory:
        memory.remember_fact(fact("Friday", BEGIN, id="friday"))
        memory.remember_fact(fact("Tuesday", BEGIN, id="tuesday", valid_to=CHANGE))
        for day in ("friday", "tuesday"):
            matches = memory.search(f"deploy window is {day}", **ANN, include_ended=True)
            found = [one.episode.id for one in matches]
            assert found == (
                [day] if recipe.name == "l0" else ["tuesday", "friday"]
            )  # l0: all words


def test_without_an_index_ended_facts_are_left_out_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with fill(opened(recipes.default)) as memory:

        def fail(*_: Any) -> None:
            raise MemoryError

        monkeypatch.setattr(memory._store.keeper, "search_index", fail)
        found = memory.search(QUERY, **ANN)
        assert (found.lexical_mode, ids(found)) == ("substring", HOLD)
        asked = memory.search(QUERY, **ANN, include_ended=True)
        assert {one.episode.id: one.valid_to for one in asked}["friday"] == CHANGE
        early = memory.search(QUERY, **ANN, now=BEGIN)
        assert (early.lexical_mode, ids(early)) == ("substring", {"friday", "talk"})


# ---- services ----


def served(recipe: Recipe, work: Callable[..., Any]) -> Any:
    async def run() -> Any:
        memory = await Memory.in_memory(recipe=recipe, embedder=None, clock=lambda: NOW)
        async with memory:
            await asyncio.to_thread(fill, memory._sync)
            async with calling(create_app(memory)) as client:
                return await work(client, memory)

    return asyncio.run(run())


async def over_arrow(client: Any, **more: Any) -> Any:
    columns = {name: [value] for name, value in {"text": QUERY, **ANN, **more}.items()}
    sink = pa.BufferOutputStream()
    table = pa.table(columns)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    body = sink.getvalue().to_pybytes()
    reply = await client.post("/v1/recall/arrow", content=body, headers={"content-type": ARROW})
    assert reply.status_code == 200, reply.text
    return pa.ipc.open_stream(io.BytesIO(reply.content)).read_all().to_pylist()


@pytest.mark.parametrize("name", ["hypergraph", "hebb"])  # with context, with related ones
def test_E53_ended_facts_are_left_out_over_rest(name: str) -> None:
    async def work(client: Any, memory: Memory) -> None:
        asked = {"text": QUERY, **ANN}
        for more in ({}, {"token_budget": 1000}):
            one = (await client.post("/v1/recall", json=asked | more)).json()
            batch = (await client.post("/v1/recall/batch", json={"queries": [asked | more]})).json()
            for reply in (one, batch["replies"][0]):
                assert {hit["episode"]["id"] for hit in reply["items"]} == HOLD
                assert "friday" not in json.dumps([reply["context"], reply["related"]])
            assert {row["id"] for row in await over_arrow(client, **more)} == HOLD
        asked |= {"include_ended": True}
        reply = (await client.post("/v1/recall", json=asked)).json()
        ends = {hit["episode"]["id"]: hit["valid_to"] for hit in reply["items"]}
        assert ends["friday"] == "2025-01-01T00:00:00Z"
        assert ends["tuesday"] is None
        rows = await over_arrow(client, include_ended=True)
        assert {row["id"]: row["valid_to"] for row in rows}["friday"] == CHANGE
        order = [row["id"] for row in rows]
        assert order.index("tuesday") < order.index("friday")

    served(getattr(recipes, name), work)


SYSTEMS = [
    ("hebb", "search_memory", "/api/v1/search", {"query": QUERY}, {"params": ANN}),
    ("honeycomb", "memory_search", "/api/memories/recall", {"query": QUERY}, {"headers": {
        "x-honeycomb-org": "acme", "x-honeycomb-workspace": "lab", "x-honeycomb-agent": "ann"}}),
    ("hypergraph", "hm_recall", "/api/v1/memory/recall", {"query": QUERY}, {"params": ANN}),
    ("l0", "memory_search", "/search", {"query": QUERY, **ANN}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "tool", "path", "body", "more"), SYSTEMS)
def test_E53_ended_facts_are_left_out_at_doors_of_systems(
    name: str, tool: str, path: str, body: Any, more: Any
) -> None:
    async def work(client: Any, memory: Memory) -> None:
        reply = await client.post(path, json=body, **more)
        assert reply.status_code == 200, reply.text
        async with Client(create_server(memory, caller=Caller(**ANN, rights=READS))) as tools:
            told = data_of(await tools.call_tool(tool, {"query": QUERY}))
        for text in (reply.text, json.dumps(told)):
            assert "friday" not in text
        assert "tuesday" in reply.text

    served(getattr(recipes, name), work)


def test_E53_tools_leave_ended_facts_out_of_what_happened_in_a_time() -> None:
    async def work(_: Any, memory: Memory) -> None:
        await memory.remember_fact(fact(SUNDAY, LATER, id="sunday"))
        async with Client(create_server(memory, caller=Caller(**ANN, rights=READS))) as client:
            asked: dict[str, Any]
            for asked in ({"text": QUERY}, {"text": "*", "since": "2024-01-01"}):
                found = data_of(await client.call_tool("search", asked))["items"]
                assert {one["episode"]["id"] for one in found} == HOLD
                reply = await client.call_tool("search", asked | {"include_ended": True})
                ends = {one["episode"]["id"]: one["valid_to"] for one in data_of(reply)["items"]}
                assert set(ends) == HOLD | {"friday", "sunday"}
                assert ends["friday"] == "2025-01-01T00:00:00Z"
                lines = reply.content[0].text.splitlines()
                (friday,) = (line for line in lines if 'id="friday"' in line)
                assert 'valid_to="2025-01-01T00:00:00Z"' in friday
            missing = await client.call_tool("end_fact", {"id": "talk"})
            assert "expected a fact" in refusal_of(missing)

    served(recipes.default, work)


def test_lists_and_single_memories_say_when_a_fact_ends() -> None:
    wish = {"friday": "2025-01-01T00:00:00Z", "tuesday": None, "talk": None}

    def ends_of(found: list[dict[str, Any]]) -> dict[str, str | None]:
        return {one["id"]: one["valid_to"] for one in found if one["id"] in wish}

    async def work(client: Any, memory: Memory) -> None:
        listed = (await client.get("/v1/memories", params=ANN)).json()["items"]
        assert ends_of(listed) == wish
        found = [(await client.get(f"/v1/memories/{key}", params=ANN)).json() for key in wish]
        assert ends_of(found) == wish
        async with Client(create_server(memory, caller=Caller(**ANN, rights=READS))) as tools:
            reply = await tools.call_tool("list", {})
            assert ends_of(data_of(reply)["items"]) == wish
            (line,) = (one for one in reply.content[0].text.splitlines() if 'id="friday"' in one)
            assert 'valid_to="2025-01-01T00:00:00Z"' in line
            found = [data_of(await tools.call_tool("get", {"id": key})) for key in wish]
            assert ends_of(found) == wish

    served(recipes.default, work)


def test_the_end_of_a_fact_is_not_that_of_a_fact_with_the_same_id_in_another_cell() -> None:
    with fill(opened(recipes.default)) as memory:
        memory.set_policy("ann", **HOUSE, policy="shared")
        said = {"subject": "it", "predicate": "is", "object": "on", "valid_from": BEGIN}
        others = {**HOUSE, "user_id": "bob", "visibility": "global"}
        memory.remember_fact(Fact(id="friday", **said, **others))
        agent = memory.agent("ann", **HOUSE)
        found = agent.list(filter=hr.Filter(kind="fact"))
        ends = zip(found, agent._view.ends(found), strict=True)
        told = {one.user_id: end for one, end in ends if one.id == "friday"}
        assert told == {"ann": CHANGE, "bob": None}


def test_hm_recall_and_filters_leave_them_out() -> None:
    with fill(opened(recipes.hypergraph)) as memory:
        for by_force in (False, True):
            reply = hm_recall(memory, "deploy", force_regex=by_force, **ANN)
            assert "friday" not in json.dumps(reply)
            assert {one["key"] for one in reply["results"]} == HOLD
        wanted = hr.Filter(kind="fact")
        assert ids(memory.search(QUERY, **ANN, filter=wanted)) == HOLD - {"talk"}
        held = memory.recall_facts(QUERY, **ANN, valid_at=CHANGE - timedelta(days=1))
        assert [one.id for one in held] == ["friday"]


def test_context_takes_a_neighbour_that_holds_in_place_of_one_that_has_ended() -> None:
    with opened(recipes.hypergraph) as memory:
        memory.remember("gateway", id="hub", **ANN)
        for at in range(5):
            end = CHANGE if at < 4 else None
            memory.remember_fact(
                Fact(id=f"n{at}", subject=f"s{at}", predicate="is", object="on", valid_from=BEGIN,
                     valid_to=end, **ANN)
            )  # fmt: skip
            memory.link(["hub", f"n{at}"], "to", **ANN)
        (near,) = memory.search("gateway", **ANN).context
        assert [one.id for one in near] == ["n4"]
        (near,) = memory.search("gateway", **ANN, include_ended=True).context
        assert [one.id for one in near] == ["n0", "n1", "n2"]


def test_an_ended_fact_hides_no_memory_of_the_same_id_in_another_cell() -> None:
    shared = {**HOUSE, "user_id": "alice", "visibility": "global"}
    with opened(recipes.hypergraph) as memory:
        memory.set_policy("bob", **HOUSE, policy="shared")
        memory.remember("gateway", id="hub", **shared)
        for at in range(4):
            memory.remember(f"note {at}", id=f"n{at}", **shared)
            memory.link(["hub", f"n{at}"], "to", **shared)
        bob = memory.agent("bob", **HOUSE)

        def near() -> list[tuple[str | None, str]]:
            (found,) = bob.search("gateway").context
            return [(one.user_id, one.id) for one in found]

        before = near()
        assert before == [("alice", "n0"), ("alice", "n1"), ("alice", "n2")]
        said = {**HOUSE, "user_id": "bob", "subject": "it", "predicate": "is", "object": "on"}
        for key in ("n0", "n1"):
            memory.remember_fact(Fact(id=key, valid_from=BEGIN, valid_to=CHANGE, **said))
        assert near() == before


def _whatever_holds(self: RecallArguments, now: datetime) -> RecallArguments:
    return self


def _whatever_has_not_ended(now: datetime) -> hr.Filter:
    return ~hr.Filter(valid_to=(None, now))


def _in_order_of_scores(connection: Any, rows: Any, ask: RecallArguments, *_: Any) -> Any:
    return range(len(rows))[ask.offset : ask.offset + ask.limit]


@pytest.mark.parametrize(
    ("recipe", "place", "name", "wrong", "check"),
    [
        (
            recipes.honeycomb, RecallArguments, "of_what_holds", _whatever_holds,
            test_E53_facts_that_do_not_hold_are_left_out_of_every_search,
        ),
        (
            recipes.honeycomb, call, "holding", _whatever_has_not_ended,
            test_E53_facts_that_do_not_hold_are_left_out_of_every_search,
        ),
        (  # whose scores put the ended fact first
            recipes.default, recalling, "_page", _in_order_of_scores,
            test_E53_an_ended_fact_that_is_asked_for_says_so_and_stands_behind_its_successor,
        ),
    ],
)  # fmt: skip
def test_planted_bugs_are_seen(
    recipe: Recipe, place: Any, name: str, wrong: Any, check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, name, wrong)
    with pytest.raises(AssertionError):
        check(recipe, None)
