"""The tool that searches memories; what it returns, as data and as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from functools import cache, partial
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from hyrecall.ask.filter_json import filter_from_json
from hyrecall.ask.filters import Filter
from hyrecall.base.fences import fenced
from hyrecall.base.times import read_moment
from hyrecall.errors import OptionError, error
from hyrecall.hits.marks import Mark, tells_places, window
from hyrecall.memory import Episode, EpisodeMatch
from hyrecall.memory.data.matches import is_answerable, known_confidence
from hyrecall.memory.data.types import Origin
from hyrecall.memory.derived.layout import FILTERED
from hyrecall.memory.recall.call import holding
from hyrecall.memory.replies import Reason, reasons_data
from hyrecall.serve.bodies import Floor
from hyrecall.serve.mcp.session import CallerSession
from hyrecall.serve.mcp.tool import (
    Arguments,
    Excerpts,
    Limit,
    Previews,
    Query,
    Structure,
    Tool,
    ToolReply,
)

# ---- What hyrecall's own tools return, as data with a schema and as a short text ----


class OneMemory(Structure):
    """A memory as it was stored."""

    id: str
    text: str
    input: Annotated[str | None, BeforeValidator(lambda given: given or None)] = Field(
        None, description="The message that the text answers."
    )
    kind: str
    tags: list[str]
    occurred_at: datetime
    stored_at: datetime | None
    pinned: bool
    importance: float | None
    session_id: str | None
    source: str | None
    author: str | None = Field(description="Who said it: user, agent, tool, web or import.")
    visibility: str
    user_id: str | None
    metadata: dict[str, Any]


class Match(Structure):
    """A memory that was found, with its score."""

    episode: OneMemory
    score: float | None = Field(
        description="What the list is ordered by; its scale is the recipe's. Null: newest first."
    )
    vector_score: float | None = Field(description="Cosine in [-1, 1]; null: not computed.")
    bm25_score: float | None = Field(description="BM25; null: not computed.")
    rerank_score: float | None = Field(description="A reranker's; null: none ran on it.")
    is_fill: bool = Field(description="Not found, but added as one of the newest.")
    is_exact: bool = Field(description="First because it holds what was asked for as a whole.")
    valid_to: datetime | None = Field(description="When the fact that it is ends; null: never.")
    around: list[OneMemory] = Field(description="What stands around it in its session, by time.")


def memory_shape(one: Episode) -> OneMemory:
    """Return a memory as data."""
    return OneMemory.model_validate(one, from_attributes=True)


def match_shape(one: EpisodeMatch, around: Sequence[Episode] = ()) -> Match:
    """Return a match, and what stands around it, as data."""
    named = {name: getattr(one, name) for name in _OF_A_MATCH}
    shown = list(map(memory_shape, around))
    return Match(episode=memory_shape(one.episode), around=shown, **named)


def listed_shape(one: Episode, end: datetime | None) -> Match:
    """Return a memory that was listed, not ranked, as a match; the fact that it is may end."""
    named: Any = {
        **dict.fromkeys(_OF_A_MATCH),
        "is_fill": False,
        "is_exact": False,
        "valid_to": end,
    }
    return Match(episode=memory_shape(one), around=[], **named)


_OF_A_MATCH: Final = tuple(name for name in Match.model_fields if name not in ("episode", "around"))


LOOKED_AT: Final = 1_000
"""Words of a query in a text, of which the part with most is chosen."""


def excerpts_of(matches: Iterable[EpisodeMatch]) -> Excerpts:
    """Return what shows, of each text of matches, the part with most words of the query."""
    return {
        text: partial(_excerpt, text, cache(partial(_first_marks, one._origin, text)))
        for one in matches
        if (asked := one._origin.asked) is not None and tells_places(asked[0])
        for text in (one.episode.text, one.episode.input, one.episode.full_text)
    }


def _first_marks(origin: Origin, text: str) -> list[Mark]:
    return origin.marks(text)[:LOOKED_AT]


def _excerpt(text: str, marks: Callable[[], list[Mark]], width: int) -> str:
    begin, end = window(text, marks(), width)
    return f"{'…' if begin else ''}{text[begin:end]}{'…' if end < len(text) else ''}"


def text_of_matches(found: dict[str, Any]) -> str:
    """Return matches as text, best first, each fenced, and what stands around it too."""
    texts = [
        (origin, text)
        for one in found["items"]
        for origin, text in (
            (
                _origin(one["episode"]) | {"newest": one["is_fill"], "valid_to": one["valid_to"]},
                said(one["episode"]),
            ),
            *(
                (_origin(near) | {"around": one["episode"]["id"]}, said(near))
                for near in one["around"]
            ),
        )
    ]
    told = [
        f"degraded: {one['reason']}" + (f" ({one['detail']})" if one["detail"] else "")
        for one in found["reasons"]
    ]
    if texts and found["answerable"] is False:
        sure = f"confidence {found['confidence']:.2f}"
        told.insert(0, f"Probably nothing here answers ({sure}): these are best guesses.")
    return "\n\n".join([fenced(texts) if texts else "Nothing was found.", *told])


def text_of_memories(memories: Iterable[dict[str, Any]]) -> str:
    """Return listed memories as text, each fenced."""
    texts = [(_origin(one) | {"valid_to": one["valid_to"]}, said(one)) for one in memories]
    return fenced(texts) if texts else "There are no memories."


def _origin(memory: dict[str, Any]) -> dict[str, Any]:
    """Return what tells whose a memory is and where it came from."""
    names = ("id", "user_id", "source", "kind", "occurred_at")
    told = {name: memory[name] for name in names}
    return told | ({"author": memory["author"]} if memory["author"] else {})


def said(memory: dict[str, Any]) -> str:
    """Return the message that a memory answers and its text, a line each where both are there."""
    parts = (memory["input"] or "", memory["text"] or "")
    return "\n".join(part for part in parts if part.strip())


# ---- Tools that keep, find, read and change memories ----

_TYPES: Final = {name: column.type for name, column in FILTERED.items()}

_Tags = Annotated[
    list[Annotated[str, Field(max_length=512)]],
    Field(description="Words to file it under."),
]
_Wanted = Annotated[
    list[Annotated[str, Field(max_length=512)]] | None,
    Field(description="Only memories with one of these tags."),
]
_Filter = Annotated[
    dict[str, Any] | None,
    Field(
        description="Only memories with these attributes (kind, source, session_id, occurred_at, "
        "importance, pinned, tags, ...) and keys of the metadata: "
        '{"kind": "note", "occurred_at": {"from": "2024-05-01"}, "metadata.project": "x"}. A list '
        "means any of its values."
    ),
]
_Reason = Annotated[
    str | None, Field(max_length=512, description="Why; it is kept in the history.")
]
_Kind = Annotated[str | None, Field(max_length=512, description="Only memories of this kind.")]
_Time = Annotated[str | None, Field(max_length=64)]
_Since = Annotated[_Time, Field(description="Not before this time, ISO 8601.")]
_Until = Annotated[
    _Time, Field(description="Not after this time, ISO 8601; a date alone includes the whole day.")
]


class _Search(Arguments):
    text: Annotated[
        Query,
        Field(
            description="What to look for, in plain words. * with since or until: everything of "
            "that time, newest first."
        ),
    ]
    limit: Limit = 10
    offset: Annotated[int, Field(ge=0)] = 0
    kind: _Kind = None
    tags: _Wanted = None
    filter: _Filter = None
    since: _Since = None
    until: _Until = None
    session_id: Annotated[
        str | None, Field(max_length=512, description="The conversation, for recipes that weigh it")
    ] = None
    recipe: Annotated[
        str | None, Field(max_length=64, description="How to rank; default: the store's recipe.")
    ] = None
    alpha: Annotated[
        float | None, Field(ge=0, le=1, description="0: words alone, 1: vectors alone.")
    ] = None
    min_score: Annotated[
        float | dict[str, float] | None,
        Field(description='The least score; or absolute floors, {"bm25": 2.0, "cosine": 0.35}.'),
    ] = None
    min_confidence: Floor = None
    normalize: Annotated[bool, Field(description="Scores in [0, 1].")] = False
    token_budget: Annotated[
        int | None, Field(ge=1, le=10_000_000, description="Only as many as fit.")
    ] = None
    around: Annotated[
        int, Field(ge=0, le=100, description="Memories on either side of each in its session.")
    ] = 0
    include_ended: Annotated[
        bool,
        Field(description="Also facts that have ended, behind what followed them, or not begun."),
    ] = False


class Found(Previews):
    """What a search found."""

    items: list[Match]
    degraded: bool
    reasons: list[Reason]
    confidence: float | None = Field(
        None, description="How likely it is that an answer is among them; null: not known."
    )
    answerable: bool | None = Field(
        None, description="False: probably nothing here answers, the items are best guesses."
    )


async def _search(session: CallerSession, given: _Search) -> ToolReply:
    since, until = _times(given)
    if (since, until) != (None, None) and given.text.strip() in ("", "*"):
        return await _of_a_time(session, given)
    options = {name: getattr(given, name) for name in type(given).model_fields}
    options |= {"filter": _read_filter(given.filter), "since": since, "until": until}
    matches = await session.search(**options)
    around = matches.around or [()] * len(matches)
    sure = await session.run(lambda: known_confidence(matches))
    found = Found(
        items=list(map(match_shape, matches, around)), degraded=matches.degraded,
        reasons=[Reason(**one) for one in reasons_data(matches.reasons)],
        confidence=sure, answerable=is_answerable(sure),
    )  # fmt: skip
    return ToolReply(found, text_of_matches, excerpts_of(matches))


async def _of_a_time(session: CallerSession, given: _Search) -> ToolReply:
    """List what happened in a time, because there is nothing to rank by."""
    of_words = "session_id recipe alpha min_score min_confidence normalize token_budget around"
    for name in of_words.split():
        if getattr(given, name):
            wish = "no such option where the text names no words"
            raise error(OptionError, name, wish, repr(getattr(given, name)))
    passes = _read_filter(given.filter)
    if not given.include_ended:
        holds = holding(session.memory._sync._store.now())
        passes = holds if passes is None else passes & holds
    since, until = _times(given)
    found = await session.call(
        "list", limit=given.limit, offset=given.offset, kind=given.kind, tags=given.tags,
        filter=passes, since=since, until=until,
    )  # fmt: skip
    items = list(map(listed_shape, found, await session.ends(found)))
    listed = Found(items=items, degraded=False, reasons=[], confidence=None, answerable=None)
    return ToolReply(listed, text_of_matches)


def _times(given: _Search) -> tuple[date | None, date | None]:
    return read_moment("since", given.since), read_moment("until", given.until)


def _read_filter(given: dict[str, Any] | None) -> Filter | None:
    return None if given is None else filter_from_json(given, _TYPES, "filter")


TOOLS: Final = (
    Tool(
        "search", "Search memories",
        "Recall memories by words and meaning, best first. Use it before answering from memory.",
        _Search, Found, "reads", _search, recipe="",
    ),
)  # fmt: skip
