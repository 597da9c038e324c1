"""Records of another system become documents of a saved index, once, as they were."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

import hyrecall as hr
from hyrecall.adapters.documents import Document, DocumentIndex
from hyrecall.errors import OptionError, ScopeError
from hyrecall.migrate import LeftOut, Migrated, Record, into_index
from migrate.moved import DIM, Kept, expected, many, one, plant, record, source, vectors

USERS = ("u0", "u1", "u2")
ROW = vectors(1)[0]


def move(folder: Path, *records: Record, **options: Any) -> Migrated:
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
    done = move(tmp_path, *records)
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
    move(tmp_path, *many(30))
    assert scores(DocumentIndex.open(tmp_path)) != scores(straight(many(30)))


def test_a_second_run_writes_what_is_new_alone(tmp_path: Path) -> None:
    records = many(30)
    move(tmp_path, *records[:20])
    again = move(tmp_path, *records[:20])
    assert (again.imported, again.skipped) == (0, 20)
    more = move(tmp_path, *records)
    assert (more.imported, more.skipped) == (10, 20)
    assert in_index(tmp_path, *USERS) == without_vectors(expected(records))


def test_an_id_that_comes_twice_for_a_user_comes_once(tmp_path: Path) -> None:
    done = move(tmp_path, record("a"), record("a"), record("a", "coffee"), record("a", user="bob"))
    assert (done.n_read, done.imported, done.skipped) == (4, 2, 1)
    assert done.left_out == (LeftOut("id: the index has another document of this id", 1, "a"),)
    assert in_index(tmp_path, "ann", "bob") == {
        **one("ann", "a", "tea", {"user": "ann"}), **one("bob", "a", "tea", {"user": "bob"}),
    }  # fmt: skip


def test_what_a_system_says_beside_the_metadata_goes_there(tmp_path: Path) -> None:
    given = Record(
        "a", "tea", None, {"n": 1}, created_at="2025-03-01T12:00:00+00:00", session_id="s"
    )
    move(tmp_path, given, user="ann")
    ((_, metadata, _),) = in_index(tmp_path, "ann").values()
    assert json.loads(metadata) == {
        "n": 1, "created_at": "2025-03-01T12:00:00+00:00", "session_id": "s",
    }  # fmt: skip


def test_vectors_that_an_index_cannot_hold_stay_behind(tmp_path: Path) -> None:
    done = move(
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
    done = move(tmp_path, *records, record("bad", year="soon"), attributes={"year": int})
    (fault,) = done.left_out
    assert fault == LeftOut("metadata['year']: expected int64", 1, "bad")
    index = DocumentIndex.open(tmp_path)
    found = index.find(scope="ann", filter=hr.Filter(year=(2022, None)))
    assert [document.id for document in found] == ["k2", "k3"]
    with pytest.raises(OptionError, match=r"^attributes: expected none: the index is there"):
        move(tmp_path, record("a"), attributes={"year": int})


def test_a_source_of_which_nothing_can_come_makes_no_index(tmp_path: Path) -> None:
    done = move(tmp_path / "x", record("a", " "))
    assert done.left_out == (LeftOut("no text", 1, "a"),)
    assert not (tmp_path / "x").exists()


def test_a_scope_is_never_guessed(tmp_path: Path) -> None:
    with pytest.raises(ScopeError, match="got neither"):
        into_index(tmp_path / "x", source([record("a")]))
    assert not (tmp_path / "x").exists()
