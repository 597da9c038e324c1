"""Recall over a dataset of queries that is larger than memory: Parquet in, Parquet out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from hyrecall.base import disk
from hyrecall.base.arguments import as_int, check_keywords, read_path
from hyrecall.base.disk import open_replacement
from hyrecall.base.malformed import MALFORMED
from hyrecall.base.progress import ProgressFunction, read_progress
from hyrecall.distributed.batch_recall import (
    Answer,
    BatchRecall,
    QueryPart,
    answer_part,
    counts_of,
    identity_of,
    parts_of,
    query_files,
)
from hyrecall.distributed.ray_cluster import map_on_ray
from hyrecall.distributed.shards_file import read_folders
from hyrecall.errors import DTypeError, HyrecallError, OptionError, WriterBusyError, error

JOB, DONE = "_job", "_done.json"  # readers of datasets skip names with an underscore
ROWS = 65_536


@dataclass(frozen=True)
class DatasetHits:
    """The files that :func:`recall_dataset` wrote, and their counts.

    Attributes
    ----------
    folder, files : Path, tuple of Path
        Files of hits, in the order of the queries.
    n_queries, n_hits, n_refused, n_parts_kept : int
        The last one counts files that an earlier run had written. The metadata of a file says under
        ``degraded`` which queries have a text that asked for too much and was not searched.
    """

    folder: Path
    files: tuple[Path, ...]
    n_queries: int
    n_hits: int
    n_refused: int
    n_parts_kept: int


@check_keywords
def recall_dataset(
    recall: BatchRecall,
    queries: str | Path | Sequence[str | Path],
    output: str | Path,
    *,
    resume: bool = False,
    rows: int = ROWS,
    on_ray: bool = False,
    concurrency: int | None = None,
    num_cpus: float = 1,
    num_gpus: float | None = None,
    progress: ProgressFunction | None = None,
) -> DatasetHits:
    """Answer all queries of Parquet files and write their hits to Parquet files.

    The queries are cut into parts. The hits of a part are one file, which is named by the part's
    number and appears only when it is complete: a part that is answered twice, because a process
    ended, is written once. The files of an interrupted run are kept, and ``resume=True`` answers
    the other parts. Each process holds a few thousand queries in memory at a time.

    Parameters
    ----------
    recall : BatchRecall
        Answers the queries. With ``on_error="column"`` the files also have the refused queries.
    queries : path-like or sequence of path-like
        Parquet files, or folders of them.
    output : path-like
        A folder, which is created. At the end it has ``part-000000.parquet`` and so on, in the
        order of the queries, and ``_done.json`` with the numbers of queries and hits.
    resume : bool, default False
        Keep the parts that an earlier run of the same job has written.
    rows : int, default 65,536
        Largest number of queries in a part.
    on_ray : bool, default False
        Answer with Ray Data (extra ``[ray]``), in the cluster that the program is connected to or
        in a local one. The index, the queries and the output must have the same paths everywhere.
    concurrency : int, optional
        With ``on_ray``, the number of actors; default: as many as the cluster has room for.
    num_cpus : float, default 1
        Cores that Ray reserves for each actor.
    num_gpus : float, optional
        GPUs that Ray reserves for each actor, which sees no other GPUs. Default: 1 for a named CUDA
        device, and for ``"auto"`` if the cluster has a GPU for every actor; else 0.
    progress : callable, optional
        ``progress(done, total)`` in queries.

    Returns
    -------
    DatasetHits

    Raises
    ------
    HyrecallError
        The error of the first part that was not answered; the message names the part and the number
        of other failed parts. All other parts are answered first, and kept.
    OptionError, WriterBusyError
        The output folder has another job, or a job and ``resume`` is False; another run.
    """
    if not isinstance(recall, BatchRecall):
        raise error(DTypeError, "recall", "a BatchRecall", repr(recall)[:80])
    n_rows = as_int(rows)
    if n_rows is None or not 1 <= n_rows <= 1 << 30:
        raise error(OptionError, "rows", "an int in [1, 2^30]", repr(rows))
    tell = read_progress(progress)
    files = query_files(read_folders("queries", queries))
    folder = read_path(output).absolute()
    parts = parts_of(files, recall.columns, n_rows)
    job = {**recall.identity, "queries": identity_of(files), "rows": n_rows}
    disk.make_folder(folder / JOB)
    try:
        with disk.writer_lock(folder / JOB):
            recall = recall.at(_begin(folder, job, recall.now, is_resumed=resume))
            left = [one for one in parts if not (folder / one.output).exists()]
            answers: Iterator[Answer]
            if on_ray:
                answers = map_on_ray(
                    partial(_answer, recall.for_cpus(num_cpus), folder),
                    [one._asdict() for one in left],
                    device=recall._opening.device, concurrency=concurrency,
                    num_cpus=num_cpus, num_gpus=num_gpus,
                )  # fmt: skip
            else:
                answers = (answer_part(recall, one, folder) for one in left)
            faults = _collected(answers, parts, left, tell)
            return _end(folder, parts, recall, faults, len(parts) - len(left))
    except WriterBusyError:
        raise error(WriterBusyError, "output", "no other run to it", "an active one") from None


def _answer(recall: BatchRecall, folder: Path, **part: Any) -> Answer:
    return answer_part(recall, QueryPart(**part), folder)


def _collected(
    answers: Iterable[Answer],
    parts: Sequence[QueryPart],
    left: Sequence[QueryPart],
    tell: ProgressFunction | None,
) -> list[tuple[QueryPart, HyrecallError]]:
    """Wait for all answers; return the errors of parts that have none."""
    tell = tell or (lambda done, total: None)
    total = sum(one.n_rows for one in parts)
    n_done = total - sum(one.n_rows for one in left)
    faults: dict[int, HyrecallError] = {}
    seen: set[int] = set()
    tell(n_done, total)
    for number, _, fault in answers:
        if fault is not None:
            faults[number] = fault
        elif number not in seen:  # a part that was answered twice counts once
            n_done += parts[number].n_rows
            tell(n_done, total)
        seen.add(number)
    return [(parts[number], faults[number]) for number in sorted(faults)]


def _begin(folder: Path, job: dict[str, Any], now: datetime, *, is_resumed: bool) -> datetime:
    """Record the job, or refuse a different one; return the time from which ages count."""
    path = folder / JOB / "job.json"
    if not path.exists():
        if any(folder.glob("*.parquet")):
            raise error(OptionError, "output", "a new folder, or that of a job", "Parquet files")
        with open_replacement("output", path) as file:
            file.write(json.dumps({"job": job, "now": now.isoformat()}, indent=1).encode())
        return now
    try:
        kept = json.loads(path.read_bytes())
        known, began = kept["job"], datetime.fromisoformat(kept["now"])
        if not isinstance(known, dict) or began.tzinfo is None:
            raise ValueError("a job of other types")
    except MALFORMED as fault:
        wish, remedy = "the folder of a job", "remove it, or write to another folder"
        got = f"a damaged file or another's, {path}"
        raise error(OptionError, "output", wish, got, remedy) from fault
    if not is_resumed:
        raise error(OptionError, "output", "a new folder, or resume=True", "one with a job")
    plain = json.loads(json.dumps(job))
    for name in known | plain:
        if known.get(name) != plain.get(name):
            wish = f"{name} as before"
            raise error(OptionError, "resume", wish, f"{plain.get(name)!r}"[:120])
    return began


def _end(
    folder: Path,
    parts: Sequence[QueryPart],
    recall: BatchRecall,
    faults: Sequence[tuple[QueryPart, HyrecallError]],
    n_kept: int,
) -> DatasetHits:
    for one in folder.glob(".hyrecall-*.tmp"):  # left by a killed process
        with suppress(OSError):
            one.unlink()
    if faults:
        part, fault = faults[0]
        n_more = len(faults) - 1
        more = f"; {n_more} other parts failed" if n_more else ""
        fault.args = (f"{fault} (part {part.number}, {part}{more}; resume=True keeps the others)",)
        raise fault
    recall.check_current()
    files = tuple(folder / one.output for one in parts)
    lost = [one for one in parts if not (folder / one.output).exists()]
    if lost:
        raise error(OptionError, "output", f"the file of part {lost[0].number}", "none")
    every = [counts_of(one) for one in files]
    names = ("queries", "hits", "refused")
    total = {name: sum(one[name] for one in every) for name in names}
    with open_replacement("output", folder / DONE) as file:
        file.write(json.dumps({**total, "parts": len(parts)}).encode())
    return DatasetHits(folder, files, total["queries"], total["hits"], total["refused"], n_kept)
