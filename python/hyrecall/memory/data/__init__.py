"""Arguments and results of a store as plain data: episodes, facts, matches."""
