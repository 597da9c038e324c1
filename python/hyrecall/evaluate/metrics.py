"""Scores runs per query and on average, with ir-measures and trec_eval."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import numpy.typing as npt

from hyrecall.base.arguments import check_keywords
from hyrecall.errors import DTypeError, MissingExtraError, OptionError, ShapeError, error
from hyrecall.evaluate.data import Judgements

# ---- Checks for the packages of the extra ``[eval]`` ----

_PACKAGES = ("ir_measures", "pytrec_eval", "scipy", "matplotlib")


def require_extra() -> None:
    """Raise at once if a package of the extra is missing, before a long task."""
    for package in _PACKAGES:
        if find_spec(package) is None:
            raise _missing(package)


@contextmanager
def needs_extra() -> Iterator[None]:
    """Turn a failed import in the block into an error with the install command."""
    try:
        yield
    except ModuleNotFoundError as fault:
        raise _missing(fault.name) from None


def _missing(package: str | None) -> MissingExtraError:
    wish = "the extra [eval] (pip install 'hyrecall[eval]')"
    return error(MissingExtraError, "evaluate", wish, f"no package {package}")


# ---- Scores runs per query and on average, with ir-measures and trec_eval ----

MEASURES = ("nDCG@10", "R@5", "R@10", "R@100", "RR@10", "AP")
"""The default measures."""

_KINDS = {
    **dict.fromkeys(("ndcg",), "nDCG"),
    **dict.fromkeys(("r", "recall"), "R"),
    **dict.fromkeys(("success",), "Success"),
    **dict.fromkeys(("rr", "mrr"), "RR"),
    **dict.fromkeys(("ap", "map"), "AP"),
    **dict.fromkeys(("p", "precision"), "P"),
}
_NEED_CUTOFF = ("R", "Success", "P")
_MAX_CUTOFF = 100_000


def read_measure(name: str) -> str:
    """Return the canonical name of a measure: ``recall@5`` is ``R@5``, ``MRR@10`` is ``RR@10``.

    Parameters
    ----------
    name : str
        ``nDCG``, ``R``, ``Success``, ``RR``, ``AP`` or ``P``, in any case, or ``recall``, ``MRR``,
        ``MAP``, ``precision``; then ``@`` and the number of documents that count.

    Raises
    ------
    OptionError
        Another name.

    Examples
    --------
    >>> read_measure("recall@5"), read_measure("map")
    ('R@5', 'AP')
    """
    found = re.fullmatch(r"([a-z]+)(?:@([1-9][0-9]*))?", name.strip().lower())
    kind = _KINDS.get(found[1]) if found else None
    cutoff = found[2] if found else None
    if kind is None or (cutoff is None and kind in _NEED_CUTOFF) or int(cutoff or 1) > _MAX_CUTOFF:
        wish = "nDCG@k, R@k, Success@k, RR@k, AP or P@k"
        raise error(OptionError, "measures", wish, repr(name))
    return kind if cutoff is None else f"{kind}@{cutoff}"


def read_measures(names: str | Sequence[str], *, first: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the canonical names of measures, each once, in order; those of ``first`` lead."""
    every = [*first, *([names] if isinstance(names, str) else names)]
    if not every:
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
        """Check the shapes."""
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


@check_keywords
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
        In any form that :func:`read_measure` accepts.
    name : str, default "run"

    Raises
    ------
    OptionError
        An unknown measure, or a document that occurs twice in a list.
    DTypeError
        A list of documents that is a str.
    MissingExtraError
        The extra ``[eval]`` is not installed.

    Examples
    --------
    >>> scores = score_run({"q": ["x", "a"]}, {"q": {"a": 1}}, measures=["RR@10", "R@1"])
    >>> scores.means
    {'RR@10': 0.5, 'R@1': 0.0}
    """
    with needs_extra():
        import ir_measures
        import pytrec_eval  # noqa: F401  used by ir_measures, whose own error is less clear
    named = read_measures(measures)
    judged = {
        query: _one_per_class(grades, classes) for query, grades in judgements.items() if grades
    }
    queries = tuple(sorted(judged))
    values = {measure: np.zeros(len(queries)) for measure in named}
    lists = {query: _ranked(query, run[query], classes) for query in queries if run.get(query)}
    if lists:
        by_object = {ir_measures.parse_measure(measure): measure for measure in named}
        row = {query: at for at, query in enumerate(queries)}
        evaluator = ir_measures.evaluator(list(by_object), judged)
        for metric in evaluator.iter_calc(lists):
            values[by_object[metric.measure]][row[metric.query_id]] = metric.value
    return Scores(name, queries, values)


def _label(document: str, classes: Mapping[str, str] | None) -> str:
    """Return the label of the unit that counts once: a class, or a document without one."""
    if classes is None or document not in classes:
        return f"document {document}"
    return f"class {classes[document]}"


def _one_per_class(grades: Mapping[str, int], classes: Mapping[str, str] | None) -> dict[str, int]:
    best: dict[str, int] = {}
    for document, grade in grades.items():
        label = _label(document, classes)
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
    labels = dict.fromkeys(_label(document, classes) for document in documents)
    return {label: float(len(labels) - at) for at, label in enumerate(labels)}
