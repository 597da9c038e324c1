"""Rank each query of a set by weights that were learnt on the other parts of the set.

A part is every fifth tenant in the order of their names; if a set has no tenants, a fifth of the
queries, by the hash of the id.
"""

from collections.abc import Iterator, Set
from dataclasses import replace

import pyarrow as pa
import xxhash

from hyrecall.evaluate import Dataset, Indexes, Run, Setting, run_setting
from hyrecall.evaluate.data import CELL
from hyrecall.evaluate.learn import fit_weights

NAME = "learnt on the other parts"
N_PARTS = 5


def parts(dataset: Dataset) -> Iterator[tuple[Dataset, Dataset]]:
    """Give each part of the judged queries, behind all others."""
    queries = dataset.judged
    if dataset.has_cells:
        tenants = sorted(set(queries[CELL].to_pylist()))
        part_of = [tenants.index(tenant) % N_PARTS for tenant in queries[CELL].to_pylist()]
    else:
        ids = queries["id"].to_pylist()
        part_of = [xxhash.xxh3_64_intdigest(one.encode()) % N_PARTS for one in ids]
    for part in sorted(set(part_of)):
        yield (
            _chosen(dataset, [one != part for one in part_of]),
            _chosen(dataset, [one == part for one in part_of]),
        )


def run_learnt(indexes: Indexes, dataset: Dataset, base: Setting) -> tuple[Run, Setting]:
    """Return the run of all queries, and the setting that was learnt last, for its time."""
    found = Run(NAME, {}, {})
    learnt = base
    for others, asked in parts(dataset):
        learnt, _ = fit_weights(indexes, others, base)
        one = run_setting(indexes, asked, learnt)
        found = Run(NAME, {**found.documents, **one.documents}, {**found.scores, **one.scores})
    return found, learnt


def _chosen(dataset: Dataset, is_in: list[bool]) -> Dataset:
    """Return some of the judged queries."""
    queries = dataset.judged.filter(pa.array(is_in))
    ids: Set[str] = set(queries["id"].to_pylist())
    judgements = {query: one for query, one in dataset.judgements.items() if query in ids}
    return replace(dataset, queries=queries, judgements=judgements)
