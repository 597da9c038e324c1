"""Opens saved indexes of shards, describes them for ``shards.json``, and makes empty ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hyrecall import _core
from hyrecall.base import disk
from hyrecall.distributed.shards_file import ShardEntry
from hyrecall.parts.part import hash_of
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.manifest import MANIFEST, Manifest
from hyrecall.segments.merging import take_rows
from hyrecall.segments.opening import Opening, open_index
from hyrecall.segments.saved_versions import Lineage
from hyrecall.segments.saving import save_index
from hyrecall.segments.segments import Segment, State

__all__ = ["cells_of", "described", "make_empty", "opened"]


def opened(folder: Path, threads: int = 1) -> tuple[IndexFacts, State]:
    """Open the saved index of a shard, mapped; analyzers of shards have no callables."""
    facts, state, _ = open_index(folder, Opening(verify="structure", threads=threads))
    return facts, state


def cells_of(facts: IndexFacts, state: State) -> list[bytes]:
    """Return the encoded cells that have live documents."""
    return state.snapshot.matching([None] * len(facts.schema.cell_columns))


def described(folder: Path, number: int) -> tuple[ShardEntry, str]:
    """Return the entry of a saved shard, and the hash of the facts that all shards share."""
    facts, state, seal = open_index(folder, Opening(verify="structure"))
    manifest = Manifest.from_bytes(disk.read_bytes(folder / MANIFEST), folder / MANIFEST)
    seqs: list[np.ndarray] = [one.core.seqs for one in state.segments if one.rows.num_rows]
    entry = ShardEntry(
        name=f"shard-{number:04d}",
        folder=folder.name,
        rows=state.n_docs,
        cells=len(cells_of(facts, state)) if state.n_docs else 0,
        bytes=manifest.n_bytes,
        first_seq=min((int(one.min()) for one in seqs), default=0),
        last_seq=max((int(one.max()) for one in seqs), default=-1),
        manifest=seal,
    )
    return entry, hash_of(facts)


def make_empty(folder: Path, facts: IndexFacts, segments: Sequence[Segment]) -> None:
    """Save an index without documents, with the types and dimensions of given segments."""
    nothing = np.zeros(0, np.uint32)
    segment = take_rows(segments, nothing, nothing, facts.schema)
    state = State.of([segment], [_core.SegmentView(segment.core)], 0)
    save_index(folder, facts, state, Lineage(), overwrite=False)
