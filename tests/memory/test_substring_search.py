"""Without an index, the store's own texts are searched: fewer rows never, others never."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import hyrecall as hr
from hyrecall.memory import MemorySync
from memory.small_store import (
    LOOM,
    NOW,
    USERS,
    WORDS,
    cell,
    episode,
    forget,
    rebuilt,
    remember,
    update,
)
from seams import (
    Database,
    DegradedReason,
    Follower,
    IndexNotReadyError,
    Layout,
    Substrings,
    Wanted,
    episodes_of_rows,
    find,
    find_cell,
    layout_of,
    substring_search,
)


def found(
    database: Database,
    text: str,
    wanted: Wanted | None = None,
    *,
    user: str | None = "alice",
    layout: Layout = LOOM,
    limit: int = 100,
) -> list[str]:
    with database.reading() as connection:
        number = find_cell(connection, cell(user))
        cells = [] if number is None else [number]
        rows = find(connection, layout, text, cells, wanted, limit=limit).rows
        episodes = episodes_of_rows(connection, rows, cells)
    return [episodes[row].id for row in rows]


@pytest.mark.parametrize("user", USERS)
def test_a_single_word_finds_the_rows_that_the_index_finds(
    database: Database, user: str | None
) -> None:
    remember(database, *(episode(n, user=USERS[n % 3]) for n in range(90)))
    for number in range(0, 90, 7):
        forget(database, f"e{number}", USERS[number % 3])
    update(database, "e4", "bob", text="oak")
    index = rebuilt(database).index
    for word in WORDS:
        hits = index.recall_one(text=word, scope=tuple(cell(user)), limit=100)
        assert sorted(found(database, word.upper(), user=user)) == sorted(hits.keys)


def test_case_is_folded_and_words_are_found_inside_others(database: Database) -> None:
    remember(
        database,
        episode(1, text="Die STRASSE nach Süden", input=""),
        episode(2, text="INV-2026-0042 was paid", input=""),
        episode(3, text="100% _sure_", input=""),
    )
    assert found(database, "straße") == ["e1"]
    assert found(database, "SÜDEN die") == ["e1"]
    assert found(database, "inv-2026-0042") == ["e2"]
    assert found(database, "%") == ["e3"]  # no words: searched as it is
    assert found(database, "_s") == ["e3"]
    assert found(database, "paid strasse") == []


def test_nothing_of_another_cell_is_read(database: Database) -> None:
    remember(database, episode(1, user="bob", text="oak"))
    assert found(database, "oak", user="alice") == []
    assert found(database, "oak", user=None) == []
    with database.reading() as connection:
        assert find(connection, LOOM, "oak", [], limit=9) == Substrings([])


def test_the_layout_says_which_texts_are_searched(database: Database) -> None:
    remember(database, episode(1, tags=("larch",)))
    assert found(database, "larch") == []
    assert found(database, "larch", layout=layout_of(hr.recipes.l0)) == ["e1"]


def test_a_limit_that_ends_the_search_is_told(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ("elm", "oak", "oak and elm", "oak")
    remember(
        database,
        *(
            episode(n, text=text, input="", occurred_at=NOW - timedelta(days=n))
            for n, text in enumerate(texts)
        ),
    )

    def asked(text: str, limit: int = 9, **limits: int) -> Substrings:
        with monkeypatch.context() as patch, database.reading() as connection:
            for name, value in limits.items():
                patch.setattr(substring_search, name, value)
            number = find_cell(connection, cell("alice"))
            assert number is not None
            return find(connection, LOOM, text, [number], limit=limit)

    whole = asked("oak")
    assert (len(whole.rows), whole.cut) == (3, "")
    newest = asked("oak", MOST_ROWS=3)
    assert newest == Substrings(whole.rows[:2], "searched: the newest 3 memories")
    assert asked("oak", MOST_ROWS=4).cut == ""
    assert asked("oak", limit=1, MOST_ROWS=2) == Substrings(whole.rows[:1])  # it was enough
    # A text is its input, a line's end, and its output.
    assert asked("oak", MOST_CHARACTERS=8) == Substrings(
        whole.rows[:1], "searched: the newest 2 memories"
    )
    two = asked("oak and elm oak", MOST_WORDS=2, MOST_ROWS=3)
    assert two == Substrings(whole.rows[1:2], "searched: 2 of 3 words in the newest 3 memories")


def test_of_many_words_the_first_are_looked_for(database: Database) -> None:
    words = " ".join(f"word{n}" for n in range(20_000))
    remember(database, *(episode(n, text=words) for n in range(4)))
    with database.reading() as connection:
        number = find_cell(connection, cell("alice"))
        assert number is not None
        found = find(connection, LOOM, words, [number], limit=9)
    assert len(found.rows) == 4
    assert found.cut == "searched: 64 of 20,000 words"


def test_a_recall_says_what_its_search_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(*_: object, **__: object) -> None:
        raise IndexNotReadyError(DegradedReason.INDEX_NOT_READY, "being built")

    monkeypatch.setattr(Follower, "ready", cannot)
    monkeypatch.setattr(substring_search, "MOST_ROWS", 1)
    with MemorySync.open(tmp_path / "store", embedder=None) as memory:
        memory.remember("oak", user_id="ann")
        memory.remember("elm", user_id="ann")
        told = [str(reason) for reason in memory.search("oak", user_id="ann").reasons]
        assert told == [
            "index_not_ready (being built)",
            "index_not_ready (searched: the newest 1 memories)",
        ]
        assert len(memory.search("elm", user_id="ann", limit=1).reasons) == 1
