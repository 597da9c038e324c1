"""Updates of the metadata of documents: no field, vector or document of another cell is lost."""

import threading

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
