"""The arrays of a run: those of some of its queries, and its exact-match lists."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hyrecall.parts.part import Array, RunPart

__all__ = ["cut_exact", "list_sizes", "piece", "without_exact"]


def list_sizes(part: RunPart) -> npt.NDArray[np.int64]:
    """Return the number of documents in each list: [n_queries, n_arms]."""
    return np.diff(part.arrays["list_ends"]).reshape(-1, part.n_arms)


def piece(part: RunPart, begin: int, end: int) -> dict[str, Array]:
    """Return the arrays of some queries of a run."""
    given = part.arrays
    ends = given["doc_ends"]
    n_queries, n_docs = len(ends) - 1, int(ends[-1])
    first, last = int(ends[begin]), int(ends[end])
    lists = given["list_ends"][begin * part.n_arms : end * part.n_arms + 1]
    out = {"doc_ends": ends[begin : end + 1] - first, "list_ends": lists - lists[0]}
    out["listed"] = given["listed"][int(lists[0]) : int(lists[-1])]
    of_queries = ("found", "length_shares", "refused")
    for name, array in given.items():
        if name in out or name == "holds":
            continue
        per, low, high = (n_queries, begin, end) if name in of_queries else (n_docs, first, last)
        width = len(array) // per if per else 0
        out[name] = array[low * width : high * width]
    return {name: np.ascontiguousarray(array) for name, array in out.items()}


def without_exact(part: RunPart) -> RunPart:
    """Return a run without its last arms, whose lists are empty."""
    if not part.n_exact:
        return part
    n_arms, kept = part.n_arms, part.n_arms - part.n_exact
    arrays = dict(part.arrays)
    ends = arrays["list_ends"][1:].reshape(-1, n_arms)[:, :kept]
    arrays["list_ends"] = np.concatenate([[0], ends.reshape(-1)]).astype(np.int64)
    arrays["scores"] = arrays["scores"].reshape(-1, n_arms)[:, :kept].reshape(-1)
    return RunPart(kept, 0, arrays)


def cut_exact(parts: Sequence[RunPart], n_exact: int, depth: int) -> list[RunPart]:
    """Cut the lists of the last arms at a depth, over all parts together."""
    kept = [np.ones(len(part.arrays["listed"]), np.bool_) for part in parts]
    for arm in range(parts[0].n_arms - n_exact, parts[0].n_arms):
        entries = [_entries(part, arm) for part in parts]
        query, score, seq = (np.concatenate([one[at] for one in entries]) for at in (1, 2, 3))
        order = np.lexsort((seq, -score, query))
        firsts = np.searchsorted(query[order], query[order])
        inside = np.empty(len(order), np.bool_)
        inside[order] = np.arange(len(order)) - firsts < depth
        ends = np.cumsum([0, *(len(one[0]) for one in entries)])
        for mask, one, begin, end in zip(kept, entries, ends[:-1], ends[1:], strict=True):
            mask[one[0]] = inside[begin:end]
    return [_kept(part, mask) for part, mask in zip(parts, kept, strict=True)]


def _entries(part: RunPart, arm: int) -> tuple[Array, Array, Array, Array]:
    """Return the entries of an arm's lists: their places in ``listed``, queries, scores, seqs."""
    arrays, n_arms = part.arrays, part.n_arms
    of_list = np.repeat(np.arange(len(arrays["list_ends"]) - 1), np.diff(arrays["list_ends"]))
    places = np.flatnonzero(of_list % n_arms == arm)
    query = of_list[places] // n_arms
    docs = arrays["doc_ends"][query] + arrays["listed"][places]
    return places, query, arrays["scores"][docs * n_arms + arm], arrays["seq"][docs]


def _kept(part: RunPart, mask: npt.NDArray[np.bool_]) -> RunPart:
    if mask.all():
        return part
    sums = np.concatenate([[0], np.cumsum(mask)])
    arrays = {**part.arrays, "list_ends": sums[part.arrays["list_ends"]].astype(np.int64)}
    arrays["listed"] = part.arrays["listed"][mask]
    return part._replace(arrays=arrays)
