"""The figures of a measurement, as the simulation asks for them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.scale.fitting import Floats, Noise, between, line, noise_from
from bench.scale.simulator import Warmth

Entry = dict[str, Any]
STEPS = ("counting", "finding")
SPLIT_ROWS = 8_192  # from here on threads share a scan


class Figures:
    """What ``python -m bench.scale measure`` wrote."""

    def __init__(self, found: Entry, *, beside_others: bool = False) -> None:
        """Take the JSON; other programs interrupt shards only if ``beside_others`` says so."""
        self.found = found
        self.depth: int = found["depth"]
        noise = "noise_beside_others" if beside_others else "noise"
        self.noise: Noise = noise_from(found[noise])

    @classmethod
    def load(cls, path: Path, *, beside_others: bool = False) -> Figures:
        """Read a file."""
        return cls(json.loads(path.read_text()), beside_others=beside_others)

    def warmth(self) -> tuple[Warmth, Warmth]:
        """Return what a shard and a caller save if they were at work shortly before."""
        found = self.found["warm"]
        return Warmth(found["shard"], found["pause_ms"]), Warmth(found["caller"], found["pause_ms"])

    def entries(self, kind: str, scope: str) -> list[Entry]:
        """Return the entries of a kind and scope by the rows that a query sees."""
        here = [e for e in self.found["shards"] if (e["kind"], e["scope"]) == (kind, scope)]
        rows = max(e["rows"] for e in here)
        # Of tenants, those in the largest shard; of everyone, the shards.
        kept = [e for e in here if scope == "everyone" or e["rows"] == rows]
        return sorted(kept, key=lambda e: e["seen"])

    def step_ms(
        self,
        kind: str,
        step: str,
        rows: npt.ArrayLike,
        *,
        threads: int = 1,
        gb_s: float = np.inf,
    ) -> Floats:
        """Return the processor time of a step over rows that a query sees, on so many threads."""
        speed = gb_s if step == "finding" else np.inf
        return self._shared(kind, lambda e: float(e[step]["ms"]), rows, threads, speed)

    def recall_ms(
        self, kind: str, rows: npt.ArrayLike, *, threads: int = 1, gb_s: float = np.inf
    ) -> Floats:
        """Return the processor time of a recall of one query by a single index."""
        return self._shared(kind, lambda e: float(e["batched"]["1"]), rows, threads, gb_s)

    def _shared(
        self,
        kind: str,
        value: Callable[[Entry], float],
        rows: npt.ArrayLike,
        threads: int,
        gb_s: float,
    ) -> Floats:
        """Share what grows with the rows among threads, as fast as memory gives the first plane.

        Up to the largest measured tenant its times are a tenant's, and then those of all rows.
        """
        seen = np.asarray(rows, float)
        tenants, everyone = self.entries(kind, "tenant"), self.entries(kind, "everyone")
        curves = []
        for here in (tenants, everyone):
            points = [e["seen"] for e in here], [value(e) for e in here]
            least = between(*points, 0.0)
            grows = between(*points, seen) - least
            scan = 0.0 if kind == "lexical" else seen * self.first_bytes / (gb_s * 1e6)
            many = least + np.maximum(grows / threads, scan)
            curves.append(np.where(seen < SPLIT_ROWS, least + grows, many))
        return np.where(seen <= tenants[-1]["seen"], *curves)

    def questions(self, kind: str, scope: str) -> Floats:
        """Return how long each question takes in each step, beside the mean: (steps, questions)."""
        entry = self.entries(kind, scope)[-1]
        return np.array([entry[step]["questions"] for step in STEPS])

    def caller_ms(self, kind: str, shards: npt.ArrayLike) -> Floats:
        """Return what a recall over so many shards costs the caller."""
        here = self._callers(kind, self.depth)
        return between([e["shards"] for e in here], [e["busy"] for e in here], shards)

    def caller_line(self, kind: str, depth: int | None = None) -> tuple[float, float]:
        """Return what a recall costs the caller: once, and for each shard."""
        here = self._callers(kind, self.depth if depth is None else depth)
        fixed, each = line([e["shards"] for e in here], [e["busy"] for e in here])
        return max(0.0, fixed), each

    def _callers(self, kind: str, depth: int) -> list[Entry]:
        return [e for e in self.found["callers"] if (e["kind"], e["depth"]) == (kind, depth)]

    def wire_bytes(self, kind: str, scope: str) -> dict[str, float]:
        """Return the bytes of a request, of statistics and of candidates of one shard."""
        return dict(self.entries(kind, scope)[-1]["bytes"])

    @cached_property
    def first_bytes(self) -> float:
        """Bytes a document that a scan of vectors reads first: heads, or the plane without them."""
        on_disk = self.found["disk_bytes"]
        return float(on_disk.get("heads", on_disk["plane"]))

    @cached_property
    def disk_bytes(self) -> float:
        """Bytes a document on the disk, all files."""
        return float(sum(self.found["disk_bytes"].values()))

    @cached_property
    def memory_bytes(self) -> float:
        """Bytes a document in memory, all parts."""
        return float(sum(self.found["memory_bytes"].values()))
