"""What a store takes and returns: episodes, facts, matches, as plain data."""
