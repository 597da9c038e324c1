"""Part A: what an episode and a match are."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pydantic
import pytest

from hyrecall.memory import Episode, EpisodeMatch

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def test_A02_a_match_has_two_required_fields_and_three_components() -> None:
    fields = EpisodeMatch.model_fields
    assert issubclass(EpisodeMatch, pydantic.BaseModel)
    assert [name for name, field in fields.items() if field.is_required()] == ["episode", "score"]
    rest = {name: field.default for name, field in fields.items() if not field.is_required()}
    three = ("vector_score", "bm25_score", "rerank_score")
    later = {
        "parts": None,
        "is_fill": False,
        "is_exact": False,
        "valid_to": None,
    }  # what came later has a default too
    assert rest == dict.fromkeys(three) | later
    with pytest.raises(pydantic.ValidationError, match="score"):
        EpisodeMatch(episode=Episode())  # type: ignore[call-arg]


def test_A03_a_match_takes_fields_of_the_future_and_misses_none_of_the_optional() -> None:
    match = EpisodeMatch(episode=Episode(output="tea", created_at=NOW), score=0.5)
    payload: dict[str, Any] = match.model_dump()
    assert EpisodeMatch(**{**payload, "future": 1}) == match
    for name in ("vector_score", "bm25_score", "rerank_score"):
        del payload[name]
    assert EpisodeMatch(**payload) == match
    assert EpisodeMatch.model_validate_json(match.model_dump_json()) == match


def test_A06_an_episode_is_made_as_documented() -> None:
    episode = Episode(user_id="alice", kind="episodic", input="...", output="t", created_at=NOW)
    assert episode.created_at == episode.occurred_at == NOW
    assert Episode(occurred_at=NOW).created_at == NOW
    assert episode.session_id is None
    later = Episode(user_id="alice", output="t")
    assert later.created_at == later.occurred_at
    assert later.created_at > NOW - timedelta(days=365)
    assert episode.id.startswith("ep_")
    assert len({Episode().id for _ in range(100)}) == 100


def test_A06_naive_times_are_utc_and_zones_are_kept_as_instants() -> None:
    assert Episode(created_at=datetime(2026, 6, 1, 12)).occurred_at == NOW
    there = timezone(timedelta(hours=2))
    assert Episode(occurred_at=datetime(2026, 6, 1, 14, tzinfo=there)).created_at == NOW
    with pytest.raises(pydantic.ValidationError, match="created_at: expected that of occurred_at"):
        Episode(occurred_at=NOW, created_at=NOW + timedelta(microseconds=1))
