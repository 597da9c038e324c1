"""Measures of retrieval, paired significance tests over the queries, and baselines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.base.arguments import as_items, check_objects, read_path
from hyrecall.base.disk import open_replacement
from hyrecall.base.malformed import MALFORMED
from hyrecall.errors import DTypeError, MissingExtraError, OptionError, ShapeError, error
from hyrecall.evaluate.data import Judgements

_PACKAGES = ("ir_measures", "pytrec_eval", "scipy", "matplotlib")


def require_extra() -> None:
    """Raise at once if a package of the extra is missing, before a long task."""
    for package in _PACKAGES:
        if find_spec(package) is None:
            wish = "the extra [evaluate] (pip install 'hyrecall[evaluate]')"
            raise error(MissingExtraError, "evaluate", wish, f"no package {package}")


# ---- Scores runs per query and on average, with ir-measures and trec_eval ----

MEASURES = ("nDCG@10", "R@5", "R@10", "R@100", "RR@10", "AP")
"""The default measures."""

OF_MEMORIES = ("any@1", "any@5", "any@10", "all@5", "R@10", "nDCG@10", "RR@10")
"""Those that the field of memories publishes, the default of its sets."""

_KINDS = {
    **dict.fromkeys(("ndcg",), "nDCG"),
    **dict.fromkeys(("r", "recall"), "R"),
    **dict.fromkeys(("any", "success"), "any"),
    "all": "all",
    **dict.fromkeys(("rr", "mrr"), "RR"),
    **dict.fromkeys(("ap", "map"), "AP"),
    **dict.fromkeys(("p", "precision"), "P"),
}
_NEED_CUTOFF = ("R", "any", "all", "P")
_OF_IR_MEASURES = {"any": "Success", "all": "R"}
_MAX_CUTOFF = 100_000


def read_measure(name: str) -> str:
    """Return the canonical name of a measure: ``recall@5`` is ``R@5``, ``MRR@10`` is ``RR@10``."""
    found = re.fullmatch(r"([a-z]+)(?:@([1-9][0-9]*))?", name.strip().lower())
    kind = _KINDS.get(found[1]) if found else None
    cutoff = found[2] if found else None
    if kind is None or (cutoff is None and kind in _NEED_CUTOFF) or int(cutoff or 1) > _MAX_CUTOFF:
        wish = "nDCG@k, R@k, any@k, all@k, RR@k, AP or P@k"
        raise error(OptionError, "measures", wish, repr(name))
    return kind if cutoff is None else f"{kind}@{cutoff}"


def read_measures(names: str | Sequence[str], *, first: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the canonical names of measures, each once, in order; those of ``first`` lead."""
    every = [*first, *([names] if isinstance(names, str) else as_items(names) or ())]
    if len(every) == len(first):
        raise error(OptionError, "measures", "a name, or a sequence of names", repr(names))
    return tuple(dict.fromkeys(map(read_measure, every)))


def cutoff_of(measure: str) -> int:
    """Return the number of documents of a list that a measure reads; 0 means all."""
    return int(measure.partition("@")[2] or 0)


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of a run on each judged query.

    Attributes
    ----------
    name : str
        The name of the run.
    queries : tuple of str
        The judged queries, sorted.
    values : mapping of str to ndarray, shape (n_queries,), float64
        The value of each query in [0, 1], by measure.
    """

    name: str
    queries: tuple[str, ...]
    values: Mapping[str, npt.NDArray[np.float64]]

    def __post_init__(self) -> None:
        for measure, values in self.values.items():
            if np.shape(values) != (len(self.queries),):
                wish = f"a value for each of {len(self.queries)} queries"
                raise error(ShapeError, measure, wish, np.shape(values))

    @property
    def means(self) -> dict[str, float]:
        """Each measure's mean over the queries; 0 without queries."""
        return {
            measure: float(np.mean(values)) if len(values) else 0.0
            for measure, values in self.values.items()
        }

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """Each mean's 95 % bootstrap interval over the queries."""
        columns = np.column_stack(list(self.values.values()))
        return dict(zip(self.values, bootstrap_intervals(columns), strict=True))


@check_objects
def score_run(
    run: Mapping[str, Sequence[str]],
    judgements: Judgements,
    *,
    classes: Mapping[str, str] | None = None,
    measures: str | Sequence[str] = MEASURES,
    name: str = "run",
) -> Scores:
    """Score the lists of a run.

    Parameters
    ----------
    run : mapping of str to sequence of str
        The documents of each query, best first, as in ``documents`` of a :class:`Run`. Only this
        order counts.
    judgements : mapping of str to mapping of str to int
        For each query, the grade of each judged document. A grade above 0 means relevant and is the
        gain of nDCG, linear as in trec_eval. Queries without judgements are left out. A judged
        query without a list, or without a relevant document, scores 0.
    classes : mapping of str to str, optional
        The class of each document with duplicates. A class counts once, at the rank of its first
        member and with its largest grade; its other members do not take up ranks.
    measures : str or sequence of str
        ``nDCG``, ``R``, ``any``, ``all``, ``RR``, ``AP`` or ``P``, in any case, or ``recall``,
        ``success``, ``MRR``, ``MAP``, ``precision``; then ``@`` and the number of documents that
        count.
    name : str, default "run"

    Raises
    ------
    OptionError
        An unknown measure, or a document that occurs twice in a list.
    DTypeError
        A list of documents that is a str.
    MissingExtraError
        The extra ``[evaluate]`` is not installed.

    Examples
    --------
    >>> scores = score_run({"q": ["x", "a"]}, {"q": {"a": 1}}, measures=["RR@10", "R@1"])
    >>> scores.means
    {'RR@10': 0.5, 'R@1': 0.0}
    """
    require_extra()
    import ir_measures

    named = read_measures(measures)
    judged = {query: best_grades(own, classes) for query, own in judgements.items() if own}
    queries = tuple(sorted(judged))
    values = {measure: np.zeros(len(queries)) for measure in named}
    lists = {query: _ranked(query, run[query], classes) for query in queries if run.get(query)}
    if lists:
        # Not `parse_measure`, which wants what CPython 3.14 has no more (ir-measures 0.4.3).
        by_object: dict[Any, list[str]] = {}
        for measure in named:
            kind, _, cutoff = measure.partition("@")
            of_kind = getattr(ir_measures, _OF_IR_MEASURES.get(kind, kind))
            by_object.setdefault(of_kind @ int(cutoff) if cutoff else of_kind, []).append(measure)
        row = {query: at for at, query in enumerate(queries)}
        evaluator = ir_measures.evaluator(list(by_object), judged)
        for metric in evaluator.iter_calc(lists):
            for measure in by_object[metric.measure]:
                value = metric.value == 1 if measure.startswith("all@") else metric.value
                values[measure][row[metric.query_id]] = value
    return Scores(name, queries, values)


def counted_as(document: str, classes: Mapping[str, str] | None) -> str:
    """Return the label of the unit that counts once: a class, or a document without one."""
    if classes is None or document not in classes:
        return f"document {document}"
    return f"class {classes[document]}"


def best_grades(grades: Mapping[str, int], classes: Mapping[str, str] | None) -> dict[str, int]:
    """Return the best grade, at least 0, of each unit that counts once."""
    best: dict[str, int] = {}
    for document, grade in grades.items():
        label = counted_as(document, classes)
        best[label] = max(best.get(label, 0), grade)
    return best


def _ranked(
    query: str, documents: Sequence[str], classes: Mapping[str, str] | None
) -> dict[str, float]:
    """Return labels with decreasing scores, because equal scores would be ordered by name."""
    if isinstance(documents, str):
        raise error(DTypeError, f"run[{query!r}]", "a list of ids", f"str {documents!r}")
    if len(set(documents)) < len(documents):
        raise error(OptionError, f"run[{query!r}]", "each document once", "one twice")
    labels = dict.fromkeys(counted_as(document, classes) for document in documents)
    return {label: float(len(labels) - at) for at, label in enumerate(labels)}


# ---- Compares two runs by paired significance tests over the queries ----

Values = npt.NDArray[np.float64]

N_RESAMPLES = 10_000
SEED = 20_260_101
_AT_ONCE = 256  # resamples in memory


@dataclass(frozen=True)
class Comparison:
    """A measure of two runs over the same queries.

    Attributes
    ----------
    measure : str
    before, after, difference : float
        The means, and their difference, after - before.
    interval : tuple of float
        95 % interval of the mean difference: percentiles of bootstrap means over queries.
    p_value : float
        Two-sided p of the paired randomisation test.
    better, worse, n_queries : int
        Number of queries with a higher value after, with a lower value after, and in total.
    """

    measure: str
    before: float
    after: float
    difference: float
    interval: tuple[float, float]
    p_value: float
    better: int
    worse: int
    n_queries: int

    @property
    def has_fallen(self) -> bool:
        """Whether the measure fell by more than 0.04, or by more than 0.02 with p < 0.01."""
        fall = round(-self.difference, 9)
        return fall > _FAR or (fall > _FALL and self.p_value < _P)


@check_objects
def compare(
    before: Scores, after: Scores, *, measures: str | Sequence[str] | None = None, seed: int = SEED
) -> tuple[Comparison, ...]:
    """Compare two runs on the named measures, by default on all that both have.

    Parameters
    ----------
    before, after : Scores
        Over the same queries.
    measures : str or sequence of str, optional
        Names as in the scores.
    seed : int
        Seed of the resamples: the same scores and seed give the same p.

    Raises
    ------
    OptionError
        The queries differ, or a run lacks a measure.
    """
    if before.queries != after.queries:
        wish = f"the {len(before.queries)} queries of {before.name!r}"
        raise error(OptionError, f"run {after.name!r}", wish, f"{len(after.queries)} other queries")
    shared = [m for m in before.values if m in after.values] if measures is None else measures
    named = (shared,) if isinstance(shared, str) else as_items(shared)
    if named is None:
        raise error(DTypeError, "measures", "a name, or a sequence of names", repr(measures))
    made = []
    for measure in named:
        for one in (before, after):
            if measure not in one.values:
                wish = f"measures with {measure}"
                raise error(OptionError, f"run {one.name!r}", wish, list(one.values))
        differences = after.values[measure] - before.values[measure]
        made.append(
            Comparison(
                measure=measure,
                before=before.means[measure],
                after=after.means[measure],
                difference=float(differences.mean()) if len(differences) else 0.0,
                interval=bootstrap_interval(differences, seed=seed),
                p_value=randomisation_p(differences, seed=seed),
                better=int((differences > 0).sum()),
                worse=int((differences < 0).sum()),
                n_queries=len(differences),
            )
        )
    return tuple(made)


def randomisation_p(
    differences: Values, *, n_resamples: int = N_RESAMPLES, seed: int = SEED
) -> float:
    """Return the two-sided p of the paired randomisation test."""
    # docs/evaluation.md names the source. Of too many flips some are drawn, and the observed one is
    # added, so that p is never 0.
    moved = differences[differences != 0]
    if not len(moved):
        return 1.0
    # Mathematically equal sums differ by rounding: one rounding per term.
    observed = abs(moved.sum()) - np.abs(moved).sum() * len(moved) * 2.0**-52
    exact = len(moved) < 63 and 2 ** len(moved) <= n_resamples
    flips = _all_flips(len(moved)) if exact else _drawn_flips(len(moved), n_resamples, seed)
    as_far = sum(int((np.abs(signs @ moved) >= observed).sum()) for signs in flips)
    return as_far / 2 ** len(moved) if exact else (as_far + 1) / (n_resamples + 1)


def _all_flips(n: int) -> Iterator[Values]:
    yield np.array(list(product((-1.0, 1.0), repeat=n)))


def _drawn_flips(n: int, n_resamples: int, seed: int) -> Iterator[Values]:
    random = np.random.default_rng(seed)
    for first in range(0, n_resamples, _AT_ONCE):
        rows = min(_AT_ONCE, n_resamples - first)
        yield np.where(random.integers(0, 2, (rows, n), np.int8), 1.0, -1.0)


def bootstrap_interval(differences: Values, *, seed: int = SEED) -> tuple[float, float]:
    """Return the 95 % interval of a mean: percentiles of means over queries drawn again."""
    return bootstrap_intervals(differences[:, None], seed=seed)[0]


def bootstrap_intervals(columns: Values, *, seed: int = SEED) -> list[tuple[float, float]]:
    """Return the interval of each column's mean; all columns see the same drawn queries."""
    n, n_columns = columns.shape
    if not n:
        return [(0.0, 0.0)] * n_columns
    random = np.random.default_rng(seed)
    means = []
    for first in range(0, N_RESAMPLES, _AT_ONCE):
        drawn = random.integers(0, n, (min(_AT_ONCE, N_RESAMPLES - first), n))
        means.append(np.stack([column[drawn].mean(axis=1) for column in columns.T], axis=1))
    low, high = np.percentile(np.concatenate(means), [2.5, 97.5], axis=0).tolist()
    return list(zip(low, high, strict=True))


@check_objects
def difference_table(
    before: Scores, after: Scores, measure: str, queries: pa.Table | None = None
) -> pa.Table:
    """Return each query's values before and after a change, the largest difference first.

    Parameters
    ----------
    before, after : Scores
        Over the same queries.
    measure : str
    queries : pyarrow.Table, optional
        With ``id`` and ``text``, to include the texts in the result.

    Returns
    -------
    pyarrow.Table
        Columns ``query``, ``text``, ``before``, ``after``, ``difference``, a row for every query;
        equal differences are ordered by query id.
    """
    compare_queries = before.queries == after.queries
    if not compare_queries or measure not in before.values or measure not in after.values:
        wish = f"two runs over the same queries, with {measure}"
        raise error(OptionError, "measure", wish, f"{before.name!r} and {after.name!r}")
    texts: dict[str, Any] = {}
    if queries is not None:
        texts = dict(zip(queries["id"].to_pylist(), queries["text"].to_pylist(), strict=True))
    was, now = before.values[measure], after.values[measure]
    order = sorted(range(len(was)), key=lambda at: (-abs(now[at] - was[at]), before.queries[at]))
    names = [before.queries[at] for at in order]
    return pa.table(
        {
            "query": pa.array(names, pa.string()),
            "text": pa.array([texts.get(name) for name in names], pa.string()),
            "before": was[order],
            "after": now[order],
            "difference": (now - was)[order],
        }
    )


# ---- Compares a run with a stored baseline of values per query, and decides whether it got worse

GATE = ("R@5", "RR@10", "nDCG@10")
"""The measures that must not fall."""

_FORMAT = 1
_DIGITS = 6  # digits of values in the file; the run is rounded equally before the comparison
_FALL = 0.02  # a larger fall fails if the paired test has p < _P
_P = 0.01
_FAR = 0.04  # a larger fall always fails


def write_baseline(path: str | Path, dataset: str, scores: Sequence[Scores]) -> None:
    """Write the scores of settings per query to a file, with the measures of ``GATE``."""
    for one in scores:
        missing = [measure for measure in GATE if measure not in one.values]
        if missing or one.queries != scores[0].queries:
            wish = f"the queries of {scores[0].name!r} and measures with {', '.join(GATE)}"
            raise error(OptionError, f"run {one.name!r}", wish, f"none of {missing or 'them'}")
    # A line for each measure, so that a change of one measure is one line in a diff.
    lines = [
        f" {json.dumps(one.name)}: {{\n"
        + ",\n".join(f"  {json.dumps(m)}: {_entry(one, m)}" for m in one.values)
        + "\n }"
        for one in scores
    ]
    head = {"format": _FORMAT, "dataset": dataset, "queries": list(scores[0].queries)}
    top = "".join(f"{json.dumps(k)}: {json.dumps(v)},\n" for k, v in head.items())
    text = "{" + top + '"settings": {\n' + ",\n".join(lines) + "\n}}\n"
    with open_replacement("path", read_path(path)) as out:
        out.write(text.encode())


def _entry(scores: Scores, measure: str) -> str:
    values = [round(float(value), _DIGITS) for value in scores.values[measure]]
    entry = {"mean": round(scores.means[measure], _DIGITS), "values": values}
    return json.dumps(entry, separators=(",", ":"))  # thousands of values: a sixth of the file


def read_baseline(path: str | Path) -> dict[str, Scores]:
    """Read a file of :func:`write_baseline`; return the scores by setting."""
    try:
        data = json.loads(read_path(path).read_text("utf-8"))
        if data["format"] != _FORMAT:
            raise ValueError(f"format {data['format']}")
        queries = tuple(map(str, data["queries"]))
        return {
            name: Scores(name, queries, {read_measure(m): _values(v) for m, v in given.items()})
            for name, given in data["settings"].items()
        }
    except MALFORMED as fault:
        wish = f"a baseline of format {_FORMAT}"
        raise error(DTypeError, str(path), wish, f"{type(fault).__name__}: {fault}") from fault


def _values(given: Mapping[str, Any]) -> Any:
    values = np.array(given["values"], np.float64)
    if not np.isfinite(values).all():
        raise ValueError("a value that is not finite")
    return values


def check(scores: Scores, baseline: Mapping[str, Scores]) -> tuple[Comparison, ...]:
    """Compare a run with the baseline of its name: one comparison per measure of ``GATE``."""
    if scores.name not in baseline:
        wish = f"a baseline with {scores.name!r}"
        raise error(OptionError, "baseline", wish, ", ".join(baseline) or "none")
    rounded = {measure: np.round(values, _DIGITS) for measure, values in scores.values.items()}
    now = Scores(scores.name, scores.queries, rounded)
    return compare(baseline[scores.name], now, measures=GATE)
