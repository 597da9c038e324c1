"""Documents and queries from several files, patterns, gzip, TSV and stdin."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import hyrecall as hr
from seams import app_app as app

ROWS = [{"id": "a", "t": "green tea"}, {"id": "b", "t": 'milk\t"cold"'}, {"id": "c", "t": "2024"}]


def lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def delimited(rows: list[dict[str, Any]], mark: str) -> bytes:
    def cell(text: str) -> str:
        return '"' + text.replace('"', '""') + '"'

    shown = [mark.join(rows[0]), *(mark.join(map(cell, row.values())) for row in rows)]
    return ("\n".join(shown) + "\n").encode()


def parquet(rows: list[dict[str, Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return bytes(sink.getvalue())


WRITERS: dict[str, Callable[[list[dict[str, Any]]], bytes]] = {
    "jsonl": lines, "ndjson": lines, "json": lines, "parquet": parquet,
    "csv": lambda rows: delimited(rows, ","), "tsv": lambda rows: delimited(rows, "\t"),
}  # fmt: skip


def run(*command: object, given: bytes | None = None) -> Any:
    return CliRunner().invoke(app, [str(one) for one in command], input=given)


def index(output: Path, *files: object, given: bytes | None = None, more: Any = ()) -> Any:
    command = ("index", *files, "-o", output, "--key", "id", "--no-cell", "--text", "t", *more)
    return run(*command, given=given)


def texts(folder: Path) -> dict[str, str]:
    with hr.Index.open(folder) as opened:
        found = opened.recall(text=[hr.Any("green", "milk", "2024")], limit=9)[0]
        return {hit.key: hit.text for hit in found}


EXPECTED = {row["id"]: row["t"] for row in ROWS}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("ending", list(WRITERS))
def test_documents_and_queries_have_every_format_also_packed(
    tmp_path: Path, ending: str, packed: bool
) -> None:
    def write(name: str, rows: list[dict[str, Any]]) -> Path:
        content = WRITERS[ending](rows)
        path = tmp_path / f"{name}.{ending}{'.gz' if packed else ''}"
        path.write_bytes(gzip.compress(content) if packed else content)
        return path

    done = index(tmp_path / "index", write("docs", ROWS))
    assert done.exit_code == 0, done.stderr
    assert texts(tmp_path / "index") == EXPECTED
    asked = write("q", [{"k": "one", "q": "tea"}, {"k": "two", "q": 'x\t"milk"'}])
    command = ("batch", tmp_path / "index", asked, "-o", tmp_path / "hits.jsonl")
    done = run(*command, "--query-text", "q", "--query-key", "k")
    assert done.exit_code == 0, done.stderr
    hits = [json.loads(one) for one in (tmp_path / "hits.jsonl").read_text().splitlines()]
    assert [(one["query_key"], one["key"]) for one in hits] == [("one", "a"), ("two", "b")]


def test_several_files_and_patterns_are_one_corpus_in_order(tmp_path: Path) -> None:
    (tmp_path / "2.jsonl").write_bytes(lines([{**ROWS[1], "n": 1}]))
    (tmp_path / "1.jsonl.gz").write_bytes(gzip.compress(lines([{**ROWS[0], "n": 0.5}])))
    (tmp_path / "more.tsv").write_bytes(delimited([{**ROWS[2], "n": "3"}], "\t"))
    files = (tmp_path / "*.jsonl*", tmp_path / "more.tsv")
    done = index(tmp_path / "index", *files, more=("--attribute", "n"))
    assert done.exit_code == 0, done.stderr
    assert "3 files: 3 rows" in done.stderr
    assert texts(tmp_path / "index") == EXPECTED
    with hr.Index.open(tmp_path / "index") as opened:
        newest = opened.recall(
            text=[hr.Any("green", "milk", "2024")], fusion=None, columns=("n",), limit=9
        ).to_arrow()
        assert dict(zip(newest["key"].to_pylist(), newest["n"].to_pylist(), strict=True)) == {
            "a": 0.5, "b": 1.0, "c": 3.0,
        }  # fmt: skip


def test_parts_of_several_parquet_files_are_one_index(tmp_path: Path) -> None:
    for at, row in enumerate(ROWS):
        (tmp_path / f"p{at}.parquet").write_bytes(parquet([row]))
    done = index(tmp_path / "index", tmp_path / "p*.parquet", more=("--memory", "1GB"))
    assert done.exit_code == 0, done.stderr
    assert texts(tmp_path / "index") == EXPECTED


@pytest.mark.parametrize("kind", [None, "jsonl", "csv", "tsv", "parquet"])
def test_documents_come_from_stdin(tmp_path: Path, kind: str | None) -> None:
    more = () if kind is None else ("--input-format", kind)
    given = WRITERS[kind or "jsonl"](ROWS)
    done = index(tmp_path / "index", "-", given=given, more=more)
    assert done.exit_code == 0, done.stderr
    assert "stdin: 3 rows" in done.stderr
    assert texts(tmp_path / "index") == EXPECTED


def test_what_is_no_file_of_documents_is_told(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "bad.jsonl.gz").write_bytes(gzip.compress(lines(ROWS))[:-9])
    (tmp_path / "plain.jsonl.gz").write_bytes(lines(ROWS))
    (tmp_path / "a.jsonl").write_bytes(lines([{"id": "a", "t": "x", "n": 1}]))
    (tmp_path / "b.jsonl").write_bytes(lines([{"id": "b", "t": "x", "n": "one"}]))
    (tmp_path / "other.txt").write_text("x")
    folder = tmp_path / "folder"
    for files, told in (
        (
            (folder, folder),
            f"{folder}: expected a file, got a folder: name its files, as '{folder}/",
        ),
        ((folder,), "--key: expected no such option for a folder, got 'id'"),
        ((tmp_path / "other.txt",), "expected a name that ends in .parquet"),
        ((tmp_path / "*.none",), "FILE: expected a pattern of files that are there, got"),
        (("-", "-"), "FILE: expected stdin (-) once, got twice"),
        ((tmp_path / "bad.jsonl.gz",), "bad.jsonl.gz: expected a whole file in gzip"),
        ((tmp_path / "plain.jsonl.gz",), "plain.jsonl.gz: expected a whole file in gzip"),
        ((tmp_path / "a.jsonl", tmp_path / "b.jsonl"), "b.jsonl: expected columns of the types of"),
    ):
        done = index(tmp_path / "index", *files, more=("--attribute", "n"))
        assert done.exit_code == 1
        assert told in done.stderr
        assert not (tmp_path / "index").exists()
    done = index(tmp_path / "index", "-", given=b"", more=("--input-format", "xml"))
    assert "'xml' is not one of 'parquet', 'jsonl', 'csv', 'tsv'" in done.stderr
    done = run("batch", tmp_path, folder, "-o", tmp_path / "hits.jsonl", "--query-text", "q")
    assert done.exit_code == 1
