"""LangChain's retriever says the cell of each document, and warns when a reply is degraded."""

import pytest

pytest.importorskip("langchain_core", reason="LangChain is not installed: .ci/frameworks langchain")

import hyrecall as hr
from adapters.degraded_world import degraded_index
from hyrecall.adapters.degraded import DegradedWarning
from hyrecall.adapters.documents import Document, DocumentIndex
from hyrecall.adapters.langchain import HyrecallRetriever


def test_documents_of_several_cells_say_their_cell() -> None:
    documents = DocumentIndex(cell_columns=("tenant", "user"))
    cells = [("acme", "ann"), ("acme", "shared"), ("other", "ann")]
    for cell in cells:
        documents.write([Document(id="1", text="tea")], cell=cell)
    retriever = HyrecallRetriever(index=documents, scope=hr.Scope(cells[:2]))
    found = [one.metadata["hyrecall"]["cell"] for one in retriever.invoke("tea")]
    assert sorted(found) == [["acme", "ann"], ["acme", "shared"]]


def test_a_degraded_retrieval_warns() -> None:
    retriever = HyrecallRetriever(index=degraded_index(), scope="ann")
    with pytest.warns(DegradedWarning, match=r"vector did not run: crashed \(RuntimeError\)"):
        (found,) = retriever.invoke("tea")
    assert (found.id, found.metadata["hyrecall"]["vector"]) == ("1", None)
