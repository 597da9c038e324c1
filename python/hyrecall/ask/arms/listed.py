"""Options of the arms without query text: documents that the caller lists, and the newest."""

from __future__ import annotations

from dataclasses import dataclass, field

from hyrecall.ask.arms.checks import read_arm_name
from hyrecall.base.keywords import check_keywords

__all__ = ["Listed", "Newest"]


@check_keywords
@dataclass(frozen=True)
class Listed:
    """An arm whose candidates the caller passes with each call, as ``candidates={name: ...}``.

    The value has one entry per query: a sequence of keys, best first, a mapping of keys to scores,
    or None. Without scores, the n-th key scores 1 / n. Keys that are missing or outside the query's
    scope are ignored; a key in several cells of the scope means all of its documents.

    Parameters
    ----------
    name : str
        The arm's name.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import hyrecall as hr
    >>> table = pa.table({"id": ["a", "b", "c"], "text": ["tea", "milk", "tea"]})
    >>> index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"))
    >>> hints = {"hints": [["b", "nowhere", "a"]]}
    >>> index.recall(arms=hr.arms.Listed("hints"), candidates=hints)[0].keys
    ['b', 'a']
    """

    name: str

    def __post_init__(self) -> None:
        """Check the name."""
        read_arm_name(self.name)


@check_keywords
@dataclass(frozen=True)
class Newest:
    """Retrieves the documents with the largest values of an attribute, such as the newest.

    The score is 1 / n for the n-th largest distinct value. Documents with equal values have the
    same score and are ordered by seq. A document without a value is not in the arm.

    Parameters
    ----------
    column : str
        An attribute column of numbers, dates or times.
    name : str, default "newest"
        The arm's name.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import hyrecall as hr
    >>> table = pa.table({"id": ["a", "b", "c"], "text": ["x", "y", "z"], "at": [3, None, 8]})
    >>> schema = hr.Schema(key="id", cell=None, text="text", attributes="at")
    >>> hr.Index.build(table, schema).recall(arms=hr.arms.Newest("at"))[0].keys
    ['c', 'a']
    """

    column: str
    name: str = field(default="newest", kw_only=True)

    def __post_init__(self) -> None:
        """Check the name."""
        read_arm_name(self.name)
