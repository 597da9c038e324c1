"""One store, many processes: the owner answers the others over a Unix socket in its folder."""
