"""Changes of an index and its files: the reply is that of a fresh build of the live documents."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import hyrecall as hr
from conformance.faces import refused
from conformance.index_faces import Index, Plain, World
from conformance.index_worlds import DRAWN, ONE_ARM, TEAS, ask, cells, keys, row, same
from oracle import scope
from oracle.documents import Call
from oracle.life import Life

CALLS: tuple[Call, ...] = (
    ask("hot tea", [1, 1, 0], cells("ana", "bob"), limit=20),
    ask("grow ash", [1, 0, 2], cells("ana"), limit=20),
)


def part(n: int) -> World:
    return World(ONE_ARM, DRAWN.rows[:n])


def test_B08_rows_added_one_by_one_equal_a_build(make_index: Callable[..., Index]) -> None:
    index = make_index(part(20))
    for one in DRAWN.rows[20:40]:
        index.add([one])
    same(index, part(40), *CALLS)


def test_B08_a_life_of_changes_equals_a_rebuild(make_index: Callable[..., Index]) -> None:
    index, life = make_index(part(30)), Life(part(30).rows)
    for one in (index, life):
        one.delete(
            [DRAWN.rows[n].key for n in (3, 7, 9)], [{DRAWN.rows[n].cell} for n in (3, 7, 9)]
        )
        one.upsert([DRAWN.rows[5], *DRAWN.rows[40:44]])
        one.add(DRAWN.rows[44:50])
        one.delete_where(cells("bob"), scope.Equal("kind", "note"))
    news = zip(life.rows[4:7], DRAWN.rows[50:], strict=False)
    renewed = [replace(new, key=old.key, cell=old.cell) for old, new in news]
    for one in (index, life):
        one.update(renewed, ["text", "number"])
        one.replace(DRAWN.rows[50:53], cells("ana"), scope.Equal("kind", "fact"))
    same(index, World(ONE_ARM, tuple(life.rows)), *CALLS)
    index.compact()
    same(index, World(ONE_ARM, tuple(life.rows)), *CALLS)


def test_an_upsert_replaces_and_comes_last(index: Index) -> None:
    index.upsert([row("hot", "ana", "tea", [1, 0, 0]), row("new", "ana", "tea", [1, 0, 0])])
    assert keys(index.recall(ask("hot"))) == [[]]
    (found,) = index.recall(ask("tea"))
    assert [hit.key for hit in found][:2] == ["hot", "new"]
    assert found[0].score == found[1].score


def test_an_added_key_must_be_free_in_its_cell(index: Index) -> None:
    with refused("taken", "id"):
        index.add([row("hot", "ana", "x", None)])
    index.add([row("hot", None, "x", None)])  # another cell
    assert keys(index.recall(ask("x", scope=cells(None)))) == [["hot"]]


def test_an_update_changes_what_it_names_and_refuses_what_is_not_there(index: Index) -> None:
    index.update([row("hot", "ana", None, None, kind="fact")], ["kind"])
    found = index.get(["hot"], cells("ana"), ["text", "number", "kind", "embedding"])
    assert found == [{"text": "hot tea", "number": 1, "kind": "fact", "embedding": [1, 0, 0]}]
    with refused("missing", "id"):
        index.update([row("hot", "ana", "x", None), row("milk", "ana", "x", None)], ["text"])
    assert index.get(["hot"], cells("ana"), ["text"]) == [{"text": "hot tea"}]


def test_a_replacement_is_one_step_in_its_scope(index: Index) -> None:
    notes, new = scope.Equal("kind", "note"), row("hot", "ana", "new tea", [1, 0, 0])
    assert index.replace([new], cells("ana"), notes) == 2
    assert index.get(["hot", "green"], cells("ana"), ["text"]) == [{"text": "new tea"}, None]
    assert index.count(cells("bob")) == 2
    with refused("taken", "id"):
        index.replace([new], cells("ana"), scope.Equal("kind", "fact"))
    assert index.count(cells("ana")) == 3


def test_a_key_is_deleted_in_its_scope_only(index: Index) -> None:
    assert index.delete(["hot", "none"], [cells("bob"), cells("ana")]) == 1
    assert keys(index.recall(ask("hot", scope=cells("ana")))) == [["hot"]]
    assert keys(index.recall(ask("hot", scope=cells("bob")))) == [["milk"]]


def test_deleting_by_filter_and_everything(index: Index) -> None:
    assert index.delete_where(cells("ana"), scope.Equal("kind", "note")) == 2
    assert keys(index.recall(ask("tea"))) == [["cold"]]
    assert index.delete_where(cells("ana"), None) == 2
    assert index.recall(ask("tea coffee", [1, 1, 1])) == [()]
    assert index.count(cells("bob")) == 2


def test_count_and_get_stay_in_the_scope(index: Index) -> None:
    assert index.count(cells("ana")) == 4
    assert index.count(cells("ana", None), scope.IsNull("kind")) == 2
    found = index.get(["milk", "hot"], cells("ana"), ["text", "number"])
    assert found == [None, {"text": "hot tea", "number": 1}]
    found = index.get(["milk", "hot"], cells("bob"), ["embedding"])
    assert found == [{"embedding": None}, {"embedding": [1, 0, 0]}]


def test_what_is_saved_opens_with_the_same_bits(
    make_index: Callable[..., Index], tmp_path: Path
) -> None:
    index = make_index(part(40))
    index.add(DRAWN.rows[40:])
    index.save(tmp_path / "x")
    for memory in ("mmap", "ram"):
        with hr.Index.open(tmp_path / "x", memory=memory, device="cpu") as again:
            assert len(again) == len(DRAWN.rows)
            index.index = again
            same(index, DRAWN, *CALLS)


def test_a_folder_that_is_there_is_not_overwritten_unasked(index: Index, tmp_path: Path) -> None:
    index.save(tmp_path / "x")
    with refused("value", "path"):
        Plain(DRAWN, tmp_path, index.shared, ExitStack()).save(tmp_path / "x")


def test_a_version_that_another_has_saved_is_taken_up(make_index: Callable[..., Index]) -> None:
    index = make_index(World(ONE_ARM, TEAS.rows))
    assert index.recall(ask("rooibos")) == [()]
    new = row("new", "ana", "rooibos", [0, 0, 1])
    index.renew([new])
    same(index, World(ONE_ARM, (*TEAS.rows, new)), ask("rooibos"), ask("hot tea", [0, 1, 1]))


def test_parts_that_are_merged_answer_as_one(index: Index) -> None:
    calls = [ask("hot tea", [1, 0, 0], limit=3), ask("tea", scope=cells("ana", "bob"))]
    assert [index.merged(call) for call in calls] == [index.recall(call) for call in calls]


def test_B15_vectors_that_are_no_numbers_are_refused(make_index: Callable[..., Index]) -> None:
    bad = row("bad", "ana", "tea", [float("nan"), 0, 0])
    with refused("value", "embedding"):
        make_index(World(ONE_ARM, (*TEAS.rows, bad)))


def test_a_query_vector_of_another_length_is_refused(index: Index) -> None:
    with refused("value", "vectors"):
        index.recall(ask(vector=[1, 0]))


def test_a_negative_limit_is_refused(index: Index) -> None:
    with refused("value", "limit"):
        index.recall(ask("tea", limit=-1))


def test_an_empty_index_answers_with_nothing(make_index: Callable[..., Index]) -> None:
    index = make_index(World(ONE_ARM, ()))
    assert index.recall(ask("tea", [1, 0, 0])) == [()]
