"""Documents and calls of the index's scenarios, and the definition of their replies."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from conformance.index_faces import Index, World
from oracle.corpus import Draw, Mix, draw_rows
from oracle.documents import Call, Reply, Row, Scope, Shape
from oracle.recipe import RecipeOracle
from oracle.words import Words

ONE_ARM = Shape(cell=("tenant",), lexical={"text": ("text",)}, dense={"embedding": 3})
DAY = datetime(2026, 1, 1, tzinfo=UTC)


def row(
    key: str, tenant: str | None, text: str | None, vector: list[float] | None, **given: Any
) -> Row:
    """Return a document; attributes that are not given are null."""
    names = ("kind", "number", "price", "at", "tags")
    row_vector = None if vector is None else np.array(vector, np.float32)
    attributes = {name: given.get(name) for name in names}
    return Row(key, (tenant,), {"text": text}, {"embedding": row_vector}, attributes)


TEAS = World(
    ONE_ARM,
    (
        row("hot", "ana", "hot tea", [1, 0, 0], kind="note", number=1, at=DAY, tags=["red"]),
        row("cold", "ana", "cold tea", [0.8, 0.6, 0], kind="fact", number=2,
            at=DAY + timedelta(days=1), tags=["red", "blue"]),
        row("green", "ana", "green tea with mint", [0, 1, 0], kind="note", number=3, tags=[]),
        row("bean", "ana", "coffee", [0, 0, 1], number=-1, price=0.5),
        row("hot", "bob", "hot tea", [1, 0, 0], kind="note", number=4),
        row("milk", "bob", "hot milk", None, kind="note"),
        row("nobody", None, "tea of nobody", [0, 1, 1]),
    ),
    is_fixed=True,
)  # fmt: skip
"""Few documents, whose replies can be said by hand."""


DRAWN = World(ONE_ARM, tuple(draw_rows(Draw(11), ONE_ARM, Mix(n_rows=60))), is_fixed=True)
"""Many ties, nulls and empty texts."""


def cells(*tenants: str | None) -> Scope:
    return frozenset((one,) for one in tenants)


def ask(
    text: str | None = None,
    vector: list[float] | None = None,
    scope: Scope = cells("ana"),  # noqa: B008 - frozen
    **options: Any,
) -> Call:
    """Return a call of one query."""
    given: dict[str, Any] = {"scopes": (scope,), **options}
    if text is not None:
        given["texts"] = {"text": (Words(text),)}
    if vector is not None:
        given["vectors"] = {"embedding": (np.array(vector, np.float32),)}
    if "filter" in given:
        given["filters"] = (given.pop("filter"),)
    return Call(**given)


def wanted(world: World, call: Call) -> list[Reply]:
    """Return what the definition replies."""
    oracle = RecipeOracle(world.shape, world.rows)
    return [oracle.recall(call, query) for query in range(len(call.scopes))]


def same(index: Index, world: World, *calls: Call) -> None:
    """Check that replies are those of the definition, to the last bit, and that some have hits."""
    found = [index.recall(call) for call in calls]
    assert found == [wanted(world, call) for call in calls]
    assert any(reply for replies in found for reply in replies)


def keys(replies: list[Reply]) -> list[list[str | int]]:
    return [[hit.key for hit in reply] for reply in replies]
