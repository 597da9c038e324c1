"""What an explanation is: a hit's score and its parts, which can be shown as text."""

from __future__ import annotations

from dataclasses import dataclass

from hyrecall.hits.explain_text import wrapped_text
from hyrecall.hits.explanation_parts import Explained

__all__ = ["Explanation"]


@dataclass(frozen=True)
class Explanation(Explained):
    """A hit's score and all it was made of.

    Attributes
    ----------
    score : float
        Recomputed; equals the hit's.
    fusion : str
        How the components were joined.
    components : tuple of Component
        One per arm that ran, in the order of ``trace.arms``.
    steps : tuple of Step
        One per shaping stage, in the order they ran.
    holds : dict of str to str
        By text arm, what the document holds (an identifier, a quoted string or words), for which
        it comes before others whatever its score; empty where it does not.
    joined : float or None
        What the fusion made of the components; None for a row that filled the list.
    best : float or None
        With ``normalize``, the best score possible.
    fused : float or None
        The score that the stages start from: ``joined``, or its share of ``best``.
    feedback : SecondLook or None
        What :class:`hyrecall.Feedback` added to the query: ``rows`` (keys), ``vectors`` (arms whose
        query was moved), ``terms`` (by text arm, with their boosts).
    degraded : tuple of str
        Reasons why an arm or a stage of the query did not run, and so adds nothing to the score.

    Notes
    -----
    The formulas are those of docs/scoring.md; the bits are the hit's. As text, every number that a
    sum needs is shown with six digits, and each equation can be followed with a calculator.
    """

    def __str__(self) -> str:
        """Show every number that the score was made of, in lines of at most 80 characters."""
        return wrapped_text(self, 80)
