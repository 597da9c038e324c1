"""A random index: its schema and rows, how they become tables, and a request to it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

import hyrecall as hr
from fuzz.kinds import KINDS, LEAST, MOST, Kind
from laws import engine
from oracle import scope as asked
from oracle.corpus import (
    TENANTS,
    VISIBILITIES,
    Draw,
    draw_mix,
    draw_predicate,
    draw_rows,
    draw_shape,
)
from oracle.documents import Row, Shape

STANDARD = ("kind", "number", "price", "at", "tags")
NUMBERS = (LEAST, MOST, 0, -1, 7, 10**18, None, -5)
STRING_KEYS = ("", "a\0b", "é", "\U0010ffff", "k" * 300)


@dataclass(frozen=True)
class World:
    """What an index looks like; the oracle's shape, and what the oracle does not know of."""

    shape: Shape
    kinds: dict[str, Kind]  # further columns
    attributes: tuple[str, ...]
    stored: tuple[str, ...]
    tenant_is_int: bool
    visibility_is_bool: bool
    cluster: str | None

    # Names of tenants and keys in the oracle are plain; the index gets extremes in their place.

    def cell_value(self, column: str, value: Any) -> Any:
        """A part of a cell as the index has it."""
        if value is None:
            return None
        if column == "tenant" and self.tenant_is_int:
            return NUMBERS[TENANTS.index(value)] if value in TENANTS else 4242
        if column == "visibility" and self.visibility_is_bool:
            return value == VISIBILITIES[0] or value not in VISIBILITIES
        return value

    def cell(self, cell: asked.Cell) -> tuple[Any, ...]:
        """A cell as the index has it."""
        return tuple(map(self.cell_value, self.shape.cell, cell))

    def key(self, key: Any) -> Any:
        """A key as the index has it."""
        if self.shape.integer_keys:
            return {0: LEAST, 1: MOST}.get(key, key)
        number = int(key[1:])
        return STRING_KEYS[number] if number < len(STRING_KEYS) else key

    def scope(self, cells: Iterable[asked.Cell]) -> hr.Scope:
        """A scope of the index; in a fixed order."""
        made = [self.cell(cell) for cell in sorted(cells, key=repr)]
        return hr.Scope([cell[0] if len(cell) == 1 else cell for cell in made])

    def schema(self) -> hr.Schema:
        """The index's schema."""
        return hr.Schema(
            key="id",
            cell=self.shape.cell or None,
            text={
                arm: hr.Text(*columns, weights=self.shape.weights.get(arm))
                for arm, columns in self.shape.lexical.items()
            },
            vector=tuple(self.shape.dense),
            attributes=(*STANDARD, *self.attributes),
            cluster=self.cluster,
            stored=(*self.shape.text_columns, *self.stored),
        )

    def table(self, draw: Draw, rows: Sequence[Row]) -> pa.Table:
        """Rows as a table, its columns in one of the layouts that Arrow has for them."""
        table = engine.table(self.shape, rows)
        columns = {name: table.column(name) for name in table.column_names}
        kind = pa.int64() if self.shape.integer_keys else pa.string()
        columns["id"] = pa.array([self.key(row.key) for row in rows], kind)
        for at, name in enumerate(self.shape.cell):
            values = [self.cell_value(name, row.cell[at]) for row in rows]
            is_int, is_bool = self.tenant_is_int, self.visibility_is_bool
            own = pa.int64() if is_int else pa.string()
            if name == "visibility":
                own = pa.bool_() if is_bool else pa.string()
            columns[name] = pa.array(values, own)
        for name, kind_of in self.kinds.items():
            columns[name] = kind_of.array([row.attributes[name] for row in rows])
        return pa.table({name: laid_out(draw, column) for name, column in columns.items()})

    def filter(self, predicate: asked.Predicate) -> hr.Filter:
        """A filter of the index."""
        return engine.engine_filter(self._said(predicate))

    def _said(self, predicate: Any) -> Any:
        match predicate:
            case asked.And() | asked.Or():
                left, right = self._said(predicate.left), self._said(predicate.right)
                return replace(predicate, left=left, right=right)
            case asked.Not(inner):
                return asked.Not(self._said(inner))
        kind = self.kinds.get(predicate.column)
        if kind is None or isinstance(predicate, asked.IsNull | asked.NotNull):
            return predicate
        if isinstance(predicate, asked.Range):
            low, high = (
                None if end is None else kind.said(end) for end in (predicate.low, predicate.high)
            )
            return asked.Range(predicate.column, low, high)
        if isinstance(predicate, asked.Equal):
            return asked.Equal(predicate.column, kind.said(predicate.value))
        return replace(predicate, values=tuple(map(kind.said, predicate.values)))

    def draw_filter(self, draw: Draw, depth: int = 0) -> asked.Predicate:
        """A random filter on any attribute."""
        if depth < 2 and draw.chance(0.3):
            left, right = self.draw_filter(draw, depth + 1), self.draw_filter(draw, depth + 1)
            return draw.choice((asked.And(left, right), asked.Or(left, right), asked.Not(left)))
        if not self.attributes or draw.chance(0.3):
            return draw_predicate(draw, 2)
        name = draw.choice(self.attributes)
        kind = self.kinds[name]
        values = [one for one in (element(draw, kind) for _ in range(3)) if one is not None]
        leaves: list[asked.Predicate] = [asked.IsNull(name), asked.NotNull(name)]
        if values:
            leaves += [asked.AnyOf(name, tuple(values)), asked.NoneOf(name, tuple(values))]
            if kind.is_list:
                leaves += [asked.AllOf(name, tuple(values[:2]))]
            else:
                leaves += [asked.Equal(name, values[0])] * 2
            if kind.has_order:
                low, high = sorted((values[0], values[-1]))
                leaves += [asked.Range(name, low, high), asked.Range(name, low, None)] * 2
        return draw.choice(leaves)


def element(draw: Draw, kind: Kind) -> Any:
    """A value that a filter can name; None: none was drawn."""
    raw = kind.draw(draw)
    if kind.is_list:
        raw = draw.choice(raw) if raw else None
    return raw if raw is not None and kind.can_ask(raw) else None


def laid_out(draw: Draw, column: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """The same values in other chunks, slices and encodings."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind = whole.type
    if (pa.types.is_string(kind) or pa.types.is_large_string(kind)) and draw.chance(0.2):
        whole = whole.dictionary_encode()
    if draw.chance(0.3):
        padded = pa.concat_arrays([whole.slice(0, 2), whole])
        whole = padded.slice(min(2, len(whole)))
    if draw.chance(0.3):
        cut = draw.randrange(len(whole) + 1)
        return pa.chunked_array([whole.slice(0, cut), whole.slice(cut)])
    return pa.chunked_array([whole])


def draw_world(draw: Draw) -> World:
    """A random schema."""
    shape = draw_shape(draw)
    names = draw.sample(sorted(KINDS), 6)
    # Times are what most of the arithmetic is about.
    names += draw.sample([name for name in sorted(KINDS) if KINDS[name].is_time], 2)
    kinds = {f"x{at}": KINDS[name] for at, name in enumerate(dict.fromkeys(names))}
    attributes = tuple(n for n, kind in kinds.items() if kind.is_attribute and draw.chance(0.7))
    ordered = [
        n for n, kind in kinds.items()
        if kind.is_time or pa.types.is_integer(kind.arrow) or pa.types.is_floating(kind.arrow)
    ]  # fmt: skip
    cluster = draw.choice(ordered) if ordered and draw.chance(0.4) else None
    return World(
        shape,
        kinds,
        attributes,
        stored=tuple(name for name in kinds if name not in attributes),
        tenant_is_int=draw.chance(0.4),
        visibility_is_bool=draw.chance(0.5),
        cluster=cluster,
    )


def draw_documents(
    draw: Draw, world: World, *, taken: Sequence[Row] = (), most: int | None = None
) -> list[Row]:
    """Rows with values for all columns."""
    mix = draw_mix(draw)
    n_rows = mix.n_rows if most is None else min(mix.n_rows, most)
    rows = draw_rows(draw, world.shape, replace(mix, n_rows=n_rows), taken=taken)
    return [replace(row, attributes={**row.attributes, **values(draw, world)}) for row in rows]


def values(draw: Draw, world: World) -> dict[str, Any]:
    """Values of the further columns."""
    return {
        name: None if draw.chance(0.15) else kind.draw(draw) for name, kind in world.kinds.items()
    }
