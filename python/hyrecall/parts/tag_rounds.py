"""Follows the tags of :class:`hyrecall.arms.Tags` from shard to shard.

Each round is one look-up: first for the tags that the queries name, then for those one hop further.
So a tag leads to the documents of another shard, as in a single index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hyrecall.ask.arms import Tags
from hyrecall.ask.expansion import SharedTags, parts_of
from hyrecall.ask.recipe import Recipe
from hyrecall.ask.request import CallOptions
from hyrecall.ask.scope import CellTypes, scope_entries
from hyrecall.base.arguments import as_list
from hyrecall.parts.lookups import QUERY, Ask, Lookup, sound_rows
from hyrecall.parts.request import TOLD, Request, ToldLists, question_of
from hyrecall.recall.arms import text_bytes
from hyrecall.recall.recipe_answer import by_recipe

_TAGS = {QUERY: pa.int64(), "tag": pa.large_string()}
_BY_TAG = [(name, "ascending") for name in _TAGS]


def has_tags(given: Mapping[str, Any]) -> bool:
    """Say whether a call has a part that reads tags, which may lie in any shard."""
    recipe = given.get("recipe")
    recipes = recipe if isinstance(recipe, list) else [recipe]
    hows: list[Any] = [_options(given), *(one for one in recipes if isinstance(one, Recipe))]
    return any(isinstance(part, Tags | SharedTags) for how in hows for part in parts_of(how))


def _options(given: Mapping[str, Any]) -> CallOptions:
    named = {"more": "arms", "shaping": "shaping", "expansion": "expansion"}
    return CallOptions(**{field: given.get(name, ()) for field, name in named.items()})


def follow_tags(request: Request, ask: Ask, types: CellTypes) -> dict[str, ToldLists]:
    """Return the tags that the queries of a request reach, by the question of each arm ``Tags``."""
    scope = scope_entries(types, request.given["scope"])
    told = {}
    for arm, texts in _asking_arms(request).items():
        if any(one is not None for one in texts):
            asked = Lookup("named tags", request.id, len(texts), scope, _words(texts))
            told[question_of(arm)] = _reached(asked, arm, ask)
    return told


def _asking_arms(request: Request) -> dict[Tags, list[bytes | None]]:
    """Return each arm ``Tags`` of a request with the texts of its queries."""
    given = request.given
    recipe = given["recipe"]
    hows: list[Any] = [(_options(given), None)] if recipe is None else by_recipe(recipe)
    out: dict[Tags, list[bytes | None]] = {}
    for how, asked in hows:
        for arm in parts_of(how):
            if not isinstance(arm, Tags):
                continue
            texts = _texts(given["text"], arm, is_for_recipe=recipe is not None)
            own = out.setdefault(arm, [None] * len(texts))
            queries = range(len(texts)) if asked is None else np.flatnonzero(asked[: len(texts)])
            for at in queries:
                own[at] = texts[at]
    return out


def _texts(text: Any, arm: Tags, *, is_for_recipe: bool) -> list[bytes | None]:
    """Return the texts that an arm reads; entries that it refuses, and blank ones, are None."""
    if isinstance(text, Mapping):
        # In a recipe, an arm that is not one of the index reads the first texts by default.
        plain = next(iter(text.values()), None) if is_for_recipe else None
        text = text.get(arm.name, plain)
    queries = as_list(text)
    if isinstance(queries, np.ndarray):
        queries = queries.tolist()
    if not isinstance(queries, list | tuple):
        return []
    return [text_bytes(one) if isinstance(one, str) and one.strip() else None for one in queries]


def _words(texts: Sequence[bytes | None]) -> pa.Table:
    """Return the texts of those queries that have one."""
    asks = [at for at, text in enumerate(texts) if text is not None]
    words = pa.array([texts[at] for at in asks], pa.large_binary())
    return pa.table({QUERY: pa.array(asks, pa.int64()), "text": words})


def _reached(asked: Lookup, arm: Tags, ask: Ask) -> ToldLists:
    """Return the tags that an arm reaches, in all shards; ``asked`` has its texts."""
    n_queries, column = asked.n_queries, {"column": arm.column}
    settings = column | {"analyzer": arm.analyzer, "partial": arm.partial}
    found = ask(replace(asked, settings=settings))
    named = _grouped(found, "documents", "sum")
    most = np.zeros(n_queries, np.int64)
    np.maximum.at(most, named[QUERY].to_numpy(), named["documents"].to_numpy())
    reached = _at(named, 0)
    for hop in range(1, arm.depth + 1):
        last = reached.filter(pc.equal(reached["hops"], hop - 1)).select([QUERY, "tag"])
        if not last.num_rows:
            break
        question = replace(asked, kind="tags", rows=last, settings=column)
        beside = [_at(one, hop) for one in ask(question)]
        reached = _grouped([reached, *beside], "hops", "min")
    query = reached[QUERY].to_numpy()
    reached = reached.append_column("documents", pa.array(most[query], pa.int64()))
    return ToldLists.of(n_queries, query, reached.select(list(TOLD)).combine_chunks())


def _at(rows: pa.Table, hops: int) -> pa.Table:
    """Return the queries and tags of some rows, at a number of hops."""
    kept = sound_rows(rows, _TAGS)
    return kept.append_column("hops", pa.array(np.full(kept.num_rows, hops, np.uint8)))


def _grouped(found: Sequence[pa.Table], column: str, how: str) -> pa.Table:
    """Return each tag of each query once, with one number for those of a column."""
    kinds = _TAGS | {column: TOLD[column]}
    empty = pa.schema(list(kinds.items())).empty_table()
    rows = pa.concat_tables([empty, *(sound_rows(one, kinds) for one in found)])
    groups = rows.group_by(list(_TAGS), use_threads=False).aggregate([(column, how)])
    numbers = groups.column(f"{column}_{how}").cast(TOLD[column])
    return groups.select(list(_TAGS)).append_column(column, numbers).sort_by(_BY_TAG)
