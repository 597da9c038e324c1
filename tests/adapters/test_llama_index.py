"""LlamaIndex's vector store over ours, and its own index in front of it."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip(
    "llama_index.core", reason="LlamaIndex is not installed: .ci/frameworks llama_index"
)

from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

import hyrecall as hr
from adapters.llama_index_world import Words, node
from hyrecall.adapters.documents import Document as TheirDocument
from hyrecall.adapters.documents import DocumentIndex
from hyrecall.adapters.llama_index import HyrecallVectorStore
from hyrecall.embed import HashEmbedder
from hyrecall.errors import DTypeError, OptionError, ScopeError
from seams import llama_index_store

EXAMPLE = Path(__file__).parents[2] / "examples" / "frameworks" / "llama_index_store.py"
MODE, OPERATOR = VectorStoreQueryMode, FilterOperator


# ---- nodes, modes and scopes ----


class Cats(NamedTuple):
    documents: DocumentIndex
    ann: HyrecallVectorStore
    bob: HyrecallVectorStore


@pytest.fixture
def cats() -> Cats:
    documents = DocumentIndex(attributes={"doc_id": str, "year": int})
    ann, bob = (HyrecallVectorStore(cell=name, documents=documents) for name in ("ann", "bob"))
    ann.add(
        [
            node("1", "a grey cat", "d1", embedding=[1.0, 0.0], metadata={"year": 2024}),
            node("2", "a black cat", "d1", embedding=[0.8, 0.6], metadata={"year": 2025}),
            node("3", "a dog", "d2", embedding=[0.0, 1.0]),
        ]
    )
    bob.add([node("1", "the cat of bob", "d1", embedding=[1.0, 0.0])])
    return Cats(documents, ann, bob)


def asked(mode: VectorStoreQueryMode, **fields: Any) -> VectorStoreQuery:
    given = {"query_str": "grey cat", "query_embedding": [0.0, 1.0], "similarity_top_k": 3}
    return VectorStoreQuery(mode=mode, **(given | fields))


def test_nodes_come_back_whole(cats: Cats) -> None:
    given = node("n", "text", "source", metadata={"year": 1, "deep": {"a": [1, None]}})
    given.relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id="later")
    given.excluded_embed_metadata_keys = ["year"]
    cats.bob.add([given])
    (found,) = cats.bob.get_nodes(["n"])
    assert found == given
    assert found.ref_doc_id == "source"
    assert [one.node_id for one in cats.ann.get_nodes(["3", "no", "1"])] == ["3", "1"]
    late = MetadataFilters(filters=[MetadataFilter(key="year", value=2025)])
    assert [one.node_id for one in cats.ann.get_nodes(filters=late)] == ["2"]
    assert [one.node_id for one in cats.ann.get_nodes(["1"], late)] == []
    assert len(cats.ann.get_nodes()) == 3


def test_each_mode_gives_what_the_index_gives(cats: Cats) -> None:
    text, vector, index = "grey cat", [0.0, 1.0], cats.documents.index
    options: list[tuple[VectorStoreQuery, dict[str, Any]]] = [
        (asked(MODE.DEFAULT), {"vector": vector}),
        (asked(MODE.TEXT_SEARCH), {"text": text}),
        (asked(MODE.SPARSE, sparse_top_k=1), {"text": text, "limit": 1}),
        (asked(MODE.HYBRID), {"text": text, "vector": vector}),
        (asked(MODE.HYBRID, alpha=0.3), {"fusion": hr.RRF(alpha=0.3), "text": text}),
        (asked(MODE.HYBRID, hybrid_top_k=1), {"text": text, "vector": vector, "limit": 1}),
        (asked(MODE.DEFAULT, doc_ids=["d2"]), {"vector": vector, "filter": hr.Filter(doc_id="d2")}),
    ]
    for query, recall in options:
        given = {"limit": 3, "vector": vector if "fusion" in recall else None} | recall
        expected = index.recall_one(scope="ann", **given)
        reply = cats.ann.query(query)
        assert reply.ids == expected.keys
        assert reply.similarities == [hit.score for hit in expected]
        assert [one.node_id for one in reply.nodes or []] == reply.ids


def test_a_smaller_top_k_gives_the_first_nodes_of_a_larger_one() -> None:
    n = 300
    vectors = HashEmbedder(dim=64).embed([f"w{at % 13} w{at % 11}" for at in range(n)]).tolist()
    nodes = [
        node(str(at), f"{'tea ' * (at % 7 + 1)}w{at % 11}", embedding=vectors[at])
        for at in range(n)
    ]
    flat, deep = HyrecallVectorStore(cell="ann"), HyrecallVectorStore(cell="ann", depth=200)
    for made in (flat, deep):
        made.add(nodes)
    vector = HashEmbedder(dim=64).embed(["w5"])[0].tolist()

    def found(made: HyrecallVectorStore, k: int, mode: Any, **fields: Any) -> list[str]:
        query = {"query_str": "tea w5", "query_embedding": vector, "similarity_top_k": k}
        return made.query(VectorStoreQuery(**query, mode=mode, **fields)).ids or []

    for mode, fields in ((MODE.HYBRID, {"alpha": 0.5}), (MODE.MMR, {"mmr_threshold": 0.2})):
        few, many = (found(deep, k, mode, **fields) for k in (60, 150))
        assert few == many[:60]
        # A depth that follows the limit is seen.
        assert found(flat, 60, mode, **fields) != many[:60]
        with pytest.raises(OptionError, match=r"at most 100 .*, got 101; .*\(depth=101\)"):
            found(flat, 101, mode, **fields)
    with pytest.raises(OptionError, match=r"at most 100 .*, got 101; .*\(depth=101\)"):
        found(flat, 2, MODE.HYBRID, sparse_top_k=101)
    assert len(found(flat, 150, MODE.DEFAULT)) == 150
    with pytest.raises(OptionError, match="depth: expected an int >= 1, got 0"):
        HyrecallVectorStore(cell="ann", depth=0)


def test_what_would_be_ignored_is_refused(cats: Cats) -> None:
    for mode in (MODE.SVM, MODE.LINEAR_REGRESSION, MODE.SEMANTIC_HYBRID):
        with pytest.raises(OptionError, match=r"query\.mode: expected one of"):
            cats.ann.query(asked(mode))
    for fields in ({"output_fields": ["text"]}, {"embedding_field": "other"}):
        with pytest.raises(OptionError, match=f"{next(iter(fields))}: expected None"):
            cats.ann.query(asked(MODE.DEFAULT, **fields))
    with pytest.raises(OptionError, match=r"query_embedding: expected one, for mode 'hybrid'"):
        cats.ann.query(asked(MODE.HYBRID, query_embedding=None))
    with pytest.raises(OptionError, match=r"query_str: expected one, for mode 'text_search'"):
        cats.ann.query(asked(MODE.TEXT_SEARCH, query_str=None))
    for fields in (
        {"alpha": 0.5},
        {"mmr_threshold": 0.5},
        {"hybrid_top_k": 1},
        {"sparse_top_k": 1},
    ):
        with pytest.raises(OptionError, match=f"{next(iter(fields))}: expected None, for mode"):
            cats.ann.query(asked(MODE.DEFAULT, **fields))
    with pytest.raises(OptionError, match="mmr_threshold: expected None, for mode 'hybrid'"):
        cats.ann.query(asked(MODE.HYBRID), mmr_threshold=0.5)
    for call in (
        lambda: cats.ann.add([], batch=2),
        lambda: cats.ann.delete("d1", everywhere=True),
        lambda: cats.ann.delete_nodes(["1"], scope="bob"),
        lambda: asyncio.run(cats.ann.adelete("d1", everywhere=True)),
        lambda: asyncio.run(cats.ann.adelete_nodes(["1"], scope="bob")),
    ):
        with pytest.raises(OptionError, match=r"(add|delete|delete_nodes): expected no further"):
            call()
    assert len(cats.ann.get_nodes()) == 3
    with pytest.raises(OptionError, match="mmr_prefetch_factor"):
        cats.ann.query(asked(MODE.MMR), mmr_prefetch_factor=4)
    with pytest.raises(OptionError, match=r"store\.clear\(\)"):
        cats.ann.delete_nodes()


def test_undeclared_fields_and_parts_of_texts_are_refused_by_name(cats: Cats) -> None:
    def filtered(key: str, operator: FilterOperator, value: Any = "cat") -> VectorStoreQuery:
        one = MetadataFilter(key=key, value=value, operator=operator)
        return asked(MODE.DEFAULT, filters=MetadataFilters(filters=[one]))

    for operator in (OPERATOR.EQ, OPERATOR.IS_EMPTY):
        with pytest.raises(OptionError, match=r"attributes=\{'color': str\}"):
            cats.ann.query(filtered("color", operator))
    with pytest.raises(OptionError, match="'text_match'; mode='text_search'"):
        cats.ann.query(filtered("doc_id", OPERATOR.TEXT_MATCH))
    with pytest.raises(OptionError, match="declared as a list"):
        cats.ann.query(filtered("doc_id", OPERATOR.CONTAINS))
    with pytest.raises(DTypeError, match="filter: year: expected int64, got 'cat'"):
        cats.ann.query(filtered("year", OPERATOR.GT))


def test_a_strict_comparison_of_a_list_is_refused() -> None:
    store = HyrecallVectorStore(cell="ann", attributes={"n": list[int]})
    store.add([node("1", "x", metadata={"n": [2, 5]})])
    for operator, value in ((OPERATOR.GT, 2), (OPERATOR.LT, 5)):
        one = MetadataFilter(key="n", value=value, operator=operator)
        with pytest.raises(OptionError, match=f"expected '{operator.value}=' for the list 'n'"):
            store.get_nodes(filters=MetadataFilters(filters=[one]))
    least = MetadataFilter(key="n", value=5, operator=OPERATOR.GTE)
    assert len(store.get_nodes(filters=MetadataFilters(filters=[least]))) == 1


def test_a_node_without_a_field_has_another_value(cats: Cats) -> None:
    for operator, value in ((OPERATOR.NE, 2024), (OPERATOR.NIN, [2024])):
        other = MetadataFilter(key="year", value=value, operator=operator)
        found = cats.ann.query(asked(MODE.DEFAULT, filters=MetadataFilters(filters=[other])))
        assert found.ids == ["3", "2"]


def test_filters_may_be_nested(cats: Cats) -> None:
    years = [MetadataFilter(key="year", value=year) for year in (2024, 2025)]
    either = MetadataFilters(filters=years, condition=FilterCondition.OR)
    source = MetadataFilter(key="doc_id", value="d1")
    not_first = MetadataFilters(filters=[years[0]], condition=FilterCondition.NOT)
    both = MetadataFilters(filters=[source, either, not_first])
    assert cats.ann.query(asked(MODE.DEFAULT, filters=both)).ids == ["2"]


def test_stores_of_two_cells_share_an_index_and_no_node(cats: Cats) -> None:
    query = asked(MODE.TEXT_SEARCH, query_str="cat")
    assert cats.bob.query(query).ids == ["1"]
    assert sorted(cats.ann.query(query).ids or []) == ["1", "2"]
    for scope, found in (("bob", 1), (hr.Scope(["ann", "bob"]), 3), (hr.Scope([]), 0)):
        assert len(cats.ann.query(query, scope=scope).ids or []) == found
    cats.ann.delete("d1")
    assert cats.bob.query(query).ids == ["1"]
    cats.ann.clear()
    assert (len(cats.documents), cats.ann.get_nodes()) == (1, [])


@pytest.mark.parametrize("cell", [None, "", ("ann", "bob")])
def test_a_store_without_a_cell_is_not_made(cell: Any) -> None:
    with pytest.raises(ScopeError, match="cell: expected one cell"):
        HyrecallVectorStore(cell=cell)
    with pytest.raises(TypeError, match="cell"):
        HyrecallVectorStore()  # type: ignore[call-arg]


def test_an_index_without_the_sources_of_nodes_is_refused() -> None:
    with pytest.raises(OptionError, match=r"attributes=\{'doc_id': str\}"):
        HyrecallVectorStore(cell="ann", documents=DocumentIndex())
    with pytest.raises(DTypeError, match="doc_id: expected int64"):
        HyrecallVectorStore(cell="ann", attributes={"doc_id": int})


def test_documents_that_another_program_wrote_are_text_nodes(cats: Cats) -> None:
    plain = TheirDocument(id="x", text="a red cat", vector=[1, 0], metadata={"year": 2020})
    cats.documents.write([plain], cell="ann")
    (found,) = cats.ann.query(asked(MODE.TEXT_SEARCH, query_str="red")).nodes or []
    assert (found.node_id, found.get_content(), found.metadata) == (
        *("x", "a red cat", {"year": 2020}),
    )


def test_a_store_with_a_path_keeps_every_change(tmp_path: Path) -> None:
    folder = tmp_path / "nodes"
    store = HyrecallVectorStore(cell="ann", path=folder, attributes={"year": int})
    store.add([node(str(at), embedding=[1.0, at], metadata={"year": at}) for at in range(3)])
    store.delete_nodes(["1"])
    again = HyrecallVectorStore(cell="ann", path=folder)
    assert [one.node_id for one in again.get_nodes()] == ["0", "2"]
    assert again.get_nodes() == store.get_nodes()
    again.persist(str(tmp_path / "copy"))
    assert len(HyrecallVectorStore(cell="ann", path=tmp_path / "copy").get_nodes()) == 2
    with pytest.raises(OptionError, match="fs: expected None"):
        again.persist(str(tmp_path / "copy"), fs=object())


def test_awaited_calls_run_off_the_event_loop(cats: Cats, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[int] = set()
    for name in ("add", "delete", "delete_nodes", "clear", "get_nodes", "query"):
        method = getattr(llama_index_store.HyrecallVectorStore, name)

        def told(self: Any, *args: Any, _method: Any = method, **options: Any) -> Any:
            threads.add(threading.get_ident())
            return _method(self, *args, **options)

        monkeypatch.setattr(llama_index_store.HyrecallVectorStore, name, told)

    async def main() -> None:
        store = cats.bob
        await store.async_add([node("9", "a cat", "d9", embedding=[1.0, 0.0])])
        assert len(await store.aget_nodes()) == 2
        assert (await store.aquery(asked(MODE.HYBRID), scope="ann")).ids == ["3", "2", "1"]
        await store.adelete("d9")
        await store.adelete_nodes(["1"])
        await store.aclear()

    asyncio.run(main())
    assert threads
    assert threading.get_ident() not in threads
    assert len(cats.documents) == 3


# ---- in LlamaIndex's own index ----


def test_an_index_of_documents_is_built_asked_and_changed() -> None:
    store = HyrecallVectorStore(cell="ann", attributes={"year": int})
    context = StorageContext.from_defaults(vector_store=store)
    texts = ["The build runs on Debian", "Ann drinks oolong tea", "The build takes an hour"]
    index = VectorStoreIndex.from_documents(
        [Document(text=text, id_=f"d{at}", metadata={"year": at}) for at, text in enumerate(texts)],
        storage_context=context,
        embed_model=Words(),
    )
    for mode in ("default", "hybrid", "text_search", "mmr"):
        retriever = index.as_retriever(vector_store_query_mode=mode, similarity_top_k=1)
        (found,) = retriever.retrieve("oolong tea")
        assert found.node.get_content() == "Ann drinks oolong tea"
        assert asyncio.run(retriever.aretrieve("oolong tea"))[0].node == found.node
    elsewhere = index.as_retriever(vector_store_kwargs={"scope": "bob"})
    assert elsewhere.retrieve("oolong tea") == []
    late = MetadataFilters(filters=[MetadataFilter(key="year", value=1, operator=OPERATOR.GT)])
    (found,) = index.as_retriever(filters=late).retrieve("build")
    assert found.node.get_content() == "The build takes an hour"
    reply = index.as_query_engine(llm=MockLLM(), similarity_top_k=1).query("oolong tea")
    assert [one.node.get_content() for one in reply.source_nodes] == ["Ann drinks oolong tea"]
    index.insert(Document(text="Bob drinks coffee", id_="d9"))
    index.delete_ref_doc("d1", delete_from_docstore=True)
    left = {one.get_content() for one in store.get_nodes()}
    assert left == {"The build runs on Debian", "The build takes an hour", "Bob drinks coffee"}


def test_the_example_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "hybrid" in done.stdout
