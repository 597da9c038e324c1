"""Spreads statistics and parts of some queries of a batch to the whole batch, and back.

A shard that holds none of a query's cells need not be asked that query: its counts are 0 and its
lists are empty. So the results for its own queries are extended to those for all queries.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hyrecall.errors import OptionError, ShapeError, error
from hyrecall.parts.counts import MOST_COUNT, N_NUMBERS, Counts, Statistics, check_alike
from hyrecall.parts.part import Part, RunPart

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Share:
    """The queries of a batch that a shard is asked."""

    queries: npt.NDArray[np.int64]
    n_queries: int
    recipes: Sequence[int]

    def named(self, run: str) -> str:
        """Return the name in the batch of a run of this share."""
        found = re.match(r"\d{1,9}", run)
        if found is None or int(found[0]) >= len(self.recipes):
            raise error(OptionError, "parts", "runs of this request", repr(run))
        return f"{self.recipes[int(found[0])]}{run[found.end() :]}"


# ---- statistics ----


def sum_shares(
    parts: Sequence[tuple[Statistics, Share]],
) -> tuple[Statistics, list[Statistics]]:
    """Sum the counts of shards, each for its own queries."""
    for statistics, share in parts:
        check_alike(parts[0][0], statistics)
        if len(statistics.sees_threads) not in (1, len(share.queries)):
            raise _other_queries("statistics")
    named: dict[str, list[tuple[Counts, Share]]] = {}
    for statistics, share in parts:
        for run, counts in statistics.runs.items():
            named.setdefault(share.named(run), []).append((counts, share))
    runs = {run: _sum(given) for run, given in named.items()}
    first, share = parts[0]
    sees = np.zeros(share.n_queries, np.bool_)
    for statistics, own in parts:
        sees[own.queries] |= statistics.sees_threads
    versions = tuple(version for one, _ in parts for version in one.versions)
    summed = Statistics(first.request, first.index, versions, _alike(sees), runs)
    shares = [
        replace(
            summed,
            sees_threads=_alike(sees[own.queries]),
            runs={
                run: _taken(runs[own.named(run)], counts, own)
                for run, counts in statistics.runs.items()
            },
        )
        for statistics, own in parts
    ]
    return summed, shares


def _other_queries(argument: str) -> ShapeError:
    return error(ShapeError, argument, "those of the queries that were asked", "others")


def _alike(sees: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return a single entry if all queries have the same value."""
    return sees[:1] if len(sees) and (sees == sees[0]).all() else sees


def _sum(given: Sequence[tuple[Counts, Share]]) -> Counts:
    for own, share in given:
        if len(own.queries) and (own.queries[0] < 0 or own.queries[-1] >= len(share.queries)):
            raise _other_queries("statistics")
    queries = np.unique(np.concatenate([share.queries[own.queries] for own, share in given]))
    # A recipe with exact= counts a text arm only where a query of the share is asked as a whole.
    arms = tuple(dict.fromkeys(arm for own, _ in given for arm in own.arms))
    n = len(arms) * len(queries)
    entries = [_entries(own, share, arms, queries) for own, share in given]
    reasons = np.zeros(n, np.int64)
    for (own, _), at in zip(given, entries, strict=True):
        reasons[at] = np.maximum(reasons[at], own.refusals)
    counted = [
        own.without(reasons[at] > 0).arrays  # a text that one shard refuses has no counts
        for (own, _), at in zip(given, entries, strict=True)
    ]
    numbers = np.zeros((n, N_NUMBERS), np.int64)
    for own_arrays, at in zip(counted, entries, strict=True):
        _add(numbers, at, own_arrays["numbers"].reshape(-1, N_NUMBERS))
    numbers[:, -1] = reasons
    arrays: dict[str, Array] = {"numbers": numbers.reshape(-1)}
    for ends, values in (("freq_ends", "freqs"), ("thread_ends", "thread_freqs")):
        sizes = np.full(n, -1, np.int64)
        for own_arrays, at in zip(counted, entries, strict=True):
            found = np.diff(own_arrays[ends])
            if ((sizes[at] >= 0) & (sizes[at] != found)).any():
                raise error(ShapeError, "statistics", "those of one request", "others")
            sizes[at] = found
        arrays[ends] = np.concatenate([[0], np.cumsum(np.maximum(sizes, 0))]).astype(np.int64)
        arrays[values] = np.zeros(int(arrays[ends][-1]), np.int64)
        for own_arrays, at in zip(counted, entries, strict=True):
            _add(arrays[values], _places(arrays[ends], at), own_arrays[values])
    return Counts(queries, arms, arrays)


def _add(sums: Array, at: Array, counts: Array) -> None:
    """Add counts of one shard, each below 2^62, to sums; refuse sums that could wrap."""
    sums[at] += counts
    if (sums[at] >= MOST_COUNT).any():
        raise error(OptionError, "statistics", "sums in [0, 2^62)", "others")


def _entries(own: Counts, share: Share, arms: Sequence[str], queries: Array) -> Array:
    """Return the entries, arm by arm, of a share's queries among those of the batch."""
    at = np.searchsorted(queries, share.queries[own.queries])
    of_arms = np.array([arms.index(arm) for arm in own.arms], np.int64)
    return (of_arms[:, None] * len(queries) + at[None, :]).reshape(-1)


def _places(ends: Array, entries: Array) -> Array:
    """Return the places of the values of some entries, concatenated."""
    sizes = np.diff(ends)[entries]
    begins = np.concatenate([[0], np.cumsum(sizes)])
    return np.asarray(
        np.arange(begins[-1]) - np.repeat(begins[:-1], sizes) + np.repeat(ends[entries], sizes)
    )


def _taken(summed: Counts, own: Counts, share: Share) -> Counts:
    """Return the sum for the queries that a shard counted."""
    return Counts(own.queries, own.arms, summed.picked(share.queries[own.queries], own.arms))


# ---- parts ----


def joined_alone(parts: Sequence[tuple[Part, Share]]) -> list[Part]:
    """Return the parts of shards that were asked alone; no query went to two shards."""
    # The sums for a query are the counts of its only shard, so the parts get one common sum.
    sees = np.zeros(parts[0][1].n_queries, np.bool_)
    for part, share in parts:
        if len(part.sees_threads) not in (1, len(share.queries)):
            raise _other_queries("parts")
        sees[share.queries] = part.sees_threads
    versions = tuple(part.version for part, _ in parts)
    likes = widest_runs(parts)
    whole = _alike(sees)
    return [
        replace(spread_part(part, share, whole, likes), versions=versions) for part, share in parts
    ]


def spread_part(
    part: Part, share: Share, sees: npt.NDArray[np.bool_], likes: Mapping[str, RunPart]
) -> Part:
    """Return the part that a shard would return if it were asked all queries."""
    own = {share.named(name): run for name, run in part.runs.items()}
    runs = {
        name: _spread(own[name], like, share) if name in own else _nothing(like, share.n_queries)
        for name, like in likes.items()
    }
    return replace(part, runs=runs, sees_threads=sees)


def _spread(run: RunPart, like: RunPart, share: Share) -> RunPart:
    """Return a run with empty lists for the queries that are not in the share."""
    arrays = dict(run.arrays)
    n, queries = share.n_queries, share.queries
    added = like.n_arms - run.n_arms  # exact-match arms, which find nothing here
    if added != like.n_exact - run.n_exact:
        raise error(ShapeError, "parts", "those of one request", "others")
    sizes = np.zeros(n, np.int64)
    sizes[queries] = np.diff(arrays["doc_ends"])
    lists = np.zeros((n, like.n_arms), np.int64)
    lists[queries, : run.n_arms] = np.diff(arrays["list_ends"]).reshape(-1, run.n_arms)
    arrays["doc_ends"] = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    arrays["list_ends"] = np.concatenate([[0], np.cumsum(lists.reshape(-1))]).astype(np.int64)
    if len(arrays["found"]):  # for evidence
        found = np.zeros(n, np.int64)
        found[queries] = arrays["found"]
        arrays["found"], arrays["length_shares"] = found, like.arrays["length_shares"]
    if "refused" in arrays:
        refused = np.zeros((n, len(arrays["refused"]) // max(len(queries), 1)), np.uint8)
        refused[queries] = arrays["refused"].reshape(len(queries), -1)
        arrays["refused"] = refused.reshape(-1)
    if added:
        scores = arrays["scores"].reshape(-1, run.n_arms)
        unscored = np.full((len(scores), added), -np.inf, np.float32)
        arrays["scores"] = np.concatenate([scores, unscored], axis=1).reshape(-1)
        arrays["holds"] = np.zeros(len(scores), np.uint32)
    return RunPart(like.n_arms, like.n_exact, arrays)


def _nothing(like: RunPart, n_queries: int) -> RunPart:
    """Return a run without results, with the arms of another run."""
    arrays = {name: one[:0] for name, one in like.arrays.items() if name != "refused"}
    arrays["doc_ends"] = np.zeros(n_queries + 1, np.int64)
    arrays["list_ends"] = np.zeros(n_queries * like.n_arms + 1, np.int64)
    if len(like.arrays["found"]):
        arrays["found"] = np.zeros(n_queries, np.int64)
        arrays["length_shares"] = like.arrays["length_shares"]
    return RunPart(like.n_arms, like.n_exact, arrays)


def widest_runs(parts: Sequence[tuple[Part, Share]]) -> dict[str, RunPart]:
    """Return for each run, by its name in the batch, the part with the most arms."""
    # It has the values that the sums give for each query of the whole batch (``length_shares``).
    for part, share in parts:
        n = len(share.queries)
        for run in part.runs.values():
            arrays = run.arrays
            fits = len(arrays["doc_ends"]) == n + 1 and len(arrays["found"]) in (0, n)
            fits &= len(arrays.get("refused", ())) % n == 0
            if not fits or len(arrays["length_shares"]) % n:
                raise _other_queries("parts")
    named: dict[str, list[tuple[RunPart, Share]]] = {}
    for part, share in parts:
        for name, run in part.runs.items():
            named.setdefault(share.named(name), []).append((run, share))
    out = {}
    for name, given in named.items():
        widest, share = max(given, key=lambda one: one[0].n_arms)
        width = len(widest.arrays["length_shares"]) // max(len(share.queries), 1)
        shares = np.zeros((share.n_queries, width), np.float64)
        for run, own in given:
            if len(run.arrays["length_shares"]) != len(own.queries) * width:
                raise _other_queries("parts")
            shares[own.queries] = run.arrays["length_shares"].reshape(len(own.queries), width)
        arrays = {**widest.arrays, "length_shares": shares.reshape(-1)}
        out[name] = widest._replace(arrays=arrays)
    return out
