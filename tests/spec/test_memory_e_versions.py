"""Part E of the acceptance rows: versions, tombstones, and what a row holds."""

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from hyrecall import recipes
from hyrecall.embed import HashEmbedder
from hyrecall.errors import OptionError
from hyrecall.memory import MemorySync
from memory.stores import DIM, NOON, episode, folder, open_store

# A blank query lists what there is; honeycomb answers it with nothing.
LISTING = recipes.loom


def hits(memory: MemorySync, query: str, **options: Any) -> list[str]:
    return [one.episode.id for one in memory.search(query, user_id="alice", **options)]


@pytest.mark.parametrize("seed", range(4))
def test_E39_versions_in_any_order_are_as_if_only_the_highest_were_there(
    tmp_path: Path, seed: int
) -> None:
    texts = ["alpha disk disk", "beta disk", "gamma tape"]
    lines = [
        json.dumps({"version": {
            "id": "e0", "user_id": "alice", "version": at + 1, "recorded_at": NOON.isoformat(),
            "content": {"output": text, "occurred_at": NOON.isoformat()},
        }})
        for at, text in enumerate(texts)
    ]  # fmt: skip
    random.Random(seed).shuffle(lines)
    others = [episode(at, f"disk {at}") for at in range(1, 4)]
    with (
        open_store(recipe=LISTING) as memory,
        open_store(recipe=LISTING) as only,
    ):
        memory.remember_batch(others)
        for at, line in enumerate(lines):  # each is followed before the next one comes
            file = tmp_path / f"{at}.jsonl"
            file.write_text('{"format": 2}\n' + line + "\n")
            assert memory.import_(file).imported == 1
            hits(memory, "disk")
        only.remember_batch(others)
        only.remember(episode(0, texts[-1], occurred_at=NOON))
        memory.reembed(user_id="alice")
        for query in ("disk", "tape", "alpha beta gamma", ""):
            found, wish = (m.search(query, user_id="alice") for m in (memory, only))
            assert [(one.episode, one.score, one.bm25_score) for one in found] == [
                (one.episode, one.score, one.bm25_score) for one in wish
            ]


def test_E40_changes_append_and_say_why() -> None:
    with open_store(recipe=LISTING) as memory:
        memory.remember(episode(0, "one"))
        memory.update("e0", output="two", user_id="alice", reason="corrected")
        memory.forget("e0", user_id="alice", reason="asked")
        said = [
            (one.version, one.status, one.reason, one.episode and one.episode.output)
            for one in memory.history("e0", user_id="alice")
        ]
        assert said == [
            (1, "live", None, "one"),
            (2, "live", "corrected", "two"),
            (3, "deleted", "asked", None),
        ]  # fmt: skip
        assert memory.history("e0", user_id="bob") == []
        view = memory.agent("alice", org="acme", workspace="w")
        view.remember("mine", id="m")
        for change in (view.update, view.forget):
            with pytest.raises(TypeError, match="reason"):
                change("m")
            with pytest.raises(OptionError, match="reason: expected 1 to 512 bytes"):
                change("m", reason=" ")
        view.forget("m", reason="done with")
        last = memory.history("m", user_id="alice", org="acme", workspace="w")[-1]
        assert (last.status, last.reason) == ("deleted", "done with")


def test_E40_the_history_of_what_moved_is_of_where_it_is() -> None:
    with open_store(recipe=LISTING) as memory:
        memory.remember(episode(0, "one"))

        def said() -> list[tuple[int, str, str | None]]:
            return [
                (one.version, one.status, one.reason)
                for one in memory.history("e0", user_id="alice")
            ]

        memory.update("e0", user_id="alice", visibility="global", reason="for all")
        kept = memory.get("e0", user_id="alice")
        assert kept is not None
        assert kept.visibility == "global"
        assert said() == [(1, "live", None)]
        memory.update("e0", user_id="alice", visibility="private", reason="for me")
        assert said() == [(1, "live", None), (2, "deleted", "for all"), (3, "live", None)]
        memory.update("e0", user_id="alice", visibility="global", reason="for all again")
        memory.forget("e0", user_id="alice", reason="asked")
        assert said()[-1] == (4, "deleted", "asked")  # and not that it was moved
        # Where both are there, the private one is meant, as by get.
        memory.remember(episode(0, "two"))
        memory.remember(episode(0, "three", visibility="global"))
        assert said()[-1] == (5, "live", None)
        assert memory.history("e0", user_id="alice")[-1].episode == episode(0, "two")


def files_with(held: bytes, path: Path) -> set[str]:
    """Names of all files of a store, at any depth, that contain these bytes."""
    files = (one for one in path.rglob("*") if one.is_file())
    return {one.relative_to(path).as_posix() for one in files if held in one.read_bytes()}


def test_E52_a_vector_is_a_column_beside_its_text_and_both_are_erased_from_every_file() -> None:
    path = folder()
    with open_store(path, recipe=recipes.honeycomb) as memory:
        texts = [f"disk number{at}th" for at in range(3)]
        memory.remember_batch([episode(at, text) for at, text in enumerate(texts)])
        (vector,) = HashEmbedder(dim=DIM).embed(texts[1:2])
        both = vector.astype("<f4").tobytes(), b"number1th"
        database = memory._store.database
        with database.reading() as c:
            select = "SELECT cell, output, embedding, embedding_model FROM versions WHERE id = 'e1'"
            assert c.execute(select).get == (1, texts[1], both[0], "hash-8")
            holds = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'index')"
            tables = [name for (name,) in c.execute(holds)]
        assert not [name for name in tables if "vec" in name or "embed" in name]

        # Control: before the erase, the database and the saved index hold both.
        assert memory.snapshot()
        for held, part in zip(both, ("vectors-0", "rows"), strict=True):
            found = files_with(held, path)
            assert any(one.startswith("memory.db") for one in found)
            assert any(re.fullmatch(rf"index/nodes/.+-{part}\.arrow", one) for one in found)

        assert memory.forget("e1", user_id="alice", erase=True) == 1
        with database.reading() as c:
            assert [row for (row,) in c.execute("SELECT id FROM versions ORDER BY id")] == [
                "e0", "e2",
            ]  # fmt: skip
        assert [files_with(held, path) for held in both] == [set(), set()]
    assert [files_with(held, path) for held in both] == [set(), set()]
    assert files_with(b"number2th", path)  # the other rows are still there
