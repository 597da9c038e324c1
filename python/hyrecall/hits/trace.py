"""How a batch was answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from hyrecall import hits

Notes: TypeAlias = "Mapping[str, Mapping[int, str] | None]"
"""What is noted of a batch. None: it holds for the whole batch, whatever the queries ask. Else it
is about single queries, and this is what each of them is told alone."""


class BatchNotes(NamedTuple):
    """Notes and reasons that are known before a batch is searched; see :class:`Trace`."""

    degraded: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    about: Mapping[str, Mapping[int, str]] = MappingProxyType({})


NOTHING_TOLD: Final = BatchNotes()


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
        Wall time of each step: plan, feedback (the first search), statistics, candidates (with the
        searches of ``arms=``), fusion, shaping, expansion.
    degraded : tuple of str
        Reasons why an arm or a stage that was asked did not run; empty: none. Only such a reply may
        depend on a clock.
    notes : tuple of str
        What a caller may want to know: an arm left out, a text without an indexable token, a text
        that an index on a CUDA device searched on the CPU.
    stages : tuple of StageTrace
        The shaping stages, in the order they ran.
    exact : dict of int to int
        Queries for which a recipe with ``exact`` puts rows first, and how many rows came first,
        before any stage.
    about : dict of str to dict of int to str
        Those of ``degraded`` and ``notes`` that are about single queries: for each of these queries
        what it is told alone. All others hold for the whole batch, whatever the queries ask.
    feedback : mapping of int to SecondLook
        What :class:`hyrecall.Feedback` added to queries: ``rows`` (keys of the rows that were
        heard), ``vectors`` (arms whose query they moved), ``terms`` (by text arm, with their
        boosts). Queries to which nothing was added are not in it.
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
    about: dict[str, dict[int, str]] = field(default_factory=dict)
    feedback: Mapping[int, hits.SecondLook] = field(default_factory=dict)

    def of_query(self, at: int) -> Trace:
        """Return what this says of one query, as if it had been asked alone.

        Nothing that another query asks is in it. Times are those of the batch, and so are arms and
        depth where several recipes answer it. The counts of stages are of all queries together, so
        a batch of several has none.

        Parameters
        ----------
        at : int
            Which query, from 0.

        Returns
        -------
        Trace
        """
        if self.n_queries == 1 and not self.about:
            return self
        degraded, notes = (
            tuple(self._told(note, at) for note in told if at in self.about.get(note, (at,)))
            for told in (self.degraded, self.notes)
        )
        return replace(
            self,
            n_queries=1,
            degraded=degraded,
            notes=notes,
            stages=self.stages if self.n_queries == 1 else (),
            exact={0: self.exact[at]} if at in self.exact else {},
            about={},
            feedback={0: self.feedback[at]} if at in self.feedback else {},
        )

    def _told(self, note: str, at: int) -> str:
        return self.about[note][at] if note in self.about else note
