"""Rerankers on models of others, for the stage :class:`hyrecall.RerankBy`."""

from hyrecall.rerank.cross_encoder import CrossEncoder

__all__ = ["CrossEncoder"]
