"""What a memory keeps and gives back: episodes, facts, edges, and why an answer is degraded."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hyrecall.embed.protocol import EmbedFault
from hyrecall.errors import OptionError, error
from hyrecall.memory.fields import JsonObject, Label, Name, TagList, Text, Time, User, in_utc

__all__ = [
    "Degradation",
    "DegradedReason",
    "Edge",
    "Episode",
    "EpisodeMatch",
    "Fact",
    "IsolationWarning",
    "Participant",
    "Status",
    "Version",
    "Visibility",
]

Visibility: TypeAlias = Literal["private", "global"]
"""Who may read a memory beside its user: nobody, or agents whose read policy admits it."""

Status: TypeAlias = Literal["live", "superseded", "archived", "deleted"]
"""Of a version. A memory is recalled while its highest version is live."""


class IsolationWarning(UserWarning):
    """A call without ``user_id`` on a store that has named users: it sees the anonymous ones only.

    ``warnings.simplefilter("error", IsolationWarning)`` makes it an error.
    """


# ---- what is kept ----


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
        Two names of one time; naive is UTC.
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
    importance: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] | None = None
    pinned: bool = False
    tags: TagList = ()
    metadata: JsonObject = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _one_time(cls, given: Any) -> Any:
        """Give both names of the time the value of the one that was given."""
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

    @property
    def text(self) -> str:
        """Input and output, a line each where both are there: what is embedded."""
        return "\n".join(part for part in (self.input, self.output) if part.strip())


class Fact(_Kept):
    """Something that holds for a time: subject, predicate and object.

    It is valid in [valid_from, valid_to). When the same user learns another object for the same
    subject and predicate, the fact that was valid then ends where the new one begins.

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
    def text(self) -> str:
        """The fact as a sentence: what is searched and embedded."""
        return f"{self.subject} {self.predicate} {self.object}"


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


# ---- what is given back ----


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
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    episode: Episode
    score: float
    vector_score: float | None = None
    bm25_score: float | None = None
    rerank_score: float | None = None


class DegradedReason(StrEnum):
    """Why an answer is less than it could have been; its value is its name in small letters."""

    EMBEDDINGS_OFF = "embeddings_off"
    EMBED_NOT_READY = "embed_not_ready"
    EMBED_TIMEOUT = "embed_timeout"
    EMBED_UNAVAILABLE = "embed_unavailable"
    EMBED_STALE = "embed_stale"
    INDEX_NOT_READY = "index_not_ready"
    INDEX_UNAVAILABLE = "index_unavailable"
    SESSION_TRACKER = "session_tracker"
    RERANK = "rerank"
    DAMAGED_ROWS = "damaged_rows"


_OF_FAULT = {
    EmbedFault.OFF: DegradedReason.EMBEDDINGS_OFF,
    EmbedFault.NOT_READY: DegradedReason.EMBED_NOT_READY,
    EmbedFault.TIMEOUT: DegradedReason.EMBED_TIMEOUT,
}


@dataclass(frozen=True)
class Degradation:
    """One reason, and what is known of it; never a text that was stored or asked.

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
        """Give the reason that an embedder's fault is.

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
        """Give the reason that an answer lacks so many damaged rows; of none, nothing.

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
        """Show the reason and what is known."""
        return f"{self.reason} ({self.detail})" if self.detail else str(self.reason)
