"""Part D of the acceptance rows: vectors for what was kept without."""

from collections.abc import Iterator

import pytest

from embed.stub_server import StubServer, serving
from hyrecall import recipes
from hyrecall.embed import HashEmbedder
from hyrecall.errors import OptionError
from hyrecall.memory import EVERYONE, MemorySync
from memory.stores import FixedEmbedder, folder


@pytest.fixture
def server() -> Iterator[StubServer]:
    with serving() as one:
        yield one


def models(memory: MemorySync) -> dict[str, str | None]:
    with memory._store.database.reading() as c:
        return dict(c.execute("SELECT id, embedding_model FROM versions ORDER BY row"))


def test_D15_what_has_no_vector_gets_one(server: StubServer) -> None:
    path = folder()
    with MemorySync.open(path, embedder=None, recipe=recipes.l0) as memory:
        for n in range(3):
            memory.remember(f"tea {n}", id=f"e{n}", user_id="ana")
    with MemorySync.open(path, embedder=server.url("ok"), recipe=recipes.l0) as memory:
        memory.remember("tea 3", id="e3", user_id="ana")
        server.requests.clear()
        done = memory.reembed(user_id="ana")
        assert (done.scanned, done.embedded, done.skipped, done.errors) == (4, 3, 1, ())
        assert [request.texts for request in server.requests] == [["tea 0", "tea 1", "tea 2"]]
        matches = memory.search("tea 1", user_id="ana")  # the index has followed
        assert {one.vector_score is None for one in matches} == {False}
        server.requests.clear()
        again = memory.reembed(user_id="ana")
        assert (again.scanned, again.embedded, again.skipped, again.errors) == (4, 0, 4, ())
        assert server.requests == []


def test_D16_force_takes_all_of_a_scope() -> None:
    path = folder()
    with MemorySync.open(path, embedder=HashEmbedder(8), recipe=recipes.l0) as memory:
        for user in ("ana", "bob"):
            memory.remember(f"tea of {user}", id=user, user_id=user)
    with MemorySync.open(path, embedder=HashEmbedder(16), recipe=recipes.l0) as memory:
        assert memory.reembed(user_id="ana").embedded == 1  # its vector is of another model
        assert memory.reembed(user_id="ana").embedded == 0
        done = memory.reembed(user_id="ana", force=True)
        assert (done.scanned, done.embedded) == (1, 1)
        assert models(memory) == {"ana": "hash-16", "bob": "hash-8"}
        assert memory.reembed(user_id=EVERYONE, force=True).embedded == 2
        assert models(memory) == {"ana": "hash-16", "bob": "hash-16"}
        (match,) = memory.search("tea of bob", user_id="bob")
        assert match.vector_score == pytest.approx(1)


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
        assert [key for key, model in models(memory).items() if model is None] == ["e2"]


def test_D18_without_an_embedder_it_refuses() -> None:
    for embedder in (None, "off"):
        with MemorySync.open(folder(), embedder=embedder, recipe=recipes.l0) as memory:
            memory.remember("tea", id="e0", user_id="ana")
            before = memory.export()
            with pytest.raises(OptionError, match="embedder: expected one: set LTM_EMBEDDING_URL"):
                memory.reembed(user_id="ana")
            assert memory.export() == before
