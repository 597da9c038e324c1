"""Haystack: two users' documents in one index, searched by words, by embeddings and by both.

A real program embeds with a model, such as ``SentenceTransformersDocumentEmbedder``; a component
that hashes words plays it here, so that the example runs without a network and without a key.
"""

from haystack import Document, Pipeline, component
from haystack.components.writers import DocumentWriter
from haystack.document_stores.types import DuplicatePolicy

from hyrecall.adapters.documents import DocumentIndex
from hyrecall.adapters.haystack import HyrecallDocumentStore, HyrecallHybridRetriever, HyrecallKeywordRetriever
from hyrecall.embed import HashEmbedder

WORDS = HashEmbedder(dim=64)


@component
class DocumentEmbedder:
    """Gives each document an embedding."""

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, list[Document]]:
        """Embed the documents."""
        for document in documents:
            document.embedding = WORDS.embed([document.content or ""])[0].tolist()
        return {"documents": documents}


@component
class TextEmbedder:
    """Gives a query an embedding."""

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, list[float]]:
        """Embed the text."""
        return {"embedding": WORDS.embed([text])[0].tolist()}


# One index, and a store for each user: a store has a cell, or it is not made.
documents = DocumentIndex(attributes={"year": int}, dim=64, keep_vectors=True)
ann = HyrecallDocumentStore(cell="ann", documents=documents)
bob = HyrecallDocumentStore(cell="bob", documents=documents)

for store, texts in (
    (ann, ["The build runs on Debian 12", "Ann drinks oolong tea", "The build takes an hour"]),
    (bob, ["The build of bob runs on Fedora"]),
):
    indexing = Pipeline()
    indexing.add_component("embedder", DocumentEmbedder())
    indexing.add_component("writer", DocumentWriter(store, policy=DuplicatePolicy.OVERWRITE))
    indexing.connect("embedder", "writer")
    given = [Document(content=text, meta={"year": 2024 + at}) for at, text in enumerate(texts)]
    indexing.run({"embedder": {"documents": given}})

querying = Pipeline()
querying.add_component("embedder", TextEmbedder())
querying.add_component("keyword", HyrecallKeywordRetriever(ann, top_k=3))
querying.add_component("hybrid", HyrecallHybridRetriever(ann, top_k=2, alpha=0.5))
querying.connect("embedder.embedding", "hybrid.query_embedding")

question = "what does the build run on"
late = {"field": "meta.year", "operator": ">=", "value": 2025}
asked = {
    "embedder": {"text": question},
    "keyword": {"query": question, "filters": late},
    "hybrid": {"query": question},
}
found = querying.run(asked)
for name in ("keyword", "hybrid"):
    print(name, [document.content for document in found[name]["documents"]])
assert [one.content for one in found["keyword"]["documents"]] == ["The build takes an hour"]
assert found["hybrid"]["documents"][0].content == "The build runs on Debian 12"
assert len(found["hybrid"]["scores"]) == 2
assert bob.count_documents() == 1
