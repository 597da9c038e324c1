"""Reads an Arrow table and vectors into checked columns."""
