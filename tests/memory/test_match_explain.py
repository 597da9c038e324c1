"""A match explains its score, tells its parts, and is otherwise what its fields are."""

import copy
import gc
import pickle
import weakref
from typing import Any

import pytest
from pydantic import ValidationError

from hyrecall import recipes
from hyrecall.embed import HashEmbedder
from hyrecall.errors import OptionError
from hyrecall.memory import Episode, EpisodeMatch, Matches, MatchParts, MemorySync
from memory.stores import DIM, HOUR, NOON, Clock, folder
from seams import DegradedReason, Follower, IndexNotReadyError, reply_of

BY_HAND = r"^match: expected one that an index ranked in this process, got one that was made by h"


def kept(recipe: object = recipes.loom) -> MemorySync:
    memory = MemorySync.in_memory(recipe=recipe, embedder=HashEmbedder(dim=DIM))  # type: ignore[arg-type]
    texts = {"a": "green tea", "b": "black tea and green tea", "c": "coffee"}
    memory.remember_batch([Episode(id=key, text=text) for key, text in texts.items()])
    return memory


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
    made = EpisodeMatch(episode=Episode(text="tea"), score=1.0)
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


def opened(recipe: Any, **options: Any) -> MemorySync:
    given = {"embedder": HashEmbedder(dim=DIM), "clock": Clock(NOON), "recall_timeout": 30.0}
    return MemorySync.open(folder(), recipe=recipe, **(given | options))


def keep(memory: MemorySync, key: str, text: str, **fields: Any) -> None:
    given = {"user_id": "ann", "occurred_at": NOON} | fields
    memory.remember(Episode(id=key, text=text, **given))


def test_F11_a_composite_score_is_told_part_by_part() -> None:
    with opened(recipes.hebb) as memory:
        keep(memory, "m", "deploy", importance=8.0, occurred_at=NOON - 24 * HOUR, tags=("deploy",))
        weights = {"recency": 3, "importance": 1, "relevance": 2}
        (match,) = memory.search("deploy", user_id="ann", weights=weights)
    parts = match.parts
    assert parts is not None
    assert parts.recency == pytest.approx(0.99**24, abs=1e-9)
    assert parts.importance == 0.8
    assert (parts.relevance, parts.fused) == (1.0, 1.0)
    composite = 3 * 0.99**24 + 1 * 0.8 + 2 * 1.0
    assert parts.composite == pytest.approx(composite, abs=1e-9)
    assert match.score == pytest.approx(composite / 6, abs=1e-9)
    assert parts.tiers == {"text": 1, "embedding": 1, "tags": 1}
    assert (parts.provenance, parts.phase, parts.tokens, parts.related) == (None, None, None, ())


def test_phase_signals_and_neighbours_are_told() -> None:
    with opened(recipes.hypergraph, embedder=None) as memory:
        keep(memory, "jwt", "JWT tokens")
        keep(memory, "auth", "the team")
        memory.link(["jwt", "auth"], "decided by", user_id="ann")
        first, again = (memory.search("jwt", user_id="ann", session_id="s")[0] for _ in range(2))
    for match, session in ((first, 0.0), (again, 1.0)):
        assert match.parts is not None
        assert (match.parts.phase, match.parts.related) == ("early", ("auth",))
        assert (match.parts.general, match.parts.session) == (1.0, session)


def test_where_no_index_ranked_there_are_no_parts_and_the_future_is_ignored() -> None:
    episode = Episode(text="tea")
    assert EpisodeMatch(episode=episode, score=1.0).parts is None
    read = EpisodeMatch.model_validate(
        {"episode": episode, "score": 1.0, "parts": {"fused": 0.5, "future": 1}}
    )
    assert read.parts == MatchParts(fused=0.5)


@pytest.mark.parametrize("name", ["default", "hebb", "honeycomb", "hypergraph", "l0", "loom"])
def test_a_match_is_what_its_fields_are_when_they_are_checked(name: str) -> None:
    with opened(getattr(recipes, name)) as memory:
        keep(memory, "a", "deploy failed", source="session", tags=("deploy",), importance=3)
        keep(memory, "b", "deploy again", metadata={"run": {"id": 2**70, "share": 0.5}})
        memory.link(["a", "b"], "follows", user_id="ann")
        given = {"user_id": "ann", "session_id": "s", "token_budget": 100}
        memory.search("deploy", **given)
        matches = memory.search("deploy", **given)
    assert {one.episode.id for one in matches} == {"a", "b"}
    for match in matches:
        checked = EpisodeMatch.model_validate(match.model_dump(), strict=True)
        for made, again in (
            (match, checked),
            (match.parts, checked.parts),
            (match.episode, checked.episode),
        ):
            assert made == again
            assert repr(made) == repr(again)
            assert made.model_fields_set == again.model_fields_set
            assert list(made.__dict__) == list(again.__dict__)
            assert made.model_copy(deep=True) == pickle.loads(pickle.dumps(made)) == made
        with pytest.raises(ValidationError, match="frozen"):
            match.episode.input = "other"
