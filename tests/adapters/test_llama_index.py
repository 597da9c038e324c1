"""LlamaIndex's vector store, retriever and memory block over ours."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip(
    "llama_index.core", reason="LlamaIndex is not installed: .ci/frameworks llama_index"
)

from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.memory import Memory as LlamaMemory
from llama_index.core.schema import NodeRelationship, QueryBundle, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from sqlalchemy.ext.asyncio import create_async_engine

import hyrecall as hr
from adapters.degraded_world import degraded_index
from hyrecall.adapters.degraded import DegradedWarning
from hyrecall.adapters.documents import Document as TheirDocument
from hyrecall.adapters.documents import DocumentIndex
from hyrecall.adapters.llama_index import (
    HyrecallMemoryBlock,
    HyrecallRetriever,
    HyrecallVectorStore,
)
from hyrecall.embed import HashEmbedder
from hyrecall.errors import DTypeError, OptionError, ScopeError
from hyrecall.memory import Memory, MemorySync

# ---- the vector store, and LlamaIndex's own index in front of it ----

EXAMPLE = Path(__file__).parents[2] / "examples" / "frameworks" / "llama_index_store.py"
MODE, OPERATOR = VectorStoreQueryMode, FilterOperator


# ---- nodes, modes and scopes ----


def node(key: str, text: str = "x", source: str | None = None, **fields: Any) -> TextNode:
    """Return a node with an embedding, and a source document if it is named."""
    made = TextNode(id_=key, text=text, **fields)
    if source is not None:
        made.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=source)
    return made


class Words(BaseEmbedding):
    """Embeds by hashing words, so that no model is needed."""

    def _get_text_embedding(self, text: str) -> list[float]:
        made: list[float] = HashEmbedder(dim=64).embed([text])[0].tolist()
        return made

    _get_query_embedding = _get_text_embedding

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


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


def test_a_query_may_name_its_scope_and_a_source_goes_from_one_cell(cats: Cats) -> None:
    query = asked(MODE.TEXT_SEARCH, query_str="cat")
    for scope, found in (("bob", 1), (hr.Scope(["ann", "bob"]), 3), (hr.Scope([]), 0)):
        assert len(cats.ann.query(query, scope=scope).ids or []) == found
    cats.ann.delete("d1")
    assert (cats.bob.query(query).ids, cats.ann.query(query).ids) == (["1"], [])


def test_an_index_without_the_sources_of_nodes_is_refused() -> None:
    with pytest.raises(OptionError, match=r"attributes=\{'doc_id': str\}"):
        HyrecallVectorStore(cell="ann", documents=DocumentIndex())
    with pytest.raises(DTypeError, match=r"attributes\['doc_id'\]: expected str, got int"):
        HyrecallVectorStore(cell="ann", attributes={"doc_id": int})


def test_documents_that_another_program_wrote_are_text_nodes(cats: Cats) -> None:
    plain = TheirDocument(id="x", text="a red cat", vector=[1, 0], metadata={"year": 2020})
    cats.documents.write([plain], cell="ann")
    (found,) = cats.ann.query(asked(MODE.TEXT_SEARCH, query_str="red")).nodes or []
    assert (found.node_id, found.get_content(), found.metadata) == (
        *("x", "a red cat", {"year": 2020}),
    )


def test_a_store_persists_in_a_folder(tmp_path: Path) -> None:
    store = HyrecallVectorStore(cell="ann")
    store.add([node("1", embedding=[1.0, 0.0])])
    store.persist(str(tmp_path / "copy"))
    again = HyrecallVectorStore(cell="ann", path=tmp_path / "copy")
    assert again.get_nodes() == store.get_nodes()
    with pytest.raises(OptionError, match="fs: expected None"):
        again.persist(str(tmp_path / "copy"), fs=object())


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


# ---- our store and its SimpleVectorStore, side by side ----

KINDS: dict[str, Any] = {"year": int, "rating": float, "name": str, "tags": "list[str]"}
VALUES: dict[str, list[Any]] = {
    "year": [2020, 2023, 2026],
    "rating": [0.5, 1.0, 4.5],
    "name": ["ann", "bob", ""],
    "tags": [["x"], ["x", "y"], ["y", "z"], []],
}


def random_nodes(draw: random.Random, n: int = 40, dim: int = 8) -> list[TextNode]:
    made = []
    for at in range(n):
        metadata = {
            name: draw.choice(values) for name, values in VALUES.items() if draw.random() < 0.8
        }
        vector = [abs(draw.gauss(0, 1)) for _ in range(dim)]
        made.append(node(str(at), f"text {at}", f"d{at % 5}", metadata=metadata, embedding=vector))
    return made


def filled(nodes: list[TextNode]) -> tuple[HyrecallVectorStore, SimpleVectorStore]:
    ours, theirs = HyrecallVectorStore(cell="ann", attributes=KINDS), SimpleVectorStore()
    for store in (ours, theirs):
        assert store.add(nodes) == [one.node_id for one in nodes]
    return ours, theirs


def theirs_finds(filters: MetadataFilters) -> bool:
    """Return whether this version's SimpleVectorStore finds a node of 2026 without a name."""
    store = SimpleVectorStore()
    store.add([node("1", embedding=[1.0], metadata={"year": 2026})])
    try:
        reply = store.query(VectorStoreQuery(query_embedding=[1.0], filters=filters))
    except ValueError:
        return False
    return reply.ids == ["1"]


OTHER_NAME = MetadataFilter(key="name", value="ann", operator=OPERATOR.NE)
OTHER_YEAR = MetadataFilter(key="year", value=2020)
# Of these it had no NOT a year ago, and a node without a field failed "is not ann".
NOT = [FilterCondition.NOT]
CONDITIONS = [FilterCondition.AND, FilterCondition.OR]
CONDITIONS += NOT * theirs_finds(MetadataFilters(filters=[OTHER_YEAR], condition=NOT[0]))
OTHERS = [OPERATOR.NE, OPERATOR.NIN] * theirs_finds(MetadataFilters(filters=[OTHER_NAME]))


def random_filters(draw: random.Random) -> MetadataFilters:
    """Return filters that SimpleVectorStore can answer; what it nests not is tested apart."""
    filters = []
    for _ in range(draw.randint(1, 3)):
        name = draw.choice(list(VALUES))
        if name == "tags":
            choices = [OPERATOR.CONTAINS, OPERATOR.ANY, OPERATOR.ALL, OPERATOR.IS_EMPTY]
        else:
            choices = [OPERATOR.EQ, OPERATOR.GT, OPERATOR.GTE, OPERATOR.LT, OPERATOR.LTE]
            choices += [OPERATOR.IN, OPERATOR.IS_EMPTY, *OTHERS]
        operator = draw.choice(choices)
        known = ["x", "y", "z", "none"] if name == "tags" else VALUES[name]
        value: Any = draw.choice(known)
        if operator in (OPERATOR.IN, OPERATOR.NIN, OPERATOR.ANY, OPERATOR.ALL):
            value = draw.sample(known, draw.randint(1, 2))
        elif operator == OPERATOR.IS_EMPTY:
            value = None
        filters.append(MetadataFilter(key=name, value=value, operator=operator))
    return MetadataFilters(filters=[*filters], condition=draw.choice(CONDITIONS))


def query_faults(n: int = 120) -> list[VectorStoreQuery]:
    """Return the random queries that SimpleVectorStore answers otherwise."""
    draw = random.Random(20261126)
    ours, theirs = filled(random_nodes(draw))
    found = []
    for _ in range(n):
        asked = VectorStoreQuery(
            query_embedding=[abs(draw.gauss(0, 1)) for _ in range(8)],
            similarity_top_k=draw.choice([1, 5, 50]),
            filters=random_filters(draw) if draw.random() < 0.8 else None,
            node_ids=[str(draw.randrange(45)) for _ in range(9)] if draw.random() < 0.3 else None,
        )
        reply, expected = ours.query(asked), theirs.query(asked)
        if reply.ids != expected.ids or not np.allclose(
            reply.similarities or [], expected.similarities or [], atol=1e-6
        ):
            found.append(asked)
    return found


def test_queries_find_what_the_simple_store_finds() -> None:
    assert query_faults() == []


def test_a_planted_loss_of_the_ids_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyrecall.adapters.llama_index.one_of", lambda name, ids: None)
    assert query_faults()


def test_changes_leave_what_they_leave_in_the_simple_store() -> None:
    draw = random.Random(7)
    nodes = random_nodes(draw)
    ours, theirs = filled(nodes)

    def held() -> tuple[set[str], set[str]]:
        asked = VectorStoreQuery(query_embedding=[1.0] * 8, similarity_top_k=100)
        mine, other = ours.query(asked).ids or [], theirs.query(asked).ids or []
        assert mine == other
        return set(mine), set(other)

    late = MetadataFilters(filters=[MetadataFilter(key="year", value=2023, operator=OPERATOR.GT)])
    changes: list[Any] = [
        lambda store: store.delete("d3"),
        lambda store: store.delete("no such document"),
        lambda store: store.delete_nodes(["1", "2", "no such node"]),
        lambda store: store.delete_nodes(["5", "6", "7", "9"], late),
        lambda store: store.delete_nodes(filters=late),
        lambda store: store.add([node("0", "changed", "d9", embedding=[1.0] * 8)]),
        lambda store: store.delete("d9"),
        lambda store: store.clear(),
    ]
    left = [len(held()[0])]
    for change in changes:
        change(ours)
        change(theirs)
        left.append(len(held()[0]))
    assert left[0] == 40
    assert left[-1] == 0
    assert len(set(left)) >= 6


def test_two_diverse_nodes_are_those_of_the_simple_store() -> None:
    # Of three and more, theirs are unlike the last chosen one only, ours unlike all chosen ones;
    # with a threshold of 0, theirs begins with the node that was added first.
    draw = random.Random(11)
    ours, theirs = filled(random_nodes(draw))
    for threshold in (0.1, 0.3, 0.5, 0.9, 1.0):
        asked = VectorStoreQuery(
            query_embedding=[abs(draw.gauss(0, 1)) for _ in range(8)],
            similarity_top_k=2,
            mode=MODE.MMR,
        )
        expected = theirs.query(asked, mmr_threshold=threshold)
        assert ours.query(asked, mmr_threshold=threshold).ids == expected.ids
        in_query = VectorStoreQuery(**{**vars(asked), "mmr_threshold": threshold})
        assert ours.query(in_query).ids == expected.ids


# ---- its retriever over an index of ours, and its memory block over a store ----


def test_the_retriever_gives_what_the_index_gives() -> None:
    texts = ["green tea", "green coffee", "tea of the blue team"]
    rows = {"id": [1, 2, 3], "team": ["red", "red", "blue"], "text": texts, "year": [1, 2, 3]}
    schema = hr.Schema(key="id", cell="team", text="text", vector="v", attributes="year")
    vectors = {"v": HashEmbedder(dim=64).embed(texts)}
    index = hr.Index.build(pa.table(rows), schema, vectors=vectors)
    retriever = HyrecallRetriever(
        index, scope="red", embed_model=Words(), columns=("year",), fusion=hr.RRF()
    )
    vector = Words().get_query_embedding("green tea")
    expected = index.recall_one(text="green tea", vector=vector, scope="red", fusion=hr.RRF())
    for found in (retriever.retrieve("green tea"), asyncio.run(retriever.aretrieve("green tea"))):
        assert [(one.node.node_id, one.score) for one in found] == [
            (str(hit.key), hit.score) for hit in expected
        ]
        assert [one.node.metadata for one in found] == [{"year": 1}, {"year": 2}]
        assert found[0].node.get_content() == "green tea"
    by_words = HyrecallRetriever(index, scope="red", limit=1, filter=hr.Filter(year=2))
    assert [one.node.node_id for one in by_words.retrieve("green tea")] == ["2"]
    bundle = QueryBundle("", embedding=vector)
    assert by_words.retrieve(bundle)[0].score == pytest.approx(
        index.recall_one(vector=vector, scope="red", filter=hr.Filter(year=2))[0].score
    )


def test_a_retriever_without_a_scope_is_not_made() -> None:
    documents = DocumentIndex()
    with pytest.raises(ScopeError, match="scope: expected a scope: a cell"):
        HyrecallRetriever(documents.index, scope=None)
    with pytest.raises(TypeError, match="scope"):
        HyrecallRetriever(documents.index)  # type: ignore[call-arg]
    with pytest.raises(ScopeError, match="scope"):
        HyrecallRetriever(documents.index, scope=("ann", "bob"))
    with pytest.raises(DTypeError, match=r"index: expected an hr\.Index"):
        HyrecallRetriever(documents, scope="ann")  # type: ignore[arg-type]


def test_a_retriever_follows_the_arms_and_the_cells_of_its_index() -> None:
    rows = {"id": ["a"], "team": ["red"], "text": ["green tea"]}
    words = hr.Index.build(pa.table(rows), hr.Schema(key="id", cell="team", text="text"))
    assert HyrecallRetriever(words, scope="red").retrieve("") == []
    vectors = hr.Index.build(
        pa.table({"id": ["a"], "team": ["red"]}),
        hr.Schema(key="id", cell="team", vector="v"),
        vectors={"v": HashEmbedder(dim=64).embed(["green tea"])},
    )
    (found,) = HyrecallRetriever(vectors, scope="red", embed_model=Words()).retrieve("green tea")
    assert (found.node.node_id, found.node.get_content()) == ("a", "")
    for index, model, wish in ((words, Words(), "None"), (vectors, None, "one")):
        with pytest.raises(OptionError, match=rf"embed_model: expected {wish} \(the index has no"):
            HyrecallRetriever(index, scope="red", embed_model=model)
    for options in ({"limit": -1}, {"limit": "9"}, {"columns": ("x",)}):
        with pytest.raises(OptionError, match=f"{next(iter(options))}: expected"):
            HyrecallRetriever(words, scope="red", **options)  # type: ignore[arg-type]
    everyone = hr.Index.build(pa.table(rows), hr.Schema(key="id", cell=None, text="text"))
    assert len(HyrecallRetriever(everyone, scope=None).retrieve("tea")) == 1


def test_a_degraded_retrieval_warns() -> None:
    retriever = HyrecallRetriever(degraded_index(), scope="ann")
    with pytest.warns(DegradedWarning, match=r"vector did not run: crashed \(RuntimeError\)"):
        (found,) = retriever.retrieve("tea")
    assert found.node.node_id == "1"


# ---- memory block ----


@pytest.fixture
def engine() -> Iterator[Any]:
    """Return the database of short-term memories, closed at the end."""
    made = create_async_engine("sqlite+aiosqlite:///:memory:")
    yield made
    asyncio.run(made.dispose())


def talk(block: HyrecallMemoryBlock, engine: Any, session: str, *texts: str) -> LlamaMemory:
    """Return a conversation whose short-term memory holds but a few words."""
    memory = LlamaMemory.from_defaults(
        session_id=session,
        async_engine=engine,
        token_limit=20,
        token_flush_size=5,
        chat_history_token_ratio=0.5,
        memory_blocks=[block],
        tokenizer_fn=str.split,
    )
    for at, text in enumerate(texts):
        memory.put(ChatMessage(role="assistant" if at % 2 else "user", content=text))
    return memory


def test_what_a_conversation_forgets_its_user_recalls_in_another(engine: Any) -> None:
    with MemorySync.in_memory(embedder=None) as store:
        ann = HyrecallMemoryBlock(memory=store, user_id="ann")
        talk(ann, engine, "s1", "My cat is called Miso", "What a nice name", *["and so on"] * 8)
        kept = store.list(user_id="ann")
        first = next(one for one in kept if "Miso" in one.text)
        assert (first.session_id, first.metadata) == ("s1", {"role": "user"})
        for user, expected in (("ann", True), ("bob", False)):
            block = HyrecallMemoryBlock(memory=store, user_id=user, limit=1)
            found = talk(block, engine, "s2").get("What is my cat called?")
            assert any("Miso" in (one.content or "") for one in found) is expected


def test_a_memory_block_takes_an_async_store() -> None:
    async def main() -> str:
        async with Memory.in_memory(embedder=None) as store:
            block = HyrecallMemoryBlock(memory=store, user_id="ann", name="past", priority=1)
            await block.aput([ChatMessage(role="user", content="Miso is a cat")])
            await block.aput([ChatMessage(role="user", content="  ")])
            assert await block.aget([]) == ""
            return await block.aget([ChatMessage(role="user", content="who is Miso?")])

    assert asyncio.run(main()) == "Miso is a cat"


def test_an_option_that_a_memory_block_does_not_have_is_refused() -> None:
    with MemorySync.in_memory(embedder=None) as store:
        for option in ({"top_k": 3}, {"limit": 0}, {"context_messages": 0}):
            with pytest.raises(ValueError, match=next(iter(option))):
                HyrecallMemoryBlock(memory=store, user_id="ann", **option)
