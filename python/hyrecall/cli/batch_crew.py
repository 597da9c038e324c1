"""Chooses who answers a batch: this process, threads that await shards, or actors of Ray."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from hyrecall.cli.batch import Batch
from hyrecall.cli.batch_workers import Answer, Here, InThreads, OnRay, Workers
from hyrecall.distributed.saved import check_seals, facts_of, open_saved
from hyrecall.distributed.shard_opening import ShardOpening
from hyrecall.distributed.sharded import ShardedIndex
from hyrecall.embed import StaticEmbedder
from hyrecall.recall.embedders import embedders_at_open

__all__ = ["crew_of"]


@contextmanager
def crew_of(
    job: Batch,
    folders: Sequence[Path],
    seals: Sequence[str],
    opening: ShardOpening,
    *,
    actors: Mapping[str, Any] | None,
) -> Iterator[Workers]:
    """Start who answers the slices, and end them; ``actors``: options of those on Ray, if any."""
    with ExitStack() as ended:
        if actors is not None:
            how = {name: getattr(job, name) for name in ("asked", "scope", "options")}
            arm = None if job.embed is None else job.embed[0]
            absolute = [one.absolute() for one in folders]
            once = replace(opening.once_checked, threads=opening.threads or 1)
            make = partial(_answerer, absolute, tuple(seals), once, arm, how)
            ray = OnRay(make, **actors)
            ended.callback(ray.close)
            yield ray
        elif isinstance(job.index, ShardedIndex):
            crew = InThreads(job.answer)
            ended.callback(job.index.close)  # last
            ended.callback(crew.close)
            yield crew
        else:
            yield Here(job.answer)


def _answerer(
    folders: Sequence[Path],
    seals: Sequence[str],
    opening: ShardOpening,
    arm: str | None,
    how: dict[str, Any],
) -> Answer:
    """Open an index, whose version was checked here, in an actor; return what answers there."""
    index = open_saved(folders, opening)
    check_seals(folders, seals)
    embed = None if arm is None else (arm, StaticEmbedder())
    embedders = embedders_at_open(None, facts_of(index))
    return Batch(index=index, embed=embed, embedders=embedders, **how).answer
