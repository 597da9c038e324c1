"""Reads and writes the user's settings, a small JSON file that ``hyrecall config`` manages.

A command reads the file once and passes the settings as arguments; the library never reads it. It
does not hold keys of endpoints, which belong in the environment.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from platformdirs import user_config_path

from hyrecall import recipes
from hyrecall.ask.recipe import Recipe
from hyrecall.base import disk
from hyrecall.base.arguments import home_path, number
from hyrecall.base.forks import locked
from hyrecall.cli.show import say
from hyrecall.embed import choose
from hyrecall.embed.choose import NAMES, duration
from hyrecall.embed.openai_wire import Endpoint
from hyrecall.errors import DTypeError, HyrecallError, OptionError, error
from hyrecall.stages.age import Composite
from hyrecall.text.analyzer import read_analyzer

_LARGEST = 2**20  # bytes of the file


def settings_path() -> Path:
    """Return the path of the settings: HYRECALL_CONFIG, else in the user's configuration folder."""
    if given := os.environ.get("HYRECALL_CONFIG"):
        return Path(home_path("HYRECALL_CONFIG", given))
    try:
        return Path(user_config_path("hyrecall"), "config.json")
    except RuntimeError:
        wish = "a path, since this user has no home folder (HOME)"
        raise error(OptionError, "HYRECALL_CONFIG", wish, "none") from None


# ---- values of each key ----


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise error(DTypeError, name, "a str", type(value).__name__)
    if not value.strip() or not value.isprintable():
        raise error(OptionError, name, "a non-blank printable str", repr(value))
    return value


def _recipe(name: str, value: object) -> str:
    if value not in recipes.__all__:
        raise error(OptionError, name, f"one of {', '.join(recipes.__all__)}", repr(value))
    return str(value)


def _analyzer(name: str, value: object) -> str:
    text = _text(name, value)
    read_analyzer(name, text)
    return text


def _url(name: str, value: object) -> str:
    Endpoint.of(name, value, has_key=False)
    return str(value)


def _embedder(name: str, value: object) -> str:
    return value if value in NAMES and isinstance(value, str) else _url(name, value)


def _duration(name: str, value: object) -> str:
    text = _text(name, value)
    try:
        seconds = duration(text)
    except OptionError:
        seconds = 0.0
    if seconds <= 0:
        raise error(OptionError, name, "a duration above 0, like 500ms or 3s", repr(text))
    return text


def _number(high: float, wish: str, name: str, value: object) -> float:
    """Check a number, also as a str from the command line."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise error(OptionError, name, wish, repr(value)) from None
    return number(name, value, 0.0, high, wish)


_weight = partial(_number, 1e6, "a number from 0 to 1000000")

KEYS: Mapping[str, Callable[[str, object], str | float]] = {
    "path": _text,
    "recipe": _recipe,
    "analyzer": _analyzer,
    "embedder": _embedder,
    "embedding_url": _url,
    "embedding_model": _text,
    "embed_timeout": _duration,
    "recall_timeout": partial(_number, 86_400.0, "seconds from 0 to 86400"),
    "weight_recency": _weight,
    "weight_importance": _weight,
    "weight_relevance": _weight,
}
"""The keys, each with the function that checks and converts its value."""


# ---- the file ----


def read_settings(path: Path | None = None) -> dict[str, Any]:
    """Return the settings; empty if the file does not exist, or nobody named one to be read.

    A file in the user's configuration folder that the system does not let be read is noted.
    """
    is_named = path is not None or bool(os.environ.get("HYRECALL_CONFIG"))
    try:
        path = path or settings_path()
    except OptionError:
        if is_named:
            raise
        return {}
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return {}
    except OSError as fault:
        if is_named:
            raise
        _note(f"note: {path}: {fault.strerror}: no settings are used")
        return {}
    try:
        found = json.loads(content[:_LARGEST])
    except (ValueError, RecursionError) as fault:
        raise error(OptionError, str(path), "a JSON object", type(fault).__name__) from None
    if not isinstance(found, dict):
        raise error(OptionError, str(path), "a JSON object", type(found).__name__)
    try:
        return {name: _check_of(name)(name, value) for name, value in found.items()}
    except HyrecallError as fault:
        made = type(fault)(f"{path}: {fault}")
        made.argument = fault.argument
        raise made from None


@cache
def _note(message: str) -> None:
    """Show a message once, although a command may read the settings several times."""
    say(message)


def set_setting(name: str, value: object, path: Path | None = None) -> str | float:
    """Set one key; return the stored value."""
    kept = _check_of(name)(name, value)
    with _changing(path or settings_path()) as settings:
        settings[name] = kept
    return kept


def remove_setting(name: str, path: Path | None = None) -> bool:
    """Remove one key; return whether it was set."""
    _check_of(name)
    with _changing(path or settings_path()) as settings:
        return settings.pop(name, None) is not None


def _check_of(name: str) -> Callable[[str, object], str | float]:
    if name not in KEYS:
        raise error(OptionError, "key", f"one of {', '.join(KEYS)}", repr(name))
    return KEYS[name]


@contextmanager
def _changing(path: Path) -> Iterator[dict[str, Any]]:
    """Read the settings for the caller to change, then write them atomically, under a lock."""
    folder = path.absolute().parent
    disk.make_folder(folder)
    with locked(folder, os.O_RDONLY | os.O_DIRECTORY):
        settings = read_settings(path)
        yield settings
        content = json.dumps(settings, indent=2, sort_keys=True) + "\n"
        disk.put(folder, path.name, content.encode())


# ---- What they say of how a store is opened; recipes by name, or from a file of ``learn`` ----


def read_recipe(argument: str, name: str, allowed: Sequence[str]) -> Recipe:
    """Return the recipe of a name, or of a file whose name ends in ``.json``."""
    if name in allowed:
        recipe: Recipe = getattr(recipes, name)
        return recipe
    if not name.endswith(".json"):
        wish = f"one of {', '.join(allowed)}, or a file that ends in .json"
        raise error(OptionError, argument, wish, repr(name))
    try:
        return Recipe.from_json(Path(home_path(argument, name)).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as fault:
        raise error(OptionError, argument, "a file with a recipe in JSON", fault) from None


def recipe_named(name: str | None, settings: dict[str, Any]) -> Recipe:
    """Return a recipe by name, or that of the settings, with the weights of the settings."""
    wanted = name or settings.get("recipe", "default")
    recipe = read_recipe("--recipe", wanted, recipes.__all__)
    weights = {
        name: settings[f"weight_{name}"]
        for name in ("recency", "importance", "relevance")
        if f"weight_{name}" in settings
    }
    composite = Composite.among(recipe.shaping)
    if not weights or composite is None:
        return recipe
    weighed = replace(composite, **weights)
    return recipe.replace(
        shaping=tuple(weighed if stage is composite else stage for stage in recipe.shaping)
    )


def opening_options(recipe: str | None, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the options of ``Memory.open`` that the settings say; the embedder is to be closed."""
    chosen = recipe_named(recipe, settings)
    embedder = choose.embedder(settings=settings, packaged=chosen.semantic == "default")
    allowed = choose.named_timeout(settings=settings) if hasattr(embedder, "timeout") else None
    return {
        "recipe": chosen,
        "analyzer": settings.get("analyzer") if chosen.analyzer is None else None,
        "embedder": embedder,
        "recall_timeout": settings.get("recall_timeout", allowed),
        "write_timeout": allowed,
    }
