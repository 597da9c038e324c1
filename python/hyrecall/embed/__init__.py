"""Embedders, which turn texts into vectors: their protocol and implementations."""

from hyrecall.embed.choose import AUTO, EmbedBy
from hyrecall.embed.http import HttpEmbedder
from hyrecall.embed.onnx import MiniLMEmbedder
from hyrecall.embed.protocol import Embedder, EmbedError, EmbedFault
from hyrecall.embed.static import HashEmbedder, StaticEmbedder

__all__ = [
    "AUTO",
    "EmbedBy",
    "EmbedError",
    "EmbedFault",
    "Embedder",
    "HashEmbedder",
    "HttpEmbedder",
    "MiniLMEmbedder",
    "StaticEmbedder",
]
