"""DuckDB: an index of a query's rows, and hits as a table that SQL joins.

DuckDB keeps rows in a form of its own, so it makes one copy when it hands them over as Arrow; the
index reads that copy and makes none of its own. DuckDB scans the Arrow table of the hits.
"""

import duckdb
import pyarrow as pa

import hyrecall as hr

SCHEMA = hr.Schema(key="id", cell="user", text="text", vector="vector", attributes="year")


def documents(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    """Return a query of the documents of two users, with vectors of three numbers."""
    connection.execute(
        "CREATE TABLE documents (id TEXT, user TEXT, text TEXT, year BIGINT, vector FLOAT[3])"
    )
    connection.executemany(
        "INSERT INTO documents VALUES (?, ?, ?, ?, ?)",
        [
            ("tea", "ann", "Green tea at four", 2024, [1.0, 0.0, 0.0]),
            ("bills", "ann", "Invoices are due on Friday", 2026, [0.0, 1.0, 0.0]),
            ("fjord", "bob", "The fjord in winter", 2026, [0.0, 0.0, 1.0]),
        ],
    )
    return connection.sql("SELECT * FROM documents WHERE year >= 2000 ORDER BY id")


def build(rows: duckdb.DuckDBPyRelation) -> hr.Index:
    """Index the rows of a query as they are: a relation has ``__arrow_c_stream__``."""
    return hr.Index.build(rows, SCHEMA)


def recall(index: hr.Index, texts: list[str], users: list[str]) -> pa.Table:
    """Return the hits of queries, each with its own user, as an Arrow table."""
    hits = index.recall(text=texts, scope=users, columns=("year",), fusion=hr.RRF())
    return hits.to_arrow()


if __name__ == "__main__":
    with duckdb.connect() as connection:
        index = build(documents(connection))
        hits = recall(index, ["when is tea", "the fjord"], ["ann", "bob"])
        connection.register("hits", hits)
        found = connection.sql(
            "SELECT h.query, h.key, h.score, d.text FROM hits h "
            "JOIN documents d ON (d.user, d.id) = (h.user, h.key) ORDER BY h.query, h.rank"
        )
        print(found)
        assert [row[1] for row in found.fetchall()] == ["tea", "fjord"]
