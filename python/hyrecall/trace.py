"""How a batch was answered."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Trace"]


@dataclass(frozen=True)
class Trace:
    """How a batch was answered.

    Attributes
    ----------
    device : str
        Where it ran.
    n_queries : int
    arms : tuple of str
        Arms that ran, lexical first.
    depth : int
        How many documents an arm handed on.
    milliseconds : dict of str to float
        Wall time of each step.
    degraded : tuple of str
        Reasons why an arm that was asked did not run; empty: none.
    notes : tuple of str
        What a caller may want to know: an arm left out, a text without an indexable token.
    """

    device: str
    n_queries: int
    arms: tuple[str, ...]
    depth: int
    milliseconds: dict[str, float]
    degraded: tuple[str, ...]
    notes: tuple[str, ...]
