"""Lets the owner of a store answer ``recall`` and ``context``, and loads only what that takes.

A plain command line is sent to the process that owns the store. If nobody owns it, the store is
opened here, without what other command lines need. Whatever is not plain, or is not answered, is
left to the command itself, which opens the store or says what is wrong.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from functools import cache
from math import isfinite
from typing import Any, Final

from hyrecall.base.asking import SOCKET, ask
from hyrecall.base.fences import fenced
from hyrecall.base.text_tables import Column, Row, TextLine, visible
from hyrecall.cli.show import print_json, print_table, say

BUDGET: Final = 800
"""Tokens that ``context`` prints at most, unless it is told another number."""

CHARACTERS: Final = 4
"""Of a token, as a store's ``token_budget`` counts."""

_OF_BOTH: Final[dict[str, type]] = {
    **dict.fromkeys(("--path", "--user", "--org", "--workspace", "--agent", "--recipe"), str),
    **{"--limit": int, "--min-score": list, "--min-confidence": float},
}
OPTIONS: Final[dict[str, dict[str, type]]] = {
    "recall": _OF_BOTH
    | {"--kind": str, "--tag": list, "--offset": int, "--token-budget": int, "--json": bool},
    "context": _OF_BOTH | {"--query": str, "--budget": int},
}
"""What a plain command line may hold, with the kind of each option."""

_SETTINGS = {"path", "recipe", "embedder", "embedding_url", "embedding_model"}
_LARGEST = 2**20  # bytes of the settings
_PLAIN_NUMBER: Final = re.compile(r"[01]|[01]?\.[0-9]{1,9}")
_SECONDS = 60.0  # for an embedder that loads, and for the index


def answered(arguments: Sequence[str]) -> bool:
    """Answer a command line if it and its answer are plain; False: nothing has been written."""
    name = arguments[0] if arguments and sys.stdin and sys.stdout else ""
    read = _read(OPTIONS.get(name, {}), arguments[1:])
    settings = None if read is None else _settings()
    if read is None or settings is None:
        return False
    words, given = read
    target = _target(name, words, given, settings)
    if target is None:
        return False
    folder, text = target
    form = name if name == "context" else "json" if given.get("--json") else "table"
    budget = given.get("--budget", BUDGET)
    question = {
        "form": form,
        "text": text,
        **{one: given.get(f"--{one}") for one in ("user", "org", "workspace", "agent")},
        "recipe": given.get("--recipe") or settings.get("recipe", "default"),
        "environ": {
            one: value
            for one, value in os.environ.items()
            if one.startswith(("HYRECALL_EMBED", "LTM_EMBED")) and "KEY" not in one
        },
        "settings": settings,
        "options": {
            "kind": given.get("--kind"),
            "tags": given.get("--tag"),
            "limit": given.get("--limit", 10),
            "offset": given.get("--offset", 0),
            "token_budget": budget if name == "context" else given.get("--token-budget"),
            "min_score": given.get("--min-score"),
            "min_confidence": given.get("--min-confidence"),
        },
    }
    found = ask(folder, question)
    if found is None and not os.path.lexists(os.path.join(folder, SOCKET)):
        found = _found_here(folder, question)
    if found is None:
        return False
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    for note in found["notes"]:
        say(f"note: {note}")
    if form == "json":
        print_json(found["shown"])
    elif form == "context":
        print_context(found["shown"], budget)
    else:
        print_rows(
            [Row(cells, [TextLine(*line) for line in below]) for cells, below in found["shown"]]
        )
    sys.stdout.flush()
    return True


def _found_here(folder: str, question: dict[str, Any]) -> dict[str, Any] | None:
    """Return the answer of a store that is opened for it; None: there is more to say than that."""
    import gc
    import logging
    import warnings

    gc.disable()  # what is imported stays
    try:
        from hyrecall.cli.settings import opening_options, read_settings
        from hyrecall.memory import MemorySync, plain
    except ImportError:
        return None
    finally:
        gc.freeze()
        gc.enable()
    noted: list[logging.LogRecord] = []

    class Remarks(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            noted.append(record)

    log, notes = logging.getLogger("hyrecall.memory"), Remarks(logging.WARNING)
    log.addHandler(notes)
    try:
        with warnings.catch_warnings(record=True) as warned:
            options = opening_options(question["recipe"], read_settings())
            with MemorySync.open(folder, read_only=True, warm=False, **options) as memory:
                found = plain.answer(memory._store, question, seconds=_SECONDS)
    except Exception:  # the command meets it too, and tells it
        return None
    finally:
        log.removeHandler(notes)
    return None if noted or warned else found


def _read(
    known: dict[str, type], arguments: Sequence[str]
) -> tuple[list[str], dict[str, Any]] | None:
    """Return the words and the options of a command line; None: it is not plain."""
    words: list[str] = []
    given: dict[str, Any] = {}
    rest = iter(arguments)
    for one in rest:
        if not one.startswith("-") or one == "-":
            words.append(one)
            continue
        name, is_joined, value = one.partition("=")
        kind = known.get(name)
        if kind is None or (kind is bool and is_joined):
            return None
        if kind is bool:
            given[name] = True
            continue
        value = value if is_joined else next(rest, "--")
        if value.startswith("-") and value != "-":
            return None
        if kind is list:
            given.setdefault(name, []).append(value)
        elif kind is str:
            given[name] = value
        elif kind is float and _PLAIN_NUMBER.fullmatch(value):
            given[name] = float(value)
        elif kind is int and value.isascii() and value.isdecimal() and len(value) < 10:
            given[name] = int(value)
        else:
            return None
    floors = given.get("--min-score")
    if floors is not None:
        given["--min-score"] = _floors(floors)
    is_plain = given.get("--min-score", True) and given.get("--budget", True)
    is_plain = is_plain and not ("--agent" in given and "--user" in given)
    return (words, given) if known and is_plain else None


def _floors(values: Sequence[str]) -> dict[str, float]:
    """Read ``cosine=0.35``; of anything else nothing."""
    try:
        found = {name: float(number) for name, number in (one.split("=") for one in values)}
    except ValueError:
        return {}
    is_plain = len(found) == len(values) and all(map(isfinite, found.values()))
    return found if is_plain and all(map(str.isidentifier, found)) else {}


def _settings() -> dict[str, Any] | None:
    """Return the settings if they are plain: a path, a recipe and an embedder by its name."""
    path = os.environ.get("HYRECALL_CONFIG")
    try:
        if not path:
            from platformdirs import user_config_path

            path = os.path.join(user_config_path("hyrecall"), "config.json")
        with open(os.path.expanduser(path), "rb") as file:
            found = json.loads(file.read(_LARGEST))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RuntimeError):
        return None
    is_plain = isinstance(found, dict) and found.keys() <= _SETTINGS
    return found if is_plain and all(type(one) is str for one in found.values()) else None


def _target(
    name: str, words: list[str], given: dict[str, Any], settings: dict[str, Any]
) -> tuple[str, str] | None:
    """Return the folder of the store and the text; None: this may be about something else."""
    path = given.get("--path")
    if name == "context":
        text = given.get("--query")
        if words or text is None:
            return None
        text = stdin_text() if text == "-" else text
    elif len(words) == 2 and path is None:
        path, text = words
    elif len(words) == 1 and (path is not None or not os.path.exists(words[0] or ".")):
        (text,) = words
    else:
        return None
    if path is None:
        path = os.environ.get("HYRECALL_PATH") or settings.get("path")
        path = os.path.expanduser(path) if path else _usual_path()
    return (path, text) if path and os.path.exists(os.path.join(path, "memory.db")) else None


def _usual_path() -> str | None:
    from platformdirs import user_data_path

    try:
        return os.path.join(user_data_path("hyrecall"), "memory")
    except RuntimeError:
        return None


@cache
def stdin_text() -> str:
    """Return what stands in stdin, once for all who ask."""
    return sys.stdin.buffer.read().decode("utf-8", "replace").strip() if sys.stdin else ""


# ---- What is printed, by whomever it was found ----

_COLUMNS = (
    Column("rank", "right"), Column("id", style="key"), Column("score", "right"),
    Column("BM25", "right"), Column("cosine", "right"),
)  # fmt: skip


def print_rows(rows: Sequence[Row]) -> None:
    """Write matches to stdout as a table."""
    if rows:
        print_table(_COLUMNS, rows)
    else:
        say("note: no memories")


def print_context(found: Sequence[Sequence[str]], budget: int) -> None:
    """Write memories, each with its day, between marks that say that they are data.

    Nothing is written if there are none. The whole takes as many tokens as allowed at most: the
    last memories are left out, and the first is cut.
    """
    lines = [f"- {day}: " + visible(text).replace("\n", "\n  ") for day, text in found]
    while lines:
        block = fenced([({}, "\n".join(lines))])
        over = len(block) - budget * CHARACTERS
        if over <= 0:
            print(block)
            return
        last = lines.pop()
        if not lines and len(last) > over + len("- 2026-01-01: ..."):
            lines = [f"{last[: -over - 3]}..."]
