"""The reply under hits: frozen data, which all that shows it shares."""

import copy
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import hyrecall as hr
from seams import JoinedReply, Lexical, ReplyBase, reply_of
from seams import hits_Reply as Reply
from seams import segments_State as State
from small_index import built

WORDS = hr.Recipe(name="words", arms=(Lexical(),), fusion=hr.RRF())
KEYS = ["a", "b", "c"]


@pytest.fixture(scope="module", params=[False, True], ids=["one recipe", "several recipes"])
def hits(request: pytest.FixtureRequest) -> hr.Hits:
    several = [hr.recipes.default, WORDS, hr.recipes.default]
    return built().recall(
        text=["hot tea", "coffee", "tea"],
        scope=["ana", "bob", "ana"],
        recipe=several if request.param else None,
        query_keys=KEYS,
    )


def test_a_reply_is_frozen(hits: hr.Hits) -> None:
    assert type(reply_of(hits)) is (Reply if len(hits.parts) == 1 else JoinedReply)
    for reply in (reply_of(hits), *reply_of(hits).parts):
        with pytest.raises(FrozenInstanceError):
            reply.now = None  # type: ignore[misc,assignment]
        with pytest.raises(FrozenInstanceError):
            del reply.facts


def test_copies_of_hits_share_the_reply(hits: hr.Hits) -> None:
    for made in (copy.copy(hits), copy.deepcopy(hits)):
        assert reply_of(made) is reply_of(hits)
    assert copy.deepcopy(hits)[0][0] == hits[0][0]


def test_each_query_is_held_by_one_part_with_its_key_alone(hits: hr.Hits) -> None:
    for query, one in enumerate(hits):
        part = hits.part_of(query)
        assert part in hits.parts
        assert reply_of(part) is reply_of(one)
        assert one.query_key == KEYS[query]
    if len(hits.parts) > 1:
        assert [reply_of(part).query_keys.to_pylist() for part in hits.parts] == [
            ["a", None, "c"],
            [None, "b", None],
        ]


def test_some_of_the_queries_keep_their_keys_and_no_other(hits: hr.Hits) -> None:
    kept = hits.only(np.array([False, True, True]))
    assert [one.query_key for one in kept] == [None, "b", "c"]
    assert set(kept.to_arrow()["query_key"].to_pylist()) == {"b", "c"}
    again = pickle.loads(pickle.dumps(kept))
    assert [one.query_key for one in again] == [None, "b", "c"]
    assert again.to_arrow().equals(kept.to_arrow())


def test_no_public_name_of_hits_leads_to_the_snapshot(hits: hr.Hits) -> None:
    assert isinstance(reply_of(hits[0]).source.state, State)
    for shown in (hits, hits[0], hits[0][0]):
        names = [name for name in dir(shown) if not name.startswith("_")]
        values = [getattr(shown, name) for name in names]
        assert not [one for one in values if isinstance(one, ReplyBase | State)]
