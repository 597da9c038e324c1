"""A backfill passes damaged rows, names them, and takes a damaged note of its place for none."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from embed.fakes import Fake
from hyrecall.embed import EmbedError, EmbedFault, Guard, HashEmbedder
from memory.direct_writes import reembed
from memory.rows_of_tests import ANA
from memory.test_backfill import expected, keep, numbers, vectors
from seams import CURSOR, Database


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Database]:
    database = Database.open(tmp_path / "store")
    yield database
    database.close()


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("damaged", [range(64), range(32, 96), range(100)])
def test_damaged_rows_are_errors_and_all_others_get_a_vector(
    store: Database, damaged: range, *, force: bool
) -> None:
    keep(store, ANA, *(f"text {n}" for n in range(100)))
    with store.transaction() as c:
        change = "UPDATE versions SET output = 'other' WHERE row BETWEEN ? AND ?"
        c.execute(change, (damaged[0] + 1, damaged[-1] + 1))
    told: list[tuple[int, int]] = []
    guard = Guard(HashEmbedder(8))
    cells = numbers(store, ANA)
    done = reembed(store, guard, cells, force=force, progress=lambda *at: told.append(at))
    guard.close()
    assert (done.scanned, done.embedded, done.skipped) == (100, 100 - len(damaged), 0)
    assert done.stopped is None
    assert [(one.id, one.user_id) for one in done.errors] == [(f"e{n}", "ana") for n in damaged]
    assert {one.error for one in done.errors} == {"damaged: doctor(full=True) tells more"}
    assert told == [(64, 100), (100, 100)]
    assert vectors(store) == {
        f"e{n}": None if n in damaged else expected(f"text {n}") for n in range(100)
    }


@pytest.mark.parametrize(
    "note",
    [
        "X'FF'", "CAST(X'FF' AS TEXT)", "'{'", "'[]'", "'3'", "'{}'", "7", "''", "'{\"row\": 5}'",
        "replace(value, '64', '\"x\"')", "replace(value, '64', 'Infinity')",
        "replace(value, '64', '1e300')", "replace(value, '64', '-64')",
        "replace(value, '64', '64000000000000000000')",
    ],
)  # fmt: skip
def test_a_forced_run_with_a_damaged_note_begins_at_the_beginning(
    store: Database, note: str
) -> None:
    keep(store, ANA, *(f"text {n}" for n in range(100)))
    cells = numbers(store, ANA)

    def until_the_second_page(texts: object) -> object:
        if "text 70" in texts:  # type: ignore[operator]
            raise EmbedError.of(EmbedFault.HUNG, "a reply", "none")
        return HashEmbedder(8).embed(texts)  # type: ignore[arg-type]

    first = Guard(Fake(until_the_second_page, dim=8, model="hash-8"))
    assert reembed(store, first, cells, force=True).stopped is not None
    first.close()
    with store.transaction() as c:
        found = json.loads(c.execute("SELECT value FROM meta WHERE name = ?", (CURSOR,)).get)
        assert found["row"] == 64
        c.execute(f"UPDATE meta SET value = {note} WHERE name = ?", (CURSOR,))
    second = Guard(HashEmbedder(8))
    assert reembed(store, second, cells, force=True).embedded == 100
    second.close()
