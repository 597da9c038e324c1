"""A store's rows in SQLite: reading, writing, checking and erasing them."""
