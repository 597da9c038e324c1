"""Vectors for what has none: page after page, resumable, errors and damaged rows by name."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embed.fakes import Fake
from hyrecall.embed import EmbedFault, HashEmbedder
from hyrecall.errors import OptionError
from hyrecall.memory import MemorySync
from memory.direct_writes import reembed
from memory.rows_of_tests import ANA, BOB, NOW
from memory.stores import open_store
from seams import (
    CURSOR,
    Cell,
    Database,
    Episode,
    Guard,
    NewVersion,
    Reembedded,
    Selection,
    decode_vector,
    embed_error,
    find_cell,
    forget,
    remember,
    update,
)
from seams import vectors as vectors_of_changes


@pytest.fixture
def guard() -> Iterator[Guard]:
    made = Guard(HashEmbedder(8))
    yield made
    made.close()


@contextmanager
def guarded(reply: Callable[[Sequence[str]], object], dim: int | None) -> Iterator[Guard]:
    made = Guard(Fake(reply, dim=dim, model="hash-8"))
    yield made
    made.close()


def keep(store: Database, cell: Cell, *texts: str, at: int = 0) -> None:
    rows = [
        NewVersion(cell, Episode(id=f"e{n}", user_id=cell.user, text=text))
        for n, text in enumerate(texts, at)
    ]
    with store.transaction() as c:
        remember(c, rows, NOW)


def numbers(store: Database, *cells: Cell) -> list[int]:
    with store.reading() as c:
        return [number for cell in cells if (number := find_cell(c, cell)) is not None]


def vectors(store: Database, cell: Cell = ANA) -> dict[str, tuple[list[float], str] | None]:
    select = "SELECT id, embedding, embedding_model FROM versions WHERE cell = ? ORDER BY row"
    with store.reading() as c:
        return {
            key: None if blob is None else (decode_vector(blob).tolist(), model)
            for key, blob, model in c.execute(select, (find_cell(c, cell),))
        }


def expected(text: str, dim: int = 8) -> tuple[list[float], str]:
    return HashEmbedder(dim).embed([text])[0].tolist(), f"hash-{dim}"


def failing(*bad: str) -> Fake:
    """Refuse any call with one of these texts, as an endpoint does."""

    def reply(texts: Sequence[str]) -> object:
        if set(texts) & set(bad):
            raise embed_error(EmbedFault.UNREACHABLE, "status 200", "status 500")
        return HashEmbedder(8).embed(texts)

    return Fake(reply, dim=8, model="hash-8")


def test_what_has_no_vector_gets_one_and_a_second_run_calls_nothing(store: Database) -> None:
    keep(store, ANA, *(f"text {n}" for n in range(150)))
    fake = failing()
    guard = Guard(fake)
    told: list[tuple[int, int]] = []
    done = reembed(store, guard, numbers(store, ANA), progress=lambda *at: told.append(at))
    assert done == Reembedded(scanned=150, embedded=150, skipped=0)
    assert vectors(store) == {f"e{n}": expected(f"text {n}") for n in range(150)}
    assert told == [(64, 150), (128, 150), (150, 150)]
    assert [len(call) for call in fake.calls] == [64, 64, 22]
    fake.calls.clear()
    again = reembed(store, guard, numbers(store, ANA))
    assert again == Reembedded(scanned=150, embedded=0, skipped=150)
    assert fake.calls == []
    guard.close()


def test_more_bad_rows_than_open_a_guard_do_not_end_the_work(store: Database) -> None:
    bad = [f"bad {n}" for n in range(10)]
    keep(store, ANA, *bad, "good")
    guard = Guard(failing(*bad))
    done = reembed(store, guard, numbers(store, ANA))
    assert (done.embedded, len(done.errors), done.stopped) == (1, 10, None)
    assert guard.state()["breaker"] == "closed"  # recalls go on meanwhile
    guard.close()


def test_an_endpoint_that_is_down_ends_the_work_and_the_next_run_goes_on(store: Database) -> None:
    texts = [f"text {n}" for n in range(200)]
    keep(store, ANA, *texts)
    down = Guard(failing(*texts[64:]))
    done = reembed(store, down, numbers(store, ANA))
    assert (done.embedded, len(done.errors)) == (64, 19)  # the page itself is the 20th failure
    assert done.stopped is not None
    assert done.stopped.startswith("resting")
    up = Guard(failing())
    done = reembed(store, up, numbers(store, ANA))
    assert (done.embedded, done.errors, done.stopped) == (136, (), None)
    down.close()
    up.close()


def test_a_forced_run_that_is_interrupted_goes_on_where_it_was(store: Database) -> None:
    keep(store, ANA, *(f"text {n}" for n in range(150)))
    fake = failing()
    guard = Guard(fake)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reembed(store, guard, numbers(store, ANA), force=True, progress=interrupt)
    assert sum(len(call) for call in fake.calls) == 64
    keep(store, BOB, "other cells begin at their beginning")
    assert reembed(store, guard, numbers(store, BOB), force=True).embedded == 1
    with pytest.raises(KeyboardInterrupt):
        reembed(store, guard, numbers(store, ANA), force=True, progress=interrupt)
    fake.calls.clear()
    done = reembed(store, guard, numbers(store, ANA), force=True)
    assert done == Reembedded(scanned=150, embedded=86, skipped=64)
    fake.calls.clear()
    assert reembed(store, guard, numbers(store, ANA), force=True).embedded == 150  # from the start
    with store.reading() as c:
        assert c.execute("SELECT count(*) FROM meta WHERE name = 'reembed'").get == 0
    guard.close()


def test_what_is_written_meanwhile_keeps_what_it_has(store: Database) -> None:
    """A row that was updated or forgotten while its text was embedded gets no vector of it."""
    keep(store, ANA, "old", "gone", "stays")
    cells = numbers(store, ANA)

    def reply(texts: Sequence[str]) -> object:
        with store.transaction() as c:
            update(c, ANA, "e0", {"text": "new"}, None, None, None, NOW)
            forget(c, Selection(cells, ids=["e1"]), None, NOW)
        return HashEmbedder(8).embed(texts)

    guard = Guard(Fake(reply, dim=8, model="hash-8"))
    done = reembed(store, guard, cells)
    assert done == Reembedded(scanned=3, embedded=1, skipped=2)
    assert vectors(store) == {"e0": None, "e1": None, "e2": expected("stays")}
    with store.reading() as c:
        n_kept = c.execute("SELECT count(*) FROM versions WHERE embedding IS NOT NULL").get
    assert n_kept == 1
    guard.close()


def test_a_reader_is_refused(store: Database, guard: Guard) -> None:
    keep(store, ANA, "tea")
    reader = Database.open(store.folder, read_only=True)
    with pytest.raises(OptionError, match="memory: expected a store opened for writing"):
        reembed(reader, guard, numbers(store, ANA))
    reader.close()


def test_the_check_for_other_versions_is_what_keeps_them(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: written without looking, the vector of an old text is seen on the new row."""

    def blind(c: object, rows: Sequence[tuple[int, bytes, str]]) -> int:
        for row, blob, model in rows:
            change = "UPDATE versions SET embedding = ?, embedding_model = ? WHERE row = ?"
            c.execute(change, (blob, model, row))  # type: ignore[attr-defined]
        return len(rows)

    monkeypatch.setattr(vectors_of_changes, "set_vectors", blind)
    with pytest.raises(AssertionError):
        test_what_is_written_meanwhile_keeps_what_it_has(store)


class LengthUnknown:
    """As an endpoint: how long its vectors are, the first reply tells."""

    model = "unknown-3"
    dim = None

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        return np.tile(np.float32([1, 2, 3]), (len(texts), 1))


def test_the_index_takes_vectors_of_a_length_that_was_met_while_embedding_anew(
    tmp_path: Path,
) -> None:
    with MemorySync.open(tmp_path / "m", embedder=None) as memory:
        memory.remember("tea", user_id="ana")
    with MemorySync.open(tmp_path / "m", embedder=LengthUnknown()) as memory:
        assert memory.reembed().embedded == 1
        asked = memory.search("nothing of it", user_id="ana", vector=[1, 2, 3])
        assert [round(one.vector_score or 0, 5) for one in asked] == [1.0]
    with MemorySync.open(tmp_path / "m", embedder=LengthUnknown(), read_only=True) as memory:
        checks = {check.name: check.detail for check in memory.doctor().checks}
        assert '"rebuilds": 0' in checks["index"], checks["index"]


# ---- another model, another length ----


@pytest.mark.parametrize(
    ("model", "dim", "is_said"),
    [("hash-8", 4, True), ("hash-8", 4, False), ("other", 8, True), ("other", 8, False)],
)
def test_vectors_of_another_model_or_length_are_replaced(
    store: Database, guard: Guard, model: str, dim: int, is_said: bool
) -> None:
    keep(store, ANA, "tea", "oak", "")
    cells = numbers(store, ANA)
    assert reembed(store, guard, cells).embedded == 2
    keep(store, ANA, "elm", at=3)
    now = Fake(HashEmbedder(dim).embed, dim=dim if is_said else None, model=model)
    made = Guard(now)
    done = reembed(store, made, cells)
    assert (done.scanned, done.embedded, done.skipped, done.stopped) == (4, 3, 1, None)
    wish = {"e0": "tea", "e1": "oak", "e3": "elm"}
    found = vectors(store)
    assert found == {"e2": None} | {
        key: (expected(text, dim)[0], model) for key, text in wish.items()
    }
    assert reembed(store, made, cells) == Reembedded(scanned=4, embedded=0, skipped=4)
    made.close()


def test_a_forced_run_begins_anew_for_another_length(store: Database) -> None:
    keep(store, ANA, *(f"text {n}" for n in range(130)))
    cells = numbers(store, ANA)
    with guarded(HashEmbedder(8).embed, 8) as first:
        reembed(store, first, cells)

    def until_the_second_page(texts: Sequence[str]) -> object:
        if "text 70" in texts:
            raise embed_error(EmbedFault.HUNG, "a reply", "none")
        return HashEmbedder(4).embed(texts)

    with guarded(until_the_second_page, 4) as shorter:
        assert reembed(store, shorter, cells, force=True).stopped is not None
    with guarded(HashEmbedder(6).embed, None) as other:
        assert reembed(store, other, cells, force=True).embedded == 130
    with store.reading() as c:
        lengths = c.execute("SELECT DISTINCT length(embedding) FROM versions")
        assert [length for (length,) in lengths] == [24]


def test_after_a_backfill_calls_are_made_again_at_once(store: Database) -> None:
    keep(store, ANA, "tea")
    is_down = True

    def reply(texts: Sequence[str]) -> object:
        if is_down:
            raise embed_error(EmbedFault.UNREACHABLE, "a reply", "none")
        return HashEmbedder(8).embed(texts)

    with guarded(reply, 8) as guard:
        for _ in range(5):
            guard.embed(["tea"], budget=30.0)
        assert reembed(store, guard, numbers(store, ANA)).embedded == 0
        assert guard.state()["breaker"] == "open"
        is_down = False
        assert reembed(store, guard, numbers(store, ANA)).embedded == 1
        assert guard.state()["breaker"] == "closed"
        assert isinstance(guard.embed(["tea"], budget=30.0), np.ndarray)


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
            raise embed_error(EmbedFault.HUNG, "a reply", "none")
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


def test_a_change_of_length_that_is_interrupted_is_made_by_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(tmp_path / "store", embedder=LengthUnknown()) as memory:
        store = memory._store

        def interrupted(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(store.follower, "relayout", interrupted)
            with pytest.raises(KeyboardInterrupt):
                memory.remember("tea", id="tea", user_id="ann")
        assert store.dim != 3
        memory.remember("tea", id="tea", user_id="ann")
        assert store.dim == 3
        found = memory.search("nothing of it", user_id="ann", vector=[1, 2, 3])
        assert [round(one.vector_score or 0, 5) for one in found] == [1.0]
