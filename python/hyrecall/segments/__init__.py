"""Builds, changes, saves, opens and places segments, the immutable runs of an index's documents."""
