"""Analyzers: split texts into terms, and hold the BM25 settings of a text arm."""
