"""What a match knows of its score, without being asked to explain it."""

import pickle
from typing import Any

import pytest
from pydantic import ValidationError

from hyrecall import recipes
from hyrecall.embed import HashEmbedder
from hyrecall.memory import Episode, EpisodeMatch, MatchParts, MemorySync
from memory.stores import DIM, HOUR, NOON, Clock, folder


def opened(recipe: Any, **options: Any) -> MemorySync:
    given = {"embedder": HashEmbedder(dim=DIM), "clock": Clock(NOON), "recall_timeout": 30.0}
    return MemorySync.open(folder(), recipe=recipe, **(given | options))


def keep(memory: MemorySync, key: str, text: str, **fields: Any) -> None:
    given = {"user_id": "ann", "occurred_at": NOON} | fields
    memory.remember(Episode(id=key, output=text, **given))


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


def test_provenance_and_tokens_are_told() -> None:
    with opened(recipes.honeycomb, embedder=None) as memory:
        keep(memory, "raw", "deploy failed", source="session")
        (match,) = memory.search("deploy", user_id="ann", token_budget=100)
    assert match.parts is not None
    assert (match.parts.provenance, match.parts.fused) == (0.4, pytest.approx(1 / 61))
    assert (match.parts.recency, match.parts.tokens) == (1.0, 4)


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
    episode = Episode(output="tea")
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
