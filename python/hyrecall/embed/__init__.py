"""Embedders, which turn texts into vectors: their protocol, implementations and guard."""

from hyrecall.embed.choose import AUTO, EmbedBy
from hyrecall.embed.choose import embedder as choose_embedder
from hyrecall.embed.guard import Guard, Off, from_async
from hyrecall.embed.http import HttpEmbedder
from hyrecall.embed.protocol import Embedder, EmbedError, EmbedFault, NoVectors, check_vectors
from hyrecall.embed.static import HashEmbedder, StaticEmbedder
from hyrecall.embed.transformer import MiniLMEmbedder

__all__ = [
    "AUTO",
    "EmbedBy",
    "EmbedError",
    "EmbedFault",
    "Embedder",
    "Guard",
    "HashEmbedder",
    "HttpEmbedder",
    "MiniLMEmbedder",
    "NoVectors",
    "Off",
    "StaticEmbedder",
    "check_vectors",
    "choose_embedder",
    "from_async",
]
