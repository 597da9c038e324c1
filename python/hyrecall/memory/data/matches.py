"""The replies of a store: lists of matches and of facts, with scopes, faults and reasons."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from hyrecall.base.arguments import position_in
from hyrecall.embed.protocol import EmbedFault
from hyrecall.errors import OptionError, error
from hyrecall.hits.reply import MOST_DROPPED
from hyrecall.memory.data.types import (
    WITHOUT_INDEX,
    Edge,
    Episode,
    EpisodeMatch,
    Fact,
    Ranked,
)

if TYPE_CHECKING:
    from hyrecall.hits.dropped import Dropped
    from hyrecall.hits.explain_text import Explanation
    from hyrecall.hits.trace import Trace
    from hyrecall.stages.session_signals import Phase


# ---- Reasons why a reply holds less than it could, one for each component that failed ----


class DegradedReason(StrEnum):
    """Why a reply holds less than it could; the value is the name in small letters."""

    EMBEDDINGS_OFF = "embeddings_off"
    EMBED_NOT_READY = "embed_not_ready"
    EMBED_TIMEOUT = "embed_timeout"
    EMBED_UNAVAILABLE = "embed_unavailable"
    EMBED_REFUSED = "embed_refused"
    EMBED_STALE = "embed_stale"
    INDEX_NOT_READY = "index_not_ready"
    INDEX_UNAVAILABLE = "index_unavailable"
    QUERY_TOO_LARGE = "query_too_large"
    SESSION_TRACKER = "session_tracker"
    RERANK = "rerank"
    DAMAGED_ROWS = "damaged_rows"


_OF_FAULT = {
    EmbedFault.OFF: DegradedReason.EMBEDDINGS_OFF,
    EmbedFault.NOT_READY: DegradedReason.EMBED_NOT_READY,
    EmbedFault.TIMEOUT: DegradedReason.EMBED_TIMEOUT,
    EmbedFault.REFUSED: DegradedReason.EMBED_REFUSED,
}


@dataclass(frozen=True)
class Degradation:
    """One reason and its detail, which never contains a stored text or a query.

    Attributes
    ----------
    reason : DegradedReason
    detail : str

    Examples
    --------
    >>> str(Degradation.of_fault(EmbedFault.CRASHED, "RuntimeError"))
    'embed_unavailable (crashed: RuntimeError)'
    """

    reason: DegradedReason
    detail: str = ""

    @classmethod
    def of_fault(cls, fault: EmbedFault, detail: str = "") -> Degradation:
        """Return the reason for an embedder's fault.

        Parameters
        ----------
        fault : EmbedFault
        detail : str, default ""

        Returns
        -------
        Degradation
        """
        reason = _OF_FAULT.get(fault)
        if reason is not None:
            return cls(reason, detail)
        told = f"{fault}: {detail}" if detail else str(fault)
        return cls(DegradedReason.EMBED_UNAVAILABLE, told)

    @classmethod
    def of_damage(cls, n_rows: int) -> tuple[Degradation, ...]:
        """Return the reason for a number of damaged rows that were left out; none for 0.

        Parameters
        ----------
        n_rows : int

        Returns
        -------
        tuple of Degradation
        """
        told = f"{n_rows} left out: doctor(full=True) names them"
        return (cls(DegradedReason.DAMAGED_ROWS, told),) if n_rows else ()

    def __str__(self) -> str:
        """Show the reason and its detail."""
        return f"{self.reason} ({self.detail})" if self.detail else str(self.reason)


# ---- The replies of a store: lists of matches and of facts, with scopes, faults and reasons ----


@dataclass(frozen=True)
class ReadPolicyFault:
    """Why a read policy was not followed, so that an agent sees its own memories only.

    Attributes
    ----------
    org, workspace, agent : str or None
        Who asked.
    policy : str or None
        What its policy is said to be.
    reason : str
    """

    org: str | None
    workspace: str | None
    agent: str | None
    policy: str | None
    reason: str


@dataclass(frozen=True)
class Reading:
    """A user and partition on whose behalf a recall read.

    Attributes
    ----------
    org, workspace, user : str or None
        The partition, and the user or agent in it.
    policy : str or None
        An agent's read policy that was followed; None: a user, who reads its own.
    """

    org: str | None
    workspace: str | None
    user: str | None
    policy: str | None = None


@dataclass(frozen=True)
class RecallReport:
    """How a recall was answered; its attributes are those of :class:`Matches`."""

    reasons: tuple[Degradation, ...] = ()
    lexical_mode: Literal["bm25", "substring"] = "bm25"
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    origins: tuple[str, ...] = ()
    trace: Trace | None = None
    related: tuple[Episode, ...] = ()
    context: tuple[tuple[Episode, ...], ...] = ()
    around: tuple[tuple[Episode, ...], ...] = ()
    edges: tuple[Edge, ...] = ()
    phase: Phase | None = None
    tiers: dict[str, int] = field(default_factory=dict)
    scopes: tuple[Reading, ...] = ()
    faults: tuple[ReadPolicyFault, ...] = ()
    rows: tuple[int, ...] = ()


ANSWERABLE = 0.2
"""The confidence below which a reply probably holds no answer; at most one in seven such does."""


def is_answerable(confidence: float | None) -> bool | None:
    """Say whether a reply may hold an answer; None: nothing to judge by."""
    return None if confidence is None else confidence >= ANSWERABLE


class Matches(list[EpisodeMatch]):
    """Matches, best first: a list that also tells how the recall was answered.

    Attributes
    ----------
    degraded : bool
        Whether the answer is less than it could have been.
    reasons : tuple of Degradation
        Why; empty where it is not.
    lexical_mode : {"bm25", "substring"}
        How texts were matched: "substring" where there was no index to rank by.
    now : datetime
        The time that ages were counted from.
    origins : tuple of str
        Of each match "hit", or "fill" for what was not asked for but is newest.
    trace : Trace or None
        What ran; None where there was no index.
    related : tuple of Episode
        Beside the matches: episodes with the same tags, where the recipe asks for them.
    context : tuple of tuple of Episode
        Of each match its neighbours in the graph, where the recipe asks for them.
    around : tuple of tuple of Episode
        Of each match the episodes around it in its session, by time, where ``around=`` asks for
        them and there are any.
    edges : tuple of Edge
        What connects two or more of matches and context, where the recipe asks for context: first
        those whose own text was found.
    phase : Phase or None
        The weights that the conversation's age gave, where the recipe weighs it.
    tiers : dict of str to int
        How many candidates each arm found; nothing where there was no index.
    scope : Reading
        On whose behalf was read.
    scopes : tuple of Reading
        The same of each partition that was read; ``scope`` is the first.
    faults : tuple of ReadPolicyFault
        Why an agent's policy was not followed but closed.
    confidence : float or None
        The probability that an answer is among them.
    answerable : bool or None
        Whether that is at least 0.2.

    Examples
    --------
    >>> matches = Matches()
    >>> len(matches), matches.degraded
    (0, False)
    """

    def __init__(
        self,
        matches: Iterable[EpisodeMatch] = (),
        found: RecallReport | None = None,
        *,
        hits: Ranked | None = None,
        places: tuple[int, ...] = (),
    ) -> None:
        """Hold the matches.

        Parameters
        ----------
        matches : iterable of EpisodeMatch, default ()
        found : RecallReport, optional
            How they came about.
        hits : Ranked, optional
            What the index gave, which is the origin of each match.
        places : tuple of int, default ()
            Those of the matches among the hits.
        """
        super().__init__(matches)
        self._found = found = RecallReport() if found is None else found
        self._ranked, self._places = hits, places
        if hits is None and found.lexical_mode == "substring":
            for match in self:
                match._origin.missing = WITHOUT_INDEX
        self.reasons, self.lexical_mode = found.reasons, found.lexical_mode
        self.now, self.origins, self.trace = found.now, found.origins, found.trace
        self.related, self.context, self.edges = found.related, found.context, found.edges
        self.around = found.around
        self.phase, self.tiers = found.phase, found.tiers
        self.scopes, self.faults = found.scopes, found.faults
        self.scope = found.scopes[0] if found.scopes else None

    @property
    def degraded(self) -> bool:
        """Whether the reply holds less than it could."""
        return bool(self.reasons)

    def explain(self, at: int) -> Explanation:
        """Recompute the score of a match from what it was made of.

        Parameters
        ----------
        at : int
            Which, as in the list that was given; -1 is the last.

        Returns
        -------
        Explanation

        Raises
        ------
        OptionError
            There was no index.
        IndexError, DTypeError
            There is no such match, or it is no int.
        """
        if self._ranked is None:
            raise error(OptionError, "at", "a match that an index ranked", "none")
        return self._ranked.explain(self._places[position_in(len(self._places), at, "at")])

    def explain_dropped(self, most: int = MOST_DROPPED) -> Dropped:
        """Say which memories each stage of the recipe left out, and why.

        Parameters
        ----------
        most : int, default 100
            How many memories are described, at least 0. All are counted.

        Returns
        -------
        Dropped
            As of :meth:`hyrecall.QueryHits.explain_dropped`; the key of a row is the memory's id.

        Raises
        ------
        OptionError
            There was no index.

        Examples
        --------
        >>> from hyrecall.memory import MemorySync
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     kept = [memory.remember(text, user_id="ann") for text in ("Tea", "Green tea")]
        ...     matches = memory.search("tea", user_id="ann", limit=1)
        ...     matches.explain_dropped().n_dropped
        1
        """
        if self._ranked is None:
            raise error(OptionError, "matches", "matches that an index ranked", "none")
        return self._ranked.explain_dropped(most)

    @property
    def confidence(self) -> float | None:
        """The probability that an answer is among them, in [0, 1]; docs/confidence.md.

        It is no score and changes no order. Computed when it is read, by a second search. None:
        nothing to judge by, or no index ranked them.
        """
        return None if self._ranked is None else self._ranked.judge().values[0]

    @property
    def answerable(self) -> bool | None:
        """Whether :attr:`confidence` is at least 0.2; None where that is None."""
        return is_answerable(self.confidence)

    def with_reasons(self, *reasons: Degradation) -> Matches:
        """Return the same matches with more reasons, each once.

        Parameters
        ----------
        *reasons : Degradation

        Returns
        -------
        Matches
            These themselves if there are none.
        """
        if not reasons:
            return self
        joined = tuple(dict.fromkeys((*self.reasons, *reasons)))
        found = replace(self._found, reasons=joined)
        return Matches(self, found, hits=self._ranked, places=self._places)

    def __repr__(self) -> str:
        """Show how many there are, and the best of them by id and score."""
        best = ", ".join(f"{one.episode.id!r}: {one.score:.4f}" for one in self[:5])
        why = f", degraded: {', '.join(map(str, self.reasons))}" if self.degraded else ""
        return f"<Matches: {len(self)}{' of ' if best else ''}{best}{why}>"


def known_confidences(matches: Matches) -> tuple[float | None, list[float | None]]:
    """Return how sure a reply is and each match, by one search.

    None also where the store, in another process, has changed.
    """
    if matches._ranked is not None:
        with suppress(OptionError):
            reply, hits = matches._ranked.judge().values
            return reply, [hits[place] for place in matches._places]
    return None, [None] * len(matches)


def known_confidence(matches: Matches) -> float | None:
    """Return how sure a reply is, as :func:`known_confidences`."""
    return known_confidences(matches)[0]


def doubt_of(matches: Matches) -> str | None:
    """Return what a person is told of a reply that probably holds no answer."""
    sure = known_confidence(matches) if matches else None
    if sure is None or is_answerable(sure):
        return None
    return f"probably nothing here answers: confidence {sure:.2f}"


class Facts(list[Fact]):
    """Facts, best first: a list that also says whether it is all it could have been.

    Parameters
    ----------
    facts : iterable of Fact
    reasons : tuple of Degradation
        Why there may be more.

    Attributes
    ----------
    degraded : bool
        Whether the answer is less than it could have been.
    reasons : tuple of Degradation
        Why; empty where it is not.

    Examples
    --------
    >>> facts = Facts()
    >>> len(facts), facts.degraded
    (0, False)
    """

    def __init__(self, facts: Iterable[Fact] = (), reasons: tuple[Degradation, ...] = ()) -> None:
        """Hold the facts."""
        super().__init__(facts)
        self.reasons = reasons

    @property
    def degraded(self) -> bool:
        """Whether the reply holds less than it could."""
        return bool(self.reasons)

    def __repr__(self) -> str:
        """Show them as a list does, and why there may be more."""
        why = f", degraded: {', '.join(map(str, self.reasons))}" if self.degraded else ""
        return f"<Facts: {super().__repr__()}{why}>"
