"""What episodes, facts and edges take and refuse, and what a degradation says."""

from datetime import UTC, datetime
from typing import Any

import pydantic
import pytest

from hyrecall.embed import EmbedFault
from hyrecall.errors import OptionError
from hyrecall.memory import (
    ANONYMOUS,
    Degradation,
    DegradedReason,
    Edge,
    Episode,
    Fact,
    MemorySync,
    Participant,
)
from seams import check_user

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("id", "", "id: expected 1 to 512 bytes"),
        ("id", " \t", "id: expected 1 to 512 bytes"),
        ("id", "é" * 257, "id: expected 1 to 512 bytes"),
        ("id", "a\0b", "id: expected 1 to 512 bytes"),
        ("id", "a\ud800", "id: expected valid Unicode"),
        ("input", "\udfff", "input: expected valid Unicode"),
        ("text", 3, "text"),
        ("kind", "", "kind: expected 1 to 512 bytes"),
        ("source", " ", "source: expected 1 to 512 bytes"),
        ("session_id", "", "session_id: expected 1 to 512 bytes"),
        ("user_id", ANONYMOUS, "user_id: expected an id that is not reserved"),
        ("user_id", "__jeeves_anon_user__", "user_id: expected an id that is not reserved"),
        ("org", ANONYMOUS, "org: expected an id that is not reserved"),
        ("visibility", "public", "visibility"),
        ("importance", 10.5, "importance"),
        ("importance", -1, "importance"),
        ("importance", float("nan"), "importance"),
        ("tags", "ab", "tags"),
        ("tags", ["a", ""], "tags: expected 1 to 512 bytes"),
        ("metadata", {"a": float("inf")}, "metadata: expected JSON, got NaN or infinity"),
        ("metadata", {"a": "\ud800"}, "metadata: expected JSON, got a lone surrogate"),
        ("metadata", {"a": {1, 2}}, "metadata"),
        ("metadata", [1], "metadata"),
        ("occurred_at", "yesterday", "occurred_at"),
        ("ouput", "a misspelt field", "ouput"),
    ],
)
def test_a_field_that_cannot_be_kept_is_refused_by_name(
    field: str, value: object, message: str
) -> None:
    with pytest.raises(pydantic.ValidationError, match=message) as caught:
        Episode(**{field: value})  # type: ignore[arg-type]
    assert "input_value" not in str(caught.value)  # what was to be stored is in no log


def test_the_empty_user_is_a_bucket_and_none_is_the_anonymous_one() -> None:
    assert check_user("user_id", "") == ""
    assert check_user("user_id", None) is None
    assert Episode(user_id="").user_id == ""
    with pytest.raises(OptionError, match="agent: expected 1 to 512 bytes"):
        check_user("agent", "  ")


def test_an_episode_comes_back_from_json_as_it_was() -> None:
    episode = Episode(
        user_id="Zoë", org="acme", workspace="", visibility="global", kind="note",
        source="memory", session_id="s 1", input="a\0b", text="\U0001f600 \u202e",
        occurred_at=datetime(2026, 6, 1, 12, 0, 0, 1, tzinfo=UTC), importance=3, pinned=True,
        tags=("b", "a", "b"), metadata={"n": [1, 2.5, None, True, {"k": 2**70}]},
    )  # fmt: skip
    assert Episode.model_validate_json(episode.model_dump_json()) == episode
    assert Episode(**episode.model_dump()) == episode
    assert episode.tags == ("b", "a")


def test_looms_name_of_the_text_is_taken_and_read() -> None:
    episode = Episode.model_validate({"id": "a", "input": "when?", "output": "at four"})
    assert (episode.text, episode.output) == ("at four", "at four")
    assert "output" not in episode.model_dump()
    assert Episode(text="tea", **{"output": "tea"}).text == "tea"
    with pytest.raises(pydantic.ValidationError, match="output: expected that of text, or none"):
        Episode(text="tea", **{"output": "coffee"})
    with pytest.raises(OptionError, match=r"did you mean text=\?"):
        MemorySync.update(None, "a", output="tea")  # type: ignore[arg-type, call-arg]


def test_an_episode_cannot_be_changed() -> None:
    with pytest.raises(pydantic.ValidationError):
        Episode().text = "x"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("said", "answered", "text"),
    [("a", "b", "a\nb"), ("", "b", "b"), ("a", " ", "a"), ("", "", "")],
)
def test_what_is_embedded_are_the_parts_that_are_there(said: str, answered: str, text: str) -> None:
    assert Episode(input=said, text=answered).full_text == text


def test_a_fact_is_valid_from_its_begin_until_before_its_end() -> None:
    fact = Fact(subject="ana", predicate="lives in", object="Oslo", valid_from=NOON)
    assert fact.is_valid_at(NOON)
    assert fact.is_valid_at(datetime(9999, 1, 1))
    assert not fact.is_valid_at(datetime(2026, 6, 1, 11, 59))
    closed = Fact(**{**fact.model_dump(), "valid_to": NOON})
    assert not closed.is_valid_at(NOON)
    assert fact.text == "ana lives in Oslo"
    with pytest.raises(pydantic.ValidationError, match="valid_to: expected a time from"):
        Fact(**{**fact.model_dump(), "valid_to": datetime(2026, 6, 1, 11)})


def test_an_edge_has_two_participants_or_more_in_their_order() -> None:
    ends = (Participant(id="b", role="author"), Participant(id="a"), Participant(id="b"))
    edge = Edge(participants=ends, relationship="wrote")
    assert Edge.model_validate_json(edge.model_dump_json()) == edge
    assert [end.id for end in edge.participants] == ["b", "a", "b"]
    with pytest.raises(pydantic.ValidationError, match="participants"):
        Edge(participants=ends[:1], relationship="wrote")


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (EmbedFault.OFF, "embeddings_off"),
        (EmbedFault.NOT_READY, "embed_not_ready"),
        (EmbedFault.TIMEOUT, "embed_timeout"),
        (EmbedFault.UNREACHABLE, "embed_unavailable (unreachable)"),
        (EmbedFault.CRASHED, "embed_unavailable (crashed)"),
        (EmbedFault.MALFORMED, "embed_unavailable (malformed)"),
        (EmbedFault.WRONG_SIZE, "embed_unavailable (wrong size)"),
        (EmbedFault.RESTING, "embed_unavailable (resting)"),
    ],
)
def test_each_fault_of_an_embedder_is_a_reason(fault: EmbedFault, reason: str) -> None:
    assert str(Degradation.of_fault(fault)) == reason


def test_every_fault_is_told_apart_in_its_degradation() -> None:
    made: list[Any] = [Degradation.of_fault(fault, "why") for fault in EmbedFault]
    assert len(set(made)) == len(EmbedFault)
    assert all("why" in one.detail for one in made)
    assert str(Degradation(DegradedReason.SESSION_TRACKER)) == "session_tracker"
