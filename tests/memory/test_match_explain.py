"""A match of a store recomputes its own score, and is otherwise the value that its fields are."""

import copy
import gc
import pickle
import weakref

import pytest

from hyrecall import recipes
from hyrecall.embed import HashEmbedder
from hyrecall.errors import OptionError
from hyrecall.memory import Episode, EpisodeMatch, Matches, MemorySync
from memory.stores import DIM
from seams import DegradedReason, Follower, IndexNotReadyError, reply_of

BY_HAND = r"^match: expected one that an index ranked in this process, got one that was made by h"


def kept(recipe: object = recipes.loom) -> MemorySync:
    memory = MemorySync.in_memory(recipe=recipe, embedder=HashEmbedder(dim=DIM))  # type: ignore[arg-type]
    texts = {"a": "green tea", "b": "black tea and green tea", "c": "coffee"}
    memory.remember_batch([Episode(id=key, output=text) for key, text in texts.items()])
    return memory


@pytest.mark.parametrize("recipe", [recipes.loom, recipes.default, recipes.honeycomb])
def test_a_match_explains_the_score_it_has(recipe: object) -> None:
    with kept(recipe) as memory:
        matches = memory.search("green tea")
        assert len(matches) >= 2
        for at, match in enumerate(matches):
            told = match.explain()
            assert told.score == match.score
            assert repr(told) == repr(matches.explain(at))
        agent = memory.agent("ann", org="o", workspace="w")
        agent.remember("green tea", id="d")
        assert agent.search("tea")[0].explain().score > 0


def test_matches_tell_which_memories_of_the_caller_were_left_out() -> None:
    with kept(recipes.honeycomb) as memory:
        memory.agent("ann", org="o", workspace="w").remember("green tea of ann", id="d")
        matches = memory.search("green tea", limit=1)
        dropped = matches.explain_dropped()
        rows = [row for stage in dropped.stages for row in stage.rows]
        assert {row.key for row in rows} | {matches[0].episode.id} <= {"a", "b", "c"}
        assert matches.trace is not None
        assert [(one.stage, one.n_in, one.n_out) for one in dropped.stages[:-1]] == [
            (one.stage, one.n_in, one.n_out) for one in matches.trace.stages
        ]
        assert dropped.n_dropped == len(rows) > 0
        again = matches.with_reasons()
        memory.forget("b")
        assert again.explain_dropped() == dropped
        assert matches.explain_dropped(0).n_more == dropped.n_dropped


def test_a_match_explains_itself_after_its_list_is_gone_and_the_store_changed() -> None:
    with kept() as memory:
        match = memory.search("green tea")[0]
        gc.collect()
        before = repr(match.explain())
        memory.remember("more green tea")
        memory.forget(match.episode.id)
        memory.search("tea")
        assert repr(match.explain()) == before
    assert repr(match.explain()) == before


def test_a_match_that_no_index_ranked_says_why_it_cannot_be_explained() -> None:
    made = EpisodeMatch(episode=Episode(output="tea"), score=1.0)
    with kept() as memory:
        match = memory.search("green tea")[0]
        assert match.explain().score == match.score
    read = EpisodeMatch.model_validate_json(match.model_dump_json())
    for one in (made, read, pickle.loads(pickle.dumps(match))):
        with pytest.raises(OptionError, match=BY_HAND):
            one.explain()
    (listed,) = Matches([made])
    with pytest.raises(OptionError, match=BY_HAND):
        listed.explain()


def test_a_match_that_was_found_without_an_index_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_ready(*_: object, **__: object) -> None:
        raise IndexNotReadyError(DegradedReason.INDEX_NOT_READY, "being built")

    with kept() as memory:
        ranked = memory.search("green tea")
        monkeypatch.setattr(Follower, "ready", not_ready)
        match = memory.search("green tea")[0]
        with pytest.raises(OptionError, match=r"got one that was found without an index$"):
            match.explain()
        with pytest.raises(OptionError, match=r"^matches: expected matches that an index ranked"):
            memory.search("green tea").explain_dropped()
        assert Matches(ranked[:1])[0].explain().score == ranked[0].score


def test_where_a_match_came_from_is_no_part_of_its_value() -> None:
    with kept() as memory:
        match, again = (memory.search("green tea")[0] for _ in range(2))
        fields = match.model_dump()
        bare = EpisodeMatch(**fields)
        assert set(fields) == set(EpisodeMatch.model_fields)
        assert match == again == bare
        assert match != again.model_copy(update={"score": 2.0})
        copies = [match.model_copy(), match.model_copy(deep=True), copy.deepcopy(match)]
        for one in (*copies, pickle.loads(pickle.dumps(match))):
            assert one == match
            assert one.model_dump_json() == match.model_dump_json()
        for one in copies:
            assert one.explain().score == match.score
        assert repr(match) == repr(bare)
        assert len(pickle.dumps(match)) < 4_000


def test_a_match_that_is_dropped_lets_the_hits_go() -> None:
    with kept() as memory:
        match = memory.search("green tea")[0]
        hits = weakref.ref(reply_of(match._origin.ranked.hits))  # type: ignore[union-attr]
        del match
        gc.collect()
        assert hits() is None
