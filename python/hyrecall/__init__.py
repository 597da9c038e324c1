"""Exact scoped hybrid recall: BM25 and cosine, fused, over Arrow tables and tensor columns."""
