"""Defines recipes: the arms, fusion, shaping and fallbacks of a recall as plain data."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, get_args

from hyrecall.arm.arm import SearchArm
from hyrecall.arm.kinds import OF_A_RECIPE, PARTS
from hyrecall.arm.kinds import Arm as More
from hyrecall.ask.expansion import (
    Context,
    Expansion,
    SharedTags,
    check_graphs,
    has_graphs,
    names_in,
    put_graphs,
    read_expansion,
)
from hyrecall.ask.scoring import DBSF, RRF, Above, Fusion, Max, Scale, WeightedSum
from hyrecall.base.arguments import check_keywords, convert_field, number, one_of, set_fields
from hyrecall.base.options import (
    GraphLike,
    boolean,
    column_name,
    integer,
    names,
    plain_pairs,
    plain_values,
    text,
)
from hyrecall.errors import DTypeError, HyrecallError, OptionError, error
from hyrecall.stages.choice import MMR, Budget
from hyrecall.stages.evidence import Around
from hyrecall.stages.registry import built_in
from hyrecall.stages.stage import Stage, check_stages
from hyrecall.text.bm25 import BM25

# ---- Recipes and their parts as plain data for JSON, and as text ----


def _settings(part: Any) -> dict[str, Any]:
    """Return the settings of a part that differ from its defaults."""
    out = {}
    for one in fields(part):
        value = getattr(part, one.name)
        if one.init and value != one.default:
            out[one.name] = value
    return out


def show(part: Any) -> str:
    """Return a part with its settings as one line."""
    given = ", ".join(f"{name}={value!r}" for name, value in _settings(part).items())
    return f"{type(part).__name__}({given})"


def to_data(value: Any) -> Any:
    """Return a part as plain data, in which each part names its kind."""
    if is_dataclass(value) and not isinstance(value, type):
        settings = {name: to_data(one) for name, one in _settings(value).items()}
        return {"kind": type(value).__name__, **settings}
    if isinstance(value, tuple | list):
        return [to_data(one) for one in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise error(DTypeError, "recipe", "plain data (functions cannot be written)", repr(value))


def from_data(data: Any, where: str, known: Mapping[str, type[Any]]) -> Any:
    """Make a part from the result of :func:`to_data`; ``known`` has the kinds by name."""
    if isinstance(data, list):
        return tuple(from_data(one, f"{where}[{at}]", known) for at, one in enumerate(data))
    if not isinstance(data, Mapping):
        return data
    name = data.get("kind")
    kind = known.get(name) if isinstance(name, str) else None
    if kind is None:
        raise error(OptionError, where, f"a kind of {sorted(known)}", repr(data.get("kind")))
    names = {one.name for one in fields(kind) if one.init}
    given = {name: value for name, value in data.items() if name != "kind"}
    for name in given:
        if name not in names:
            raise error(OptionError, where, f"settings of {sorted(names)}", repr(name))
    settings = {name: from_data(value, f"{where}.{name}", known) for name, value in given.items()}
    try:
        return kind(**settings)
    except HyrecallError:
        raise
    except (TypeError, ValueError) as fault:
        raise error(OptionError, where, f"the settings of {kind.__name__}", fault) from None


# ---- The parts of a recipe: text and vector arms, tables, tie-breaks, fill, and threads ----

OTHER_TABLE = "other"
"""The table of all rows whose value is not the name of a table."""

QueryMode: TypeAlias = Literal["any", "all", "and_prefix"]


def plain_floor(argument: str, floor: object) -> float | Above | None:
    """Check a floor; return a number as a float."""
    if floor is None or isinstance(floor, Above):
        return floor
    wish = "a finite number or hr.Above(number)"
    return number(argument, floor, -math.inf, math.inf, wish)


@check_keywords
@dataclass(frozen=True, kw_only=True)
class Lexical:
    """The text arms of an index in a recipe.

    Parameters
    ----------
    arms : tuple of str, optional
        Names of the arms; default: all.
    mode : {"any", "all", "and_prefix"}, default "any"
        Which words of a plain-text query must match: any, all, or all as prefixes (then a word with
        punctuation is a phrase). Typed queries do not change.
    phrases : bool, default False
        Words in double quotes are a phrase, which every hit must contain.
    max_terms : int, optional
        Keep only so many first words of a query.
    stopwords : tuple of str, default ()
        Words removed from queries (not from documents), in any case; kept if a query has no others.
    bm25 : BM25, optional
        Replaces the index's constants.
    weight : float, default 1
    min_score : float or Above, optional
        As in :meth:`hyrecall.Index.recall`.
    scale : {"minmax", "none", "best", "clip", "unit"}, optional
        Replaces the fusion's ``normalize`` for these arms.
    """

    arms: tuple[str, ...] | None = None
    mode: QueryMode = "any"
    phrases: bool = False
    max_terms: int | None = None
    stopwords: tuple[str, ...] = ()
    bm25: BM25 | None = None
    weight: float = 1.0
    min_score: float | Above | None = None
    scale: Scale | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        one_of("mode", self.mode, ("any", "all", "and_prefix"))
        _check_arm(self)
        convert_field(self, "phrases", boolean)
        if self.max_terms is not None:
            convert_field(self, "max_terms", integer, 1)
        convert_field(self, "stopwords", names, "a tuple of words")
        if self.bm25 is not None and not isinstance(self.bm25, BM25):
            raise error(DTypeError, "bm25", "an hr.BM25", repr(self.bm25))


@check_keywords
@dataclass(frozen=True, kw_only=True)
class Dense:
    """The vector arms of an index in a recipe.

    Parameters
    ----------
    arms : tuple of str, optional
        Names of the arms; default: all.
    weight : float, default 1
    min_score : float or Above, optional
        The lowest raw cosine.
    scale : {"minmax", "none", "best", "clip", "unit"}, optional
        Replaces the fusion's ``normalize`` for these arms.
    """

    arms: tuple[str, ...] | None = None
    weight: float = 1.0
    min_score: float | Above | None = None
    scale: Scale | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        _check_arm(self)


def _check_arm(arm: Lexical | Dense) -> None:
    if arm.arms is not None:
        convert_field(arm, "arms", names)
    if arm.scale is not None:
        one_of("scale", arm.scale, get_args(Scale))
    convert_field(arm, "weight", number, 0.0, 1e6, "a number in [0, 1e6]")
    convert_field(arm, "min_score", plain_floor)


@check_keywords
@dataclass(frozen=True)
class TieBreak:
    """A column that orders equal fused scores.

    Parameters
    ----------
    column : str
    descending : bool, default False
        The largest value first. Nulls always come last.
    prefer : tuple, optional
        These values first, in this order; all other values are equal. Replaces the order by value.

    Raises
    ------
    OptionError
        Both ``prefer`` and ``descending``.
    DTypeError
        A setting of another type. At recall: a preferred value that the column cannot hold.
    """

    column: str
    descending: bool = False
    prefer: tuple[object, ...] = ()

    def __post_init__(self) -> None:
        """Check the options."""
        column_name("column", self.column)
        convert_field(self, "descending", boolean)
        convert_field(self, "prefer", plain_values)
        if self.prefer and self.descending:
            raise error(OptionError, "prefer", "prefer or descending, not both", "both")


@check_keywords
@dataclass(frozen=True)
class Tables:
    """Runs every arm once per table, over its rows only, with separate ranks.

    Text statistics are those of the table's rows in scope. A row is in exactly one table, and is
    fused from the arms of that table.

    Parameters
    ----------
    column : str
        The cell column with the table's name. If an index has no such cell column, all of its rows
        are one table, and the trace notes it.
    names : tuple of str
        The tables. Rows with another value or null form the table ``"other"``.

    Raises
    ------
    OptionError
        No name, a name given twice, or ``"other"``.
    DTypeError
        A column or a name that is not a str.

    Examples
    --------
    >>> Tables("table", ("facts", "dialogue")).all_names
    ('facts', 'dialogue', 'other')
    """

    column: str
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check the options."""
        column_name("column", self.column)
        convert_field(self, "names", names)
        given = self.names
        if not given or len(set(given)) < len(given) or OTHER_TABLE in given:
            wish = f"one or more distinct names other than {OTHER_TABLE!r}"
            raise error(OptionError, "names", wish, repr(given))

    @property
    def all_names(self) -> tuple[str, ...]:
        """The names of all tables; that of other rows is last."""
        return (*self.names, OTHER_TABLE)


@check_keywords
@dataclass(frozen=True)
class Fill:
    """Fills a list shorter than offset + limit with the newest documents of the query's scope.

    They follow all hits, with score 0, null ranks and ``origin`` "fill". With ``group`` or
    ``surrounding``, a list is filled to the depth before its rows are grouped.

    Parameters
    ----------
    column : str
        An attribute of numbers, dates or times; the largest value is the newest.
    when : {"one_arm", "no_match", "always"}, default "one_arm"
        Only if one arm ran or nothing matched, only if nothing matched, or always.

    Raises
    ------
    OptionError
        Another ``when``. At recall: a column that the index does not have.
    DTypeError
        A column that is not a str. At recall: a column of another type.
    """

    column: str
    when: Literal["one_arm", "no_match", "always"] = "one_arm"

    def __post_init__(self) -> None:
        """Check the options."""
        column_name("column", self.column)
        one_of("when", self.when, ("one_arm", "no_match", "always"))


@check_keywords
@dataclass(frozen=True)
class WithThreads:
    """How a recipe ranks queries whose scope has threads: rows around a hit raise its score.

    A query is answered so if at least one live row of its scope is in a thread, whether or not the
    row passes the filter. Queries of other scopes are answered as if the recipe lacked this part,
    to the last bit. So a reply depends on the scope's rows alone.

    Parameters
    ----------
    around : Around
        The stage right behind the fusion.
    bm25 : BM25, optional
        Replaces the constants of the recipe's text arms.

    Raises
    ------
    DTypeError
        A setting of another type.

    Examples
    --------
    >>> import hyrecall as hr
    >>> WithThreads(hr.Around(thread=0.5)).around.thread
    0.5
    """

    around: Around
    bm25: BM25 | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        if Around.among((self.around,)) is None:
            raise error(DTypeError, "around", "an hr.Around", repr(self.around))
        if self.bm25 is not None and not isinstance(self.bm25, BM25):
            raise error(DTypeError, "bm25", "an hr.BM25, or None", repr(self.bm25))


_OF_A_REPLY = ("base", "cosine", "lead", "names")
_OF_A_HIT = ("base", "cosine", "words", "behind", "query")


@check_keywords
@dataclass(frozen=True, kw_only=True)
class Coefficients:
    """How sure a reply and its hits are: the coefficients of two logistic models.

    ``hyrecall learn --confidence`` and :func:`hyrecall.evaluate.learn_confidence` find them from
    judged queries. docs/confidence.md defines the signals that they weigh.

    Vectors count if ``cosine`` is weighed, whatever the embedder; texts count if ``names`` or
    ``words`` is. A query without one of those that count is judged by the package's coefficients.

    Parameters
    ----------
    query : mapping of str to float
        For ``base``, the logit where all signals are 0, and some of ``cosine``, ``lead`` and
        ``names``; in [-1e6, 1e6].
    hit : mapping of str to float
        For ``base``, and some of ``cosine``, ``words``, ``behind`` and ``query``.

    Raises
    ------
    OptionError
        No ``base``, another signal, a number out of range, or neither texts nor vectors count.
    DTypeError
        A setting of another type.

    Examples
    --------
    >>> made = Coefficients(query={"base": -2, "names": -1}, hit={"query": 1, "base": -1})
    >>> made.hit
    (('base', -1.0), ('query', 1.0))
    >>> made.reads_texts, made.reads_vectors
    (True, False)
    """

    query: Mapping[str, float] | tuple[tuple[str, float], ...]
    hit: Mapping[str, float] | tuple[tuple[str, float], ...]

    def __post_init__(self) -> None:
        """Check the coefficients and put them in the order of the signals."""
        for name, known in (("query", _OF_A_REPLY), ("hit", _OF_A_HIT)):
            given = dict(plain_pairs(name, getattr(self, name)))
            if "base" not in given or not set(known) >= given.keys():
                raise error(OptionError, name, f"'base', and some of {known[1:]}", [*given])
            wish = "a number in [-1e6, 1e6]"
            checked = {
                one: number(f"{name}[{one!r}]", given[one], -1e6, 1e6, wish)
                for one in known
                if one in given
            }
            set_fields(self, **{name: tuple(checked.items())})
        if not (self.reads_texts or self.reads_vectors):
            raise error(OptionError, "query", "'cosine' or 'names', or hit 'words'", [*given])

    @property
    def reads_texts(self) -> bool:
        """Whether texts count."""
        return "names" in dict(self.query) or "words" in dict(self.hit)

    @property
    def reads_vectors(self) -> bool:
        """Whether vectors count."""
        return "cosine" in dict((*self.query, *self.hit))


# ---- Defines recipes: the arms, fusion, shaping and fallbacks of a recall as plain data ----

OnEmpty: TypeAlias = Literal["newest", "empty", "error"]


Arm: TypeAlias = Lexical | Dense


class RecipeSettings(TypedDict, total=False):
    """The settings of a :class:`Recipe`, all optional."""

    name: str
    arms: tuple[Arm, ...]
    fusion: Fusion
    more: tuple[More, ...]
    on_no_match: tuple[More, ...]
    shaping: tuple[Stage, ...]
    expansion: tuple[Expansion, ...]
    fill: Fill | None
    tie_break: tuple[TieBreak, ...]
    depth: int
    on_empty: OnEmpty
    normalize: bool
    min_fused: float | Above | None
    analyzer: str | None
    fuse_one_arm: bool
    semantic: Literal["default", "opt-in"]
    budget_mmr: MMR | None
    tables: Tables | None
    exact: bool | Literal["words"]
    with_threads: WithThreads | None
    confidence: Coefficients | None


@check_keywords
@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The arms, fusion, shaping and fallbacks of a recall, as plain data.

    Parameters
    ----------
    name : str
    arms : tuple of Lexical and Dense
        The text and vector arms. Each runs if the index has it and the query has input for it.
    more : tuple of arms of ``hyrecall.arms``
        Further arms, with weight 1. They name graphs, which ``graphs=`` of the call provides.
    on_no_match : tuple of the same
        Arms that run for a query for which no other arm found anything.
    fill : Fill, optional
        Fills lists with too few hits. It does nothing if ``shaping`` has a
        :class:`hyrecall.Budget`, which it would exceed.
    expansion : tuple of Context and SharedTags
        Documents shown beside the hits.
    fusion : RRF, WeightedSum, Max or DBSF
        The fusion, without weights: the arms have them.
    fuse_one_arm : bool, default False
        Fuse even if only one arm runs, so that scores always have the same scale for the stages
        that weigh them. False: the arm's scores are the scores.
    semantic : {"default", "opt-in"}, default "default"
        Whether a store of this recipe embeds its texts with the packaged model if no embedder is
        named. "opt-in": only with a named embedder.
    tables : Tables, optional
        Run every arm separately for each table of rows, such as facts, summaries and dialogue.
    budget_mmr : MMR, optional
        The choice within a token budget, if a call of a store gives one. ``shaping`` always runs.
    shaping : tuple of stages
        Stages in their fixed order.
    tie_break : tuple of TieBreak
        Order of equal fused scores, before the insertion number.
    depth : int, default 100
        The most documents that an arm returns; limit + offset must not exceed it.
    on_empty : {"newest", "empty", "error"}, default "empty"
        The result of a blank query: the newest documents with score 1 (by ``fill``), no hits, or an
        error.
    normalize : bool, default False
        Divide fused scores by the best possible score.
    min_fused : float or Above, optional
        The lowest fused score.
    analyzer : str, optional
        The analyzer that the recipe requires.
    exact : bool or "words", default False
        For a query that is one identifier or one quoted string, rows that contain it as a whole
        come first. "words": for any other query, rows that contain every word of it do. See
        docs/recipes.md.
    with_threads : WithThreads, optional
        How queries are answered whose scope holds a row in a thread (``Schema(thread=)``); see
        :meth:`for_threads`.
    confidence : Coefficients, optional
        How sure replies are; default: by the package's coefficients for the embedder.

    Raises
    ------
    OptionError
        Conflicting settings, a number out of range, or stages out of order.
    DTypeError
        A part or a setting of another type.

    Examples
    --------
    >>> recipe = Recipe(name="mine", arms=(Lexical(), Dense(min_score=0.35)), fusion=RRF())
    >>> Recipe.from_json(recipe.to_json()) == recipe
    True
    """

    name: str
    arms: tuple[Arm, ...]
    fusion: Fusion
    more: tuple[More, ...] = ()
    on_no_match: tuple[More, ...] = ()
    shaping: tuple[Stage, ...] = ()
    expansion: tuple[Expansion, ...] = ()
    fill: Fill | None = None
    tie_break: tuple[TieBreak, ...] = ()
    depth: int = 100
    on_empty: OnEmpty = "empty"
    normalize: bool = False
    min_fused: float | Above | None = None
    analyzer: str | None = None
    fuse_one_arm: bool = False
    semantic: Literal["default", "opt-in"] = "default"
    budget_mmr: MMR | None = None
    tables: Tables | None = None
    exact: bool | Literal["words"] = False
    with_threads: WithThreads | None = None
    confidence: Coefficients | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        text("name", self.name)
        arms = self._take("arms", Lexical | Dense, "Lexical and Dense")
        for name in ("more", "on_no_match"):
            self._take(name, SearchArm, OF_A_RECIPE)
        self._take("tie_break", TieBreak, "TieBreak")
        if not arms and not self.more:
            raise error(OptionError, "arms", "at least one arm in arms or more", "none")
        if not isinstance(self.fusion, RRF | WeightedSum | Max | DBSF):
            raise error(DTypeError, "fusion", "a fusion", repr(self.fusion))
        if self.fusion.weights is not None:
            raise error(OptionError, "fusion", "no weights (arms have them)", repr(self.fusion))
        is_scaled = any(arm.scale is not None for arm in arms)
        if is_scaled and not isinstance(self.fusion, WeightedSum | Max):
            raise error(OptionError, "scale", "WeightedSum or Max as fusion", repr(self.fusion))
        if getattr(self.fusion, "balance", None) is not None:
            for arm in arms:
                if arm.scale not in (None, "minmax"):
                    wish = "'minmax' (the fusion has a balance)"
                    raise error(OptionError, "scale", wish, repr(arm.scale))
        set_fields(
            self, shaping=check_stages(self.shaping), expansion=read_expansion(self.expansion)
        )
        _check_part("fill", self.fill, Fill)
        one_of("on_empty", self.on_empty, ("newest", "empty", "error"))
        one_of("semantic", self.semantic, ("default", "opt-in"))
        if self.on_empty == "newest" and self.fill is None:
            raise error(OptionError, "on_empty", "'newest' with fill=", "no fill")
        convert_field(self, "depth", integer, 1)
        for name in ("normalize", "fuse_one_arm"):
            convert_field(self, name, boolean)
        convert_field(self, "exact", _exact)
        convert_field(self, "min_fused", plain_floor)
        if self.analyzer is not None:
            text("analyzer", self.analyzer)
        _check_part("budget_mmr", self.budget_mmr, MMR)
        _check_part("tables", self.tables, Tables)
        _check_part("with_threads", self.with_threads, WithThreads)
        _check_part("confidence", self.confidence, Coefficients)

    def _take(self, name: str, kind: Any, wish: str) -> tuple[Any, ...]:
        """Check a setting of several parts and convert it to a tuple; a single part is allowed."""
        given = getattr(self, name)
        parts = (given,) if isinstance(given, kind) else given
        is_sequence = isinstance(parts, Sequence)
        if not is_sequence or not all(isinstance(one, kind) for one in parts):
            raise error(DTypeError, name, f"a tuple of {wish}", repr(given))
        set_fields(self, **{name: tuple(parts)})
        return tuple(parts)

    @property
    def columns(self) -> tuple[str, ...]:
        """The attribute and stored columns that the recipe reads, each once."""
        named = [tie.column for tie in self.tie_break]
        for stage in self.shaping:
            named += [column for column in stage.columns if column]
        for arm in (*self.more, *self.on_no_match):
            named += arm._columns
        named += [part.column for part in self.expansion if isinstance(part, SharedTags)]
        named += [] if self.fill is None else [self.fill.column]
        return tuple(dict.fromkeys(named))

    @cached_property
    def has_words_alone(self) -> bool:
        """Whether it has text arms but no vector arm."""
        return bool(self.arms) and all(isinstance(arm, Lexical) for arm in self.arms)

    @cached_property
    def _is_joinable(self) -> bool:
        return _is_joinable(self)

    @cached_property
    def _has_graphs(self) -> bool:
        return has_graphs(self)

    @property
    def has_budget(self) -> bool:
        """Whether a token budget limits its lists, so that ``fill`` does nothing."""
        budget = Budget.among(self.shaping)
        return budget is not None and budget.bounds

    def replace(self, **changes: Unpack[RecipeSettings]) -> Recipe:
        """Return the recipe with some settings changed.

        Parameters
        ----------
        **changes
            Settings of :class:`Recipe`.
        """
        return replace(self, **changes)

    def bind(self, *, graphs: Mapping[str, GraphLike]) -> Recipe:
        """Return the recipe with graphs in the place of their names.

        Parameters
        ----------
        graphs : mapping of str to Graph
            One for each name that an arm, a stage or an expansion has.

        Raises
        ------
        OptionError
            A name without a graph, a graph that nothing names.
        DTypeError
            ``graphs`` is no mapping.
        """
        known = check_graphs(graphs, names_in(self))
        return self.replace(**put_graphs(self, known)) if known else self

    def for_threads(self) -> Recipe:
        """Return the recipe by which a query is answered whose scope holds a row in a thread.

        It is the recipe itself without ``with_threads``; with ``normalize``, since scores with
        evidence have no best possible one; and if ``shaping`` has an :class:`hyrecall.Around`.
        """
        return self._threaded

    @cached_property
    def _threaded(self) -> Recipe:
        how = self.with_threads
        if how is None or self.normalize or Around.among(self.shaping) is not None:
            return self
        arms = tuple(
            replace(arm, bm25=how.bm25)
            if isinstance(arm, Lexical) and how.bm25 is not None
            else arm
            for arm in self.arms
        )
        shaping = tuple(sorted((how.around, *self.shaping), key=lambda one: one.phase))
        return self.replace(arms=arms, shaping=shaping, with_threads=None)

    def without_graphs(self) -> Recipe:
        """Return the recipe without the parts that need a graph."""
        more, on_no_match = (
            tuple(kept for arm in arms if (kept := arm._without_graphs()) is not None)
            for arms in (self.more, self.on_no_match)
        )
        return self.replace(
            more=more,
            on_no_match=on_no_match,
            shaping=tuple(one for one in self.shaping if getattr(one, "graph", None) is None),
            expansion=tuple(one for one in self.expansion if not isinstance(one, Context)),
        )

    # ---- as JSON ----

    def to_json(self) -> str:
        """Return the recipe as JSON: one object; each part names its kind."""
        return json.dumps(to_data(self), ensure_ascii=False, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Recipe:
        """Make a recipe from JSON of :meth:`to_json`; an error names an unknown or missing part."""
        if not isinstance(text, str | bytes):
            raise error(DTypeError, "recipe", "JSON as a str", repr(text))
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as fault:  # ValueError includes invalid UTF-8
            raise error(OptionError, "recipe", "JSON", fault) from None
        made = from_data(data, "recipe", known_parts())
        if not isinstance(made, cls):
            raise error(OptionError, "recipe", "an object of kind Recipe", repr(data)[:80])
        return made

    def explain(self) -> str:
        """Return a description of the pipeline: a line for each part, in the order of execution.

        What would be longer than 120 characters goes on in an indented line.
        """
        import textwrap

        lines = [f"recipe {self.name}"]
        if self.analyzer is not None:
            lines.append(f"  analyzer  {self.analyzer}")
        lines += [f"  arm       {show(arm)}" for arm in (*self.arms, *self.more)]
        if self.tables is not None:
            lines.append(f"  tables    {show(self.tables)}")
        lines.append(f"  depth     {self.depth} documents an arm")
        also = ", of one arm too" if self.fuse_one_arm else ""
        lines.append(f"  fusion    {show(self.fusion)}{also}")
        if self.normalize:
            lines.append("  normalize over the best score possible")
        if self.min_fused is not None:
            lines.append(f"  min fused {self.min_fused!r}")
        if self.exact:
            words = ", or every word" if self.exact == "words" else ""
            lines.append(f"  first     what holds an identifier or a quoted string whole{words}")
        lines += [f"  tie       {show(tie)}" for tie in self.tie_break]
        lines += [f"  shaping   {show(stage)}" for stage in self.shaping]
        if self.budget_mmr is not None:
            lines.append(f"  budget    {show(self.budget_mmr)}")
        lines += [f"  no match  {show(arm)}" for arm in self.on_no_match]
        if self.fill is not None:
            lines.append(f"  fill      {show(self.fill)}")
        lines += [f"  beside    {show(part)}" for part in self.expansion]
        lines.append(f"  on empty  {self.on_empty}")
        if self.with_threads is not None:
            how = self.with_threads
            constants = "" if how.bm25 is None else f", {show(how.bm25)}"
            lines.append(f"  threads   {show(how.around)}{constants}")
        if self.confidence is not None:
            lines.append(f"  sure      {show(self.confidence)}")
        if self.semantic == "opt-in":
            lines.append("  semantic  where an embedder is named")
        wrapper = textwrap.TextWrapper(
            120, subsequent_indent=" " * 12, break_long_words=False, break_on_hyphens=False
        )
        return "\n".join(map(wrapper.fill, lines))


def _exact(argument: str, value: object) -> bool | Literal["words"]:
    if not isinstance(value, str):
        return boolean(argument, value)
    if value != "words":
        raise error(OptionError, argument, "True, False or 'words'", repr(value))
    return "words"


def _check_part(name: str, part: object, kind: type[Any]) -> None:
    if part is not None and not isinstance(part, kind):
        raise error(DTypeError, name, f"a {kind.__name__}, or None", repr(part))


def known_parts() -> dict[str, type[Any]]:
    """Return the kinds of parts of recipes and calls that are plain data, by name."""
    kinds = (
        Recipe, Lexical, Dense, TieBreak, Tables, WithThreads, Fill, *PARTS, Context, SharedTags,
        Coefficients, BM25, RRF, WeightedSum, Max, DBSF, Above,
    )  # fmt: skip
    return {kind.__name__: kind for kind in kinds} | built_in()


# ---- Says whether queries by a recipe may be searched together with others' queries ----


def is_joinable(recipe: Recipe) -> bool:
    """Return whether a query's reply says the same in a batch as alone."""
    return recipe._is_joinable


def _is_joinable(recipe: Recipe) -> bool:
    # Stages and neighbours have the time of the call, and their counts in the trace are those of
    # the whole batch. Where some queries fall back to other arms, the trace names these arms to
    # all. A pattern takes its time in the texts; no other caller's query should wait for it.
    tells_of_all = recipe.shaping or recipe.expansion or recipe.on_no_match
    is_slow = any(arm._is_slow for arm in recipe.more)
    return not (tells_of_all or is_slow or has_graphs(recipe))
