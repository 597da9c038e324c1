"""Reads the values of options: recipes, fusions, filters, scopes; refuses those of no effect."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import typer

from hyrecall.ask.filter_json import FILTER_FORM, filter_from_json
from hyrecall.ask.filters import Filter
from hyrecall.ask.scope import CellTypes, Scope
from hyrecall.ask.scoring import DBSF, RRF, Fusion, Max, WeightedSum
from hyrecall.base.arguments import home_path
from hyrecall.cli.declare import RECIPES
from hyrecall.cli.settings import read_recipe
from hyrecall.embed import StaticEmbedder
from hyrecall.errors import HyrecallError, OptionError, ScopeError, error
from hyrecall.segments.segments import IndexFacts
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

if TYPE_CHECKING:
    from hyrecall.distributed.shards import ShardOpening


# ---- Parses values of options, such as ``lucene:1.2:0.75``, ``rrf:alpha=0.5`` and JSON ----

T_ = TypeVar("T_")


def names(values: Sequence[str] | None) -> list[str]:
    """Split column names from an option that is repeated or has names separated by commas."""
    return [name.strip() for value in values or () for name in value.split(",") if name.strip()]


def number(option: str, value: str) -> float:
    """Read a finite number."""
    try:
        made = float(value)
    except ValueError:
        made = math.nan
    if not math.isfinite(made):
        raise error(OptionError, option, "a number", repr(value))
    return made


def at_least(option: str, value: int | None, least: int) -> None:
    """Refuse a lower number as an error of the command line."""
    if value is not None and value < least:
        raise typer.BadParameter(f"expected >= {least}, got {value}", param_hint=option)


def by_arm(
    option: str, values: Sequence[str] | None, read: Callable[[str, str], T_]
) -> T_ | dict[str, T_] | None:
    """Read ``value`` for all arms, or ``arm=value`` once per arm."""
    if not values:
        return None
    arms: dict[str, T_] = {}
    for value in values:
        arm, equals, rest = value.partition("=")
        if not equals:
            if len(values) > 1:
                wish = "one value, or ARM=VALUE for each arm"
                raise error(OptionError, option, wish, repr(value))
            return read(option, value)
        if arm in arms:
            raise error(OptionError, option, "each arm once", f"{arm!r} twice")
        arms[arm] = read(option, rest)
    return arms


def read_bm25(option: str, value: str) -> BM25:
    """Read ``variant[:k1[:b[:delta]]]``."""
    variant, *numbers = value.split(":")
    constants_in_order = ("k1", "b", "delta")
    if len(numbers) > len(constants_in_order):
        wish = "VARIANT[:K1[:B[:DELTA]]], as lucene:1.2:0.75"
        raise error(OptionError, option, wish, repr(value))
    constants = {
        name: number(option, one) for name, one in zip(constants_in_order, numbers, strict=False)
    }
    return _named(option, lambda: BM25(variant, **constants))  # type: ignore[arg-type]


def read_analyzer(option: str, value: str, stopwords: str | None = None) -> Analyzer:
    """Read a preset's name or the path of a tokenizer's JSON."""
    if value.endswith(".json"):
        if stopwords is not None:
            raise error(OptionError, "--stopwords", "none with a tokenizer", repr(stopwords))
        return _named(option, lambda: Analyzer.from_tokenizer(Path(home_path(option, value))))
    listed: Any = stopwords
    if stopwords is not None and stopwords != "english":
        if "," not in stopwords:
            wish = f"english, or words separated by commas ('{stopwords},' is a list of one)"
            raise error(OptionError, "--stopwords", wish, repr(stopwords))
        listed = names([stopwords])
    return _named(option, lambda: Analyzer(value, stopwords=listed))


def read_fusion(option: str, value: str) -> Fusion:
    """Read ``rrf``, ``rrf:60``, ``rrf:alpha=0.5``, ``sum:text=0.7,embedding=0.3``, ``max:none``,
    ``dbsf``.

    After the colon come options separated by commas: a number is RRF's rank constant, ``none`` or
    ``minmax`` the scaling of sum and max, ``complete=no`` turns off completion (except in RRF),
    ``alpha=`` is for RRF, and any other ``name=number`` is the weight of an arm.
    """
    kind, _, rest = value.partition(":")
    kinds: dict[str, Callable[..., Fusion]] = {
        "rrf": RRF,
        "sum": WeightedSum,
        "max": Max,
        "dbsf": DBSF,
    }
    made = kinds.get(kind)
    if made is None:
        raise error(OptionError, option, "rrf, sum, max or dbsf, with :options", repr(value))
    weights: dict[str, float] = {}
    options: dict[str, Any] = {}
    for part in names([rest]):
        name, equals, given = part.partition("=")
        if made is RRF and (name == "alpha" or not equals):
            options[name if equals else "rank_constant"] = number(option, given if equals else part)
        elif made in (WeightedSum, Max) and not equals and part in ("minmax", "none"):
            options["normalize"] = part
        elif made is not RRF and name == "complete" and given in ("yes", "no"):
            options["complete"] = given == "yes"
        elif equals:
            weights[name] = number(option, given)
        else:
            raise error(OptionError, option, "options as ARM=WEIGHT", repr(part))
    return _named(option, lambda: made(weights or None, **options))


def read_vector(option: str, value: str) -> Any:
    """Read a vector: a JSON list, or ``@FILE`` with a JSON list or a ``.npy`` array."""
    if value.startswith("@"):
        path = Path(home_path(option, value[1:]))
        if path.suffix == ".npy":
            try:
                return np.load(path, allow_pickle=False)
            except ValueError as fault:
                raise error(OptionError, option, "a .npy array", fault) from None
        value = path.read_text()
    wish = "a JSON list of numbers (of a sparse arm: ARM=, a JSON object), or @FILE"
    made = _json(option, value, wish)
    if not isinstance(made, list | dict):
        raise error(OptionError, option, wish, repr(made))
    return made


def read_scope(values: Sequence[str] | None, types: CellTypes) -> Scope | None:
    """Read ``--scope``: a value of the only cell column, or a JSON list with one per cell column.

    If the option is repeated, the query sees all of these cells.
    """
    if not types:
        if values:
            wish = "no --scope (the index has one audience: --no-cell)"
            raise error(ScopeError, "--scope", wish, values[0])
        return None
    if not values:
        wish = f"--scope, a cell of ({', '.join(types)}); the option can be repeated"
        raise error(ScopeError, "--scope", wish, "none")
    return Scope([_cell(value, types) for value in values])


def _cell(value: str, types: CellTypes) -> tuple[object, ...]:
    if value.startswith("["):
        made = _json("--scope", value, "a JSON list with a value per cell column")
        return tuple(made)
    if len(types) > 1:
        wish = f"a JSON list with a value for each of ({', '.join(types)})"
        raise error(ScopeError, "--scope", wish, repr(value))
    (kind,) = types.values()
    if pa.types.is_large_string(kind):
        return (value,)
    return (_json("--scope", value, f"a {kind}"),)


def read_filter(values: Sequence[str] | None, types: dict[str, pa.DataType]) -> Filter | None:
    """Read ``--filter``: JSON objects from columns to predicates; all must hold."""
    made: Filter | None = None
    for value in values or ():
        asked = _json("--filter", value, FILTER_FORM)
        if not isinstance(asked, dict):
            raise error(OptionError, "--filter", FILTER_FORM, repr(value))
        one = filter_from_json(asked, types, "--filter")
        made = one if made is None else made & one
    return made


def _json(option: str, value: str, wish: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        raise error(OptionError, option, wish, repr(value)) from None


def _named(option: str, make: Callable[[], T_]) -> T_:
    """Call `make`; put the option's name before the message of an error."""
    try:
        return make()
    except HyrecallError as fault:
        fault.args = (f"{option}: {fault}",)
        raise


# ---- The options that ``recall`` and ``batch`` share ----


def recall_options(
    ctx: typer.Context,
    facts: IndexFacts,
    *,
    limit: int,
    offset: int,
    depth: int,
    fusion: str | None,
    bm25: list[str] | None,
    filters: list[str] | None,
    min_score: list[str] | None,
    min_fused: float | None,
    normalize: bool,
    recipe: str | None = None,
) -> dict[str, Any]:
    """Convert the shared options to arguments of :meth:`hyrecall.Index.recall`."""
    which: dict[str, Any] = {
        "limit": limit,
        "offset": offset,
        "depth": depth,
        "filter": read_filter(filters, dict(facts.row_types)),
    }
    how: dict[str, Any] = {
        "fusion": None if fusion is None else read_fusion("--fusion", fusion),
        "bm25": by_arm("--bm25", bm25, read_bm25),
        "min_score": by_arm("--min-score", min_score, number),
        "min_fused": min_fused,
        "normalize": normalize,
    }
    if recipe is None:
        return which | how
    chosen = read_recipe("--recipe", recipe, RECIPES)
    refuse(ctx, f"no such option with --recipe ({recipe} has its own)", *how)
    return which | {"recipe": chosen}


def embedded_arm(facts: IndexFacts, embedder: StaticEmbedder) -> str:
    """Return the vector arm for ``--embed``: the only arm with the model's dimension."""
    dims = dict(facts.dims)
    fitting = [arm for arm, dim in dims.items() if dim == embedder.dim]
    if len(fitting) != 1:
        wish = f"an index with one vector arm of {embedder.dim} dimensions"
        raise error(OptionError, "--embed", wish, dims or "no vector arm")
    return str(fitting[0])


# ---- Which index is opened, and which options concern it ----


def opening_of(
    threads: int | None, memory: str | None, verify: str | None, pin: list[str] | None
) -> ShardOpening:
    """Return how a command opens an index."""
    from hyrecall.distributed.shards import ShardOpening

    return ShardOpening(threads=threads, memory=memory or "mmap", verify=verify, pin=names(pin))


def kind_of_folder(folder: Path) -> str:
    """Say what a folder holds: an index, the shards of one, or (also if it is new) a store."""
    if (folder / "MANIFEST").exists():
        return "index"
    marks = ("shards.json", "building/asked.json", "*/MANIFEST")  # also of an unfinished build
    is_store = (folder / "memory.db").exists() or not any(
        one for mark in marks for one in folder.glob(mark)
    )
    return "store" if is_store else "shards"


def refuse(ctx: typer.Context, wish: str, *names: str) -> None:
    """Refuse parameters that are on the command line, where they would be ignored.

    ``names`` are those of parameters, or headings that options have.
    """
    for one in ctx.command.params:
        source = ctx.get_parameter_source(one.name or "")
        is_named = one.name in names or getattr(one, "rich_help_panel", None) in names
        if is_named and source is not None and source.name == "COMMANDLINE":
            value = ctx.params[one.name or ""]
            if isinstance(value, list | tuple) and len(value) == 1:
                (value,) = value
            got = repr(str(value) if isinstance(value, Path) else value)
            got = "none" if wish.endswith("with it") else got
            raise error(OptionError, one.opts[0], wish, got)
