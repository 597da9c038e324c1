"""Options of the stage that weighs a row by who said it, or by another column: Prior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from hyrecall.ask.shaping.checks import column_name, plain_pairs
from hyrecall.base.arguments import check_keywords, number, set_fields
from hyrecall.errors import OptionError, error

MOST_VALUES = 4096


@check_keywords
@dataclass(frozen=True)
class Prior:
    """Adds a number to fused scores that depends on a column's value, such as who said the row.

    The stage runs right behind the fusion, before ``min_fused``, in one sum with
    :class:`hyrecall.Around`.

    Parameters
    ----------
    column : str or None
        An attribute column without lists; None: the schema's ``speaker``.
    values : mapping of value to float
        What rows with a value get, in [-1e6, 1e6]; at most 4,096 values. Rows with another value,
        or with none, get 0.

    Raises
    ------
    OptionError
        A number outside [-1e6, 1e6], no value or too many. At recall: a column that is no
        attribute, holds lists or other types than the values, ``normalize``, None where the schema
        has no speaker, or :class:`hyrecall.Linear` behind it without a weight for ``prior``.
    DTypeError
        Values that are no mapping, or a number that is none.

    Notes
    -----
    The numbers are shares of the best possible fused score; with the fusions that scale scores to
    [0, 1] that is the sum of the arms' weights. Hits have ``prior_evidence`` as a column of tables.
    A single arm is fused, too: by the fusion of the recipe or call, or by the default one, which
    gives scores in [0, 1].

    In chats of a user with an assistant, long answers repeat many words of the questions. There
    -0.1 for the assistant helps; docs/evaluation.md has measurements.

    Examples
    --------
    >>> Prior("role", {"assistant": -0.1}).values
    (('assistant', -0.1),)
    """

    phase: ClassVar[int] = -2

    column: str | None
    values: Mapping[object, float] | tuple[tuple[object, float], ...]

    def __post_init__(self) -> None:
        """Check the options."""
        if self.column is not None:
            column_name("column", self.column)
        wish = "a number in [-1e6, 1e6]"
        pairs = plain_pairs("values", self.values)
        if not 0 < len(pairs) <= MOST_VALUES:
            raise error(OptionError, "values", f"1 to {MOST_VALUES} values", len(pairs))
        checked = tuple((v, number(f"values[{v!r}]", w, -1e6, 1e6, wish)) for v, w in pairs)
        set_fields(self, values=checked)

    @property
    def by_value(self) -> tuple[tuple[object, float], ...]:
        """The pairs of value and number."""
        return tuple(dict(self.values).items())
