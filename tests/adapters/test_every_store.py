"""What every adapter promises alike: stores of cells, async twins, examples.

A framework that is not installed is skipped by name; ``.ci/frameworks NAME`` runs its cases.
"""

import asyncio
import inspect
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import hyrecall as hr
from adapters.examples import adapter, run_example
from hyrecall.adapters.documents import DocumentIndex
from hyrecall.embed import HashEmbedder
from hyrecall.errors import DTypeError, OptionError, ScopeError

# A framework warns of its own and of its packages' ways, more or less with each release.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ImportWarning")


# ---- stores of documents: each by what all of them do ----


class Face(NamedTuple):
    """A kind of store: how one is made, and its calls by key and text."""

    make: Callable[..., Any]
    write: Callable[[Any, str, str], Any]
    texts: Callable[[Any], list[str]]
    delete: Callable[[Any, str], Any]
    clear: Callable[[Any], Any]


def haystack() -> Face:
    made = adapter("haystack").HyrecallDocumentStore
    from haystack import Document

    return Face(
        made,
        lambda store, key, text: store.write_documents([Document(id=key, content=text)]),
        lambda store: [one.content for one in store.filter_documents()],
        lambda store, key: store.delete_documents([key]),
        lambda store: store.delete_all_documents(),
    )


def langchain() -> Face:
    made = adapter("langchain").HyrecallVectorStore
    from langchain_core.embeddings import DeterministicFakeEmbedding

    return Face(
        partial(made, DeterministicFakeEmbedding(size=4)),
        lambda store, key, text: store.add_texts([text], ids=[key]),
        lambda store: [one.page_content for one in store.similarity_search("tea", k=9)],
        lambda store, key: store.delete([key]),
        lambda store: store.delete(everything=True),
    )


def llama_index() -> Face:
    made = adapter("llama_index").HyrecallVectorStore
    from llama_index.core.schema import TextNode

    return Face(
        made,
        lambda store, key, text: store.add([TextNode(id_=key, text=text, embedding=[1.0, 0.0])]),
        lambda store: [one.get_content() for one in store.get_nodes()],
        lambda store, key: store.delete_nodes([key]),
        lambda store: store.clear(),
    )


def crewai() -> Face:
    made = adapter("crewai", "crewai_storage").HyrecallStorage
    from crewai.memory.types import MemoryRecord

    return Face(
        made,
        lambda store, key, text: store.save(
            [MemoryRecord(id=key, content=text, embedding=[1.0, 0.0])]
        ),
        lambda store: [one.content for one in store.list_records()],
        lambda store, key: store.delete(record_ids=[key]),
        lambda store: store.reset(),
    )


STORES: dict[str, Callable[[], Face]] = {
    "haystack": haystack, "langchain": langchain, "llama_index": llama_index, "crewai": crewai,
}  # fmt: skip
stores = pytest.mark.parametrize("name", STORES)


def shared() -> DocumentIndex:
    """Return an index that has what any of the stores declares."""
    fields: dict[str, Any] = {"doc_id": "str", "scope": "str", "categories": "list[str]"}
    return DocumentIndex(attributes=fields | {"created_at": "datetime"}, keep_vectors=True)


@stores
@pytest.mark.parametrize("cell", [None, "", ("ann", "bob"), 7])
def test_a_store_without_a_cell_is_not_made(name: str, cell: Any) -> None:
    make = STORES[name]().make
    with pytest.raises(ScopeError, match="cell: expected one cell"):
        make(cell=cell)
    with pytest.raises(TypeError, match="cell"):
        make()


@stores
def test_stores_of_two_cells_share_an_index_and_no_document(name: str) -> None:
    face, documents = STORES[name](), shared()
    ann, bob = (face.make(cell=cell, documents=documents) for cell in ("ann", "bob"))
    for key in ("1", "2"):
        face.write(ann, key, f"tea {key}")
    face.write(bob, "1", "tea of bob")
    assert (sorted(face.texts(ann)), face.texts(bob)) == (["tea 1", "tea 2"], ["tea of bob"])
    face.delete(ann, "1")
    assert (face.texts(ann), face.texts(bob)) == (["tea 2"], ["tea of bob"])
    face.clear(ann)
    assert (face.texts(ann), face.texts(bob), len(documents)) == ([], ["tea of bob"], 1)


@pytest.mark.parametrize("name", [one for one in STORES if one != "crewai"])
def test_a_store_may_read_more_than_it_writes(name: str) -> None:
    face, documents = STORES[name](), shared()
    face.write(face.make(cell="team", documents=documents), "1", "tea of all")
    ann = face.make(cell="ann", scope=hr.Scope(["ann", "team"]), documents=documents)
    face.write(ann, "1", "tea of ann")
    assert sorted(face.texts(ann)) == ["tea of all", "tea of ann"]
    face.clear(ann)
    assert face.texts(ann) == ["tea of all"]
    with pytest.raises(ScopeError, match="scope"):
        face.make(cell="ann", scope=hr.Scope([("ann", "bob")]))


@pytest.mark.parametrize("name", [one for one in STORES if one != "langchain"])
def test_a_store_with_a_path_keeps_every_change(name: str, tmp_path: Path) -> None:
    face, folder = STORES[name](), tmp_path / "documents"
    store = face.make(cell="ann", path=folder, attributes={"year": int})
    for key in ("1", "2", "3"):
        face.write(store, key, f"tea {key}")
    face.delete(store, "2")
    again = face.make(cell="ann", path=folder)
    assert face.texts(again) == face.texts(store)
    assert len(face.texts(again)) == 2
    with pytest.raises(OptionError, match="attributes: expected those of the saved documents"):
        face.make(cell="ann", path=folder, attributes={"year": str})
    with pytest.raises(OptionError, match="path: expected None beside documents="):
        face.make(cell="ann", path=folder, documents=shared())


@stores
def test_documents_of_another_kind_or_beside_attributes_are_refused(name: str) -> None:
    make = STORES[name]().make
    with pytest.raises(OptionError, match="attributes: expected None beside documents="):
        make(cell="ann", documents=shared(), attributes={})
    with pytest.raises(DTypeError, match="documents: expected a DocumentIndex, got Index"):
        make(cell="ann", documents=shared().index)
    with pytest.raises(DTypeError, match=r"^attributes\[.*year'\]: expected str, int, .*'integer'"):
        make(cell="ann", attributes={"year": "integer"})


# ---- one depth for all queries: a smaller limit gives the first documents of a larger one ----

N = 300
# Each text is another one: LlamaIndex of a year ago drops nodes whose texts are the same.
TEXTS = ["tea " * (at % 7 + 1) + f"w{at % 11} n{at}" for at in range(N)]
VECTORS = HashEmbedder(dim=64).embed([f"w{at % 13} w{at % 11}" for at in range(N)])
WORDS, VECTOR = "tea w5", HashEmbedder(dim=64).embed(["w5"])[0].tolist()

Ranked = Callable[[int, int], list[str]]


def haystack_hybrid() -> Ranked:
    module = adapter("haystack")
    from haystack import Document

    store = module.HyrecallDocumentStore(cell="ann")
    rows = zip(TEXTS, VECTORS.tolist(), strict=True)
    store.write_documents([Document(content=text, embedding=vector) for text, vector in rows])

    def found(limit: int, depth: int) -> list[str]:
        made = module.HyrecallHybridRetriever(store, top_k=limit, depth=depth, alpha=0.5)
        return [one.content for one in made.run(WORDS, VECTOR)["documents"]]

    return found


def llama_index_store(mode: str, **fields: Any) -> Ranked:
    made = adapter("llama_index").HyrecallVectorStore
    from llama_index.core.schema import TextNode
    from llama_index.core.vector_stores.types import VectorStoreQuery

    documents = DocumentIndex(attributes={"doc_id": str})
    rows = zip(TEXTS, VECTORS.tolist(), strict=True)
    made(cell="ann", documents=documents).add(
        [TextNode(text=text, embedding=vector) for text, vector in rows]
    )

    def found(limit: int, depth: int) -> list[str]:
        asked = VectorStoreQuery(
            query_str=WORDS, query_embedding=VECTOR, similarity_top_k=limit, mode=mode, **fields
        )
        nodes = made(cell="ann", documents=documents, depth=depth).query(asked).nodes
        return [one.get_content() for one in nodes]

    return found


def llama_index_retriever() -> Ranked:
    made = adapter("llama_index").HyrecallRetriever
    from llama_index.core.schema import QueryBundle

    vector = HashEmbedder(dim=64).embed([WORDS])[0].tolist()
    schema = hr.Schema(key="id", cell=None, text="text", vector="v")
    table = pa.table({"id": list(map(str, range(N))), "text": TEXTS})
    index = hr.Index.build(table, schema, vectors={"v": VECTORS})

    def found(limit: int, depth: int) -> list[str]:
        retriever = made(index, scope=None, limit=limit, depth=depth, fusion=hr.RRF())
        bundle = QueryBundle(WORDS, embedding=vector)
        return [one.node.get_content() for one in retriever.retrieve(bundle)]

    return found


@pytest.mark.parametrize(
    "ranked",
    [
        pytest.param(haystack_hybrid, id="haystack"),
        pytest.param(partial(llama_index_store, "hybrid", alpha=0.5), id="llama_index-hybrid"),
        pytest.param(partial(llama_index_store, "mmr", mmr_threshold=0.2), id="llama_index-mmr"),
        pytest.param(llama_index_retriever, id="llama_index-retriever"),
    ],
)
def test_a_smaller_limit_gives_the_first_documents_of_a_larger_one(
    ranked: Callable[[], Ranked],
) -> None:
    found = ranked()
    assert found(60, 200) == found(150, 200)[:60]
    assert found(60, 100) != found(150, 200)[:60]  # a depth that follows the limit is seen
    with pytest.raises(OptionError, match=r"(<=|at most) 100 .*got 101; .*depth=101"):
        found(101, 100)


# ---- async twins: each calls the method of its object on a thread ----

TWINS: dict[tuple[str, str], dict[str, str]] = {
    ("haystack", "HyrecallDocumentStore"): {
        f"{one}_async": one
        for one in (
            *("count_documents", "filter_documents", "write_documents", "delete_documents"),
            *("delete_by_filter", "delete_all_documents", "update_by_filter"),
            *("count_documents_by_filter", "count_unique_metadata_by_filter"),
            *("get_metadata_fields_info", "get_metadata_field_min_max"),
            *("get_metadata_field_unique_values",),
        )
    },
    ("haystack", "HyrecallKeywordRetriever"): {"run_async": "run"},
    ("haystack", "HyrecallEmbeddingRetriever"): {"run_async": "run"},
    ("haystack", "HyrecallHybridRetriever"): {"run_async": "run"},
    ("llama_index", "HyrecallVectorStore"): {
        "async_add": "add", "adelete": "delete", "adelete_nodes": "delete_nodes",
        "aclear": "clear", "aget_nodes": "get_nodes", "aquery": "query",
    },
    ("crewai_storage", "HyrecallStorage"): {
        "asave": "save", "asearch": "search", "adelete": "delete"
    },
    ("langgraph", "HyrecallStore"): {"abatch": "batch"},
}  # fmt: skip


@pytest.mark.parametrize(("module", "kind"), TWINS)
def test_a_twin_calls_its_method_off_the_event_loop(
    module: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = getattr(adapter(module.removesuffix("_storage"), module), kind)
    store = made.__new__(made)
    for twin, method in TWINS[module, kind].items():
        signature = inspect.signature(getattr(made, method))
        assert inspect.signature(getattr(made, twin)) == signature
        _, *named = (n for n, one in signature.parameters.items() if one.kind != one.VAR_KEYWORD)
        asked = {one: f"a value of {one}" for one in named}

        def told(self: Any, **options: Any) -> Any:
            return threading.get_ident(), options

        monkeypatch.setattr(made, method, told)
        thread, given = asyncio.run(getattr(store, twin)(**asked))
        assert thread != threading.get_ident()
        assert given == asked


# ---- examples ----


@pytest.mark.parametrize(
    ("name", "example", "told"),
    [
        ("autogen", "autogen_memory", "Celsius"),
        ("crewai", "crewai_memory", "oolong"),
        ("haystack", "haystack_store", "hybrid"),
        ("langchain", "langchain", "scope: expected a scope: a cell or hr.Scope([...]), got none"),
        ("langgraph", "langgraph_store", "green tea"),
        ("llama_index", "llama_index_store", "hybrid"),
        ("openai_agents", "openai_agents_session", "INV-2026-0042"),
        ("pydantic_ai", "pydantic_ai_tools", "oolong"),
    ],
)
def test_an_example_runs(name: str, example: str, told: str, tmp_path: Path) -> None:
    adapter(name)
    if name == "autogen":
        pytest.importorskip("autogen_agentchat", reason="the example needs autogen-agentchat")
    assert told in run_example(example, tmp_path)
