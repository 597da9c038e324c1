"""Rank each query of a set by weights that were learnt on the other half of the set.

A half is every second tenant in the order of their names; if a set has no tenants, the even or the
odd half of the split rule.
"""

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from hyrecall.evaluate import Dataset, Indexes, Run, Setting, run_setting
from hyrecall.evaluate.data import CELL
from hyrecall.evaluate.learn import fit_weights

NAME = "learnt on the other half"


def halves(dataset: Dataset) -> tuple[Dataset, Dataset]:
    """Return the two halves of the judged queries."""
    if not dataset.has_cells:
        return dataset.split("even"), dataset.split("odd")
    first = set(sorted(set(dataset.judged[CELL].to_pylist()))[::2])
    return (
        _part(dataset, lambda tenant: tenant in first),
        _part(dataset, lambda tenant: tenant not in first),
    )


def run_learnt(indexes: Indexes, dataset: Dataset, base: Setting) -> tuple[Run, Setting]:
    """Return the run of all queries, and the setting that was learnt last, for its time."""
    one, other = halves(dataset)
    settings = [fit_weights(indexes, known, base)[0] for known in (one, other)]
    runs = [
        run_setting(indexes, asked, learnt)
        for asked, learnt in zip((other, one), settings, strict=True)
    ]
    documents = {**runs[0].documents, **runs[1].documents}
    scores = {**runs[0].scores, **runs[1].scores}
    return Run(NAME, documents, scores), settings[-1]


def _part(dataset: Dataset, keeps: Callable[[str], bool]) -> Dataset:
    """Return the queries of some tenants."""
    kept = [keeps(tenant) for tenant in dataset.queries[CELL].to_pylist()]
    queries = dataset.queries.filter(pa.array(kept))
    ids = set(queries["id"].to_pylist())
    judgements = {query: one for query, one in dataset.judgements.items() if query in ids}
    return replace(dataset, queries=queries, judgements=judgements)
