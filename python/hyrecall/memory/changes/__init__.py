"""The changes of a store as plain data: what is written, apart from who writes it."""
