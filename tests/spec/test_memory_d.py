"""Part D of the acceptance rows, through a store: notes, their vectors, archives, snippets."""

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyrecall import recipes
from hyrecall.embed import HashEmbedder
from hyrecall.errors import KeyConflictError, NotFoundError, OptionError
from hyrecall.memory import EVERYONE, DegradedReason, MemorySync, Notes
from memory.stores import FixedEmbedder, episode, folder, open_store
from seams import Follower, IndexNotReadyError, Ready, choose, snippet

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
