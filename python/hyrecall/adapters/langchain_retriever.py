"""LangChain: a retriever over an index, with a scope."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from hyrecall.adapters.degraded import warn_if_degraded
from hyrecall.adapters.documents import DocumentIndex
from hyrecall.adapters.extras import needs_extra
from hyrecall.adapters.index_arms import check_arms
from hyrecall.adapters.langchain_documents import (
    column_types,
    of_hit,
    read_filter,
    refuse,
    with_scores,
)
from hyrecall.errors import DTypeError, OptionError, ScopeError, error
from hyrecall.index import Index

with needs_extra("langchain"):
    from langchain_core.callbacks import (
        AsyncCallbackManagerForRetrieverRun,
        CallbackManagerForRetrieverRun,
    )
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.retrievers import BaseRetriever
    from pydantic import ConfigDict, Field, model_validator

__all__ = ["HyrecallRetriever"]

_OWN: Final = {
    "text": "the query is the text", "vector": "embeddings= makes it", "limit": "k is the limit",
    "columns": "a field of the retriever",
}  # fmt: skip


class HyrecallRetriever(BaseRetriever):
    """Retrieves documents by BM25 and cosine, fused, within a scope.

    A call may name another ``k``, ``scope`` and ``filter``, and any option of
    :meth:`hyrecall.Index.recall_one`: ``retriever.invoke("tea", scope="bob")``. Fields can be
    configured by LangChain's ``configurable_fields``. Scores and the cell of a document are in
    ``metadata["hyrecall"]``.

    Parameters
    ----------
    index : Index or DocumentIndex
        What is searched. The text of a hit becomes the page content.
    scope : cell or Scope
        What a call may see; None only for an index with one audience (``cell=None``).
    embeddings : Embeddings, optional
        Makes the query's vector; without it, text alone is searched. An ``Index`` without a text
        arm needs it, one without vectors refuses it.
    k : int, default 4
    filter : Filter, pyarrow.compute.Expression or dict, optional
        A dict is as the service's JSON: ``{"kind": "note", "year": {"from": 2024}}``.
    columns : sequence of str, default ()
        Columns of an ``Index`` that become metadata, beside its attributes.
    options : dict, default {}
        More options of ``recall_one`` for each call, such as ``recipe`` or ``fusion``.

    Raises
    ------
    ScopeError
        No scope, or one that the index cannot read.
    OptionError
        An option that no call would follow. Pydantic wraps it in a ``ValidationError``.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    index: Any
    scope: Any
    embeddings: Embeddings | None = None
    k: int = 4
    filter: Any = None
    columns: Sequence[str] = ()
    options: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _needs_scope(cls, values: Any) -> Any:
        if isinstance(values, dict) and "scope" not in values:
            raise error(ScopeError, "scope", "a scope: a cell or hr.Scope([...])", "none")
        return values

    @model_validator(mode="after")
    def _check(self) -> HyrecallRetriever:
        if not isinstance(self.index, Index | DocumentIndex):
            wish = "an hr.Index or a DocumentIndex"
            raise error(DTypeError, "index", wish, type(self.index).__name__)
        if self.k < 0:
            raise error(OptionError, "k", "an int >= 0", self.k)
        refuse(self.options, scope="a field", filter="a field", **_OWN)
        if isinstance(self.index, DocumentIndex):
            if self.columns:
                raise error(OptionError, "columns", "none (metadata comes whole)", self.columns)
        else:
            check_arms(self.index, "embeddings", self.embeddings)
            column_types(self.index, self.columns)
        self.index.count(scope=self.scope, filter=read_filter(self.index, self.filter))
        return self

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        vector = self.embeddings.embed_query(query) if self.embeddings else None
        return self._recall(query, vector, **options)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        vector = await self.embeddings.aembed_query(query) if self.embeddings else None
        return await asyncio.to_thread(partial(self._recall, query, vector, **options))

    def _recall(
        self, query: str, vector: list[float] | None, /, *, k: int | None = None, **options: Any
    ) -> list[Document]:
        refuse(options, **_OWN)
        asked = {"scope": self.scope, "filter": self.filter} | self.options | options
        asked["filter"] = read_filter(self.index, asked["filter"])
        asked |= {"text": query, "vector": vector, "limit": self.k if k is None else k}
        if isinstance(self.index, DocumentIndex):
            return [with_scores(one) for one in self.index.recall(**asked)]
        schema = self.index.schema
        if not schema.text_arms:
            asked["text"] = None
        columns = (*(schema.attributes or ()), *self.columns)
        hits = self.index.recall_one(**asked, columns=columns)
        warn_if_degraded(hits.trace.degraded)
        return [of_hit(hit, columns, self.index) for hit in hits]
