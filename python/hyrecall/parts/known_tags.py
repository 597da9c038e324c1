"""The tags that the queries of a request reach, as its shards are told them."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa

from hyrecall.ask.arms import Tags
from hyrecall.errors import OptionError, error
from hyrecall.parts.told import Told, question_of, told_to
from hyrecall.recall.arms.batch import ArmQueries
from hyrecall.recall.arms.tags import KnownTags
from hyrecall.recall.plan import Plan

__all__ = ["TOLD", "with_known_tags"]

TOLD = {"tag": pa.large_string(), "hops": pa.uint8(), "documents": pa.int64()}
"""What is told of each tag: its hops, and the most documents of a tag that the query names."""


def with_known_tags(plan: Plan, told: Told | None) -> Plan:
    """Return a plan whose arms ``Tags`` list documents by the tags that its request tells."""
    searches = plan.searches
    if searches is None:
        return plan
    asked = [
        (arm, _known(arm, own, told) if isinstance(arm, Tags) else own)
        for arm, own in searches.asked
    ]
    return plan._replace(searches=searches._replace(asked=asked))


def _known(arm: Tags, asked: Any, told: Told | None) -> ArmQueries | KnownTags:
    asks = np.array([one is not None for one in asked.entries], np.bool_)
    if not asks.any():
        return cast("ArmQueries", asked)
    lists = told_to(told, question_of(arm), len(asks))
    rows = lists.rows
    if dict(zip(rows.schema.names, rows.schema.types, strict=True)) != TOLD:
        raise error(OptionError, "request", f"columns {list(TOLD)}", rows.schema.names)
    sizes = lists.own_sizes
    kept = rows.filter(pa.array(np.repeat(asks, sizes)))
    tags, hops, documents = (kept.column(name).combine_chunks() for name in TOLD)
    offsets = np.concatenate([[0], np.cumsum(sizes * asks)]).astype(np.int64)
    most = np.zeros(len(asks), np.int64)
    firsts = offsets[:-1][np.diff(offsets) > 0]
    most[np.diff(offsets) > 0] = np.asarray(documents)[firsts]
    return KnownTags(offsets, tags, np.asarray(hops), most, asked.notes)
