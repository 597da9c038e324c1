"""Records of another system come into a store or an index once, as they were."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

import hyrecall as hr
from hyrecall.adapters.documents import Document, DocumentIndex
from hyrecall.errors import DTypeError, OptionError, ScopeError
from hyrecall.memory import MemorySync
from hyrecall.migrate import LeftOut, Migrated, Record, into_index, into_store
from migrate.moved import (
    DIM,
    MODEL,
    Kept,
    Named,
    expected,
    in_store,
    many,
    one,
    plant,
    record,
    source,
    store,
    vectors,
)

# ---- a store, under the user that is named ----

NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)


def move(memory: MemorySync, *records: Record, **options: Any) -> Migrated:
    whose = {} if "user" in options else {"user_from": "user"}
    return into_store(memory, source(records), **{"vector_model": MODEL, **whose, **options})


def test_texts_metadata_and_vectors_come_as_they_were() -> None:
    records = many(1203)  # more than two pages
    with store() as memory:
        done = move(memory, *records)
        assert (done.n_read, done.imported, done.skipped) == (1203, 1203, 0)
        assert (done.left_out, done.dropped, done.without_vector) == ((), {}, ())
        assert (done.n_vectors, done.n_other_vectors, done.needs_reembed) == (1203, 0, False)
        assert in_store(memory) == expected(records)


PLANTED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "a user": ("records.Owners.of", lambda user: "u0"),
    "a vector": ("records.Mapper.of", lambda m: _with(m, vector=np.nextafter(m.vector, 9))),
    "a text": ("records.Mapper.of", lambda m: _with(m, text=m.text.strip("é"))),
    "a field": ("records.Mapper.of", lambda m: _with(m, metadata={**m.metadata, "f": 0.1})),
}


def _with(mapped: Any, **changes: Any) -> Any:
    return type(mapped)(**{**vars(mapped), **changes})


@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_change_of_what_comes_is_seen(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    records = many(6)
    plant(monkeypatch, *PLANTED[what])
    with store() as memory:
        move(memory, *records)
        assert in_store(memory) != expected(records)


def test_a_second_run_imports_nothing_twice_and_what_is_new_alone() -> None:
    with store() as memory:
        records = many(20)
        move(memory, *records[:15])
        before = in_store(memory)
        again = move(memory, *records[:15])
        assert (again.imported, again.skipped, again.left_out) == (0, 15, ())
        assert in_store(memory) == before
        more = move(memory, *records)
        assert (more.imported, more.skipped) == (5, 15)
        assert len(memory.history("k1", user_id="u1")) == 1


def test_what_was_changed_or_deleted_since_stays_so() -> None:
    with store() as memory:
        move(memory, record("a"), record("b"))
        memory.update("a", user_id="ann", text="coffee")
        memory.forget("b", user_id="ann")
        again = move(memory, record("a"), record("b"))
        assert (again.imported, again.skipped, again.left_out) == (0, 2, ())
        assert [one.text for one in memory.list(user_id="ann")] == ["coffee"]


def test_another_record_of_a_known_id_changes_nothing() -> None:
    with store() as memory:
        memory.remember("mine", id="a", user_id="ann")
        done = move(memory, record("a"), record("b", "tea"), record("b", "coffee"))
        assert done.left_out == (LeftOut("id: the store has another memory of this id", 2, "a"),)
        assert done.imported == 1
        assert {key: text for (_, key), (text, *_) in in_store(memory).items()} == {
            "a": "mine", "b": "tea",
        }  # fmt: skip


def test_users_of_one_id_each_have_their_own() -> None:
    with store() as memory:
        done = move(memory, record("a", "hers"), Record("a", "his", None, {"user": "bob"}))
        assert done.imported == 2
        for user, text in (("ann", "hers"), ("bob", "his")):
            found = memory.get("a", user_id=user)
            assert found is not None
            assert found.text == text


def test_all_records_are_of_the_user_that_is_named() -> None:
    with store() as memory:
        move(memory, record("a"), Record("b", "his", None, {"user": "bob"}), user="carl")
        assert {user for user, _ in in_store(memory)} == {"carl"}
        assert memory.list(user_id="ann") == []


def test_a_shared_memory_of_another_user_is_no_memory_of_this_id() -> None:
    with store() as memory:
        memory.remember("hers", id="a", user_id="ann", visibility="global")
        memory.remember("mine", id="b", user_id="bob", visibility="global")
        done = move(memory, record("a", user="bob"), record("b", user="bob"))
        assert done.imported == 1
        assert done.left_out == (LeftOut("id: the store has another memory of this id", 1, "b"),)


@pytest.mark.parametrize(
    ("whose", "told"),
    [
        ({}, "got neither"),
        ({"user": "ann", "user_from": "user"}, "got both"),
    ],
)
def test_a_scope_is_never_guessed(whose: dict[str, str], told: str) -> None:
    with store() as memory:
        with pytest.raises(ScopeError, match=told):
            into_store(memory, source([record("a")]), **whose)
        assert in_store(memory) == {}


LEFT = {
    "no user: it has no field 'user'": Record("x", "tea"),
    "no user: 'user' is no text and no int": record("x", user=True),
    "no user: 'user' is blank, reserved or no user's name": record("x", user=" "),
    "no id: it is no text and no int": record(None),
    "id: not 1 to 512 bytes of valid text": record("x" * 513),
    "no text": record("x", None),
    "no text: it is of another type": record("x", 5),
    "text: not valid Unicode": record("x", "\ud800"),
    "time: neither ISO 8601 nor seconds from 1970 on": record("x", at="soon"),
}


@pytest.mark.parametrize("reason", LEFT)
def test_a_record_that_cannot_be_kept_is_named_and_the_others_come(reason: str) -> None:
    bad = LEFT[reason]
    with store() as memory:
        done = move(memory, record("first"), bad, bad, record("last"), time_from="at")
        assert done.left_out == (LeftOut(reason, 2, str(bad.id)),)
        assert (done.n_read, done.imported) == (4, 2)
        assert set(in_store(memory)) == {("ann", "first"), ("ann", "last")}


def test_what_the_store_refuses_is_named_without_its_content(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another process may keep a memory of an id after it was looked for."""
    with store() as memory:
        memory.remember("secret", id="x", user_id="ann")
        monkeypatch.setattr("hyrecall.migrate.to_store.history", lambda *_: [])
        done = move(memory, record("x"), record("y"))
        told = "id: expected an id of the store with the same content (version 1)"
        assert done.left_out == (LeftOut(told, 1, "x"),)
        assert done.imported == 1


def test_a_session_that_no_store_takes_is_dropped() -> None:
    with store() as memory:
        records = [Record(at, "tea", None, {}, session_id=s) for at, s in enumerate(["s", " ", 5])]
        done = move(memory, *records, user="ann")
        assert done.dropped == {"session": 2}
        kept = memory.list(user_id="ann")
        assert {one.id: one.session_id for one in kept} == {"0": "s", "1": None, "2": None}


def test_an_int_names_the_user_of_that_number_but_not_beside_a_text() -> None:
    with store() as memory:
        done = move(memory, record("a", user=7), record("b", user=8), record("c", user="7"))
        (fault,) = done.left_out
        assert fault == LeftOut(
            "two users: 'user' is a text in some records and an int in others", 1, "c"
        )
        assert set(in_store(memory)) == {("7", "a"), ("8", "b")}


def test_a_path_with_dots_names_a_field_within_a_field() -> None:
    with store() as memory:
        inner = Record("a", "tea", None, {"meta": {"user": "ann"}, "x": "y"})
        exact = Record("b", "tea", None, {"meta.user": "bob", "meta": {"user": "carl"}})
        move(memory, inner, exact, user_from="meta.user")
        assert set(in_store(memory)) == {("ann", "a"), ("bob", "b")}


TIMES = [
    "2025-03-01T12:00:00",
    "2025-03-01T14:00:00+02:00",
    NOON.timestamp(),
    int(NOON.timestamp()),
    NOON,
]


@pytest.mark.parametrize("given", TIMES)
def test_the_time_of_a_field_is_when_it_occurred(given: object) -> None:
    with store() as memory:
        move(memory, record("a", at=given), time_from="at")
        (kept,) = memory.list(user_id="ann")
        assert kept.occurred_at == NOON


def test_milliseconds_are_no_time() -> None:
    with store() as memory:
        done = move(memory, record("a", at=NOON.timestamp() * 1000), time_from="at")
        assert done.imported == 0


def test_fields_that_json_cannot_hold_are_dropped_by_name() -> None:
    fields = {
        "bytes": b"x", "nan": float("nan"), "deep": [[float("inf")]], "object": object(),
        "keys": {1: 2}, "surrogate": "\ud800", "digits": 10**5000,
        "time": NOON, "uuid": UUID(int=5), "number": np.float32(0.5), "kept": [1],
    }  # fmt: skip
    with store() as memory:
        done = move(memory, record("a", **fields), record("b", bytes=b"y"))
        assert done.dropped == {
            "bytes": 2, "nan": 1, "deep": 1, "object": 1, "keys": 1, "surrogate": 1,
            "digits": 1,
        }  # fmt: skip
        kept = memory.get("a", user_id="ann")
        assert kept is not None
        assert kept.metadata == {
            "user": "ann", "time": NOON.isoformat(), "uuid": str(UUID(int=5)), "number": 0.5,
            "kept": [1],
        }  # fmt: skip


# ---- vectors ----


def test_vectors_come_only_under_the_name_of_their_model() -> None:
    row = vectors(1)[0]
    with store() as memory:
        done = move(memory, record("a", row=row), vector_model=None)
        assert done.without_vector == (LeftOut("its model is not named", 1, "a"),)
        assert done.needs_reembed
        assert in_store(memory) == one("ann", "a", "tea", {"user": "ann"})


@pytest.mark.parametrize(("model", "dim"), [("another model", DIM), (MODEL, DIM + 1)])
def test_vectors_of_another_model_or_length_come_and_are_told(model: str, dim: int) -> None:
    row = vectors(1, dim)[0]
    with store() as memory:
        done = move(memory, record("a", row=row), vector_model=model)
        assert (done.n_vectors, done.n_other_vectors) == (1, 1)
        assert done.needs_reembed
        assert in_store(memory) == one("ann", "a", "tea", {"user": "ann"}, row)
        assert memory.reembed().embedded == 1
        assert in_store(memory) != one("ann", "a", "tea", {"user": "ann"}, row)


def test_vectors_of_the_stores_model_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = vectors(3)
    with store() as memory:
        move(memory, *(record(f"k{at}", f"text {at}", row) for at, row in enumerate(rows)))
        assert memory.reembed().embedded == 0
        monkeypatch.setattr(Named, "embed", lambda *_: rows[1:2])
        best = memory.search("nothing of theirs", user_id="ann", limit=1)
        assert [match.episode.id for match in best] == ["k1"]


BAD_VECTORS = {
    "no vector in the source": None,
    "a zero vector": [0.0] * DIM,
    "a vector with NaN or infinity": [float("nan")] * DIM,
    "a vector whose norm is outside [2^-60, 2^60]": [1e-30] * DIM,
}


@pytest.mark.parametrize("reason", BAD_VECTORS)
def test_a_record_comes_without_a_vector_that_no_index_takes(reason: str) -> None:
    with store() as memory:
        done = move(memory, record("a", row=BAD_VECTORS[reason]))
        assert done.without_vector == (LeftOut(reason, 1, "a"),)
        assert in_store(memory) == one("ann", "a", "tea", {"user": "ann"})
        assert memory.reembed().embedded == 1


# ---- the call ----


def test_progress_grows_to_the_number_of_records() -> None:
    told: list[tuple[int, int]] = []
    with store() as memory:
        move(memory, *many(1100), progress=lambda *now: told.append(now))
    assert told == [(500, 1100), (1000, 1100), (1100, 1100)]


def test_a_partition_is_around_the_users() -> None:
    with store() as memory:
        move(memory, record("a"), org="o", workspace="w")
        assert memory.get("a", user_id="ann") is None
        assert memory.get("a", user_id="ann", org="o", workspace="w") is not None


def test_other_arguments_are_refused_by_name() -> None:
    with store() as memory:
        with pytest.raises(DTypeError, match=r"^source: expected a Source, .* got list"):
            into_store(memory, [record("a")], user="ann")  # type: ignore[arg-type]
        with pytest.raises(DTypeError, match=r"^memory: expected a MemorySync, got int"):
            into_store(5, source([]), user="ann")  # type: ignore[arg-type]
        with pytest.raises(OptionError, match=r"^vector_model: "):
            move(memory, vector_model=" ")
        with pytest.raises(OptionError, match=r"^time_from: "):
            move(memory, time_from="")
        with pytest.raises(OptionError, match=re.escape("user: expected")):
            move(memory, user="__hyrecall_anonymous__")


def test_a_store_without_an_embedder_searches_vectors_of_its_length() -> None:
    with MemorySync.in_memory(embedder=None, dim=DIM) as memory:
        done = move(memory, record("a", row=vectors(1)[0]))
        assert not done.needs_reembed


def test_metadata_is_one_json_object_again() -> None:
    with store(Named("x")) as memory:
        records = many(1)
        move(memory, *records)
        ((_, metadata, _),) = in_store(memory).values()
        assert json.loads(metadata) == records[0].metadata


# ---- documents of a saved index ----

USERS = ("u0", "u1", "u2")
ROW = vectors(1)[0]


def index_move(folder: Path, *records: Record, **options: Any) -> Migrated:
    whose = {} if "user" in options else {"user_from": "user"}
    return into_index(folder, source(records), **whose, **options)


def in_index(folder: Path, *users: str) -> Kept:
    """Return the documents of users; their vectors come from the saved rows."""
    index = DocumentIndex.open(folder)
    found: Kept = {}
    for user in users:
        for document in index.find(scope=user):
            found |= one(user, str(document.id), str(document.text), document.metadata)
    return found


def scores(index: DocumentIndex) -> list[Any]:
    """Return replies to queries of every user, with every score."""
    rows = vectors(3, seed=8)
    return [
        [(hit.document.id, hit.score, hit.scores) for hit in found]
        for user, row in zip(USERS, rows, strict=True)
        for found in [
            index.recall(text="text 7", vector=row, scope=user, limit=60, fusion=hr.RRF())
        ]
    ]


def straight(records: list[Record]) -> DocumentIndex:
    """Return an index of the same documents, written by its own calls."""
    index = DocumentIndex()
    for user in USERS:
        own = [r for r in records if r.metadata["user"] == user]
        index.write(
            [
                Document(id=str(r.id), text=str(r.text), vector=r.vector, metadata=dict(r.metadata))
                for r in own
            ],
            cell=user,
        )
    return index


def without_vectors(kept: Kept) -> Kept:
    return {place: (text, metadata, None) for place, (text, metadata, _) in kept.items()}


def test_records_come_as_they_were_and_score_as_they_are(tmp_path: Path) -> None:
    records = many(180)
    done = index_move(tmp_path, *records)
    assert (done.n_read, done.imported, done.n_vectors) == (180, 180, 180)
    assert (done.left_out, done.dropped, done.needs_reembed) == ((), {}, False)
    assert in_index(tmp_path, *USERS) == without_vectors(expected(records))
    assert scores(DocumentIndex.open(tmp_path)) == scores(straight(records))


@pytest.mark.parametrize("field", ["vector", "text", "user"])
def test_a_planted_change_of_a_record_is_seen(
    tmp_path: Path, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {"vector": np.nextafter(ROW, 9), "text": "another", "user": "u0"}

    def changed(mapped: Any) -> Any:
        return type(mapped)(**{**vars(mapped), field: other[field]})

    plant(monkeypatch, "records.Mapper.of", changed)
    index_move(tmp_path, *many(30))
    assert scores(DocumentIndex.open(tmp_path)) != scores(straight(many(30)))


def test_a_second_run_writes_what_is_new_alone(tmp_path: Path) -> None:
    records = many(30)
    index_move(tmp_path, *records[:20])
    again = index_move(tmp_path, *records[:20])
    assert (again.imported, again.skipped) == (0, 20)
    more = index_move(tmp_path, *records)
    assert (more.imported, more.skipped) == (10, 20)
    assert in_index(tmp_path, *USERS) == without_vectors(expected(records))


def test_an_id_that_comes_twice_for_a_user_comes_once(tmp_path: Path) -> None:
    done = index_move(
        tmp_path, record("a"), record("a"), record("a", "coffee"), record("a", user="bob")
    )
    assert (done.n_read, done.imported, done.skipped) == (4, 2, 1)
    assert done.left_out == (LeftOut("id: the index has another document of this id", 1, "a"),)
    assert in_index(tmp_path, "ann", "bob") == {
        **one("ann", "a", "tea", {"user": "ann"}), **one("bob", "a", "tea", {"user": "bob"}),
    }  # fmt: skip


def test_what_a_system_says_beside_the_metadata_goes_there(tmp_path: Path) -> None:
    given = Record(
        "a", "tea", None, {"n": 1}, created_at="2025-03-01T12:00:00+00:00", session_id="s"
    )
    index_move(tmp_path, given, user="ann")
    ((_, metadata, _),) = in_index(tmp_path, "ann").values()
    assert json.loads(metadata) == {
        "n": 1, "created_at": "2025-03-01T12:00:00+00:00", "session_id": "s",
    }  # fmt: skip


def test_vectors_that_an_index_cannot_hold_stay_behind(tmp_path: Path) -> None:
    done = index_move(
        tmp_path,
        record("none"),
        record("short", row=[1.0]),
        record("first", row=ROW),
        record("long", row=[1.0] * (DIM + 1)),
        record("zero", row=[0.0] * DIM),
    )
    assert (done.imported, done.n_vectors, done.needs_reembed) == (5, 1, True)
    assert done.without_vector == (
        LeftOut("no vector in the source", 1, "none"),
        LeftOut("a vector of fewer than 2 numbers", 1, "short"),
        LeftOut("a vector of another length than the first", 1, "long"),
        LeftOut("a zero vector", 1, "zero"),
    )
    index = DocumentIndex.open(tmp_path)
    found = index.recall(vector=ROW, scope="ann")
    assert [hit.document.id for hit in found] == ["first"]


def test_attributes_that_are_declared_can_be_filtered_by(tmp_path: Path) -> None:
    records = [record(f"k{at}", year=2020 + at) for at in range(4)]
    done = index_move(tmp_path, *records, record("bad", year="soon"), attributes={"year": int})
    (fault,) = done.left_out
    assert fault == LeftOut("metadata['year']: expected int64", 1, "bad")
    index = DocumentIndex.open(tmp_path)
    found = index.find(scope="ann", filter=hr.Filter(year=(2022, None)))
    assert [document.id for document in found] == ["k2", "k3"]
    with pytest.raises(OptionError, match=r"^attributes: expected none: the index is there"):
        index_move(tmp_path, record("a"), attributes={"year": int})


def test_a_source_of_which_nothing_can_come_makes_no_index(tmp_path: Path) -> None:
    done = index_move(tmp_path / "x", record("a", " "))
    assert done.left_out == (LeftOut("no text", 1, "a"),)
    assert not (tmp_path / "x").exists()


def test_index_a_scope_is_never_guessed(tmp_path: Path) -> None:
    with pytest.raises(ScopeError, match="got neither"):
        into_index(tmp_path / "x", source([record("a")]))
    assert not (tmp_path / "x").exists()
