"""The types that a store takes and returns: episodes, facts, edges and matches."""

from __future__ import annotations

import re
import secrets
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, StrictBool, model_validator

from hyrecall.errors import OptionError, error
from hyrecall.memory.data.fields import JsonObject, Label, Name, TagList, Text, Time, User, in_utc
from hyrecall.memory.data.match_origin import Origin

if TYPE_CHECKING:
    from hyrecall.hits.explanation import Explanation

__all__ = [
    "Edge",
    "Episode",
    "EpisodeMatch",
    "Fact",
    "IsolationWarning",
    "MatchParts",
    "Participant",
    "Status",
    "Version",
    "Visibility",
    "normal_predicate",
]

Visibility: TypeAlias = Literal["private", "global"]
"""Who may read a memory beside its user: nobody, or agents whose read policy admits it."""

Status: TypeAlias = Literal["live", "superseded", "archived", "deleted"]
"""Of a version. A memory is recalled while its highest version is live."""


class IsolationWarning(UserWarning):
    """A call without ``user_id`` on a store that has named users: it sees the anonymous ones only.

    ``warnings.simplefilter("error", IsolationWarning)`` makes it an error.
    """


# ---- memories ----


def _new_id(kind: str) -> Any:
    """Draw ids at random: counted ones would tell every user how much the others write."""
    return Field(default_factory=lambda: f"{kind}_{secrets.token_hex(16)}")


class _Kept(BaseModel):
    """What everything that is kept has: an id, and the cell it lies in.

    An unknown field is refused: a misspelt one would be lost without a word.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    user_id: User = None
    org: User = None
    workspace: User = None
    visibility: Visibility = "private"


class Episode(_Kept):
    """One memory: what was said or learnt, when, and whose it is.

    Parameters
    ----------
    id : str, default drawn at random
        Unique among the memories of its user.
    input, output : str, default ""
        What is searched.
    user_id : str, optional
        Whose it is: a user or an agent. None is the anonymous bucket.
    org, workspace : str, optional
        The partition around users.
    visibility : {"private", "global"}, default "private"
        Whether other agents of the workspace may read it, where their policy says so.
    kind : str, default "episodic"
    source : str, optional
        Where it comes from, for recipes that weigh it: "memory", "summary", "session".
    session_id : str, optional
    occurred_at, created_at : datetime, default now
        When it happened: two names of one time; naive is UTC.
    stored_at : datetime, optional
        When the store kept it; the store sets it, and two episodes that differ in it alone are
        equal.
    importance : float, optional
        A rating in [0, 10].
    pinned : bool, default False
    tags : tuple of str, default ()
        Each is kept once.
    metadata : dict, default {}
        JSON.

    Raises
    ------
    ValueError
        Fields that cannot be kept, or an unknown one (pydantic's ``ValidationError``).
    TypeError
        An id that is no str.

    Examples
    --------
    >>> episode = Episode(user_id="alice", output="The build runs on Debian 12")
    >>> episode.kind, episode.created_at == episode.occurred_at
    ('episodic', True)
    """

    id: Name = _new_id("ep")
    input: Text = ""
    output: Text = ""
    kind: Name = "episodic"
    source: Label = None
    session_id: Label = None
    occurred_at: Time = Field(default_factory=lambda: datetime.now(UTC))
    created_at: Time = Field(default_factory=lambda: datetime.now(UTC))
    stored_at: Time | None = None
    importance: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] | None = None
    pinned: bool = False
    tags: TagList = ()
    metadata: JsonObject = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _one_time(cls, given: Any) -> Any:
        """Return both names of the time the value of the one that was given."""
        if not isinstance(given, dict):
            return given
        names = ("occurred_at", "created_at")
        times = [given[name] for name in names if name in given]
        return given | dict.fromkeys(names, times[0] if times else datetime.now(UTC)) | given

    @model_validator(mode="after")
    def _same_time(self) -> Episode:
        if self.created_at != self.occurred_at:
            wish = f"that of occurred_at ({self.occurred_at.isoformat()}), or none"
            raise error(OptionError, "created_at", wish, self.created_at.isoformat())
        return self

    def __eq__(self, other: object) -> bool:
        """Compare all fields but ``stored_at``."""
        if not isinstance(other, Episode):
            return NotImplemented
        return vars(self) | {"stored_at": None} == vars(other) | {"stored_at": None}

    __hash__ = None  # type: ignore[assignment]

    @property
    def text(self) -> str:
        """Input and output, a line each where both are there: what is embedded."""
        return "\n".join(part for part in (self.input, self.output) if part.strip())


class Fact(_Kept):
    """Something that holds for a time: subject, predicate and object.

    It is valid in [valid_from, valid_to). When the same user learns another object for the same
    subject and predicate, with the same visibility, the fact that was valid then ends where the new
    one begins. Predicates are compared without case, and with ``_`` and ``-`` as spaces: "lives
    in" is "Lives_In".

    Parameters
    ----------
    id : str, default drawn at random
        Unique among the memories of its user.
    subject, predicate, object : str
        1 to 512 bytes each.
    valid_from : datetime, default now
        When it begins to hold; naive is UTC.
    valid_to : datetime, optional
        When it ends; not before it begins. None: it is not known to end.
    single : bool, default True
        Whether the subject has one object at a time. False: one of several ("likes"), which ends no
        fact with another object, and none of these ends it.
    metadata : dict, default {}
        JSON.
    user_id, org, workspace, visibility
        As of an :class:`Episode`.

    Raises
    ------
    ValueError, TypeError
        As of an :class:`Episode`.

    Examples
    --------
    >>> fact = Fact(user_id="alice", subject="alice", predicate="lives in", object="Oslo",
    ...             valid_from=datetime(2024, 3, 1), valid_to=datetime(2026, 1, 1))
    >>> fact.is_valid_at(datetime(2025, 1, 1)), fact.is_valid_at(datetime(2026, 1, 1))
    (True, False)
    """

    id: Name = _new_id("fact")
    subject: Name
    predicate: Name
    object: Name
    valid_from: Time = Field(default_factory=lambda: datetime.now(UTC))
    valid_to: Time | None = None
    single: StrictBool = True
    metadata: JsonObject = Field(default_factory=dict)

    @model_validator(mode="after")
    def _forwards(self) -> Fact:
        if self.valid_to is not None and self.valid_to < self.valid_from:
            wish = f"a time from valid_from ({self.valid_from.isoformat()}) on, or None"
            raise error(OptionError, "valid_to", wish, self.valid_to.isoformat())
        return self

    def is_valid_at(self, time: datetime) -> bool:
        """Say whether it holds at a time; naive is UTC.

        Parameters
        ----------
        time : datetime

        Returns
        -------
        bool
        """
        at = in_utc(time)
        return self.valid_from <= at and (self.valid_to is None or at < self.valid_to)

    @property
    def slot(self) -> tuple[Any, ...]:
        """What at most one fact says at a time; predicates in their normal form."""
        whose = (self.org, self.workspace, self.user_id, self.visibility)
        said = (self.subject, normal_predicate(self.predicate), self.single)
        return (*whose, *said, None if self.single else self.object)

    @property
    def text(self) -> str:
        """The fact as a sentence: what is searched and embedded."""
        return f"{self.subject} {self.predicate} {self.object}"


_SEPARATORS = re.compile(r"[\s_-]+")


def normal_predicate(predicate: str) -> str:
    """Return the form by which predicates are compared."""
    folded = unicodedata.normalize("NFKC", predicate).casefold()
    return _SEPARATORS.sub(" ", folded).strip() or folded


class Participant(BaseModel):
    """One end of an edge: the id of a memory, and the part it has there.

    Parameters
    ----------
    id : str
    role : str, optional
        1 to 512 bytes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    id: Name
    role: Label = None


class Edge(_Kept):
    """What connects memories: two make an edge, more a hyperedge; the order of them is kept.

    Parameters
    ----------
    id : str, default drawn at random
        Unique among the edges of its user.
    participants : tuple of Participant
        Two or more.
    relationship : str
        1 to 512 bytes.
    description : str, default ""
    metadata : dict, default {}
        JSON.
    user_id, org, workspace, visibility
        As of an :class:`Episode`: those of the memories that it connects.
    """

    id: Name = _new_id("edge")
    participants: Annotated[tuple[Participant, ...], Field(min_length=2)]
    relationship: Name
    description: Text = ""
    metadata: JsonObject = Field(default_factory=dict)


@dataclass(frozen=True)
class Version:
    """One state of a memory. Versions are appended; an erased memory has none.

    Attributes
    ----------
    version : int
        From 1; the highest counts.
    status : {"live", "superseded", "archived", "deleted"}
        A memory is recalled while its last version is live.
    reason : str or None
        Why it was changed, as the caller said.
    successor : str or None
        Id of the memory that supersedes it.
    recorded_at : datetime
        When it was written; ``occurred_at`` is when it happened.
    episode : Episode or None
        None of a deleted one.
    """

    version: int
    status: Status
    reason: str | None
    successor: str | None
    recorded_at: datetime
    episode: Episode | None


# ---- replies ----


class MatchParts(BaseModel):
    """What the score of a match is made of; None: the recipe has no such part.

    Parameters
    ----------
    similarity : float, optional
        The cosine on the unit scale, (1 + cosine) / 2, in [0, 1].
    fused : float, optional
        Before any stage.
    provenance : float, optional
        What the source is worth, by which the score was multiplied.
    recency : float, optional
        In [0, 1]: of a composite score, or the factor of a recency stage.
    importance, relevance : float, optional
        Of a composite score, in [0, 1].
    composite : float, optional
        Their weighted sum; the score is this over the sum of the weights.
    general, topical, session : float, optional
        Signals of a conversation, in [0, 1].
    phase : str, optional
        Of the conversation: "early", "mid", "deep" in ``recipes.hypergraph``.
    tokens : int, optional
        What the text takes of a token budget.
    tiers : dict of str to int, default {}
        The arms that found it, each with its rank there, from 1.
    related : tuple of str, default ()
        Ids of its neighbours in the graph, where the recipe shows them.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    similarity: float | None = None
    fused: float | None = None
    provenance: float | None = None
    recency: float | None = None
    importance: float | None = None
    relevance: float | None = None
    composite: float | None = None
    general: float | None = None
    topical: float | None = None
    session: float | None = None
    phase: str | None = None
    tokens: int | None = None
    tiers: dict[str, int] = Field(default_factory=dict)
    related: tuple[str, ...] = ()


class EpisodeMatch(BaseModel):
    """A recalled episode with the components of its score; fields of the future are ignored.

    Parameters
    ----------
    episode : Episode
        As it was stored.
    score : float
        What the list is ordered by.
    vector_score : float, optional
        Cosine in [-1, 1]; None: not computed.
    bm25_score : float, optional
        BM25; None: not computed.
    rerank_score : float, optional
        A reranker's score; None: none ran on it.
    parts : MatchParts, optional
        What the score is made of; None: no index ranked it.
    is_fill : bool, default False
        Whether it was not found but added by the recipe's ``fill``, as one of the newest.
    is_exact : bool, default False
        Whether an index put it first because it holds the query whole: a recipe with ``exact`` does
        that if the query is one identifier or one quoted string; ``l0`` also for plain words.
    valid_to : datetime, optional
        When the fact that it is ends; None: it is no fact, or not known to end.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    episode: Episode
    score: float
    vector_score: float | None = None
    bm25_score: float | None = None
    rerank_score: float | None = None
    parts: MatchParts | None = None
    is_fill: bool = False
    is_exact: bool = False
    valid_to: datetime | None = None
    _origin: Origin = PrivateAttr(default_factory=Origin)

    def explain(self) -> Explanation:
        """Recompute the score from what it was made of, as the index was at the search.

        A match keeps that state of the index in memory for as long as it lives.

        Returns
        -------
        Explanation
            Its ``score`` equals ``match.score`` to the last bit.

        Raises
        ------
        OptionError
            The match was made by hand, unpickled, read from JSON, or found without an index.

        Examples
        --------
        >>> from hyrecall.memory import MemorySync
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     kept = memory.remember("Tea at four", user_id="ann")
        ...     match = memory.search("tea", user_id="ann")[0]
        ...     match.explain().score == match.score
        True
        """
        return self._origin.explain()
