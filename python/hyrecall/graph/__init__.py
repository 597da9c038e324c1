"""Edges between documents as an index of their own, and what is near a document."""
