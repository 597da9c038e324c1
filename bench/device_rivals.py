"""The same work in torch on the same device, as a user would write it without hyrecall.

Every rival takes queries in host memory and gives ids and scores there, as hyrecall does; where
fewer rows than k are in scope, ids end in -1. Rows are unit, so inner product is cosine.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from bench import reference
from bench.corpus import Floats, Ints, Texts

Reply = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]
Search = Callable[[Floats, Ints], Reply]  # queries, and the tenant of each

Window = tuple[int, int]
_QUERIES_AT_A_TIME = 256  # of bm25(): their scores take 100 MB at 100,000 rows


def _to_host(torch: Any, ids: Any, scores: Any) -> Reply:
    """Bring a reply to the host: it waits for the device."""
    found = scores.float()
    return torch.where(found == -torch.inf, -1, ids).cpu().numpy(), found.cpu().numpy()


def product(torch: Any, rows: Any, k: int, *, is_compiled: bool) -> Search:
    """Product with all rows, then topk."""

    def top(queries: Any, held: Any) -> tuple[Any, Any]:
        scores, ids = torch.topk(queries @ held.T, k, dim=1)
        return ids, scores

    run = torch.compile(top, dynamic=False) if is_compiled else top

    def search(queries: Floats, asking: Ints) -> Reply:
        asked = torch.from_numpy(queries).to(rows.device, rows.dtype)
        return _to_host(torch, *run(asked, rows))

    return search


def masked(
    torch: Any, rows: Any, tenants: Ints, times: Ints, window: Window, k: int, *, is_compiled: bool
) -> Search:
    """Product with all rows, foreign ones masked, then topk."""
    owner, at = (torch.from_numpy(each).to(rows.device) for each in (tenants, times))

    def top(queries: Any, asking: Any, held: Any) -> tuple[Any, Any]:
        inside = (at >= window[0]) & (at <= window[1])
        foreign = ~((asking[:, None] == owner[None, :]) & inside[None, :])
        scores, ids = torch.topk((queries @ held.T).masked_fill(foreign, -torch.inf), k, dim=1)
        return ids, scores

    run = torch.compile(top, dynamic=False) if is_compiled else top

    def search(queries: Floats, asking: Ints) -> Reply:
        asked = torch.from_numpy(queries).to(rows.device, rows.dtype)
        return _to_host(torch, *run(asked, torch.from_numpy(asking).to(rows.device), rows))

    return search


def gathered(torch: Any, rows: Any, tenants: Ints, times: Ints, window: Window, k: int) -> Search:
    """Rows sorted by tenant and time; each tenant's window times its own queries, then topk."""
    order = np.lexsort((times, tenants))
    begins = np.searchsorted(tenants[order], np.arange(tenants.max() + 2))
    spans = []
    for begin, end in itertools.pairwise(begins):
        low, high = np.searchsorted(times[order[begin:end]], [window[0], window[1] + 1])
        spans.append((int(begin + low), int(begin + high)))
    place = torch.from_numpy(order).to(rows.device)
    held = rows[place]

    def search(queries: Floats, asking: Ints) -> Reply:
        asked = torch.from_numpy(queries).to(rows.device, rows.dtype)
        ids = torch.full((len(queries), k), -1, dtype=torch.int64, device=rows.device)
        scores = torch.full((len(queries), k), -torch.inf, device=rows.device)
        by_tenant = np.argsort(asking, kind="stable")
        cuts = np.flatnonzero(np.diff(asking[by_tenant])) + 1
        for mine in np.split(by_tenant, cuts):
            begin, end = spans[asking[mine[0]]]
            here = torch.from_numpy(mine).to(rows.device)
            found, at = torch.topk(asked[here] @ held[begin:end].T, min(k, end - begin), dim=1)
            ids[here, : found.shape[1]] = place[begin + at]
            scores[here, : found.shape[1]] = found.float()
        return _to_host(torch, ids, scores)

    return search


def bm25(torch: Any, texts: Texts, device: str, k: int) -> Callable[[list[list[int]]], Reply]:
    """Impacts of all postings on the device, added to a row of scores a query, then topk.

    Postings lie term after term. The first words of all queries are added at once, then the second
    ones, and so on: no two postings of such a step meet in a score, so the sums do not depend on an
    order. Queries are word numbers, each once, as :func:`bench.corpus.text_queries` makes them.
    """
    held = reference.Bm25(texts)
    docs = torch.from_numpy(held.docs).to(device)
    impacts = torch.from_numpy(held.impacts().astype(np.float32)).to(device)
    n, begins = texts.n_docs, held.begins

    def part(queries: list[list[int]]) -> tuple[Any, Any]:
        scores = torch.zeros(len(queries) * n, device=device)
        for place in range(max(map(len, queries))):
            asking = np.array([q for q, words in enumerate(queries) if place < len(words)])
            words = np.array([queries[q][place] for q in asking])
            sizes = torch.from_numpy(begins[words + 1] - begins[words]).to(device)
            ends = torch.cumsum(sizes, 0)
            shift = torch.from_numpy(begins[words]).to(device) - (ends - sizes)
            total = int(ends[-1])
            at = torch.arange(total, device=device)
            at += torch.repeat_interleave(shift, sizes, output_size=total)
            base = torch.from_numpy(asking * n).to(device)
            base = torch.repeat_interleave(base, sizes, output_size=total)
            scores.index_add_(0, base + docs[at], impacts[at])
        found, ids = torch.topk(scores.view(len(queries), n), k, dim=1)
        return ids, found.masked_fill(found <= 0, -torch.inf)

    def search(queries: list[list[int]]) -> Reply:
        parts = [
            part(queries[begin : begin + _QUERIES_AT_A_TIME])
            for begin in range(0, len(queries), _QUERIES_AT_A_TIME)
        ]
        ids, scores = (torch.cat(each) for each in zip(*parts, strict=True))
        return _to_host(torch, ids, scores)

    return search
