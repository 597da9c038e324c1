"""Random schemas, tables, histories and requests against the oracle; see :mod:`fuzz.checks`."""
