"""A setting as Python to paste: what was measured becomes the arguments of a recall."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any

import hyrecall
from hyrecall import recipes
from hyrecall.analyzer import Analyzer
from hyrecall.evaluate.run import DEPTH
from hyrecall.evaluate.settings import Setting
from hyrecall.keywords import check_keywords
from hyrecall.recipe import Recipe

__all__ = ["setting_code"]


@check_keywords
def setting_code(setting: Setting, *, analyzer: str | None = None) -> str:
    """Return a setting as Python that runs as it stands.

    Parameters
    ----------
    setting : Setting
    analyzer : str, optional
        The analyzer as Python, where it is of a tokenizer's file or a callable.

    Returns
    -------
    str
        It sets ``analyzer``, for :meth:`hyrecall.Index.build`, and ``options``, for
        :meth:`hyrecall.Index.recall`.

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
    asked = ", ".join(given[arm] for arm in setting.arms)
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
        f"# hits = index.recall({asked}, scope=scopes, **options)",
    ]
    imports = ["import hyrecall as hr"]
    if any("datetime." in line for line in lines):
        imports.insert(0, "import datetime\n")
    return "\n".join([*imports, "", *lines])


def _analyzer(analyzer: Analyzer) -> str:
    words = analyzer.stopwords
    if words is None:
        return f"hr.Analyzer({_python(analyzer.name)})"
    given = _python(words if isinstance(words, str) else list(words))
    return f"hr.Analyzer({_python(analyzer.name)}, stopwords={given})"


def _python(value: Any) -> str:
    """Return what makes an equal value, with this package as ``hr``."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)  # Python reads it, too
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_python(k)}: {_python(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        inside = ", ".join(map(_python, value))
        inside += "," if isinstance(value, tuple) and len(value) == 1 else ""
        return f"({inside})" if isinstance(value, tuple) else f"[{inside}]"
    if isinstance(value, Recipe):
        return _recipe(value)
    if is_dataclass(value) and not isinstance(value, type):
        return _call(value)
    return repr(value)


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
