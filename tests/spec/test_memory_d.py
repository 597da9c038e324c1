"""Part D of the acceptance rows (notes), through a store: texts, vectors, files, archives."""

from __future__ import annotations

import json
import random
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyrecall import recipes
from hyrecall.embed import HashEmbedder
from hyrecall.errors import KeyConflictError, NotFoundError, OptionError
from hyrecall.memory import EVERYONE, DegradedReason, MemorySync
from hyrecall.systems.l0 import Notes
from memory.rows_of_tests import NOW, new
from memory.stores import NOON, BrokenEmbedder, FixedEmbedder, episode, folder, open_store
from seams import (
    MIGRATIONS,
    Database,
    Follower,
    IndexNotReadyError,
    Migration,
    Ready,
    choose,
    decode_vector,
    remember,
    schema,
    snippet,
    take_sequence,
)
from seams import memory_DATABASE as DATABASE
from seams import memory_FORMAT as FORMAT

ODD = [
    '"',
    "*",
    "AND",
    "OR NOT",
    "NEAR(",
    ":",
    "^",
    "\0",
    "🐘",
    "%",
    "_",
    "(",
    "'; DROP",
    "a-b",
    "\\",
]


NOTES = (
    "100% of a_b, said NEAR(the) ^end",
    "20 of axb",
    "sand and sea",
    'he said "no (really)" for $5',
)
TABLE: dict[str, set[int]] = {
    "100%": {0}, "a_b": {0}, "a-b": {0}, "axb": {1}, "AND": {2}, "NEAR(": {0}, "NEAR(the)": {0},
    "^end": {0}, "100:of": {0}, "of AND a": set(), "OR NOT": set(), "NOT of": set(),
    '"no (really)"': {3}, "$5": {3}, "ro*": set(), "sa": {0, 2, 3},
    "sa*": set(), "'; DROP": set(),
    "%": set(), "_": set(), "(": set(), '"': set(), "$": set(), "*": set(), "\\": set(),
    "\0": set(), ":": set(), "🐘": set(),
}  # fmt: skip


def words_of(text: str) -> list[str]:
    return re.findall("[a-z0-9]+", text.lower())


def holds(words: list[str], asked: str) -> bool:
    """A plain word begins one of a note; one with marks stands there whole, its parts in a row."""
    parts = words_of(asked)
    if asked.isalnum():
        return any(word.startswith(parts[0]) for word in words)
    return any(words[at : at + len(parts)] == parts for at in range(len(words)))


def by_definition(query: str) -> set[int]:
    """The notes that hold every word of the query; none for a query without words."""
    wanted = [asked for asked in query.split() if words_of(asked)]
    return {
        at
        for at, text in enumerate(NOTES)
        if wanted and all(holds(words_of(text), asked) for asked in wanted)
    }


@pytest.fixture
def punctuated() -> Iterator[MemorySync]:
    with open_store(recipe=recipes.l0, embedder=None) as memory:
        for at, text in enumerate(NOTES):
            memory.remember(episode(at, text))
        yield memory


def found(memory: MemorySync, query: str) -> set[int]:
    return {int(match.episode.id[1:]) for match in memory.search(query, user_id="alice")}


def test_D03_no_punctuation_is_a_mistake(punctuated: MemorySync) -> None:
    assert {query: found(punctuated, query) for query in TABLE} == TABLE
    assert {query: by_definition(query) for query in TABLE} == TABLE
    rng = random.Random(3)
    n_found = 0
    for _ in range(300):
        query = " ".join(rng.choices([*ODD, "100", "of", "sa"], k=rng.randrange(1, 4)))
        wish = by_definition(query) if query.strip() else set(range(len(NOTES)))
        assert found(punctuated, query) == wish, query
        n_found += bool(wish)
    assert 50 < n_found < 250


@pytest.mark.parametrize(
    ("query", "wish"),
    [("%", {0}), ("_", {0}), ("(", {0, 3}), ('"', {3}), ("$", {3}), ("AND", {2}), ("100%", {0}),
     ("a_b", {0}), ("\\", set()), ("*", set())],
)  # fmt: skip
def test_D03_without_an_index_marks_are_literal(
    punctuated: MemorySync, monkeypatch: pytest.MonkeyPatch, query: str, wish: set[int]
) -> None:
    def no_index(*args: object, **options: object) -> Ready:
        raise IndexNotReadyError(DegradedReason.INDEX_UNAVAILABLE, "planted")

    monkeypatch.setattr(Follower, "ready", no_index)
    matches = punctuated.search(query, user_id="alice")
    assert matches.lexical_mode == "substring"
    assert {int(match.episode.id[1:]) for match in matches} == wish
    assert {match.score for match in matches} <= {0.0}


@pytest.fixture
def notes_path() -> Path:
    made = folder()
    with open_store(made, recipe=recipes.l0, embedder=None) as memory:
        notes = Notes(memory, scopes=EVERYONE)
        notes.save("deploy", "Deploys run on Friday at noon", tags=["ops"])
        notes.save("deploy", "Deploys of the project run on Monday", scope="project")
        notes.save("tea", "Green tea is in the kitchen")
    return made


def test_D27_scopes(notes_path: Path) -> None:
    with open_store(notes_path, recipe=recipes.l0, embedder=None) as memory:
        notes = Notes(memory, scopes=EVERYONE)
        every = {("deploy", "user"), ("deploy", "project"), ("tea", "user")}
        assert {(note.key, note.scope) for note in notes.list()} == every
        assert {(hit.key, hit.scope) for hit in notes.search("run")} == {
            ("deploy", "user"), ("deploy", "project"),
        }  # fmt: skip
        assert {hit.scope for hit in notes.search("run", scope="project")} == {"project"}
        got = notes.get("deploy")
        assert got is not None
        assert got.value == "Deploys run on Friday at noon"
        assert notes.get("tea", scope="project") is None
        own = Notes(memory)
        assert {note.scope for note in own.list()} == {"user"}
        assert {hit.scope for hit in own.search("run")} == {"user"}
        notes.save("deploy", "Deploys run on Tuesday", tags=["new"])
        again = notes.get("deploy")
        assert again is not None
        assert (again.value, again.tags) == ("Deploys run on Tuesday", ("new",))
        assert len(memory.history("deploy", user_id="user")) == 2


def test_D02_D27_prefixes_match_and_nothing_matches_nothing(notes_path: Path) -> None:
    with open_store(notes_path, recipe=recipes.l0, embedder=None) as memory:
        notes = Notes(memory, scopes=["user", "project"])
        assert {hit.key for hit in notes.search("fri")} == {"deploy"}
        assert {hit.key for hit in notes.search("kitch tea")} == {"tea"}
        for nothing in ("kubernetes", "friday tea", "", "  "):
            assert notes.search(nothing) == []


def test_D27_notes_are_l0_or_are_refused() -> None:
    with open_store(embedder=None, recipe=recipes.loom) as memory:  # the one to refuse
        wish = "recipe: expected a recipe that shares an index with loom, got l0"
        with pytest.raises(OptionError, match=wish):
            Notes(memory)


def test_D27_several_scopes_are_ranked_as_one_and_pins_break_exact_ties() -> None:
    vectors = {"ask": [1.0, 0.0], "near": [1.0, 0.0], "far": [-1.0, 0.0]}
    with open_store(recipe=recipes.l0, embedder=FixedEmbedder(vectors)) as memory:
        notes = Notes(memory, scopes=["one", "two"])
        notes.save("far", "far", scope="one")
        notes.save("near", "near", scope="two")
        hits = notes.search("ask")
        # A cosine of -1 is rank 2 of one list, not rank 1 of its scope's.
        assert [(hit.key, hit.score) for hit in hits] == [("near", 1 / 61), ("far", 1 / 62)]
        # Different scores: a pin changes nothing.
        memory.pin("far", user_id="one")
        assert [hit.key for hit in notes.search("ask")] == ["near", "far"]
    with open_store(recipe=recipes.l0, embedder=None) as memory:
        notes = Notes(memory, scopes=["one", "two", "three"])
        for scope in ("one", "two", "three"):
            notes.save("same", "tea", scope=scope)
        memory.pin("same", user_id="two")
        hits = notes.search("tea")
        assert len({hit.score for hit in hits}) == 1
        assert hits[0].scope == "two"


class Packaged(HashEmbedder):
    """Stands for the packaged model."""

    @staticmethod
    def available() -> bool:
        return True


def test_D01_D18_l0_has_no_vectors_until_an_embedder_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HYRECALL_CONFIG", str(tmp_path / "settings.json"))
    for name in (*choose.URL, *choose.DISABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(choose, "StaticEmbedder", Packaged)  # whatever is installed
    with MemorySync.open(folder(), recipe=recipes.honeycomb) as memory:  # semantic by default
        assert memory.remember("tea", user_id="alice").embedded
    with MemorySync.open(folder(), recipe=recipes.l0) as memory:
        kept = memory.remember("tea", user_id="alice")
        assert (kept.embedded, kept.reasons) == (False, ())
        matches = memory.search("tea", user_id="alice")
        assert len(matches) == 1
        assert (matches.degraded, matches[0].vector_score) == (False, None)
        with pytest.raises(OptionError, match=r'LTM_EMBEDDING_URL, or name .*"static"'):
            memory.reembed(user_id="alice")  # installing the model alone would not help


def test_D28_what_is_superseded_is_gone_and_kept(notes_path: Path) -> None:
    with open_store(notes_path, recipe=recipes.l0, embedder=None) as memory:
        notes = Notes(memory)
        with pytest.raises(KeyConflictError):
            notes.supersede("deploy", "tea", "never")
        assert {note.key for note in notes.list()} == {"deploy", "tea"}
        with pytest.raises(NotFoundError):
            notes.supersede("none", "any", "never")
        assert notes.get("any") is None
        notes.supersede("deploy", "deploys", "Deploys run all day", reason="faster now")
        assert {note.key for note in notes.list()} == {"deploys", "tea"}
        assert [hit.key for hit in notes.search("run")] == ["deploys"]
        assert notes.search("friday") == [] or notes.search("friday")[0].key != "deploy"
        last = memory.history("deploy", user_id="user")[-1]
        assert (last.status, last.successor, last.reason) == (
            "superseded", "deploys", "faster now",
        )  # fmt: skip


def test_D29_hits_are_compact(notes_path: Path) -> None:
    with open_store(notes_path, recipe=recipes.l0, embedder=None) as memory:
        notes = Notes(memory)
        (hit,) = notes.search("friday")[:1]
        assert hit.snippet == "Deploys run on <<Friday>> at noon"
        assert not hasattr(hit, "value")
        note = notes.expand(hit)
        assert note is not None
        assert note.value == "Deploys run on Friday at noon"
        notes.delete("deploy")
        assert notes.expand(hit) is None
    long = " ".join(f"w{at}" for at in range(100))
    assert snippet(long, "w50") == "… w44 w45 w46 w47 w48 w49 <<w50>> w51 w52 w53 w54 w55 …"
    assert snippet("", "tea") == ""
    assert snippet("!?", "tea") == ""


# ---- what a save writes, byte for byte, and what it leaves alone ----


def columns(memory: MemorySync, names: str, key: str = "e0") -> Any:
    select = f"SELECT {names} FROM versions JOIN documents USING (cell, id, version) WHERE id = ?"
    with memory._store.database.reading() as connection:
        return connection.execute(select, (key,)).get


def put_blob(memory: MemorySync, blob: bytes, key: str = "e0") -> None:
    with memory._store.database.transaction() as connection:
        change = "UPDATE versions SET embedding = ?, embedding_model = 'fixed' WHERE id = ?"
        connection.execute(change, (blob, key))
        change = "UPDATE documents SET changed = ? WHERE id = ?"
        connection.execute(change, (take_sequence(connection), key))


def test_D04_a_save_embeds_once_into_the_row_of_its_text() -> None:
    embedder = FixedEmbedder({"disk": [1.0, 0.5]})
    with open_store(embedder=embedder, recipe=recipes.l0) as memory:
        kept = memory.remember(episode(0, "disk"))
        assert kept.embedded
        assert embedder.calls == [["disk"]]
        assert columns(memory, "output, embedding_model") == ("disk", "fixed")
        memory.remember_batch([episode(at, f"text {at}") for at in range(1, 9)])
        assert len(embedder.calls) == 2
        memory.update("e0", kind="semantic", user_id="alice")
        assert len(embedder.calls) == 2, "the same text has the same vector"
        memory.update("e1", input="asked", text="again", user_id="alice")
        assert embedder.calls[2:] == [["asked\nagain"]]
        assert columns(memory, "embedding") == struct.pack("<2f", 1.0, 0.5)


def test_D19_a_vector_is_little_endian_float32_to_any_reader() -> None:
    """Another program's SQLite, in a process of its own, reads what ours wrote."""
    path, row = folder(), [1.5, -0.0, 1e18, 1e-45]
    with open_store(
        path, embedder=FixedEmbedder({"disk": row}, dim=4), recipe=recipes.l0
    ) as memory:
        memory.remember(episode(0, "disk"))
    program = (
        "import sqlite3, struct, sys, json\n"
        "c = sqlite3.connect('file:' + sys.argv[1] + '?mode=ro', uri=True)\n"
        "blob, = c.execute('SELECT embedding FROM versions').fetchone()\n"
        "print(json.dumps([blob.hex(), list(struct.unpack('<%df' % (len(blob) // 4), blob))]))\n"
    )
    command = [sys.executable, "-c", program, str(path / "memory.db")]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    blob, values = json.loads(answer)
    assert bytes.fromhex(blob) == struct.pack("<4f", *row)
    assert values == np.array(row, np.float32).tolist()


@pytest.mark.parametrize("size", [3, 5])
def test_D21_bytes_that_are_no_vector_are_passed_over_and_refused_by_name(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hyrecall.memory.derived.backfill.FIRST_SECONDS", 3600.0)
    embedder = FixedEmbedder({"disk": [1.0, 0.0], "tape": [0.9, 0.1]})
    path = folder()
    with open_store(path, embedder=embedder, recipe=recipes.l0) as memory:
        memory.remember_batch([episode(0, "disk"), episode(1, "tape")])
        put_blob(memory, b"x" * size)
    with pytest.raises(ValueError, match="blob: expected a multiple of 4 bytes"):
        decode_vector(b"x" * size)
    for _ in range(2):
        with open_store(path, embedder=embedder, recipe=recipes.l0) as memory:
            near = memory.search("disk", user_id="alice", alpha=1.0)
            assert [(one.episode.id, one.vector_score is None) for one in near][:1] == [
                ("e1", False)
            ]
            words = memory.search("disk", user_id="alice", alpha=0.0)
            assert words[0].episode.id == "e0"
            bad = [one.name for one in memory.doctor().checks if not one.ok]
            assert bad == ["vectors", "embeddings"]
        for file in (path / "index").rglob("*"):
            if file.is_file():
                file.unlink()  # and the same with an index made anew


def test_D22_a_vector_that_comes_later_changes_no_other_column() -> None:
    path = folder()
    with open_store(path, embedder="off", recipe=recipes.l0) as memory:
        memory.remember(episode(0, "disk", tags=("t",), metadata={"a": 1}))
        before = memory.get("e0", user_id="alice")
        row = columns(memory, "version, recorded_at, occurred_at, tags, metadata, output")
        assert columns(memory, "embedding, embedding_model") == (None, None)
    with open_store(
        path, embedder=FixedEmbedder({"disk": [1.0, 0.0]}), recipe=recipes.l0
    ) as memory:
        assert memory.reembed(user_id="alice").embedded == 1
        assert memory.get("e0", user_id="alice") == before
        same = columns(memory, "version, recorded_at, occurred_at, tags, metadata, output")
        assert same == row
        assert columns(memory, "embedding") == struct.pack("<2f", 1.0, 0.0)
        assert memory.search("disk", user_id="alice", alpha=1.0)[0].vector_score == 1.0


def test_D23_another_text_whose_embedding_fails_has_no_vector() -> None:
    path = folder()
    with open_store(
        path, embedder=FixedEmbedder({"disk": [1.0] + [0.0] * 7}, dim=8), recipe=recipes.l0
    ) as memory:
        memory.remember(episode(0, "disk"))
    with open_store(path, embedder=BrokenEmbedder(), recipe=recipes.l0) as memory:
        changed = memory.update("e0", text="tape", user_id="alice")
        assert not changed.embedded
        assert [str(one.reason) for one in changed.reasons] == ["embed_unavailable"]
        assert columns(memory, "output, embedding, embedding_model") == ("tape", None, None)
        (found,) = memory.search("tape", user_id="alice")
        assert (found.episode.text, found.vector_score) == ("tape", None)


def test_D28_what_is_archived_is_in_no_list_and_no_arm(tmp_path: Path) -> None:
    lines = [
        {"version": {
            "id": f"e{at}", "user_id": "alice", "recorded_at": NOON.isoformat(), "status": status,
            "content": {"text": "old words", "occurred_at": NOON.isoformat()},
        }}
        for at, status in enumerate(["archived", "live"])
    ]  # fmt: skip
    file = tmp_path / "lines.jsonl"
    file.write_text("\n".join(json.dumps(one) for one in ({"format": 2}, *lines)))
    with open_store(recipe=recipes.l0) as memory:
        assert memory.import_(file).imported == 2
        memory.reembed(user_id="alice")
        assert [one.id for one in memory.list(user_id="alice")] == ["e1"]
        for alpha in (0.0, 1.0):
            found = memory.search("old words", user_id="alice", alpha=alpha)
            assert [one.episode.id for one in found] == ["e1"]


def test_D17_a_row_that_fails_is_named_and_the_others_are_kept() -> None:
    class Picky(FixedEmbedder):
        def embed(self, texts):  # type: ignore[no-untyped-def]
            if "tea 2" in texts:
                raise RuntimeError("about tea 2")
            return super().embed(texts)

    path = folder()
    with MemorySync.open(path, embedder=None, recipe=recipes.l0) as memory:
        for n in range(5):
            memory.remember(f"tea {n}", id=f"e{n}", user_id="ana")
    with MemorySync.open(
        path, embedder=Picky({f"tea {n}": (n, 1) for n in range(5)}), recipe=recipes.l0
    ) as memory:
        done = memory.reembed(user_id="ana")
        assert (done.scanned, done.embedded, done.skipped) == (5, 4, 0)
        assert [(one.id, one.error) for one in done.errors] == [("e2", "crashed: RuntimeError")]
    with MemorySync.open(path, embedder=None, recipe=recipes.l0) as memory:
        models = {f"e{n}": columns(memory, "embedding_model", f"e{n}") for n in range(5)}
        assert [key for key, model in models.items() if model is None] == ["e2"]


# ---- the index of a store follows it, and may be lost ----


@pytest.fixture
def path() -> Path:
    return folder()


@pytest.mark.parametrize("lost", ["index", "index/HEADER", "index/nodes", "index/nodes/MANIFEST"])
def test_D30_a_missing_index_is_built_again_at_open(path: Path, lost: str) -> None:
    with open_store(path, recipe=recipes.l0, embedder=None) as memory:
        memory.remember("the deploy key rotates monthly", id="keys", user_id="alice")
        memory.remember("the deploy key is in the safe", id="safe", user_id="alice")
        before = [(one.episode, one.score) for one in memory.search("deploy key", user_id="alice")]
        assert len(before) == 2
    gone = path / lost
    assert gone.exists()
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    with open_store(path, recipe=recipes.l0, embedder=None) as memory:
        matches = memory.search("deploy key", user_id="alice")
        assert [(one.episode, one.score) for one in matches] == before
        assert not matches.degraded
    assert gone.exists()  # it was saved when the store was closed


# ---- files of another program, and of another format of this one ----


NEWER = Migration(
    FORMAT + 1,
    "ALTER TABLE versions ADD COLUMN colour TEXT NOT NULL DEFAULT 'none'; "
    "ALTER TABLE documents ADD COLUMN shade INTEGER; CREATE TABLE palette (colour TEXT) STRICT",
    min_reader=FORMAT,
    min_writer=FORMAT,
)


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of the next format."""
    monkeypatch.setattr(schema, "MIGRATIONS", (*MIGRATIONS, NEWER))


def test_D24_a_store_of_this_format_gets_the_next_one_once(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = Database.open(tmp_path / "store")
    with store.transaction() as c:
        remember(c, [new("a", text="x", embedded=True)], NOW)
    store.close()
    request.getfixturevalue("newer")
    store = Database.open(tmp_path / "store")
    with store.reading() as c:
        assert c.pragma("user_version") == FORMAT + 1
        assert c.execute("SELECT output, colour FROM versions").get == ("x", "none")
    store.close()
    before = (tmp_path / "store" / DATABASE).read_bytes()
    Database.open(tmp_path / "store").close()
    assert (tmp_path / "store" / DATABASE).read_bytes() == before


def test_D25_an_older_program_reads_and_writes_a_newer_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program(*steps: Migration) -> MemorySync:
        monkeypatch.setattr(schema, "MIGRATIONS", (*MIGRATIONS, *steps))
        return MemorySync.open(tmp_path / "store", recipe=recipes.l0, embedder=None)

    def found(memory: MemorySync, query: str) -> list[str]:
        hits = memory.search(query, user_id="ana")
        assert not hits.degraded
        return sorted(one.episode.text for one in hits)

    with program(NEWER) as memory:
        for key, text in (("a", "green tea"), ("b", "black tea"), ("d", "plain water")):
            memory.remember(text, user_id="ana", id=key)
    with program() as memory:
        assert (found(memory, "tea"), found(memory, "water")) == (
            ["black tea", "green tea"], ["plain water"],
        )  # fmt: skip
        memory.update("b", user_id="ana", text="black coffee")
        memory.remember("herbal tea", user_id="ana", id="c")
        memory.forget("a", user_id="ana")
        assert found(memory, "tea") == ["herbal tea"]
    with program(NEWER) as memory:
        assert memory.doctor(full=True).ok
        assert (found(memory, "tea"), found(memory, "coffee")) == (["herbal tea"], ["black coffee"])
        assert [one.version for one in memory.history("b", user_id="ana")] == [1, 2]
        assert memory.get("a", user_id="ana") is None
    with Database.open(tmp_path / "store", read_only=True).reading() as c:
        assert c.pragma("user_version") == FORMAT + 1
        assert {row[0] for row in c.execute("SELECT colour FROM versions")} == {"none"}
