"""Options of the stage that raises documents a conversation has received before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

from hyrecall.ask.graphs import GraphLike
from hyrecall.ask.shaping.checks import Duration, integer, plain_duration, text
from hyrecall.base.arguments import check_keywords, check_objects, convert_field, number, set_fields
from hyrecall.errors import DTypeError, OptionError, error

MOST_HOPS = 16


@check_keywords
@dataclass(frozen=True)
class Phase:
    """The weights of the signals, from a given recall of a conversation on.

    Parameters
    ----------
    name : str
    first : int
        The number of earlier recalls from which the phase holds.
    general, topical, session : float
        Weights in [0, 1] that add up to 1.

    Raises
    ------
    OptionError
        A weight out of range, weights that do not add up to 1, or a negative ``first``.
    DTypeError
        A name that is not a str, or a weight that is not a number.
    """

    name: str
    first: int
    general: float
    topical: float
    session: float

    def __post_init__(self) -> None:
        """Check the weights."""
        text("name", self.name)
        convert_field(self, "first", integer, 0)
        for weight in ("general", "topical", "session"):
            convert_field(self, weight, number, 0.0, 1.0, "a number in [0, 1]")
        total = self.general + self.topical + self.session
        if abs(total - 1.0) > 1e-9:
            raise error(OptionError, "Phase", "weights that add up to 1", total)


PHASES = (
    Phase("early", 0, 0.8, 0.1, 0.1),
    Phase("mid", 3, 0.6, 0.2, 0.2),
    Phase("deep", 10, 0.5, 0.25, 0.25),
)


@check_keywords
@dataclass(frozen=True)
class SessionSignals:
    """Raises documents that a conversation received before, and their neighbours in a graph.

    score = general x (score / best score) + topical x t + session x s, with the weights of the
    phase. s = 2 ^ (-age / half_life), with the time since the conversation last received the
    document, or 0 if it never did; t = the largest s x 2 ^ -hops over the hot documents within
    reach. No document is added: the signals only reorder what the arms found. Without a session, or
    with an empty one, the weight of general is 1.

    Parameters
    ----------
    graph : Graph or str, optional
        A graph over the recalled index, or its name in ``graphs=``. Without a graph, topical
        weights must be 0.
    half_life : duration, default "1800s"
    hops : int, default 3
        The most hops from a hot document, in [0, 16].
    n_hot, min_hot : int, float, default 10, 0.05
        The most hot documents, with the largest s (ties by key), and the least s of a hot document.
    phases : tuple of Phase
        Phases by the number of earlier recalls; the first starts at 0. Default: early .8/.1/.1,
        from 3 mid .6/.2/.2, from 10 deep .5/.25/.25.

    Raises
    ------
    OptionError
        A number out of range, phases that do not increase from 0, or a topical weight without a
        graph.
    DTypeError
        A setting of another type.

    Notes
    -----
    A session identifies documents by key: a key in several cells of the query's scope means all of
    its documents, as in :class:`hyrecall.Graph`.

    Examples
    --------
    >>> SessionSignals("graph").phase_of(4).name
    'mid'
    """

    phase: ClassVar[int] = 3

    graph: GraphLike | str | None = None
    half_life: Duration = field(default="1800s", kw_only=True)
    hops: int = field(default=3, kw_only=True)
    n_hot: int = field(default=10, kw_only=True)
    min_hot: float = field(default=0.05, kw_only=True)
    phases: tuple[Phase, ...] = field(default=PHASES, kw_only=True)

    def __post_init__(self) -> None:
        """Check the options."""
        convert_field(self, "half_life", plain_duration)
        convert_field(self, "hops", integer, 0, MOST_HOPS)
        convert_field(self, "n_hot", integer, 0)
        convert_field(self, "min_hot", number, 0.0, 1.0, "a number in [0, 1]")
        phases = self.phases
        if not isinstance(phases, Sequence) or not all(isinstance(p, Phase) for p in phases):
            raise error(DTypeError, "phases", "a sequence of Phase", repr(phases))
        set_fields(self, phases=tuple(phases))
        starts = [one.first for one in phases]
        if not starts or starts[0] != 0 or any(a >= b for a, b in pairwise(starts)):
            raise error(OptionError, "phases", "phases with increasing first, from 0", starts)
        if self.graph is None and any(one.topical > 0 for one in phases):
            raise error(OptionError, "graph", "a graph, or phases with topical=0", "None")

    @check_objects
    def phase_of(self, n_recalls: int) -> Phase:
        """Return the phase of a conversation with this number of earlier recalls."""
        return next(
            (one for one in reversed(self.phases) if one.first <= n_recalls), self.phases[0]
        )
