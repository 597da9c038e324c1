"""Checks the arguments of one recall and freezes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property, reduce
from operator import and_
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from hyrecall.arm.listed import Listed
from hyrecall.ask.filter_json import FilterLike
from hyrecall.ask.filters import Filter
from hyrecall.ask.recipe import Dense, Lexical, Recipe
from hyrecall.ask.request import read_surrounding
from hyrecall.ask.scoring import RRF, Above, Max, WeightedSum, read_floor
from hyrecall.base.arguments import as_int, number, python_scalar
from hyrecall.base.times import read_moment
from hyrecall.embed.protocol import NORMS, norms
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.hits.trace import Trace
from hyrecall.memory.data.matches import Degradation
from hyrecall.memory.data.types import Ranked, check_id, flag, in_utc
from hyrecall.memory.derived.row_filters import read_narrowing
from hyrecall.memory.recall.audience import EVERYONE, AskedBy
from hyrecall.memory.sql.codec import Cell
from hyrecall.stages.age import Composite
from hyrecall.stages.choice import MMR, Budget
from hyrecall.stages.evidence import Around
from hyrecall.stages.gate import Gate
from hyrecall.stages.rerank import RerankBy
from hyrecall.stages.session import Session
from hyrecall.stages.session_signals import Phase, SessionSignals
from hyrecall.stages.stage import Stage, TextStage

# ---- Applies the options of a call to its recipe: each replaces a part of the recipe ----
# Ranking itself is the recipe's and the engine's: here only plain data changes.

Reranker = Callable[[str, list[str]], Any]
"""``function(query, texts) -> scores``, or a coroutine of them: a cross-encoder, say."""

RERANK_TIMEOUT: Final = "1s"
WEIGHTS: Final = ("recency", "importance", "relevance")
TEXT: Final = "text"  # the column that an index of a store has for it
ARMS: Final = {"bm25": (Lexical, "words"), "cosine": (Dense, "vectors")}
Floors: TypeAlias = "float | Above | Mapping[str, float | Above] | None"
"""A floor of the fused score, or floors of the scores that do not depend on the other matches."""
HINTS: Final = "hints"  # the arm of what a caller names, where the recipe has none


def adapted(
    recipe: Recipe,
    *,
    reranker: Reranker | None = None,
    diversity: float | None = None,
    normalize: bool = False,
    min_score: Floors = None,
    token_budget: int | None = None,
) -> Recipe:
    """Return the recipe with the options of one call, except alpha."""
    recipe = _reading_texts(recipe)
    if reranker is not None:
        function = _function(reranker)
        own = getattr(reranker, "timeout", None)  # as an embedder may have
        timeout = own if isinstance(own, int | float) else RERANK_TIMEOUT
        by = RerankBy(function, column=TEXT, timeout=timeout)
        recipe = with_stage(recipe, by)
    if share := _share("diversity", diversity):
        recipe = with_stage(recipe, MMR(1 - share))
    if flag("normalize", normalize):
        recipe = recipe.replace(normalize=True)
    if isinstance(min_score, Mapping):
        recipe = _floored(_without_fill(recipe), min_score)
    elif min_score is not None:
        wish = 'a finite number, hr.Above(number), or {"bm25": number, "cosine": number}'
        if isinstance(min_score, Above):  # the gate lets its own floor through
            floor = math.nextafter(min_score.value, math.inf)
        else:
            floor = number("min_score", min_score, -math.inf, math.inf, wish)
        recipe = with_stage(_without_fill(recipe), Gate(floor))
    return _budgeted(recipe, token_budget)


def _reading_texts(recipe: Recipe) -> Recipe:
    """Return a recipe whose rerankers and budgets read the column of whole texts."""
    for stage in recipe.shaping:
        if isinstance(stage, TextStage) and stage.column is None:
            options: Any = stage
            recipe = with_stage(recipe, replace(options, column=TEXT))
    return recipe


def _share(argument: str, given: object) -> float | None:
    return None if given is None else number(argument, given, 0.0, 1.0, "a number in [0, 1]")


def _budgeted(recipe: Recipe, given: object) -> Recipe:
    if given is None:
        return recipe
    tokens = as_int(given)
    if tokens is None:
        raise error(DTypeError, "token_budget", "an int", repr(given))
    if tokens <= 0:
        return recipe
    recipe = with_stage(recipe, Budget(min(tokens, 2**31 - 1), column=TEXT))
    if recipe.budget_mmr is None or MMR.among(recipe.shaping) is not None:
        return recipe
    return with_stage(recipe, recipe.budget_mmr)


def _floored(recipe: Recipe, floors: Mapping[str, float | Above]) -> Recipe:
    """Return a recipe whose arms list nothing below their floors."""
    # Rows that no arm lists are left out: what a recipe takes where nothing matched, rows of the
    # session around a match, and with a floor for words those that hold the query whole.
    of_kind: dict[type[Lexical | Dense], float | Above] = {}
    for name, floor in floors.items():
        if name not in ARMS:
            raise error(OptionError, "min_score", '"bm25" or "cosine"', repr(name))
        if read_floor(f"min_score[{name!r}]", floor) is None:
            raise error(OptionError, f"min_score[{name!r}]", "a number", "None")
        of_kind[ARMS[name][0]] = floor
    arms = tuple(
        replace(arm, min_score=of_kind[type(arm)]) if type(arm) in of_kind else arm
        for arm in recipe.arms
    )
    around = Around.among(recipe.shaping)
    shaping = tuple(stage for stage in recipe.shaping if stage is not around)
    exact = recipe.exact and Lexical not in of_kind
    return recipe.replace(
        arms=arms, shaping=shaping, with_threads=None, on_no_match=(), exact=exact
    )


def check_floors(recipe: Recipe, floors: Floors) -> None:
    """Refuse floors of scores that no arm of the recipe gives."""
    for name, floor in floors.items() if isinstance(floors, Mapping) else ():
        kind, what = ARMS[name]
        if not any(isinstance(arm, kind) and arm.weight > 0 for arm in recipe.arms):
            wish = f"none ({recipe.name} does not search by {what} here)"
            raise error(OptionError, f"min_score[{name!r}]", wish, floor)


def _without_fill(recipe: Recipe) -> Recipe:
    on_empty = "empty" if recipe.on_empty == "newest" else recipe.on_empty
    return recipe.replace(fill=None, on_empty=on_empty)


def weighted(recipe: Recipe, given: object) -> Recipe:
    """Return a recipe whose composite score has the weights of a call."""
    asked = _read_weights(given)
    if not asked:
        return recipe
    if (stage := Composite.among(recipe.shaping)) is not None:
        return with_stage(recipe, replace(stage, **asked))
    wish = "a recipe with a Composite stage, as recipes.hebb has"
    raise error(OptionError, "weights", wish, recipe.name)


def _read_weights(given: object) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        wish = f"a mapping of {', '.join(WEIGHTS)} to numbers"
        raise error(DTypeError, "weights", wish, type(given).__name__)
    for name in given:
        if name not in WEIGHTS:
            raise error(OptionError, "weights", f"{', '.join(WEIGHTS)}", repr(name))
    wish = "a number in [0, 1e6]"
    return {
        name: number(f"weights[{name!r}]", weight, 0.0, 1e6, wish) for name, weight in given.items()
    }


def hints_arm(recipe: Recipe) -> str | None:
    """Return the name of the arm that takes the caller's candidates, or None."""
    return next((arm.name for arm in recipe.more if arm._takes == "candidates"), None)


def with_hints(recipe: Recipe) -> Recipe:
    """Return the recipe with an arm for the caller's candidates."""
    if hints_arm(recipe) is not None:
        return recipe
    return recipe.replace(more=(*recipe.more, Listed(HINTS)))


def with_stage(recipe: Recipe, stage: Stage) -> Recipe:
    """Return the recipe with a stage in its place; replaces a stage of the same kind."""
    others = [one for one in recipe.shaping if not isinstance(one, type(stage))]
    return recipe.replace(shaping=tuple(sorted((*others, stage), key=lambda one: one.phase)))


def balanced(recipe: Recipe, given: float | None) -> Recipe:
    """Return the recipe weighted by alpha: 0 is words alone, 1 vectors alone, 0.5 no change."""
    # A sum has the weights 2 alpha and 2 (1 - alpha), one that balances its arms by itself alpha
    # and 1 - alpha, a maximum the same cut at 1: whatever alpha is, scores keep their scale and
    # make no jump, also where one arm is left.
    alpha = _share("alpha", given)
    if alpha is None or alpha == 0.5:
        return recipe
    fusion = recipe.fusion
    share = {Lexical: 2 * (1 - alpha), Dense: 2 * alpha}
    if isinstance(fusion, RRF) and fusion.alpha is not None:
        if 0 < alpha < 1:
            mode = fusion.alpha_mode
            new = RRF(rank_constant=fusion.rank_constant, alpha=alpha, alpha_mode=mode)
            return recipe.replace(fusion=new)
        fusion = RRF(rank_constant=fusion.rank_constant)
    if isinstance(fusion, WeightedSum) and fusion.balance is not None:
        fusion = WeightedSum(normalize=_as_given(fusion), complete=fusion.complete)
        share = {Lexical: 1 - alpha, Dense: alpha}
    elif isinstance(fusion, Max):
        share = {kind: min(1.0, weight) for kind, weight in share.items()}
    arms = tuple(
        replace(arm, weight=arm.weight * share[type(arm)])
        for arm in recipe.arms
        if share[type(arm)] > 0
    )
    if not arms:
        return recipe  # it lacks the arm that alpha asks for, and ignores it
    fuses = recipe.fuse_one_arm or len(arms) < len(recipe.arms)
    return recipe.replace(arms=arms, fusion=fusion, fuse_one_arm=fuses)


def _as_given(fusion: WeightedSum) -> Any:
    return dict(fusion.normalize) if isinstance(fusion.normalize, tuple) else fusion.normalize


def _function(reranker: Reranker) -> Reranker:
    if not callable(reranker):
        wish = "function(query, texts) -> scores"
        raise error(DTypeError, "reranker", wish, type(reranker).__name__)
    return reranker


# ---- Checks the arguments of one recall and freezes them ----

TimeRange = tuple[date | None, date | None]
"""Loom's form of a first and a last time, both included; a date alone is the whole day in UTC."""

Moment: TypeAlias = date | str
"""An end of a range of times, included: a datetime, a date (the whole day in UTC), or either as
ISO 8601."""

Hints: TypeAlias = "Sequence[str] | Mapping[str, float]"
"""Ids that a caller names: best first, or each with a score."""

_MOST: Final = 2**31 - 1  # what a depth may be
_MOST_KNOWN: Final = 64
_IMMUTABLE: Final = {type(None), bool, int, float, Recipe}


@dataclass(frozen=True, kw_only=True)
class RecallArguments:
    """The checked arguments of one recall."""

    query: str
    by: AskedBy
    recipe: Recipe
    by_words: Recipe
    kind: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    tags: tuple[str, ...] | None = None
    valid_at: datetime | None = None
    own_filter: Filter | None = None
    limit: int = 10
    offset: int = 0
    vector: npt.NDArray[np.float32] | None = None
    session_id: str | None = None
    touch: bool = False
    embed_timeout: float | None = None
    now: datetime | None = None
    candidates: Hints | None = None
    around: int = 0
    include_ended: bool = False
    min_confidence: float | None = None
    holds_at: datetime | None = None

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to search for: a blank query and no vector."""
        return self.vector is None and not self.query.strip()

    @cached_property
    def filter(self) -> Filter | None:
        """Kind, times, tags, validity and the caller's own filter, joined as one."""
        parts: list[Filter] = []
        if self.kind is not None:
            parts.append(Filter(kind=self.kind))
        if self.since is not None or self.until is not None:
            parts.append(Filter(occurred_at=(self.since, self.until)))
        if self.tags is not None:
            parts.append(Filter(tags=list(self.tags)))
        if self.valid_at is not None:
            # Valid in [valid_from, valid_to): a range has both its ends, and no null.
            parts.append(Filter(valid_from=(None, self.valid_at)))
            parts.append(~Filter(valid_to=(None, self.valid_at)))
        if self.own_filter is not None:
            parts.append(self.own_filter)
        return reduce(and_, parts) if parts else None

    def of_what_holds(self, now: datetime) -> RecallArguments:
        """Return the call without facts that do not hold; a time of its own decides instead."""
        if self.include_ended or self.valid_at is not None:
            return self
        holds = holding(now)
        own = holds if self.own_filter is None else self.own_filter & holds
        return replace(self, own_filter=own, holds_at=now)

    def of_what_is_left(self, now: datetime) -> RecallArguments:
        """Return the call without memories that have expired."""
        left = ~Filter(expires_at=(None, now))
        return replace(self, own_filter=left if self.own_filter is None else self.own_filter & left)

    @cached_property
    def uses_vector(self) -> bool:
        """Whether the query's vector affects the reply."""
        if self.is_blank or self.limit == 0:
            return False
        return any(isinstance(arm, Dense) and arm.weight > 0 for arm in self.recipe.arms)

    @property
    def wants_session(self) -> bool:
        """Whether the session affects the reply."""
        if self.session_id is None:
            return False
        return SessionSignals.among(self.recipe.shaping) is not None


def holding(now: datetime) -> Filter:
    """Return the filter that all pass but facts that have ended by a time, or not begun then."""
    # What is no fact has no begin and no end, and these are in no range.
    last = datetime.max.replace(tzinfo=UTC) - timedelta.resolution
    begins_later = Filter(valid_from=(min(now, last) + timedelta.resolution, None))
    return ~Filter(valid_to=(None, now)) & ~begins_later


def read_ask(
    text: object,
    by: AskedBy,
    recipe: Recipe,
    *,
    kind: str | None = None,
    limit: int = 10,
    offset: int = 0,
    since: Moment | None = None,
    until: Moment | None = None,
    tags: Sequence[str] | None = None,
    valid_at: datetime | None = None,
    filter: FilterLike | None = None,  # noqa: A002
    metadata: Mapping[str, object] | None = None,
    alpha: float | None = None,
    vector: object = None,
    session_id: str | None = None,
    reranker: Reranker | None = None,
    diversity: float | None = None,
    normalize: bool = False,
    min_score: Floors = None,
    token_budget: int | None = None,
    candidates: Hints | None = None,
    around: int = 0,
    touch: bool = False,
    embed_timeout: float | None = None,
    now: datetime | None = None,
    include_ended: bool = False,
    min_confidence: float | None = None,
    deepen: bool = False,
) -> RecallArguments:
    """Check the arguments of a recall; ``deepen`` lets the recipe's depth follow the limit."""
    if by.user is EVERYONE:
        raise error(OptionError, "user_id", "a user, or None for the anonymous one", "EVERYONE")
    query = read_text("text", text)
    if not query.strip() and vector is None and recipe.on_empty == "error":
        raise error(OptionError, "text", f"words ({recipe.name})", "blank text")
    n, skipped = read_limit("limit", limit), read_limit("offset", offset)
    if deepen:
        recipe = recipe.replace(depth=min(max(recipe.depth, n + skipped), _MOST))
    elif n + skipped > recipe.depth:
        wish = f"limit + offset <= {recipe.depth} (the recipe's depth)"
        mend = f"recipe=recipe.replace(depth={n + skipped})"
        raise error(OptionError, "limit", wish, n + skipped, mend)
    hints = read_hints(candidates)
    by_words = adapted(
        recipe if hints is None else with_hints(recipe), reranker=reranker, diversity=diversity,
        normalize=normalize, min_score=min_score, token_budget=token_budget,
    )  # fmt: skip
    recipe = balanced(by_words, alpha)
    check_floors(recipe, min_score)
    return RecallArguments(
        query=query,
        by=by,
        recipe=recipe,
        by_words=by_words,
        kind=None if kind is None else check_id("kind", kind),
        since=read_begin("since", since),
        until=read_end("until", until),
        tags=read_tags(tags),
        valid_at=None if valid_at is None else in_utc(_time("valid_at", valid_at)),
        own_filter=read_narrowing(filter, metadata),
        limit=n,
        offset=skipped,
        vector=_vector(vector),
        session_id=None if session_id is None else check_id("session_id", session_id),
        touch=flag("touch", touch),
        embed_timeout=read_seconds("embed_timeout", embed_timeout),
        now=None if now is None else in_utc(_time("now", now)),
        candidates=hints,
        around=read_surrounding("around", around),
        include_ended=flag("include_ended", include_ended),
        min_confidence=_share("min_confidence", min_confidence),
    )


class KnownSearches:
    """Remembers the options that a store was searched with: numbers, flags and recipes alone."""

    # Nothing of a query, of who asks, or of what may change is remembered.

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[dict[str, Any], tuple[object, ...]]] = {}

    def find(
        self, query: object, by: AskedBy, options: Mapping[str, object]
    ) -> RecallArguments | None:
        """Return the arguments of a call whose options are known; None: read them."""
        # Blank texts, and those that may not be valid Unicode, are read with care.
        if type(query) is not str or not (query.isascii() or query.isprintable()):
            return None
        key = _key(options)
        found = None if key is None else self._known.get(key)
        if found is None or not query or query.isspace() or by.user is EVERYONE:
            return None
        made = object.__new__(RecallArguments)
        vars(made).update(found[0], query=query, by=by)
        return made

    def learn(self, options: Mapping[str, object], ask: RecallArguments) -> None:
        """Remember the options of a call, if they are such as never change."""
        key = _key(options)
        if key is None or ask.is_blank:
            return
        if len(self._known) >= _MOST_KNOWN:
            self._known = {}
        made = {"uses_vector": ask.uses_vector, "filter": ask.filter}
        own = {name: value for name, value in vars(ask).items() if name not in ("query", "by")}
        self._known[key] = {**own, **made}, (*options.values(),)


def _key(options: Mapping[str, object]) -> tuple[object, ...] | None:
    """Return what options are known by; None: some of them may change."""
    key: list[object] = [*options]
    for value in options.values():
        kind = type(value)
        if kind not in _IMMUTABLE:
            return None
        # While a recipe is remembered, no other object has its id(). 1, 1.0 and True are equal.
        key += (kind, id(value) if kind is Recipe else value)
    return tuple(key)


def read_seconds(argument: str, seconds: object) -> float | None:
    """Read the seconds to wait for an embedder; 0 does not wait."""
    if seconds is None:
        return None
    return number(argument, seconds, 0.0, 3600.0, "seconds in [0, 3600]")


# ---- arguments ----


def read_text(argument: str, text: object) -> str:
    """Check what is looked for."""
    if not isinstance(text, str):
        raise error(DTypeError, argument, "a str", type(text).__name__)
    try:
        text.encode()
    except UnicodeEncodeError as fault:
        raise error(OptionError, argument, "valid Unicode", fault.reason) from None
    return text


def read_limit(argument: str, value: object) -> int:
    """Check how many are wanted, or passed over."""
    count = as_int(value)
    if count is None or not 0 <= count <= _MOST:
        raise error(OptionError, argument, "an int >= 0", repr(value))
    return count


def _time(argument: str, value: object) -> datetime:
    if not isinstance(value, datetime):
        raise error(DTypeError, argument, "a datetime", type(value).__name__)
    return value


def _vector(given: object) -> npt.NDArray[np.float32] | None:
    if given is None:
        return None
    try:
        with np.errstate(over="ignore"):  # becomes an infinity, which is refused
            row = np.asarray(python_scalar(given), np.float32)
    except (TypeError, ValueError, OverflowError):  # an int that no float holds
        raise error(DTypeError, "vector", "a row of numbers", type(given).__name__) from None
    if row.ndim != 1 or not len(row):
        raise error(OptionError, "vector", "one row of numbers", f"shape {row.shape}")
    if not np.isfinite(row).all():
        raise error(OptionError, "vector", "finite numbers", "NaN or infinity")
    found, is_taken = norms(row[np.newaxis])
    if not is_taken.all():
        raise error(OptionError, "vector", NORMS, f"{found[0]:g}")
    return row


def read_hints(given: object) -> Hints | None:
    """Read ids, best first, or ids with scores."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        wish = "a finite number of float32"
        return {
            check_id("candidates", key): number(f"candidates[{key!r}]", score, -3e38, 3e38, wish)
            for key, score in given.items()
        }
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise error(DTypeError, "candidates", "ids, or a mapping of ids to scores", repr(given))
    return tuple(check_id("candidates", key) for key in given)


def read_tags(tags: object) -> tuple[str, ...] | None:
    """Read tags, of which a memory must have at least one; None admits every memory."""
    if tags is None:
        return None
    if isinstance(tags, str | bytes) or not isinstance(tags, Sequence):
        raise error(DTypeError, "tags", "a sequence of str", repr(tags))
    return tuple(check_id("tags", tag) for tag in tags)


def read_range(argument: str, given: object) -> tuple[datetime | None, datetime | None]:
    """Read Loom's pair of a first and a last time, both included."""
    if given is None:
        return None, None
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise error(DTypeError, argument, "(first, last)", repr(given))
    if any(isinstance(end, str) for end in given):
        raise error(DTypeError, argument, "a datetime or a date", "str")
    return read_begin(argument, given[0]), read_end(argument, given[1])


def read_begin(argument: str, given: object) -> datetime | None:
    """Read the first time of a range; None is an open end, a date its midnight."""
    return None if given is None else _in_utc(argument, given, time.min)


def read_end(argument: str, given: object) -> datetime | None:
    """Read the last time of a range, which is in it; None is an open end, a date the whole day."""
    return None if given is None else _in_utc(argument, given, time.max)


def _in_utc(argument: str, end: object, of_day: time) -> datetime:
    if isinstance(end, str):
        end = read_moment(argument, end)
    if isinstance(end, date) and not isinstance(end, datetime):
        end = datetime.combine(end, of_day)
    if not isinstance(end, datetime):
        wish = "a datetime, a date, or one of them as ISO 8601"
        raise error(DTypeError, argument, wish, type(end).__name__)
    return in_utc(end, argument)


# ---- The search of the index and its result: plain data, which may
# cross processes
# :mod:`hyrecall.memory.recall.index_search` answers it, beside the index.


@dataclass(frozen=True, eq=False, kw_only=True)
class IndexQuestion:
    """A search of the index, as checked plain data."""

    query: str
    cells: tuple[tuple[int, Cell], ...]
    recipe: Recipe
    by_words: Recipe
    now: datetime
    vector: npt.NDArray[np.float32] | None = None
    ranks_words_alone: bool = False
    filter: Filter | None = None
    limit: int = 10
    offset: int = 0
    session: Session | None = None
    candidates: Hints | None = None
    around: int = 0
    budget: float = 1.5


@dataclass(frozen=True, eq=False, kw_only=True)
class FoundRows:
    """The rows that the index ranked, best first, with everything that a match tells of them."""

    rows: tuple[int, ...]
    scores: tuple[float, ...]
    vector_scores: tuple[float | None, ...]
    bm25_scores: tuple[float | None, ...]
    stages: Mapping[str, tuple[Any, ...]]
    ranks: Mapping[str, tuple[int | None, ...]]
    fills: tuple[bool, ...]
    exact: tuple[bool, ...]
    n_candidates: Mapping[str, int]
    trace: Trace
    phase: Phase | None = None
    related: tuple[tuple[tuple[str | None, ...], str], ...] = ()
    context: tuple[tuple[str, ...], ...] = ()
    around: tuple[tuple[int, ...], ...] = ()
    edges: tuple[Any, ...] = ()
    reasons: tuple[Degradation, ...] = ()
    is_behind: bool = False
    ranked: Ranked | None = field(default=None, repr=False)
