"""Who keeps a store open for its handles: writes, index searches and upkeep go through it."""
