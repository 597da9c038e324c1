"""A few documents, as one index and saved as shards, and what is asked of them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import hyrecall as hr

SCHEMA = hr.Schema(key="id", cell="user", text="text", vector="v", attributes="year")
N, N_SHARDS = 60, 3
VECTORS = np.random.default_rng(0).standard_normal((N, 8)).astype(np.float32)
WORDS = ("oak", "ash", "elm", "fir")


def documents() -> pa.Table:
    chance = random.Random(0)
    return pa.table(
        {
            "id": [f"k{at}" for at in range(N)],
            "user": [("ann", "bob")[at % 2] for at in range(N)],
            "text": [" ".join(chance.choices(WORDS, k=4)) for _ in range(N)],
            "year": [2000 + at % 9 for at in range(N)],
        }
    )


def asked(**more: Any) -> dict[str, Any]:
    scope = ["ann", "bob", hr.Scope(["ann", "bob"])]
    return {"text": ["oak ash", "elm", "fir oak"], "vectors": VECTORS[:3], "scope": scope, **more}


def saved_shards(folder: Path) -> list[Path]:
    """Save the documents as shards, one behind the other."""
    table, step = documents(), N // N_SHARDS
    out = []
    for at in range(N_SHARDS):
        own = slice(at * step, (at + 1) * step)
        index = hr.Index.build(
            table.slice(own.start, step), SCHEMA, vectors={"v": VECTORS[own]},
            first_seq=own.start, device="cpu",
        )  # fmt: skip
        out.append(folder / f"shard-{at}")
        index.save(out[-1])
    return out


def whole() -> hr.Index:
    return hr.Index.build(documents(), SCHEMA, vectors={"v": VECTORS}, device="cpu")
