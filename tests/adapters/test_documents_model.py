"""The index of documents beside a model of dicts, over random histories of several cells."""

import random
from collections.abc import Callable
from typing import Any

import pytest

import hyrecall as hr
from hyrecall.adapters.documents import Document, DocumentIndex

CELLS = ("ann", "bob")
WORDS = ("tea", "milk", "hot", "cold", "green")
N_STEPS, N_HISTORIES = 25, 12


class Model:
    """Documents by cell and id, in the order of writing: the definition of what an index holds."""

    def __init__(self) -> None:
        self.cells: dict[str, dict[str, Document]] = {cell: {} for cell in CELLS}
        self.written: list[tuple[str, str]] = []  # cell and id, the last written last

    def write(self, documents: list[Document], *, cell: str, on_duplicate: str) -> list[str]:
        held = self.cells[cell]
        names = [str(one.id) for one in documents]
        if on_duplicate == "fail" and (len({*names}) < len(names) or {*names} & {*held}):
            raise hr.KeyConflictError
        written = []
        for name, one in zip(names, documents, strict=True):
            if on_duplicate == "skip" and name in held:
                continue
            if name in held:
                self.written.remove((cell, name))
            held[name] = one
            self.written.append((cell, name))
            written.append(name)
        return written

    def delete(self, ids: list[str] | None, *, cell: str, year: int | None) -> int:
        held = self.cells[cell]
        gone = [
            name
            for name, one in held.items()
            if (ids is None or name in ids) and (year is None or one.metadata["year"] == year)
        ]
        for name in gone:
            del held[name]
            self.written.remove((cell, name))
        return len(gone)

    def find(self, scope: tuple[str, ...], year: int | None) -> list[tuple[str, str, str | None]]:
        rows = [(cell, name, self.cells[cell][name]) for cell, name in self.written]
        return [
            (cell, name, one.text)
            for cell, name, one in rows
            if cell in scope and (year is None or one.metadata["year"] == year)
        ]


def fresh(model: Model) -> DocumentIndex:
    """Return a new index of the model's documents, written one by one in their order."""
    made = DocumentIndex(attributes={"year": int}, dim=2)
    for cell, name in model.written:
        made.write([model.cells[cell][name]], cell=cell)
    return made


def recalls(documents: DocumentIndex) -> list[Any]:
    """Return replies to several queries in every scope, without the vectors."""
    scopes: list[Any] = [*CELLS, hr.Scope(CELLS), hr.Scope([])]
    queries: list[dict[str, Any]] = [
        {"text": "hot tea"},
        {"text": "green milk", "vector": (1, 0.5)},
        {"vector": (0.2, 1), "filter": hr.Filter(year=(2, None))},
        {"text": "cold", "vector": (1, 1), "fusion": hr.RRF(), "shaping": hr.MMR(0.5)},
    ]
    return [documents.recall(scope=scope, **query) for scope in scopes for query in queries]


def random_documents(random_: random.Random) -> list[Document]:
    return [
        Document(
            id=str(random_.randrange(6)),
            text=" ".join(random_.choices(WORDS, k=random_.randrange(4))) or None,
            vector=(random_.random() + 0.1, random_.random()) if random_.random() < 0.6 else None,
            metadata={"year": random_.randrange(4)},
        )
        for _ in range(random_.randrange(4))
    ]


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except hr.KeyConflictError:
        return "a conflict"


def check_history(make: Callable[[], DocumentIndex], seed: int) -> None:
    """Do the same to an index and to the model, and compare every reply."""
    random_ = random.Random(seed)
    documents, model = make(), Model()
    for _ in range(N_STEPS):
        cell, year = random_.choice(CELLS), random_.choice([None, 1])
        if random_.random() < 0.6:
            how = random_.choice(["overwrite", "skip", "fail"])
            given = random_documents(random_)
            options: Any = {"cell": cell, "on_duplicate": how}
            done = outcome(lambda g=given, o=options: documents.write(g, **o))
            assert done == outcome(lambda g=given, o=options: model.write(g, **o))
        else:
            ids = random_.choice([None, [str(one) for one in random_.sample(range(6), 2)]])
            where = None if year is None else hr.Filter(year=year)
            everything = ids is None and where is None
            done = documents.delete(ids, cell=cell, filter=where, everything=everything)
            assert done == model.delete(ids, cell=cell, year=year)
        for scope in ((cell,), CELLS):
            narrowed = None if year is None else hr.Filter(year=year)
            found = documents.find(scope=hr.Scope(scope), filter=narrowed)
            expected = model.find(scope, year)
            assert [(*one.cell, one.id, one.text) for one in found] == expected
            assert documents.count(scope=hr.Scope(scope), filter=narrowed) == len(expected)
    assert recalls(documents) == recalls(fresh(model))


@pytest.mark.plain_cases(5)
@pytest.mark.parametrize("seed", range(N_HISTORIES))
def test_any_history_gives_the_documents_of_the_model_and_the_replies_of_a_new_index(
    seed: int,
) -> None:
    check_history(lambda: DocumentIndex(attributes={"year": int}), seed)


class SkipOverwrites(DocumentIndex):
    """Planted: what should be skipped is written."""

    def write(self, documents: Any, *, cell: Any, on_duplicate: Any = "overwrite") -> list[str]:
        how: Any = "overwrite" if on_duplicate == "skip" else on_duplicate
        return super().write(documents, cell=cell, on_duplicate=how)


class FirstOfABatchStays(DocumentIndex):
    """Planted: of an id that comes twice the first document stays."""

    def write(self, documents: Any, *, cell: Any, on_duplicate: Any = "overwrite") -> list[str]:
        given = list(documents)
        if on_duplicate == "overwrite":
            given = list({one.id: one for one in reversed(given)}.values())[::-1]
        return super().write(given, cell=cell, on_duplicate=on_duplicate)


class DeletesEverywhere(DocumentIndex):
    """Planted: a delete by id reaches the other cell."""

    def delete(self, ids: Any = None, *, cell: Any, **options: Any) -> int:
        if ids is not None:
            for other in set(CELLS) - {cell}:
                super().delete(ids, cell=other, **options)
        return super().delete(ids, cell=cell, **options)


class KeepsItsPlace(DocumentIndex):
    """Planted: the order is that of ids, not of writing."""

    def find(self, **options: Any) -> list[Document]:
        return sorted(super().find(**options), key=lambda one: (one.id or "", one.cell))


class ForgetsVectors(DocumentIndex):
    """Planted: a document that is overwritten loses its vector."""

    def write(self, documents: Any, *, cell: Any, on_duplicate: Any = "overwrite") -> list[str]:
        given = [
            Document(id=one.id, text=one.text, metadata=one.metadata)
            if self.get([one.id], scope=cell)
            else one
            for one in documents
        ]
        return super().write(given, cell=cell, on_duplicate=on_duplicate)


PLANTED = [SkipOverwrites, FirstOfABatchStays, DeletesEverywhere, KeepsItsPlace, ForgetsVectors]


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_caught(bug: type[DocumentIndex]) -> None:
    with pytest.raises(AssertionError):  # noqa: PT012
        for seed in range(N_HISTORIES):
            check_history(lambda: bug(attributes={"year": int}), seed)


def test_what_another_cell_writes_changes_no_byte() -> None:
    alone, beside = (DocumentIndex(attributes={"year": int}) for _ in range(2))
    for documents in (alone, beside):
        documents.write([Document(id="a", text="hot tea", metadata={"year": 1})], cell="ann")
        documents.write([Document(id="b", text="tea tea", metadata={"year": 3})], cell="ann")
    other = [Document(id=str(i), text="hot hot milk", vector=(i, 1)) for i in range(20)]
    beside.write(other, cell="bob")  # with the first vector of the index
    queries: list[dict[str, Any]] = [
        {"text": "hot tea"},
        {"text": "hot tea", "vector": (1, 0)},
        {"text": "hot tea", "vector": (1, 0), "fusion": hr.RRF(alpha=0.5)},
        {"vector": (1, 0), "shaping": hr.MMR(0.5)},
    ]
    for query in queries:
        assert beside.recall(scope="ann", **query) == alone.recall(scope="ann", **query)
    assert beside.find(scope="ann") == alone.find(scope="ann")
