"""LlamaIndex's retriever over an index of yours, and its memory block over a store."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import ConfigDict, Field, PrivateAttr
from llama_index.core.memory import BaseMemoryBlock
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from hyrecall.adapters.degraded import warn_if_degraded
from hyrecall.adapters.index_arms import check_arms, check_limit, text_of
from hyrecall.adapters.memories import Store, UserMemories
from hyrecall.ask.filter_like import FilterLike
from hyrecall.ask.scope import Scope
from hyrecall.ask.scoring import Fusion
from hyrecall.errors import DTypeError, error
from hyrecall.hits.hit import Hit
from hyrecall.index import Index

__all__ = ["HyrecallMemoryBlock", "HyrecallRetriever"]


class HyrecallRetriever(BaseRetriever):
    """Retrieves rows of an index, in one scope, by words and, with an embedding model, by vector.

    Parameters
    ----------
    index : Index
    scope : cell or Scope
        What :meth:`hyrecall.Index.recall` takes; None only for an index with one audience
        (``cell=None``). There is no default.
    embed_model : BaseEmbedding, optional
        Embeds queries that bring no embedding; default: those are searched by words alone. An index
        without a text arm needs it, one without vectors refuses it.
    limit : int, default 10
        At least 1. In an index with several arms at most ``depth``.
    depth : int, default 100
        How many rows each arm hands on: one depth for all queries, so that a smaller limit gives
        the first rows of a larger one.
    filter : Filter, optional
    fusion : RRF or WeightedSum or Max or DBSF, optional
        As in :meth:`hyrecall.Index.recall`.
    columns : tuple of str, default ()
        Columns for the metadata of the nodes.
    callback_manager, verbose
        Of LlamaIndex's retrievers.

    Raises
    ------
    ScopeError, DTypeError, OptionError
        No scope; no index; an option that the index cannot follow.
    """

    def __init__(
        self, index: Index, *, scope: object, embed_model: BaseEmbedding | None = None,
        limit: int = 10, filter: FilterLike | None = None, fusion: Fusion | None = None,  # noqa: A002
        columns: tuple[str, ...] = (), depth: int = 100, callback_manager: Any = None,
        verbose: bool = False,
    ) -> None:  # fmt: skip
        """Check the index and the scope."""
        if not isinstance(index, Index):
            raise error(DTypeError, "index", "an hr.Index", type(index).__name__)
        check_arms(index, "embed_model", embed_model)
        index.count(scope=scope, filter=filter)  # refuses what no recall would take
        index.get([], scope=Scope([]) if index.schema.cell_columns else None, columns=columns)
        check_limit(limit, depth, index)
        super().__init__(callback_manager=callback_manager, verbose=verbose)
        self._index, self._embed_model, self._columns = index, embed_model, columns
        self._options: dict[str, Any] = {
            "scope": scope, "filter": filter, "limit": limit, "fusion": fusion, "columns": columns,
            "depth": depth,
        }  # fmt: skip

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        vector = query_bundle.embedding
        if vector is None and self._embed_model is not None:
            vector = self._embed_model.get_agg_embedding_from_queries(query_bundle.embedding_strs)
        return self._recall(query_bundle.query_str, vector)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        vector, model = query_bundle.embedding, self._embed_model
        if vector is None and model is not None:
            vector = await model.aget_agg_embedding_from_queries(query_bundle.embedding_strs)
        return await asyncio.to_thread(self._recall, query_bundle.query_str, vector)

    def _recall(self, text: str, vector: list[float] | None) -> list[NodeWithScore]:
        words = text if text and self._index.schema.text_arms else None
        if words is None and vector is None:
            return []  # a query without words finds nothing
        hits = self._index.recall_one(text=words, vector=vector, **self._options)
        warn_if_degraded(hits.trace.degraded)
        return [NodeWithScore(node=self._node(hit), score=hit.score) for hit in hits]

    def _node(self, hit: Hit) -> TextNode:
        metadata = {name: hit[name] for name in self._columns}
        return TextNode(id_=str(hit.key), text=text_of(hit, self._index), metadata=metadata)


class HyrecallMemoryBlock(BaseMemoryBlock[str]):
    """Keeps what leaves a conversation's short-term memory, and recalls it for the same user.

    Parameters
    ----------
    memory : Memory or MemorySync
    user_id : str
        Whose memories. There is no default.
    org, workspace : str, optional
        The partition around the user.
    limit : int, default 5
        At most so many memories in a prompt.
    context_messages : int, default 3
        How many of the last messages make the query.
    name, description, priority, accept_short_term_memory
        Of LlamaIndex's memory blocks.

    Raises
    ------
    ScopeError, DTypeError
        No user; no store.

    Notes
    -----
    Memories of all sessions are recalled; each keeps the session that it comes from. What a recipe
    only fills its list with is left out.
    """

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(default=5, ge=1)
    context_messages: int = Field(default=3, ge=1)
    _memories: UserMemories = PrivateAttr()

    def __init__(
        self, *, memory: Store, user_id: str, org: str | None = None, workspace: str | None = None,
        name: str = "memories", **options: Any,
    ) -> None:  # fmt: skip
        """Check the store and the user."""
        memories = UserMemories(memory, user_id, org, workspace)
        super().__init__(name=name, **options)
        self._memories = memories

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        last = (messages or [])[-self.context_messages :]
        query = "\n".join(text for text in map(_text, last) if text)
        if not query:
            return ""
        found = await self._memories.search(query, limit=self.limit)
        return "\n".join(one.episode.text for one in found)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        for message in messages:
            if _text(message):
                await self._memories.call(
                    "remember", _text(message),
                    session_id=message.additional_kwargs.get("session_id"),
                    metadata={"role": str(message.role.value)},
                )  # fmt: skip


def _text(message: ChatMessage) -> str:
    return (message.content or "").strip()
