"""Defines settings, the arguments of ``Index.recall`` that an evaluation compares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from datetime import datetime
from typing import Any, TypedDict, Unpack

from hyrecall import recipes
from hyrecall.ask.arms import Arm
from hyrecall.ask.expansion import Expansion
from hyrecall.ask.filter_json import FilterLike
from hyrecall.ask.graphs import GraphLike
from hyrecall.ask.recipe import Recipe
from hyrecall.ask.request import Floors
from hyrecall.ask.scoring import RRF, Above, Fusion, WeightedSum
from hyrecall.ask.session import Session
from hyrecall.ask.shaping import Stage
from hyrecall.base.arguments import check_keywords, set_fields, unknown_option
from hyrecall.errors import OptionError, error
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

ARMS = ("text", "vectors")


class RecallOptions(TypedDict, total=False):
    """Arguments of :meth:`hyrecall.Index.recall` except the queries and their scope."""

    filter: FilterLike | list[FilterLike | None] | None
    limit: int
    offset: int
    depth: int
    fusion: Fusion | None
    min_score: Floors
    min_fused: float | Above | None
    bm25: BM25 | Mapping[str, BM25] | None
    normalize: bool
    arms: Sequence[Arm] | Arm
    candidates: Mapping[str, Sequence[Any]] | None
    shaping: Sequence[Stage] | Stage
    session: Session | list[Session | None] | None
    expansion: Sequence[Expansion] | Expansion
    graphs: Mapping[str, GraphLike] | None
    recipe: Recipe | list[Recipe] | None
    group: str | None
    surrounding: int
    now: datetime | None


@check_keywords
@dataclass(frozen=True)
class Setting:
    """A named set of arguments for a recall.

    Parameters
    ----------
    name : str
        The name in tables.
    options : mapping of str to object, optional
        Arguments of :meth:`hyrecall.Index.recall` except the queries and their scope.
    arms : tuple of {"text", "vectors"}, default both
        The parts of a query that are passed.
    analyzer : Analyzer, default Analyzer("unicode")
        The analyzer of the index; an index is built for each analyzer.
    attributes : tuple of str, default ()
        Columns of the corpus that become attributes of the index, for filters and stages.
    thread, place : str, optional
        Columns of the corpus that say which thread a row is part of and where in it, for
        :class:`hyrecall.Around`.

    Raises
    ------
    OptionError
        No arm, an unknown arm, or an option that recall does not have or that the set provides.

    Examples
    --------
    >>> Setting("rrf", {"fusion": RRF(alpha=0.3), "depth": 200}).arms
    ('text', 'vectors')
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    arms: tuple[str, ...] = ARMS
    analyzer: Analyzer = field(default_factory=Analyzer)
    attributes: tuple[str, ...] = ()
    thread: str | None = None
    place: str | None = None

    def __post_init__(self) -> None:
        """Check the arms and the names of the options."""
        set_fields(self, options=dict(self.options))
        if not self.arms or set(self.arms) - set(ARMS):
            raise error(OptionError, "arms", f"some of {ARMS}", repr(self.arms))
        given = sorted({"text", "vectors", "scope", "columns"} & set(self.options))
        if given:
            raise error(OptionError, "options", "no option that the set provides", ", ".join(given))
        known = RecallOptions.__annotations__
        if not self.options.keys() <= known.keys():
            raise unknown_option("options", self.options, list(known))

    def but(self, name: str, **options: Unpack[RecallOptions]) -> Setting:
        """Return the setting with another name and some options of recall changed."""
        return self._but(name, options)

    def _but(self, name: str, options: Mapping[str, Any]) -> Setting:
        return replace(self, name=name, options={**self.options, **options})

    def to_dict(self) -> dict[str, Any]:
        """Return the setting as plain data, for reports."""
        return {
            "name": self.name,
            "arms": list(self.arms),
            "analyzer": {"name": self.analyzer.name, "hash": self.analyzer.hash},
            "options": plain(self.options),
        }


BUILT_IN = {
    one.name: one
    for one in (
        Setting("bm25", arms=("text",)),
        Setting("dense", arms=("vectors",)),
        Setting("rrf", {"fusion": RRF()}),
        Setting("minmax", {"fusion": WeightedSum()}),
    )
}
"""The built-in settings by name."""


@check_keywords
def read_setting(name: str) -> Setting:
    """Return the built-in setting or the recipe of a name.

    Parameters
    ----------
    name : str
        ``bm25``, ``dense``, ``rrf`` (equal weights, rank constant 60), ``minmax`` (equal weights,
        completed), or a recipe of ``hyrecall.recipes``, without the parts that need a graph.

    Raises
    ------
    OptionError
        Another name.

    Examples
    --------
    >>> read_setting("bm25").arms
    ('text',)
    """
    if name in recipes.__all__:
        recipe: Recipe = getattr(recipes, name).without_graphs()
        return Setting(
            name,
            {"recipe": recipe},
            analyzer=Analyzer(recipe.analyzer or "unicode"),
            # Every index has the key column.
            attributes=tuple(column for column in recipe.columns if column != "id"),
        )
    if name not in BUILT_IN:
        known = ", ".join([*BUILT_IN, *recipes.__all__])
        raise error(OptionError, "setting", f"one of {known}", repr(name))
    return BUILT_IN[name]


def grid(base: Setting, **options: Mapping[str, Any]) -> tuple[Setting, ...]:
    """Return the base setting with every combination of some options' values.

    Parameters
    ----------
    base : Setting
    **options : mapping of str to object
        For each option, its values by label.

    Examples
    --------
    >>> [one.name for one in grid(read_setting("rrf"), depth={"10": 10, "100": 100})]
    ['rrf depth=10', 'rrf depth=100']
    """
    made = [base]
    for option, values in options.items():
        made = [
            one._but(f"{one.name} {option}={label}", {option: value})
            for one in made
            for label, value in values.items()
        ]
    return tuple(made)


@check_keywords
def without_each(base: Setting, option: str) -> tuple[Setting, ...]:
    """Return the base setting, and the base without each single entry of a sequence option.

    This is the ablation of a pipeline: each stage is left out once.

    Examples
    --------
    >>> base = Setting("all", {"shaping": ("dedup", "recency")})
    >>> [one.name for one in without_each(base, "shaping")]
    ['all', "all without 'dedup'", "all without 'recency'"]
    """
    entries = _entries(base, option)
    return (base, *(_less(base, option, at) for at in range(len(entries))))


@check_keywords
def with_each(base: Setting, option: str) -> tuple[Setting, ...]:
    """Return the base setting without the entries of a sequence option, and with each alone.

    Examples
    --------
    >>> base = Setting("all", {"shaping": ("dedup", "recency")})
    >>> [one.options["shaping"] for one in with_each(base, "shaping")]
    [(), ('dedup',), ('recency',)]
    """
    entries = _entries(base, option)
    bare = base._but(f"{base.name} without {option}", {option: ()})
    return (
        bare,
        *(base._but(f"{base.name} with only {one!r}", {option: (one,)}) for one in entries),
    )


def _entries(base: Setting, option: str) -> tuple[Any, ...]:
    entries = base.options.get(option)
    if not isinstance(entries, tuple | list) or not entries:
        raise error(OptionError, option, f"a sequence in setting {base.name!r}", repr(entries))
    return tuple(entries)


def _less(base: Setting, option: str, at: int) -> Setting:
    entries = _entries(base, option)
    rest = entries[:at] + entries[at + 1 :]
    return base._but(f"{base.name} without {entries[at]!r}", {option: rest})


def plain(value: Any) -> Any:
    """Convert options to JSON types; a dataclass has its class name as ``kind``."""
    if is_dataclass(value) and not isinstance(value, type):
        return {"kind": type(value).__name__, **plain(asdict(value))}
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)
