"""Builds the indexes of a set and recalls its queries with a setting, in one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hyrecall.base.keywords import check_keywords
from hyrecall.errors import OptionError, error
from hyrecall.evaluate.data import CELL, Dataset
from hyrecall.evaluate.metrics import MEASURES, Scores, cutoff_of, read_measures, score_run
from hyrecall.evaluate.settings import Setting
from hyrecall.index import Index
from hyrecall.table.schema import Schema, Text

__all__ = ["DEPTH", "LIMIT", "Indexes", "Run", "run_setting", "score_setting", "what_is_asked"]

LIMIT = 100
"""Hits per query, unless a measure reads more or the setting has its own limit."""

DEPTH = 1000
"""The depth of a setting without its own depth, as in published evaluations."""


@dataclass(frozen=True, eq=False)
class Run:
    """The ranked lists of a setting.

    Attributes
    ----------
    name : str
        The name of the setting.
    documents : mapping of str to tuple of str
        The documents of each query, best first.
    scores : mapping of str to tuple of float
        The scores of these documents.
    """

    name: str
    documents: Mapping[str, tuple[str, ...]]
    scores: Mapping[str, tuple[float, ...]]


@check_keywords
class Indexes:
    """The indexes of a set, one for each analyzer and choice of columns, built on first use.

    Parameters
    ----------
    dataset : Dataset
        The halves of a set share its corpus, so one ``Indexes`` serves both.
    device : str, default "auto"
    threads : int, optional
        As in :meth:`hyrecall.Index.build`.
    """

    def __init__(
        self, dataset: Dataset, *, device: str = "auto", threads: int | None = None
    ) -> None:
        """Keep the corpus without building an index."""
        self._corpus = dataset.corpus
        self._has_cells = dataset.has_cells
        self._has_vectors = dataset.has_vectors
        self._how: dict[str, Any] = {"device": device, "threads": threads}
        self._built: dict[tuple[Any, ...], Index] = {}

    def get(self, setting: Setting) -> Index:
        """Return the index for a setting, with the arms ``text`` and ``embedding``."""
        which = (setting.analyzer.hash, setting.attributes, setting.thread, setting.place)
        if which not in self._built:
            title = ("title",) if "title" in self._corpus.column_names else ()
            schema = Schema(
                key="id",
                cell=CELL if self._has_cells else None,
                text={"text": Text(*title, "text")},
                vector="embedding" if self._has_vectors else (),
                attributes=setting.attributes,
                thread=setting.thread,
                place=setting.place,
            )
            self._built[which] = Index.build(
                self._corpus, schema, analyzer=setting.analyzer, **self._how
            )
        return self._built[which]


@check_keywords
def run_setting(indexes: Indexes, dataset: Dataset, setting: Setting, *, limit: int = LIMIT) -> Run:
    """Recall the judged queries of a set in one batch.

    Parameters
    ----------
    indexes : Indexes
        Indexes of this set, or of the set that it is a half of.
    dataset : Dataset
    setting : Setting
    limit : int, default 100
        Hits per query, at most the depth; the setting's own ``limit`` takes precedence.

    Raises
    ------
    OptionError
        The setting uses vectors, but documents or queries have none.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from hyrecall.evaluate.settings import read_setting
    >>> corpus = pa.table({"id": ["a", "b"], "text": ["hot tea", "tea and more tea"]})
    >>> queries = pa.table({"id": ["q"], "text": ["tea"]})
    >>> data = Dataset("drinks", corpus, queries, {"q": {"a": 1}})
    >>> run_setting(Indexes(data), data, read_setting("bm25")).documents
    {'q': ('b', 'a')}
    """
    if "vectors" in setting.arms and not dataset.has_vectors:
        wish = "an embedding of documents and queries"
        raise error(OptionError, f"setting {setting.name!r}", wish, f"none in {dataset.name}")
    judged = dataset.judged
    queries = judged["id"].to_pylist()
    if not queries:
        return Run(setting.name, {}, {})
    options: dict[str, Any] = dict(setting.options)
    recipe = options.get("recipe")
    if recipe is None:
        options.setdefault("depth", DEPTH)
    depth = options.get("depth", getattr(recipe, "depth", DEPTH))
    options.setdefault("limit", min(limit, depth))
    options |= what_is_asked(dataset, setting)
    hits = indexes.get(setting).recall(**options).to_arrow()
    counts = np.bincount(hits["query"].to_numpy(), minlength=len(queries))
    ends = np.cumsum(counts)
    keys, scores = hits["key"].to_pylist(), hits["score"].to_pylist()
    spans = [(query, end - n, end) for query, end, n in zip(queries, ends, counts, strict=True)]
    return Run(
        setting.name,
        {query: tuple(keys[begin:end]) for query, begin, end in spans},
        {query: tuple(scores[begin:end]) for query, begin, end in spans},
    )


def what_is_asked(dataset: Dataset, setting: Setting) -> dict[str, Any]:
    """Return the judged queries as arguments of a recall: the parts that a setting passes."""
    judged = dataset.judged
    asked: dict[str, Any] = {}
    if "text" in setting.arms:
        asked["text"] = judged["text"].to_pylist()
    if "vectors" in setting.arms:
        asked["vectors"] = judged["embedding"]
    if dataset.has_cells:
        asked["scope"] = judged[CELL].to_pylist()
    return asked


@check_keywords
def score_setting(
    indexes: Indexes,
    dataset: Dataset,
    setting: Setting,
    *,
    measures: str | Sequence[str] = MEASURES,
) -> Scores:
    """Recall the judged queries of a set and score the lists, as far as the measures read.

    Parameters
    ----------
    indexes, dataset, setting
        As in :func:`run_setting`.
    measures : str or sequence of str
        As in :func:`score_run`.

    Raises
    ------
    OptionError
        As in :func:`run_setting`, or the setting's own ``limit`` is less than a measure reads.
    """
    named = read_measures(measures)
    longest = max(named, key=cutoff_of)
    own = setting.options.get("limit")
    if own is not None and own < cutoff_of(longest):
        wish = f">= {cutoff_of(longest)}, which {longest} reads"
        raise error(OptionError, f"limit of setting {setting.name!r}", wish, own)
    run = run_setting(indexes, dataset, setting, limit=max(LIMIT, cutoff_of(longest)))
    judgements = {query: dataset.judgements[query] for query in run.documents}
    return score_run(
        run.documents, judgements, classes=dataset.classes, measures=named, name=setting.name
    )
