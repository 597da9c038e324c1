"""Graphs: an index of edges between the documents of another index, and distances in it."""
