"""The types that a store takes and returns: episodes, facts, edges and matches."""

from __future__ import annotations

import json
import re
import secrets
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PrivateAttr,
    StrictBool,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from hyrecall.base import starting
from hyrecall.base.arguments import check_keywords, check_objects, set_field, unknown_option
from hyrecall.errors import DTypeError, HyrecallError, OptionError, error

if TYPE_CHECKING:
    from hyrecall.hits.confidence import Judged
    from hyrecall.hits.dropped import Dropped
    from hyrecall.hits.explain_text import Explanation
    from hyrecall.hits.marks import Mark
    from hyrecall.text.analyzer import Analyzer


# ---- Checks the fields of a memory: ids, texts, times, tags, JSON ----

ANONYMOUS = "__hyrecall_anonymous__"
"""Stands for ``user_id=None`` where a format has no null; refused as anybody's id."""

_RESERVED = (ANONYMOUS, "__jeeves_anon_user__")
_MOST_ID_BYTES = 512
_MOST_LEVELS = 64  # of metadata: readers of JSON give up at some depth, and this is far from any


def flag(argument: str, value: object) -> bool:
    """Check a bool."""
    if not isinstance(value, bool):
        raise error(DTypeError, argument, "True or False", repr(value))
    return value


def check_id(argument: str, value: object) -> str:
    """Check an id or a name."""
    if not isinstance(value, str):
        raise error(DTypeError, argument, "a str", f"{type(value).__name__} {value!r}")
    n_bytes = len(_check_unicode(argument, value).encode())
    if not value.strip() or "\0" in value or n_bytes > _MOST_ID_BYTES:
        wish = f"1 to {_MOST_ID_BYTES} bytes, not blank, without NUL"
        raise error(OptionError, argument, wish, repr(value[:80]))
    return value


def check_user(argument: str, value: object) -> str | None:
    """Check a user, an org, a workspace or an agent; the empty str is a value of its own."""
    # None is the anonymous bucket, never "all".
    if value is None:
        return None
    if isinstance(value, str) and not value:
        return ""
    user = check_id(argument, value)
    if user in _RESERVED:
        wish = "an id that is not reserved (the anonymous bucket is None)"
        raise error(OptionError, argument, wish, repr(user))
    return user


def in_utc(time: datetime, argument: str = "time") -> datetime:
    """Return a time in UTC; one without a zone is UTC."""
    try:
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except OverflowError:
        raise error(OptionError, argument, "one that UTC has too", time.isoformat()) from None


def _check_unicode(argument: str, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as fault:
        raise error(OptionError, argument, "valid Unicode", fault.reason) from None
    return value


def _field(info: ValidationInfo) -> str:
    return info.field_name or "field"


def _name(value: object, info: ValidationInfo) -> str:
    return check_id(_field(info), value)


def _label(value: object, info: ValidationInfo) -> str | None:
    return None if value is None else check_id(_field(info), value)


def _user(value: object, info: ValidationInfo) -> str | None:
    return check_user(_field(info), value)


def _text(value: str, info: ValidationInfo) -> str:
    return _check_unicode(_field(info), value)


def _time(value: datetime, info: ValidationInfo) -> datetime:
    return in_utc(value, _field(info))


def _tags(tags: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    return tuple(dict.fromkeys(check_id(_field(info), tag) for tag in tags))


def _json(value: dict[str, JsonValue], info: ValidationInfo) -> dict[str, JsonValue]:
    """Refuse more than 64 levels, and values that JSON would return as something else."""
    if (levels := _n_levels(value)) > _MOST_LEVELS:
        raise error(OptionError, _field(info), f"at most {_MOST_LEVELS} levels", levels)
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except ValueError as fault:  # a UnicodeEncodeError is one too
        got = "NaN or infinity"
        if isinstance(fault, UnicodeEncodeError):
            got = "a lone surrogate"
        elif "integer string conversion" in str(fault):
            got = f"an int of more than {sys.get_int_max_str_digits():,} digits"
        raise error(OptionError, _field(info), "JSON", got) from None
    return value


def _n_levels(value: JsonValue) -> int:
    """Count the lists and objects that lie in each other."""
    n_levels, level = 0, [value]
    while level := [one for one in level if isinstance(one, dict | list)]:
        n_levels += 1
        level = [
            inner for one in level for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return n_levels


Name: TypeAlias = Annotated[str, BeforeValidator(_name)]
"""1 to 512 bytes, not blank."""

Label: TypeAlias = Annotated[str | None, BeforeValidator(_label)]
"""A :data:`Name`, or None."""

User: TypeAlias = Annotated[str | None, BeforeValidator(_user)]
"""Whose it is, or a part of the partition around: see :func:`check_user`."""

Text: TypeAlias = Annotated[str, AfterValidator(_text)]
"""Any text that UTF-8 can hold."""

Time: TypeAlias = Annotated[datetime, AfterValidator(_time)]
"""A time in UTC; naive ones are."""

TagList: TypeAlias = Annotated[tuple[str, ...], AfterValidator(_tags)]
"""Names, each once, in the order given."""

JsonObject: TypeAlias = Annotated[dict[str, JsonValue], AfterValidator(_json)]
"""What JSON can hold and give back as it was."""


# ---- Where a match comes from: what recomputes its score ----

BY_HAND = "one that was made by hand, unpickled or read from JSON"
WITHOUT_INDEX = "one that was found without an index"


class Ranked(Protocol):
    """The rows that a search ranked, which it can explain again."""

    def explain(self, place: int, /) -> Explanation:
        """Recompute the score of a row, by its place from 0."""
        ...

    def explain_dropped(self, most: int, /) -> Dropped:
        """Say what the stages of the recipe left out."""
        ...

    def judge(self) -> Judged:
        """Return how sure the reply is, and each row."""
        ...


Asked: TypeAlias = "tuple[Analyzer, str]"
"""The analyzer of a store and the words that its texts were searched for."""


class Origin:
    """The search behind a match; it does not take part in comparisons and pickles."""

    # All origins are equal, and a pickle or a copy through JSON has an empty one.

    ranked: Ranked | None = None
    place = 0
    missing = BY_HAND
    asked: Asked | None = None

    def __init__(
        self, ranked: Ranked | None = None, place: int = 0, *, missing: str = BY_HAND
    ) -> None:
        """Hold what was ranked."""
        self.ranked, self.place, self.missing = ranked, place, missing

    @classmethod
    def of_places(cls, ranked: Ranked | None, places: Iterable[int], asked: Asked) -> list[Origin]:
        """Return the origins of rows at some places, in a loop without a call."""
        made = []
        for place in places:
            one = cls.__new__(cls)
            one.ranked, one.place, one.asked = ranked, place, asked
            made.append(one)
        return made

    def explain(self) -> Explanation:
        """Recompute the score of the match."""
        if self.ranked is None:
            wish = "one that an index ranked in this process"
            raise error(OptionError, "match", wish, self.missing)
        return self.ranked.explain(self.place)

    def confidence(self) -> float | None:
        """Return the probability that the match is an answer."""
        if self.ranked is None:
            wish = "one that an index ranked in this process"
            raise error(OptionError, "match", wish, self.missing)
        return self.ranked.judge().values[1][self.place]

    def marks(self, text: str) -> list[Mark]:
        """Return the words of the query in a text of the match."""
        from hyrecall.hits.marks import find_marks

        if self.asked is None:
            raise error(OptionError, "match", "one that a search found in this process", BY_HAND)
        analyzer, words = self.asked
        return find_marks(analyzer, words, [text])[0]

    def __eq__(self, other: object) -> bool:
        """Return True for any other origin: matches are compared by their other fields."""
        return isinstance(other, Origin)

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: object) -> Origin:
        """Return this one: hits are never copied."""
        return self

    def __getstate__(self) -> None:
        """Return nothing: hits are never pickled."""


# ---- The types that a store takes and returns: episodes, facts, edges and matches ----

Visibility: TypeAlias = Literal["private", "global"]
"""Who may read a memory beside its user: nobody, or agents whose read policy admits it."""

Author: TypeAlias = Literal["user", "agent", "tool", "web", "import"]
"""Who said what a memory holds: a label that its text cannot set."""

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


class _StoredItem(BaseModel):
    """What everything that is kept has: an id, and the cell it lies in.

    An unknown field is refused: a misspelt one would be lost without a word.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=starting.is_brief
    )

    user_id: User = None
    org: User = None
    workspace: User = None
    visibility: Visibility = "private"


class Episode(_StoredItem):
    """One memory: what was said or learnt, when, and whose it is.

    Parameters
    ----------
    id : str, default drawn at random
        Unique among the memories of its user.
    input, text : str, default ""
        What is searched: the words of the memory, and the message that they answer. ``output``,
        the name of the text in Loom's episodes, is taken too, and read.
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
        When the store kept it. The store sets it and ``version``, and two episodes that differ in
        these alone are equal.
    version : int, optional
        Its version, from 1.
    importance : float, optional
        A rating in [0, 10].
    pinned : bool, default False
    tags : tuple of str, default ()
        Each is kept once.
    metadata : dict, default {}
        JSON.
    expires_at : datetime, optional
        From then on it is not found any more, and upkeep erases it; naive is UTC.
    author : {"user", "agent", "tool", "web", "import"}, optional
        Who said it: for filters, and shown where a model reads. Its text cannot set it.

    Raises
    ------
    ValueError
        Fields that cannot be kept, or an unknown one (pydantic's ``ValidationError``).
    TypeError
        An id that is no str.

    Examples
    --------
    >>> episode = Episode(user_id="alice", text="The build runs on Debian 12")
    >>> episode.kind, episode.created_at == episode.occurred_at
    ('episodic', True)
    """

    id: Name = _new_id("ep")
    input: Text = ""
    text: Text = ""
    kind: Name = "episodic"
    source: Label = None
    session_id: Label = None
    occurred_at: Time = Field(default_factory=lambda: datetime.now(UTC))
    created_at: Time = Field(default_factory=lambda: datetime.now(UTC))
    stored_at: Time | None = None
    version: int | None = None
    importance: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] | None = None
    pinned: bool = False
    tags: TagList = ()
    metadata: JsonObject = Field(default_factory=dict)
    expires_at: Time | None = None
    author: Author | None = None

    @model_validator(mode="before")
    @classmethod
    def _one_name(cls, given: Any) -> Any:
        """Read Loom's name of the text; give both names of the time the value of the one given."""
        if not isinstance(given, dict):
            return given
        if "output" in given:
            given = dict(given)
            said = given.pop("output")
            if given.setdefault("text", said) != said:
                raise error(OptionError, "output", "that of text, or none", "another")
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
        """Compare all fields but those that the store sets."""
        if not isinstance(other, Episode):
            return NotImplemented
        unsaid = {"stored_at": None, "version": None}
        return vars(self) | unsaid == vars(other) | unsaid

    __hash__ = None  # type: ignore[assignment]

    @property
    def output(self) -> str:
        """The text, by its name in Loom's episodes."""
        return self.text

    @property
    def full_text(self) -> str:
        """Input and text, a line each where both are there: what is embedded."""
        return "\n".join(part for part in (self.input, self.text) if part.strip())


class Fact(_StoredItem):
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

    @check_objects
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

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=starting.is_brief
    )

    id: Name
    role: Label = None


class Edge(_StoredItem):
    """An edge between two memories, or a hyperedge between more; their order is kept.

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
    """The parts of a match's score; None: the recipe has no such part.

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

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=starting.is_brief)

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

    model_config = ConfigDict(
        frozen=True, extra="ignore", hide_input_in_errors=True, defer_build=starting.is_brief
    )

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

    @property
    def confidence(self) -> float | None:
        """The probability that the match is an answer, in [0, 1]; docs/confidence.md.

        None: nothing to judge by, as for a memory that fills the list. Computed when it is read;
        OptionError: as :meth:`explain`.

        Examples
        --------
        >>> from hyrecall.memory import MemorySync
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     kept = memory.remember("Tea at four", user_id="ann")
        ...     matches = memory.search("tea at four", user_id="ann")
        ...     matches[0].confidence > 0.5
        True
        """
        return self._origin.confidence()

    def highlights(self) -> list[tuple[int, int]]:
        """Return where the query's words stand in ``episode.full_text``.

        Returns
        -------
        list of (int, int)
            As of :meth:`hyrecall.Hit.highlights`. Empty where no text was searched for.

        Raises
        ------
        OptionError
            The match was made by hand, unpickled or read from JSON.

        Examples
        --------
        >>> from hyrecall.memory import MemorySync
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     kept = memory.remember("Green tea & teas", user_id="ann")
        ...     match = memory.search("tea", user_id="ann")[0]
        >>> match.highlights(), match.snippet()
        ([(6, 9)], 'Green <mark>tea</mark> &amp; teas')
        """
        from hyrecall.hits.marks import spans_of

        return spans_of(self._origin.marks(self.episode.full_text))

    def snippet(
        self,
        width: int = 200,
        before: str = "<mark>",
        after: str = "</mark>",
        *,
        escape: bool = True,
    ) -> str:
        """Return the part of ``episode.full_text`` that has most of the query's words.

        Parameters
        ----------
        width : int, default 200
        before, after : str
        escape : bool, default True
            All as of :meth:`hyrecall.Hit.snippet`.

        Returns
        -------
        str

        Raises
        ------
        OptionError, DTypeError
            As :meth:`highlights`, or a wrong argument.
        """
        from hyrecall.hits.marks import check_snippet, snippet

        width = check_snippet(width, before, after, escape)
        text = self.episode.full_text
        return snippet(text, self._origin.marks(text), width, before, after, escape=escape)


# ---- Fields of memories as keywords of a call: their types, and errors that name the wrong one

Model_ = TypeVar("Model_", bound=BaseModel)

_WISHES = {"recursion_loop": "JSON of at most 64 levels", "tuple_type": "a list of strings"}
"""What is expected where pydantic's own words would mislead, by its name of the fault."""


class _Fields(TypedDict, total=False):
    input: str
    kind: str
    source: str | None
    session_id: str | None
    occurred_at: datetime
    created_at: datetime
    importance: float | None
    pinned: bool
    tags: Iterable[str]
    metadata: Mapping[str, Any]
    author: Author | None


class OwnFields(_Fields, total=False):
    """Fields of an episode beside its text, but for those that say whose it is."""

    id: str
    expires_at: datetime | None


class EpisodeFields(OwnFields, total=False):
    """Fields of an :class:`hyrecall.memory.Episode` beside its text."""

    user_id: str | None
    org: str | None
    workspace: str | None
    visibility: Visibility


class SuccessorFields(_Fields, total=False):
    """Fields of an episode that takes the place of another one of its user."""

    new_id: str
    visibility: Visibility
    expires_at: datetime | None


class AgentChanges(_Fields, total=False):
    """Fields that an agent may change; ``valid_to`` is that of a fact."""

    text: str
    valid_to: datetime | None
    visibility: Visibility


class Changes(AgentChanges, total=False):
    """Fields that an update may change."""

    expires_at: datetime | None


def checked(kind: type[Model_], fields: Mapping[str, Any]) -> Model_:
    """Make a model of fields, with errors that name the wrong field."""
    try:
        return kind.model_validate(dict(fields))
    except ValidationError as fault:
        raise _named(fault, kind, fields) from None


def _named(
    fault: ValidationError, kind: type[BaseModel], fields: Mapping[str, Any]
) -> HyrecallError:
    """Return the first fault as an error of this package."""
    first = fault.errors(include_url=False)[0]
    own = first.get("ctx", {}).get("error")
    if isinstance(own, HyrecallError):
        return own
    place, what = first["loc"], first["type"]
    if what == "extra_forbidden":
        return unknown_option(kind.__name__, [str(place[0])], list(kind.model_fields))
    argument = str(place[0]) if place else "fields"
    if argument == "occurred_at" and argument not in fields:
        argument = "created_at"  # two names of one time
    argument += f"[{place[1]}]" if len(place) > 1 and isinstance(place[1], int) else ""
    if what == "missing":
        return error(OptionError, argument, "a value", "none")
    is_json = "JSON" in first["msg"]
    told = "JSON" if is_json else first["msg"].removeprefix("Input should be ")
    wish = _WISHES.get(what, told)
    value = first["input"]
    is_plain = value is None or isinstance(value, bool | int | float)
    is_plain = is_plain or what in ("literal_error", "time")
    got = f"{value!r:.80}" if is_plain else type(value).__name__
    return error(
        DTypeError if is_json or what.endswith("_type") else OptionError, argument, wish, got
    )


# ---- Makes models of values that are known to be valid, without checking them again ----


def construct_all(
    kind: type[Model_],
    fields: Sequence[dict[str, Any]],
    private: Sequence[dict[str, Any]] | None = None,
) -> list[Model_]:
    """Return models with these fields, which they keep: all that each has, in their order."""
    # ``model_construct`` does the same, and looks at each field's alias and default first. A search
    # makes three models a match, in loops without a call.
    new, put, made = kind.__new__, set_field, []
    for at, own in enumerate(fields):
        one = new(kind)
        put(one, "__dict__", own)
        put(one, "__pydantic_fields_set__", set(own))
        put(one, "__pydantic_extra__", None)
        put(one, "__pydantic_private__", None if private is None else private[at])
        made.append(one)
    return made


# ---- What a store is told, and tells, of the memories that helped with a query ----

MOST_USED = 1_000
"""Memories that one call may name."""

MOST_QUERY_BYTES = 65_536


@check_keywords
@dataclass(frozen=True)
class QueryFeedback:
    """A query and the memories that helped with it.

    Attributes
    ----------
    query : str
    used : tuple of str
        The ids of the memories, in the order in which they were first named.
    at : datetime
        When one of them was last named, in UTC.
    """

    query: str
    used: tuple[str, ...]
    at: datetime


def read_query(query: object) -> str:
    """Check the query of a feedback."""
    if not isinstance(query, str):
        raise error(DTypeError, "query", "a str", type(query).__name__)
    try:
        n_bytes = len(query.encode())
    except UnicodeEncodeError as fault:
        raise error(OptionError, "query", "valid Unicode", fault.reason) from None
    if not query.strip() or "\0" in query or n_bytes > MOST_QUERY_BYTES:
        wish = f"1 to {MOST_QUERY_BYTES:,} bytes, not blank, without NUL"
        raise error(OptionError, "query", wish, repr(query[:80]))
    return query


def read_used(used: object) -> tuple[str, ...]:
    """Check the ids of a feedback, and return each once."""
    if isinstance(used, str | bytes) or not isinstance(used, Sequence):
        raise error(DTypeError, "used", "a sequence of ids", type(used).__name__)
    if not 0 < len(used) <= MOST_USED:
        raise error(OptionError, "used", f"1 to {MOST_USED:,} ids", len(used))
    return tuple(dict.fromkeys(check_id(f"used[{at}]", one) for at, one in enumerate(used)))
