"""A dump that LangChain itself writes comes as it was."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")
pytest.importorskip("langchain_core", reason="langchain-core is not installed")

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore

from hyrecall.migrate import into_store, open_source
from migrate.moved import DIM, MODEL, Kept, in_store, one, plant, store

N = 40


def fields(at: int) -> dict[str, Any]:
    return {"user": f"u{at % 3}", "deep": {"a": [at, None, at / 7]}}


def dumped(folder: Path) -> tuple[Path, Kept]:
    embedding = DeterministicFakeEmbedding(size=DIM)
    kept = InMemoryVectorStore(embedding)
    documents = [
        Document(id=f"k{at}", page_content=f"text {at} — é", metadata=fields(at)) for at in range(N)
    ]
    kept.add_documents(documents)
    kept.dump(str(folder / "dump.json"))
    wish: Kept = {}
    for at, document in enumerate(documents):
        row = np.array(embedding.embed_query(document.page_content), "<f4")
        wish |= one(f"u{at % 3}", f"k{at}", document.page_content, fields(at), row)
    return folder / "dump.json", wish


def test_a_dump_comes_as_it_was_and_once(tmp_path: Path) -> None:
    path, wish = dumped(tmp_path)
    with store() as memory:
        for imported in (N, 0):
            with open_source("langchain", path) as source:
                done = into_store(memory, source, user_from="user", vector_model=MODEL)
            assert (done.imported, done.skipped) == (imported, N - imported)
            assert in_store(memory) == wish


def test_a_planted_change_of_a_field_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, wish = dumped(tmp_path)
    plant(monkeypatch, "records.Mapper.of", lambda m: type(m)(**{**vars(m), "metadata": {}}))
    with store() as memory, open_source("langchain", path) as source:
        into_store(memory, source, user_from="user", vector_model=MODEL)
        assert in_store(memory) != wish
