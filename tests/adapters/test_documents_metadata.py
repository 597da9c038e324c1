"""Metadata of documents: how deep it may be, and updates that lose no field and no vector."""

import threading
from datetime import date, datetime
from typing import Any

import pytest

import hyrecall as hr
from adapters.test_documents import filled, ids
from hyrecall.adapters.documents import Document, DocumentIndex


def test_updates_by_threads_lose_no_field_and_no_vector() -> None:
    documents = filled(keep_vectors=True)

    def update(thread: int) -> None:
        for i in range(10):
            documents.update({f"{thread}-{i}": i}, cell="ann", filter=hr.Filter(id=["a", "b"]))

    threads = [threading.Thread(target=update, args=(one,)) for one in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    changed = documents.get(["a", "b"], scope="ann")
    assert [len(one.metadata) for one in changed] == [42, 41]
    assert [list(one.vector) for one in changed] == [[1, 0], [0, 1]]  # type: ignore[arg-type]
    assert documents.get(["a"], scope="bob")[0].metadata == {}
    assert ids(documents.find(scope="ann"))[0] == "c"


def test_an_update_that_would_lose_vectors_is_refused() -> None:
    documents = filled()
    with pytest.raises(hr.OptionError, match=r"^keep_vectors: expected True to update documents"):
        documents.update({"x": 1}, cell="ann", filter=hr.Filter(id="a"))
    assert documents.update({"x": 1}, cell="ann", filter=hr.Filter(id="none")) == 0
    texts = DocumentIndex()
    texts.write([Document(id="a", text="tea")], cell="ann")
    assert texts.update({"x": 1}, cell="ann", filter=hr.Filter(id="a")) == 1
    assert texts.find(scope="ann")[0].metadata == {"x": 1}


@pytest.mark.parametrize(("levels", "is_refused"), [(63, False), (64, True), (5000, True)])
def test_metadata_of_too_many_levels_is_refused(levels: int, is_refused: bool) -> None:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    documents = DocumentIndex()
    if not is_refused:
        documents.write([Document(id="a", text="x", metadata={"x": value})], cell="ann")
        assert documents.find(scope="ann")[0].metadata == {"x": value}
        return
    with pytest.raises(hr.OptionError, match="expected at most 64 levels, got more"):
        documents.write([Document(text="x", metadata={"x": value})], cell="ann")
    assert len(documents) == 0


@pytest.mark.parametrize("value", [datetime(2026, 3, 5), date(2026, 3, 5)])
def test_a_time_in_metadata_is_refused_with_the_call_that_writes_it(value: Any) -> None:
    documents = DocumentIndex(attributes={"at": type(value)})
    told = r"metadata\['at'\]: expected a JSON value .*; write it as value\.isoformat\(\)"
    with pytest.raises(hr.DTypeError, match=told):
        documents.write([Document(text="x", metadata={"at": value})], cell="ann")
    written = Document(text="x", metadata={"at": value.isoformat()})
    assert documents.write([written], cell="ann")
    assert documents.count(scope="ann", filter=hr.Filter(at=documents.value("at", value))) == 1


@pytest.mark.parametrize(
    ("value", "kind"),
    [(1.5, "float"), (True, "bool"), (7, "int"), ("x", "str"), (None, "str"), (date.max, "date")],
)
def test_an_undeclared_attribute_is_refused_with_the_type_of_the_value(
    value: Any, kind: str
) -> None:
    with pytest.raises(hr.OptionError, match=rf"declare it: attributes=\{{'a': {kind}\}}"):
        DocumentIndex().value("a", value)
