"""Nodes for the tests of LlamaIndex's adapter."""

from typing import Any

from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode


def node(key: str, text: str = "x", source: str | None = None, **fields: Any) -> TextNode:
    """Return a node with an embedding, and a source document if it is named."""
    made = TextNode(id_=key, text=text, **fields)
    if source is not None:
        made.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=source)
    return made
