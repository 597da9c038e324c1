"""``text=`` -> the lexical arms of a request, and the texts of other arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hyrecall import _core
from hyrecall.ask.queries import check_texts, lower
from hyrecall.base.arguments import as_list
from hyrecall.errors import OptionError, error
from hyrecall.recall.vector_queries import check_arms
from hyrecall.segments.facts import IndexFacts
from hyrecall.text.bm25 import BM25

__all__ = ["add_lexical", "read_texts"]


def read_texts(
    facts: IndexFacts, text: object, readers: tuple[str, ...]
) -> dict[str, Sequence[object]]:
    """Return the queries of each arm that reads texts: lists, whose entries are valid Unicode."""
    # Their types are not checked yet.
    if text is None:
        return {}
    names = (*facts.text_arms, *readers)
    if not names:
        raise error(OptionError, "text", "None (the index has no text arm)", type(text).__name__)
    # Checks against abstract classes are slow, so lists come first.
    if isinstance(text, list):
        check_texts(text)
        return dict.fromkeys(names, text)
    given: Mapping[str, Any] = text if isinstance(text, Mapping) else dict.fromkeys(names, text)
    check_arms("text", given, names)
    given = {arm: as_list(queries) for arm, queries in given.items()}
    for arm, queries in given.items():
        if isinstance(queries, list):
            check_texts(queries)
            continue
        is_list = isinstance(queries, Sequence) and not isinstance(queries, str | bytes)
        if not is_list and not (isinstance(queries, np.ndarray) and queries.ndim == 1):
            argument = f"text[{arm!r}]" if isinstance(text, Mapping) else "text"
            got = f"{type(queries).__name__} (recall_one takes one query)"
            raise error(OptionError, argument, "a list with one entry per query", got)
        check_texts(queries)
    return {arm: given[arm] for arm in names if arm in given}


def add_lexical(
    facts: IndexFacts,
    request: _core.BatchRequest,
    arms: Sequence[str],
    texts: Mapping[str, Sequence[object]],
    bm25: Mapping[str, BM25],
    floors: Mapping[str, tuple[float, bool] | None],
    tables: Sequence[int | None],
) -> None:
    """Add the lexical arms with their queries, each for every table."""
    for arm in arms:
        column, native = facts.text_arms.index(arm), facts.analyzers[arm].native
        how, floor = bm25[arm].numbers, floors.get(arm)
        for table in tables:
            request.add_lexical(column, arm, how, native, texts[arm], lower, floor, table)
