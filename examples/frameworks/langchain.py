"""LangChain over hyrecall: a vector store per user, and a hybrid retriever in a chain."""

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import ConfigurableField, RunnablePassthrough

import hyrecall as hr
from hyrecall.adapters.documents import DocumentIndex
from hyrecall.adapters.langchain import HyrecallRetriever, HyrecallVectorStore

# One index for all users, with a field to filter by; each user's store writes into a cell.
embeddings = DeterministicFakeEmbedding(size=64)
documents = DocumentIndex(attributes={"year": int}, dim=64)
ann = HyrecallVectorStore(embeddings, documents=documents, cell="ann")
bob = HyrecallVectorStore(embeddings, documents=documents, cell="bob")

ann.add_documents(
    [
        Document("The replica pg-eu-2 ran out of disk", id="1", metadata={"year": 2026}),
        Document("Invoice INV-2026-0042 is due in May", id="2", metadata={"year": 2026}),
        Document("The office moved to Berlin", id="3", metadata={"year": 2021}),
    ]
)
bob.add_documents([Document("The disk brake squeals", id="1", metadata={"year": 2026})])

# The interface of every vector store of LangChain.
best, score = ann.similarity_search_with_score("The office moved to Berlin", k=1)[0]
assert (best.id, round(score, 3)) == ("3", 1.0)
assert [one.id for one in ann.similarity_search("office", k=3, filter={"year": 2021})] == ["3"]
assert len(ann.max_marginal_relevance_search("disk", k=2)) == 2

# A hybrid retriever: words are found by BM25, the rest by vectors; both scores are in the metadata.
retriever = HyrecallRetriever(
    index=documents, scope="ann", embeddings=embeddings, k=2, options={"fusion": hr.RRF()}
)
found = retriever.invoke("INV-2026-0042")
assert found[0].id == "2"
assert found[0].metadata["hyrecall"]["text"] > 0
assert [one.id for one in retriever.invoke("disk", scope="bob")] == ["1"]  # another scope, one call

# In a chain the scope comes with the configuration of each call.
per_user = retriever.configurable_fields(scope=ConfigurableField(id="user"))
prompt = ChatPromptTemplate.from_template("Context: {context}\nQuestion: {question}")
model = FakeListChatModel(responses=["pg-eu-2"])
chain = {"context": per_user, "question": RunnablePassthrough()} | prompt
told = chain.invoke("Which disk is full?", config={"configurable": {"user": "ann"}}).to_string()
assert "pg-eu-2 ran out of disk" in told
assert "brake" not in told
assert (chain | model | StrOutputParser()).invoke("Which disk is full?") == "pg-eu-2"

# A retriever without a scope cannot be made.
try:
    HyrecallRetriever(index=documents, embeddings=embeddings)
except hr.ScopeError as fault:
    print(fault)
