"""The owner of an open store, which does the writes, index searches and upkeep of its handles."""
