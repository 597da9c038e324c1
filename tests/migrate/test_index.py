"""Records of another system become a saved index that answers as one built of their table."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

import hyrecall as hr
from hyrecall.errors import OptionError, ScopeError
from hyrecall.migrate import LeftOut, Migrated, Record, into_index
from migrate.moved import DIM, plant, record, source, vectors

N = 60
ROWS = vectors(N)
RECORDS = [
    Record(
        id=f"k{at}",
        text=f"tea {at % 7} fjord {at % 5}",
        vector=ROWS[at],
        metadata={"user": f"u{at % 3}", "n": at},
        created_at=f"2025-03-01T12:00:{at:02}",
    )
    for at in range(N)
]
SCHEMA = hr.Schema(
    key="id", cell="user", text="text", vector="vector", attributes=("created_at", "session_id"),
    stored=("text", "metadata"),
)  # fmt: skip


def move(folder: Path, *records: Record, **options: Any) -> Migrated:
    whose = {} if "user" in options else {"user_from": "user"}
    return into_index(folder, source(records), **whose, **options)


def straight() -> hr.Index:
    """Return an index of the same documents, built by the definition."""
    times = [datetime.fromisoformat(f"{r.created_at}+00:00") for r in RECORDS]
    table = pa.table(
        {
            "id": [str(r.id) for r in RECORDS],
            "user": [str(r.metadata["user"]) for r in RECORDS],
            "text": [str(r.text) for r in RECORDS],
            "created_at": pa.array(times, pa.timestamp("us", tz="UTC")),
            "session_id": pa.array([None] * N, pa.large_string()),
            "metadata": [json.dumps(r.metadata) for r in RECORDS],
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(ROWS.ravel()), DIM),
        }
    )
    return hr.Index.build(table, SCHEMA)


def replies(index: hr.Index) -> list[dict[str, Any]]:
    hits = index.recall(
        text=["tea 3", "fjord", "2"], vectors=ROWS[[5, 6, 7]],
        scope=["u0", "u1", "u2"], limit=40, fusion=hr.RRF(),
        columns=("text", "metadata", "created_at"),
    )  # fmt: skip
    return hits.to_list()


def test_an_index_of_records_answers_as_one_built_of_their_table(tmp_path: Path) -> None:
    done = move(tmp_path / "moved", *RECORDS)
    assert (done.imported, done.n_vectors, done.left_out) == (N, N, ())
    with hr.Index.open(tmp_path / "moved") as moved:
        assert replies(moved) == replies(straight())


@pytest.mark.parametrize("field", ["vector", "text", "user"])
def test_a_planted_change_of_a_record_is_seen(
    tmp_path: Path, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {"vector": -ROWS[0], "text": "another", "user": "u0"}

    def changed(mapped: Any) -> Any:
        return type(mapped)(**{**vars(mapped), field: other[field]})

    plant(monkeypatch, "mapping.Mapper.of", changed)
    move(tmp_path / "moved", *RECORDS)
    with hr.Index.open(tmp_path / "moved") as moved:
        assert replies(moved) != replies(straight())


def test_a_second_run_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    move(tmp_path / "moved", *RECORDS)
    with pytest.raises(OptionError, match=r"^folder: expected a folder without an index"):
        move(tmp_path / "moved", record("new"))
    with hr.Index.open(tmp_path / "moved") as moved:
        assert replies(moved) == replies(straight())


def test_an_id_that_comes_twice_for_a_user_comes_once(tmp_path: Path) -> None:
    done = move(tmp_path, record("a"), record("a"), record("a", "coffee"), record("a", user="bob"))
    assert (done.n_read, done.imported, done.skipped) == (4, 2, 1)
    assert done.left_out == (LeftOut("id: the source has another record of this id", 1, "a"),)


def test_an_index_without_any_vector_has_no_arm_for_them(tmp_path: Path) -> None:
    done = move(tmp_path, record("a"), record("b", row=[0.0] * DIM))
    assert [one.count for one in done.without_vector] == [1, 1]
    with hr.Index.open(tmp_path) as index:
        assert [hit.key for hit in index.recall_one(text="tea", scope="ann")] == ["a", "b"]
        with pytest.raises(hr.HyrecallError):
            index.recall_one(vector=ROWS[0], scope="ann")


def test_a_record_without_a_vector_comes_beside_those_that_have_one(tmp_path: Path) -> None:
    done = move(tmp_path, record("a", row=ROWS[0]), record("b"))
    assert (done.imported, done.n_vectors) == (2, 1)
    with hr.Index.open(tmp_path) as index:
        assert [hit.key for hit in index.recall_one(vector=ROWS[0], scope="ann")] == ["a"]


def test_vectors_of_two_lengths_and_no_record_at_all_make_no_index(tmp_path: Path) -> None:
    with pytest.raises(
        OptionError, match=r"^source: expected vectors of one length, got .*4 and 5"
    ):
        move(tmp_path / "x", record("a", row=ROWS[0]), record("b", row=[1.0] * 5))
    wish = r"^source: expected a record that can come, got 1 left out \(no text\)"
    with pytest.raises(OptionError, match=wish):
        move(tmp_path / "x", record("a", " "))
    assert not (tmp_path / "x").exists()


def test_a_scope_is_never_guessed(tmp_path: Path) -> None:
    with pytest.raises(ScopeError, match="got neither"):
        into_index(tmp_path / "x", source([record("a")]))
    assert not (tmp_path / "x").exists()
