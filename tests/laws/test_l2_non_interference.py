"""L2: the reply is a function of the documents in authorised cells, to the last byte."""

from collections.abc import Callable
from dataclasses import replace

import pytest

import hyrecall as hr
from laws.checks import LawBroken, non_interference
from laws.effort import Effort
from laws.engine import EngineSubject, ipc_bytes
from laws.planted import LEAKS, PLANTS, mutant
from laws.subject import Make, planted
from oracle.corpus import TENANTS, VOCABULARY, Draw, Mix, draw_rows
from oracle.documents import Row, Shape
from oracle.recall import Oracle
from seams import recall_batch_module as batch

SHAPE = Shape(dense={"embedding": 3})
ALICE = ("ana",)
EVERYONE_ELSE = [(tenant,) for tenant in TENANTS if (tenant,) != ALICE]


def test_worlds_that_share_the_authorised_rows_reply_with_the_same_bytes(
    make: Make, effort: Effort
) -> None:
    pairs = effort.cases(quick=40, full=10_000)
    assert non_interference(make, range(pairs)) == pairs


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_planted_in_the_subject_is_caught(leak: str) -> None:
    with pytest.raises(LawBroken):
        non_interference(planted(mutant(Oracle, PLANTS[leak])), range(100))


def worlds(make_engine: Callable[..., EngineSubject]) -> tuple[EngineSubject, EngineSubject]:
    """Two indexes that agree on one tenant; the second has other rows, with 1,500 more words."""
    mine = [replace(row, cell=ALICE) for row in draw_rows(Draw(1), SHAPE, Mix(n_tenants=1))]
    words = [
        f"gr{first}{second}{third}"
        for first in "abcdefghij"
        for second in "abcdefghijklmno"
        for third in "abcdefghij"
    ]
    mix = Mix(n_rows=2000, n_tenants=8, vocabulary=(*VOCABULARY, *words))
    foreign = [row for row in draw_rows(Draw(2), SHAPE, mix) if row.cell != ALICE]
    return make_engine(SHAPE, mine), make_engine(SHAPE, [*foreign[:1000], *mine, *foreign[1000:]])


MISTAKES: tuple[dict[str, object], ...] = (
    {"text": ["ash"], "scope": None},
    {"text": ["ash"], "scope": ["ana", "bob"]},
    {"text": ["ash"], "scope": "ana", "limit": -1},
    {"text": ["ash"], "scope": "ana", "min_score": {"nowhere": 1.0}},
    {"vectors": [[1.0, 2.0]], "scope": "ana"},
    {"scope": "ana", "depth": 5},
    {"scope": "ana", "sort": "nowhere"},
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=",".join)
def test_errors_say_the_same_whatever_others_store(
    mistake: dict[str, object], make_engine: Callable[..., EngineSubject]
) -> None:
    said = []
    for world in worlds(make_engine):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - its text is what is compared
            world.index.recall(**mistake)
        said.append((type(caught.value), str(caught.value)))
    assert said[0] == said[1]


def test_prefixes_expand_over_authorised_terms_only(
    make_engine: Callable[..., EngineSubject],
) -> None:
    replies = [
        world.index.recall(text=[hr.Prefix("gr")], scope="ana").to_arrow()
        for world in worlds(make_engine)
    ]
    assert replies[0].num_rows > 0
    assert ipc_bytes(replies[0]) == ipc_bytes(replies[1])


def test_a_prefix_that_stands_for_too_many_authorised_terms_is_cut_in_its_own_query_alone(
    make_engine: Callable[..., EngineSubject],
) -> None:
    _, among = worlds(make_engine)
    everyone = hr.Scope([ALICE, *EVERYONE_ELSE])
    alone = among.index.recall(text=[hr.Prefix("gr")], scope="ana")
    both = among.index.recall(text=[hr.Prefix("gr")] * 2, scope=["ana", everyone])
    assert [hit.key for hit in both[0]] == [hit.key for hit in alone[0]]
    assert [hit.score for hit in both[0]] == [hit.score for hit in alone[0]]
    assert both[0].trace.notes == alone.trace.notes == both[0].trace.degraded == ()
    assert len(both[1])
    told = " has a word that stands for more than 1,024 terms of its scope: the most frequent count"
    (of_second,) = both[1].trace.notes
    arm = of_second.removesuffix(told)
    assert both.trace.notes == (f"{arm}[1]{told}",), "only the batch numbers its queries"


def test_a_reason_that_all_queries_are_told_is_noticed(
    make_engine: Callable[..., EngineSubject], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "_about", lambda *_: {})
    with pytest.raises(AssertionError):
        test_a_prefix_that_stands_for_too_many_authorised_terms_is_cut_in_its_own_query_alone(
            make_engine
        )


def test_deleting_the_keys_of_others_counts_nothing_and_takes_nothing(
    make_engine: Callable[..., EngineSubject],
) -> None:
    alone, among = worlds(make_engine)
    foreign = [f"k{number}" for number in range(4000)]
    rows = [world.index.get(foreign, scope="ana", columns=["text"]) for world in (alone, among)]
    assert ipc_bytes(rows[0]) == ipc_bytes(rows[1])
    assert rows[0].num_rows == alone.index.count(scope="ana") == among.index.count(scope="ana") > 0
    deleted = [world.index.delete(foreign, scope="ana") for world in (alone, among)]
    assert deleted[0] == deleted[1] > 0
    reply = among.index.recall(text=["ash"], vectors=[[1.0, 0.0, 0.0]], scope="bob").to_arrow()
    assert reply.num_rows > 0


def test_a_key_taken_in_another_cell_is_free_in_mine(
    make_engine: Callable[..., EngineSubject],
) -> None:
    alone, among = worlds(make_engine)
    known = {row.key for row in draw_rows(Draw(1), SHAPE, Mix(n_tenants=1))}
    vacant = next(f"k{number}" for number in range(4000) if f"k{number}" not in known)
    row = Row(vacant, ALICE, {"text": "new"}, {"embedding": None}, NOTHING)
    for world in (alone, among):
        world.add([row])
        (hit,) = world.index.recall(text=["new"], scope="ana")[0]
        assert hit.key == vacant


NOTHING = dict.fromkeys(("kind", "number", "price", "at", "tags"))
