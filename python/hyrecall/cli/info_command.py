"""``hyrecall info``: what an index holds, and nothing of any document."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from hyrecall.cli.options import Folder
from hyrecall.cli.show import print_json, print_table
from hyrecall.index import Index

__all__ = ["info"]


def info(
    folder: Folder,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show an index's sizes and settings."""
    index = Index.open(folder)
    facts = _facts(index)
    if as_json:
        print_json(facts)
        return
    table = Table(title=str(folder), title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _lines(facts):
        table.add_row(name, value)
    print_table(table)


def _facts(index: Index) -> dict[str, Any]:
    facts = index._facts
    return {
        "schema": index.schema.to_dict(),
        "types": {name: str(kind) for name, kind in facts.row_types.items()},
        "analyzer": {arm: repr(analyzer) for arm, analyzer in facts.analyzers.items()},
        "bm25": {arm: repr(bm25) for arm, bm25 in facts.bm25.items()},
        **index.stats(),
    }


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    schema, types = facts["schema"], facts["types"]

    def typed(names: list[str]) -> str:
        return ", ".join(f"{name} ({types[name]})" for name in names)

    lines = [
        ("documents", f"{facts['n_docs']:,} live, {facts['n_dead']:,} deleted"),
        ("segments", f"{facts['n_segments']}, {_mebibytes(facts['segments'])}"),
        ("key", typed([schema["key"]])),
        ("cell", typed(schema["cell"]) if schema["cell"] else "none: one audience"),
    ]
    for arm, columns in schema["text"].items():
        what = f"{' + '.join(columns)}, {facts['analyzer'][arm]}, {facts['bm25'][arm]}"
        lines.append((f"text arm {arm}", what))
    for arm, vector in schema["vector"].items():
        what = f"{vector['column']}, {facts['dims'][arm]} dimensions"
        lines.append((f"vector arm {arm}", what))
    if schema["attributes"]:
        lines.append(("attributes", typed(schema["attributes"])))
    lines.append(("runs on", f"{facts['device']} ({facts['isa']}, {facts['threads']} threads)"))
    return lines


def _mebibytes(segments: list[dict[str, Any]]) -> str:
    total = sum(_total(segment["nbytes"]) for segment in segments)
    return f"{total / 2**20:,.1f} MiB"


def _total(nbytes: Any) -> int:
    return sum(map(_total, nbytes.values())) if isinstance(nbytes, dict) else int(nbytes)
