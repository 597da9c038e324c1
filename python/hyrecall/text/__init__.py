"""A text becomes terms: analyzers and the Python functions that they call."""
