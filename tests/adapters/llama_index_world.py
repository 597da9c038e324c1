"""Nodes and an embedding model for the tests of LlamaIndex's adapter."""

from typing import Any

from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

from hyrecall.embed import HashEmbedder


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
