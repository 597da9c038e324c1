"""Small calls beside an older build of the package: their time as a share of the older one's.

python -m bench.calls_beside OLD NEW
python -m bench.calls_beside OLD NEW --rounds 15 --json bench/results/beside/calls.json

OLD and NEW are folders that hold a built package ``hyrecall`` each, as PYTHONPATH takes them. Every
round asks all calls in a process of either package, in turns: recalls of an index of 500 rows, and
searches of a store of 300 memories. Replies must be equal to the last bit; Python calls are counted
after a warm-up.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa

import hyrecall as hr
from bench.beside_old import run_package
from hyrecall.embed import HashEmbedder
from hyrecall.memory import Episode, EpisodeMatch, MemorySync

N_ROWS, N_MEMORIES, DIM, CALLS = 500, 300, 64, 400
WORDS = (
    "oak",
    "ash",
    "elm",
    "fir",
    "yew",
    "tea",
    "cup",
    "leaf",
    "water",
    "steam",
    "green",
    "river",
)


def index() -> hr.Index:
    """Return an index whose rows lie in cells, threads and years."""
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "id": np.arange(N_ROWS),
            "user": [f"u{at % 5}" for at in range(N_ROWS)],
            "talk": [f"t{at // 10}" for at in range(N_ROWS)],
            "turn": [at % 10 for at in range(N_ROWS)],
            "year": [2020 + at % 4 for at in range(N_ROWS)],
            "text": [" ".join(rng.choice(WORDS, 8)) for _ in range(N_ROWS)],
        }
    )
    schema = hr.Schema(
        key="id", cell="user", text="text", vector="embedding", attributes="year",
        thread="talk", place="turn",
    )  # fmt: skip
    rows = rng.normal(size=(N_ROWS, DIM)).astype(np.float32)
    return hr.Index.build(table, schema, vectors={"embedding": rows}, device="cpu", threads=1)


def store(folder: Path | None, embedder: object) -> MemorySync:
    """Return a store of memories of five users."""
    options: dict[str, Any] = {"embedder": embedder, "recall_timeout": 30.0}
    made = MemorySync.in_memory(**options) if folder is None else MemorySync.open(folder, **options)
    rng = np.random.default_rng(1)
    made.remember_batch(
        [
            Episode(id=f"e{at}", user_id=f"u{at % 5}", text=" ".join(rng.choice(WORDS, 8)))
            for at in range(N_MEMORIES)
        ]
    )
    return made


def scenes(folder: Path) -> dict[str, Callable[[], Any]]:
    """Return the calls to measure."""
    own, vector = index(), np.ones(DIM, np.float32)
    filtered, group = hr.Filter(year=2021), hr.recipes.conversation
    weights = {"fused": 1.0, "agreement": 0.2, "text_score": 0.5, "text_rank": 0.1, "length": 0.1}
    learnt = hr.recipes.default.replace(shaping=(hr.Linear(weights),))

    def one(**options: Any) -> Callable[[], Any]:
        def call() -> Any:
            return own.recall_one(text="green tea", vector=vector, scope="u1", **options)

        return call

    def search(memory: MemorySync) -> Callable[[], Any]:
        def call() -> Any:
            return memory.search("green tea", user_id="u1")

        return call

    return {
        "recall_one": one(),
        "recall_one, recipe": one(recipe=hr.recipes.default),
        "recall_one, filter": one(filter=filtered),
        "recall_one, conversation": one(recipe=group),
        "recall_one, MMR": one(shaping=(hr.MMR(0.7),)),
        "recall_one, learnt": one(recipe=learnt),
        "recall_one, group": one(group="thread"),
        "search, words": search(store(None, None)),
        "search, hash vectors": search(store(None, HashEmbedder(dim=DIM))),
        "search, words, files": search(store(folder / "store", None)),
        **static(search),
    }


def static(search: Callable[[MemorySync], Callable[[], Any]]) -> dict[str, Callable[[], Any]]:
    """Return the search by the packaged model, where it is installed."""
    from hyrecall.embed import StaticEmbedder

    if not StaticEmbedder.available():
        return {}
    return {"search, static": search(store(None, "static"))}


def told_by(reply: Any) -> list[tuple[Any, float]]:
    """Return what must be equal: keys and scores."""
    return [
        (one.episode.id if isinstance(one, EpisodeMatch) else one.key, one.score) for one in reply
    ]


def count(call: Callable[[], Any]) -> int:
    """Return how many Python functions a call calls on this thread."""
    n = 0

    def note(_frame: FrameType, event: str, _: object) -> None:
        nonlocal n
        n += event == "call"

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return n


def measure() -> dict[str, Any]:
    """Ask every call many times; return microseconds, calls and a digest of the replies."""
    told: dict[str, Any] = {"package": hr.__file__}
    with tempfile.TemporaryDirectory() as folder:
        for name, call in scenes(Path(folder)).items():
            for _ in range(20):
                reply = call()
            taken = []
            for _ in range(CALLS):
                begin = time.perf_counter()
                call()
                taken.append(time.perf_counter() - begin)
            told[name] = {
                "us": float(np.quantile(taken, 0.1) * 1e6),
                "calls": count(call),
                "digest": hashlib.sha256(repr(told_by(reply)).encode()).hexdigest(),
            }
    return told


def told_of(package: Path) -> dict[str, Any]:
    """Measure a package in a process of its own."""
    return run_package(package, "bench.calls_beside")


def compare(rounds: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, Any]:
    """Return the figures of each call; refuse replies that differ."""
    out = {}
    for name in rounds[0][1]:
        pairs = [(old[name], new[name]) for old, new in rounds]
        if len({one["digest"] for pair in pairs for one in pair}) > 1:
            raise SystemExit(f"{name}: expected equal replies of both packages, got others")
        ratios = [new["us"] / old["us"] for old, new in pairs]
        out[name] = {
            "calls": [pairs[0][0]["calls"], pairs[0][1]["calls"]],
            "us": [min(old["us"] for old, _ in pairs), min(new["us"] for _, new in pairs)],
            "ratio": float(np.median(ratios)),
        }
    return out


def main() -> None:
    """Measure in turns and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("packages", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measure", action="store_true")
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure()))
        return
    old, new = given.packages
    found = compare([(told_of(old), told_of(new)) for _ in range(given.rounds)])
    print(f"{'':26} {'calls':>12} {'best us':>16} ratio")
    for name, one in found.items():
        calls, us = one["calls"], one["us"]
        line = f"{name:26} {calls[0]:5} -> {calls[1]:3} {us[0]:7.0f} -> {us[1]:5.0f}"
        print(f"{line} {one['ratio']:.2f}")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
