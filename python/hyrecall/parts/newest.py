"""The arm Newest over parts: its scores are ranks among the rows of all parts.

A part lists the newest rows of its shard, so the newest rows of all shards are among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hyrecall import _core
from hyrecall.ask.arms import Newest
from hyrecall.errors import OptionError, error
from hyrecall.recall.arms.batch import Batch, FoundDocs
from hyrecall.recall.arms.listed import search_newest

if TYPE_CHECKING:
    from hyrecall.parts.part import Array
    from hyrecall.recall.plan import Plan
    from hyrecall.segments.facts import IndexFacts
    from hyrecall.segments.segments import State

__all__ = ["with_newest"]


def with_newest(
    pools: Sequence[dict[str, Array]],
    facts: IndexFacts,
    state: State,
    plan: Plan,
    request: _core.BatchRequest,
) -> list[dict[str, Array]]:
    """Return the pools of the parts, with lists of each arm Newest computed over all parts."""
    # ``request`` has all arms; the rows of the pools are those of ``state``.
    out = list(pools)
    arms, searches = plan.call_arms, plan.searches
    n_exact = 0 if plan.exact is None else len(plan.exact.lists)
    first = request.n_arms - n_exact - len(arms)
    for at, arm in enumerate(arms):
        if searches is None or not isinstance(arm, Newest):
            continue
        audience = _core.arms.Audience(state.snapshot, request)
        batch = Batch(facts, state, audience, plan.scope, {}, request.n_queries, plan.depth)
        found = _above(search_newest(arm, batch), searches.floors.get(arm.name))
        out = [
            _listed(pool, part, found, first + at, request.n_arms) for part, pool in enumerate(out)
        ]
    return out


def _above(found: FoundDocs, floor: tuple[float, bool] | None) -> FoundDocs:
    """Return the entries that pass a floor, which is rounded to float32 once."""
    if floor is None:
        return found
    least = np.float32(floor[0])
    kept = found.score > least if floor[1] else found.score >= least
    sums = np.concatenate([[0], np.cumsum(kept)])
    return FoundDocs(sums[found.offsets], found.segment[kept], found.row[kept], found.score[kept])


def _listed(
    pool: dict[str, Array], part: int, found: FoundDocs, arm: int, n_arms: int
) -> dict[str, Array]:
    """Return the pool of a part with the rows that an arm found as lists and scores of that arm."""
    n_queries = len(pool["doc_ends"]) - 1
    query = np.repeat(np.arange(n_queries), np.diff(found.offsets))
    here = found.segment == part
    query, row, score = query[here], found.row[here].astype(np.int64), found.score[here]
    owner = np.repeat(np.arange(n_queries), np.diff(pool["doc_ends"]))
    codes = owner << 32 | pool["row"].astype(np.int64)
    order = np.argsort(codes)
    wanted = query << 32 | row
    places = np.searchsorted(codes, wanted, sorter=order)
    if len(places) and (places.max() == len(codes) or (codes[order[places]] != wanted).any()):
        raise error(OptionError, "parts", "the newest documents of each shard", "others")
    docs = order[places]
    scores = pool["scores"].reshape(-1, n_arms).copy()
    scores[:, arm] = -np.inf
    scores[docs, arm] = score
    ranked = docs[np.lexsort((pool["seq"][docs], -score, query))]
    lists, ends = _replaced(pool, arm, n_arms, ranked - pool["doc_ends"][owner[ranked]], query)
    return {**pool, "scores": scores.reshape(-1), "listed": lists, "list_ends": ends}


def _replaced(
    pool: dict[str, Array], arm: int, n_arms: int, listed: Array, query: npt.NDArray[np.int64]
) -> tuple[Array, Array]:
    """Return the lists with those of one arm replaced; the new lists are concatenated."""
    ends = pool["list_ends"]
    of_list = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    kept = of_list % n_arms != arm
    of_all = np.concatenate([of_list[kept], np.sort(query) * n_arms + arm])
    values = np.concatenate([pool["listed"][kept], listed]).astype(np.uint32)
    order = np.argsort(of_all, kind="stable")
    counts = np.bincount(of_all, minlength=len(ends) - 1)
    return values[order], np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
