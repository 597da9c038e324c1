"""What a stage adds to one query: a recall with it beside the same recall without, in turns.

python -m bench.calls_ratio
python -m bench.calls_ratio --rounds 100 --json bench/results/beside/stages.json

An index of 10,000 rows, five users and threads of ten turns; a query of two words and a vector in
the scope of one user. A turn is ten calls of a recipe, whose keys are read; figures are medians of
the processor time of a call.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import hyrecall as hr
from bench import calls_beside

N_ROWS, DIM, CALLS = 10_000, 64, 10
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
WORDS = (*calls_beside.WORDS, *(f"word{at}" for at in range(300)))


def index() -> hr.Index:
    """Return an index whose words are as frequent as those of a language."""
    rng = np.random.default_rng(0)
    share = 1 / np.arange(1, len(WORDS) + 1)
    at = np.arange(N_ROWS)
    table = pa.table(
        {
            "id": at,
            "user": [f"u{one % 5}" for one in at],
            "talk": [f"t{one // 50}" for one in at],
            "turn": at // 5 % 10,
            "role": ["user" if one % 3 else "assistant" for one in at],
            "at": [NOW - dt.timedelta(hours=int(one)) for one in at],
            "tags": [[f"g{one % 7}", f"h{one % 11}"] for one in at],
            "text": [" ".join(rng.choice(WORDS, 12, p=share / share.sum())) for _ in at],
        }
    )
    schema = hr.Schema(
        key="id", cell="user", text="text", vector="embedding", thread="talk", place="turn",
        attributes=("role", "at", "tags"),
    )  # fmt: skip
    rows = rng.normal(size=(N_ROWS, DIM)).astype(np.float32)
    return hr.Index.build(table, schema, vectors={"embedding": rows}, device="cpu", threads=1)


def calls() -> dict[str, tuple[str, Callable[[], Any]]]:
    """Return each call, and the name of the one that it is compared with."""
    own, vector = index(), np.random.default_rng(3).normal(size=DIM).astype(np.float32)
    around = hr.recipes.conversation
    plain = around.replace(shaping=())
    weights = {
        "fused": 1.0, "agreement": 0.2, "text_score": 0.5, "embedding_score": 0.3, "text_rank": 0.1,
    }  # fmt: skip
    columns = {"role=user": 0.1, "recency(at, 30d)": 0.1}
    near = weights | {"neighbour_1": 0.4, "thread": 0.2, "text_before_1": 0.1, "text_after_1": 0.1}

    def one(**options: Any) -> Callable[[], Any]:
        return lambda: own.recall_one(text="green tea", vector=vector, scope="u1", **options).keys

    def learnt(weighed: dict[str, float], base: hr.Recipe = plain) -> Callable[[], Any]:
        recipe = base.replace(shaping=(*base.shaping, hr.Linear(weighed)))
        return one(recipe=recipe, now=NOW)

    return {
        "plain": ("plain", one(recipe=plain)),
        "learnt": ("plain", learnt(weights)),
        "learnt, value": ("plain", learnt(weights | {"role=user": 0.1})),
        "learnt, recency": ("plain", learnt(weights | {"recency(at, 30d)": 0.1})),
        "learnt, both": ("plain", learnt(weights | columns)),
        "learnt, shared": ("plain", learnt(weights | {"shared(tags)": 0.1})),
        "group": ("plain", one(recipe=plain, group="thread")),
        "conversation": ("plain", one(recipe=around)),
        "conversation, learnt": ("conversation", learnt(near, around)),
        "conversation, learnt, both": ("conversation", learnt(near | columns, around)),
        "conversation, group": ("conversation", one(recipe=around, group="thread")),
    }


def main() -> None:
    """Ask in turns and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    asked = calls()
    taken: dict[str, list[float]] = {name: [] for name in asked}
    for at in range(given.rounds + 2):
        for name, (_, call) in asked.items():
            begin = time.process_time()
            for _ in range(CALLS):
                call()
            if at >= 2:
                taken[name].append((time.process_time() - begin) / CALLS * 1e6)
    us = {name: float(np.median(times)) for name, times in taken.items()}
    found = {
        name: {"us": us[name], "beside": beside, "ratio": us[name] / us[beside]}
        for name, (beside, _) in asked.items()
    }
    for name, told in found.items():
        print(f"{name:26} {told['us']:6.0f} us, {told['ratio']:.2f} of {told['beside']}")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
