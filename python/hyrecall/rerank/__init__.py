"""Rerankers on models of others, for the stage :class:`hyrecall.RerankBy`."""
