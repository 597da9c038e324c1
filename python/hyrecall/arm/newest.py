"""The arm of the documents with the largest values of an attribute."""

from __future__ import annotations

from dataclasses import dataclass, field

from hyrecall.arm.arm import ArmQueries, Batch, FoundDocs, SearchArm, read_arm_name
from hyrecall.base.arguments import check_keywords
from hyrecall.table.attributes import RowTypes, ordered_attribute


@check_keywords
@dataclass(frozen=True)
class Newest(SearchArm):
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

    _ranks_all = True

    def _ask(self, facts: RowTypes, given: object, n_queries: int) -> ArmQueries:
        self._attribute(facts)
        return ArmQueries(())

    def _search(self, batch: Batch, asked: ArmQueries) -> FoundDocs:
        attribute = self._attribute(batch.facts)
        return FoundDocs(*batch.audience.newest(attribute, batch.depth, with_missing=False))

    def _attribute(self, facts: RowTypes) -> int:
        return ordered_attribute(f"{self.name}.column", self.column, facts)
