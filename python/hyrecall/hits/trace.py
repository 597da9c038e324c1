"""How a batch was answered."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

__all__ = ["StageTrace", "Trace"]

_OF_A_QUERY = re.compile(r"\[(\d+)\](?= has (?:no indexable token$|more than 32 terms in a tree))")
"""In a note, the number of the query that it is about."""


@dataclass(frozen=True)
class StageTrace:
    """What a shaping stage did to a batch.

    Attributes
    ----------
    stage : str
        Its class: "Dedup", say.
    n_in, n_out : int
        Entries of all queries' lists before and after. ``hits[i].explain_dropped()`` names those
        that it left out for a query, and says why.
    milliseconds : float
        Wall time.
    notes : tuple of str
        What it could not do: a reranker that failed or ran out of time.
    """

    stage: str
    n_in: int
    n_out: int
    milliseconds: float
    notes: tuple[str, ...]

    def plus(self, n_in: int, n_out: int, milliseconds: float, note: str | None) -> StageTrace:
        """Return the sum of this and one more piece of the batch."""
        return StageTrace(
            self.stage,
            self.n_in + n_in,
            self.n_out + n_out,
            self.milliseconds + milliseconds,
            self.notes if note is None or note in self.notes else (*self.notes, note),
        )


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
        Wall time of each step: plan, statistics, candidates (with the searches of ``arms=``),
        fusion, shaping, expansion.
    degraded : tuple of str
        Reasons why an arm or a stage that was asked did not run; empty: none. Only such a reply may
        depend on a clock.
    notes : tuple of str
        What a caller may want to know: an arm left out, a text without an indexable token, a text
        that an index on a CUDA device searched on the CPU.
    stages : tuple of StageTrace
        The shaping stages, in the order they ran.
    exact : dict of int to int
        Queries that were taken as an identifier or a quoted string by a recipe with ``exact``, and
        how many rows came first because they hold it whole, before any stage.
    """

    device: str
    n_queries: int
    arms: tuple[str, ...]
    depth: int
    milliseconds: dict[str, float]
    degraded: tuple[str, ...]
    notes: tuple[str, ...]
    stages: tuple[StageTrace, ...] = ()
    exact: dict[int, int] = field(default_factory=dict)

    def of_query(self, at: int) -> Trace:
        """Return what this says of one query, as if it had been asked alone.

        Nothing of the other queries is in it. Times are those of the batch. The counts of stages
        are of all queries together, so a batch of several has none.

        Parameters
        ----------
        at : int
            Which query, from 0.

        Returns
        -------
        Trace
        """
        if self.n_queries == 1:
            return self
        notes = []
        for note in self.notes:
            about = _OF_A_QUERY.search(note)
            if about is None:
                notes.append(note)
            elif int(about[1]) == at:
                notes.append(_OF_A_QUERY.sub("[0]", note))
        exact = {0: self.exact[at]} if at in self.exact else {}
        return replace(self, n_queries=1, notes=tuple(notes), stages=(), degraded=(), exact=exact)
