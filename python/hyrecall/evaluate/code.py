"""Writes a setting as Python code with the arguments of a recall."""

from __future__ import annotations

import datetime as dt
import inspect
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from types import NoneType
from typing import Any

import numpy as np
import pyarrow.compute as pc

import hyrecall
from hyrecall import recipes
from hyrecall.ask.filters import Filter
from hyrecall.ask.predicates import AnyOf, Equal, Predicate
from hyrecall.ask.recipe import Recipe
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import OptionError, error
from hyrecall.evaluate.run import DEPTH
from hyrecall.evaluate.settings import Setting
from hyrecall.text.analyzer import Analyzer

__all__ = ["setting_code"]


@check_keywords
def setting_code(setting: Setting, *, analyzer: str | None = None, has_cells: bool = True) -> str:
    """Return a setting as Python code that runs unchanged.

    Parameters
    ----------
    setting : Setting
    analyzer : str, optional
        Code that makes the analyzer, required if it uses a tokenizer file or a callable.
    has_cells : bool, default True
        Whether the recall names a scope, which an index with ``cell=None`` refuses.

    Returns
    -------
    str
        The code sets ``analyzer`` for :meth:`hyrecall.Index.build` and ``options`` for
        :meth:`hyrecall.Index.recall`.

    Raises
    ------
    OptionError
        An option holds a function, a graph or another object that cannot be written as code.

    Examples
    --------
    >>> from hyrecall import BM25, RRF
    >>> print(setting_code(Setting("mine", {"fusion": RRF(alpha=0.3), "bm25": BM25(k1=0.9)})))
    import hyrecall as hr
    <BLANKLINE>
    analyzer = hr.Analyzer("unicode")
    options = {
        "fusion": hr.RRF(alpha=0.3),
        "bm25": hr.BM25(k1=0.9),
        "depth": 1000,
    }
    # index = hr.Index.build(table, schema, analyzer=analyzer)
    # hits = index.recall(text=texts, vectors=vectors, scope=scopes, **options)
    """
    options = dict(setting.options)
    if "recipe" not in options:
        options.setdefault("depth", DEPTH)
    given = {"text": "text=texts", "vectors": "vectors=vectors"}
    asked = [*(given[arm] for arm in setting.arms), *(["scope=scopes"] if has_cells else [])]
    lines = [
        f"analyzer = {analyzer or _analyzer(setting.analyzer)}",
        "options = {",
        *(f"    {_python(name)}: {_python(value)}," for name, value in options.items()),
        "}",
    ]
    if setting.attributes:
        lines.append(f"# of the schema: attributes={_python(setting.attributes)}")
    lines += [
        "# index = hr.Index.build(table, schema, analyzer=analyzer)",
        f"# hits = index.recall({', '.join(asked)}, **options)",
    ]
    made = "\n".join(lines)
    standard = [f"import {name}" for name in ("datetime", "zoneinfo") if f"{name}." in made]
    others = ["import numpy as np"] if "np." in made else []
    blank = [""] if standard else []
    return "\n".join([*standard, *blank, "import hyrecall as hr", *others, "", made])


def _analyzer(analyzer: Analyzer) -> str:
    words = analyzer.stopwords
    if words is None:
        return f"hr.Analyzer({_python(analyzer.name)})"
    given = _python(words if isinstance(words, str) else list(words))
    return f"hr.Analyzer({_python(analyzer.name)}, stopwords={given})"


def _python(value: Any) -> str:
    """Return code that makes an equal value, with this package as ``hr``."""
    writer = next((write for kinds, write in _WRITERS if isinstance(value, kinds)), None)
    if writer is None and is_dataclass(value) and not isinstance(value, type):
        writer = _call
    if writer is None:
        wish = "options that can be written as code"
        raise error(OptionError, "setting", wish, f"a {type(value).__name__}")
    return writer(value)


def _mapping(value: Mapping[Any, Any]) -> str:
    return "{" + ", ".join(f"{_python(k)}: {_python(v)}" for k, v in value.items()) + "}"


def _tuple(value: tuple[Any, ...]) -> str:
    return f"({', '.join(map(_python, value))}{',' if len(value) == 1 else ''})"


def _float(value: float) -> str:
    return repr(value) if math.isfinite(value) else f'float("{value}")'


def _filter(given: Filter | pc.Expression) -> str:
    if not isinstance(given, Filter):
        given = Filter.expression(given)
    if given.op == "test":
        return f"hr.Filter(**{_python(dict(given.predicates))})"
    parts = [
        f"({_filter(part)})" if part.op in ("and", "or") else _filter(part) for part in given.parts
    ]
    if given.op == "not":
        return f"~{parts[0]}"
    return (" & " if given.op == "and" else " | ").join(parts)


def _predicate(given: Predicate) -> str:
    match given:
        case Equal():
            return _python(given.values[0])
        case AnyOf():
            return _python(list(given.values))
        case _:
            return f"hr.{type(given).__name__}({', '.join(map(_python, given.values))})"


def _recipe(recipe: Recipe) -> str:
    for name in recipes.__all__:
        ours: Recipe = getattr(recipes, name)
        if recipe in (ours, ours.without_graphs()):
            rest = "" if recipe == ours else ".without_graphs()"
            return f"hr.recipes.{name}{rest}"
    return f"hr.Recipe.from_json({recipe.to_json()!r})"


def _call(value: Any) -> str:
    kind = type(value).__name__
    home = "hr" if hasattr(hyrecall, kind) else "hr.arms"
    given = []
    for name, parameter in inspect.signature(type(value)).parameters.items():
        one = getattr(value, name)
        if one == parameter.default:
            continue
        if name == "weights":
            one = dict(one)
        given.append(f"{name}={_python(one)}")
    return f"{home}.{kind}({', '.join(given)})"


_WRITERS: tuple[tuple[Any, Callable[[Any], str]], ...] = (
    (str, lambda text: json.dumps(text, ensure_ascii=False)),  # JSON strings are valid Python
    ((np.datetime64, np.timedelta64), repr),
    (np.generic, lambda number: _python(number.item())),
    ((bool, int, NoneType, dt.date, dt.time, dt.timedelta), repr),
    (float, _float),
    (Mapping, _mapping),
    (list, lambda values: f"[{', '.join(map(_python, values))}]"),
    (tuple, _tuple),
    (Recipe, _recipe),
    ((Filter, pc.Expression), _filter),
    (Predicate, _predicate),
)
