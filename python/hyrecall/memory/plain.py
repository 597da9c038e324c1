"""Answers a search in plain data, for the command and for a process that asks the owner.

Such a process (:mod:`hyrecall.base.asking`) has opened nothing. The owner answers for it if it
would itself find the same: with the same index and embedder, and no clock or time limit of its
own. Else it is refused, and opens the store.
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from typing import Any, TypeAlias

from hyrecall import recipes
from hyrecall.ask.recipe import Recipe
from hyrecall.base.text_tables import TextLine, clean
from hyrecall.embed import choose
from hyrecall.embed.guard import Off
from hyrecall.errors import OptionError, error
from hyrecall.hits.hit_tables import EXACT, Snippets
from hyrecall.memory.data.matches import Matches, doubt_of
from hyrecall.memory.derived.layout import IndexNotReadyError, layout_of
from hyrecall.memory.keeping import Owner
from hyrecall.memory.recall.audience import audience, read_agent, read_partition
from hyrecall.memory.recall.recalling import CALLERS_ARE_NAMED, isolation_note
from hyrecall.memory.store import Store
from hyrecall.memory.view import View

_SECONDS = 2.0  # for an embedder that loads; whoever asks waits for three


def answer(store: Store, asked: dict[str, Any], *, seconds: float = _SECONDS) -> dict[str, Any]:
    """Answer a question as the command would that opened the store to read."""
    name = asked["recipe"]
    recipe: Recipe | None = getattr(recipes, name) if name in recipes.__all__ else None
    is_same = recipe is not None and layout_of(recipe).hash == store.layout.hash
    is_usual = store.options.clock is None and store.options.recall_timeout is None
    if recipe is None or not (is_same and is_usual and _embeds_alike(store, recipe, asked)):
        wish = "one for this index, embedder, clock and time limit"
        raise error(OptionError, "question", wish, "another")
    place, agent = (asked["org"], asked["workspace"]), asked["agent"]
    by = read_partition(*place, asked["user"]) if agent is None else read_agent(agent, *place)
    store.wait_until_ready(seconds)
    with contextlib.suppress(IndexNotReadyError):  # the answer says so
        store.keeper.run(Owner.catch_up)
    token = CALLERS_ARE_NAMED.set(True)  # whoever asks gets the note, and not who owns the store
    try:
        matches = View(store, by).search(asked["text"], recipe=recipe, **asked["options"])
    finally:
        CALLERS_ARE_NAMED.reset(token)
    if matches.faults:  # the command notes them as it meets them
        raise error(OptionError, "question", "read policies that are followed", "others")
    with store.database.reading() as connection:
        note = isolation_note(by, audience(connection, by))
    told = shown(asked["form"], asked["text"], matches, store, first=asked["options"]["offset"] + 1)
    degraded = [f"degraded: {one}" for one in matches.reasons]
    doubt = doubt_of(matches) if asked["form"] == "table" else None
    return {"notes": [*filter(None, [note, *degraded, doubt])], "shown": told}


def _embeds_alike(store: Store, recipe: Recipe, asked: dict[str, Any]) -> bool:
    """Return whether the store embeds a query as the embedder would that the asker chooses."""
    packaged = recipe.semantic == "default"
    chosen = choose.embedder(
        environ=asked["environ"], settings=asked["settings"], packaged=packaged
    )
    if isinstance(chosen, Off):
        return store.guard.off == chosen
    if (close := getattr(chosen, "close", None)) is not None:
        close()
    return store.guard.off is None and store.guard.model == chosen.model


def shown(form: str, text: str, matches: Matches, store: Store, *, first: int) -> Any:
    """Return matches in a form: ``json``, ``context``, or ``table`` with ranks from ``first``."""
    if form == "json":
        return as_data(text, matches)
    if form == "context":
        return days(matches)
    return rows(matches, Snippets(text, store.layout.analyzer), first=first)


def as_data(text: str, matches: Matches) -> dict[str, Any]:
    """Return all that was found."""
    scope, phase = matches.scope, matches.phase
    return {
        "text": text,
        "items": [match.model_dump(mode="json") for match in matches],
        "related": [one.model_dump(mode="json") for one in matches.related],
        "context": [[one.model_dump(mode="json") for one in near] for near in matches.context],
        "around": [[one.model_dump(mode="json") for one in near] for near in matches.around],
        "edges": [one.model_dump(mode="json") for one in matches.edges],
        "phase": None if phase is None else asdict(phase),
        "tiers": matches.tiers,
        "lexical_mode": matches.lexical_mode,
        "degraded": matches.degraded,
        "reasons": [asdict(reason) for reason in matches.reasons],
        "scope": None if scope is None else asdict(scope),
    }


def days(matches: Matches) -> list[tuple[str, str]]:
    """Return the day and the text of each match."""
    return [(f"{one.episode.occurred_at:%Y-%m-%d}", one.episode.full_text) for one in matches]


Shown: TypeAlias = tuple[list[str], list[tuple[Any, ...]]]
"""The cells of a match, and the lines below: a text and its styles."""


def rows(matches: Matches, snippets: Snippets, *, first: int) -> list[Shown]:
    """Return a row of each match; the line below has its time and the best part of it."""
    made: list[Shown] = []
    for rank, match in enumerate(matches, first):
        score = "fill" if match.is_fill else f"{match.score:.6f}"
        parts = [_part(one) for one in (match.bm25_score, match.vector_score)]
        when = match.episode.occurred_at.isoformat(" ", "minutes")[:16]
        if match.valid_to is not None:
            when += f" until {match.valid_to.isoformat(' ', 'minutes')[:16]}"
        begin = TextLine(f"{when}  ", ((0, len(when), "faint"),))
        line = snippets.show(match.episode.full_text).after(begin)
        line = line.after(EXACT) if match.is_exact else line
        cells = [str(rank), clean(match.episode.id), score, *parts]
        made.append((cells, [(line.text, line.spans)]))
    return made


def _part(score: float | None) -> str:
    return "-" if score is None else f"{score:.4f}"
