"""Shards that were built from files, and the one index of all their rows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import hyrecall as hr
from distributed.subjects import draw_said
from hyrecall.distributed import ShardedIndex, Shards, build_shards
from laws.checks import LawBroken, outcome
from laws.engine import EngineSubject, ipc_bytes
from oracle.corpus import Draw
from oracle.documents import Row
from oracle.recall import Oracle


def write_files(folder: Path, table: pa.Table, chance: random.Random, most: int = 4) -> Path:
    """Cut a table into files and these into row groups, by chance."""
    folder.mkdir()
    n_files = chance.randint(1, most)
    ends = sorted(chance.choices(range(table.num_rows + 1), k=n_files - 1))
    for at, (begin, end) in enumerate(
        zip([0, *ends], [*ends, table.num_rows], strict=True)
    ):  # fmt: skip
        part = table.slice(begin, end - begin)
        pq.write_table(part, folder / f"{at}.parquet", row_group_size=chance.randint(1, 40))
    return folder


def built(source: Path, schema: hr.Schema, output: Path, **options: Any) -> Shards:
    """Build shards with one thread."""
    return build_shards(source, schema, output, threads=1, **options)


def same_calls(
    subject: type[EngineSubject],
    shape: Any,
    rows: Sequence[Row],
    one: hr.Index,
    folder: Path,
    draw: Draw,
    n_calls: int = 3,
) -> int:
    """Every reply of a folder of shards is that of one index; return how many are answered."""
    n_answered = 0
    guide = Oracle(shape, rows)
    with ShardedIndex.open(folder, device="cpu") as index:
        subjects: list[Any] = []
        for made in (one, index):
            own: Any = object.__new__(subject)
            own.shape, own.index = shape, made
            subjects.append(own)
        for number in range(n_calls):
            call = draw_said(subject, draw, guide, 8)
            want, got = (
                outcome(lambda own=own, call=call: ipc_bytes(own.hits(call).to_arrow()))
                for own in subjects
            )
            if got != want:
                raise LawBroken(f"call {number}: {call}\n{want!r:.500}\nagainst\n{got!r:.500}")
            n_answered += isinstance(want, bytes)
    return n_answered
