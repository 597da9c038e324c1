"""Random tables and calls, from one seeded generator: small, full of ties, nulls and edges.

``Draw(seed)`` is the only source of chance. A law test names the seed of a failing case, and that
is all it takes to see it again.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np

from oracle.arithmetic import F32
from oracle.bm25 import PRESETS, Bm25
from oracle.documents import Above, Call, Row, Scope, Shape
from oracle.fusion import Dbsf, Fusion, Rrf, Weighted
from oracle.recall import DEFAULT_DEPTH, Oracle
from oracle.scope import (
    AllOf,
    And,
    AnyOf,
    Cell,
    Equal,
    IsNull,
    NoneOf,
    Not,
    NotNull,
    Or,
    Predicate,
    Range,
    Value,
)
from oracle.words import All, Any, Boost, Fuzzy, Phrase, Prefix, Query, Words
from oracle.words import Not as Without

TENANTS: tuple[Value, ...] = ("ana", "bob", "cyd", "dan", "eve", "", None, "zoë")
VISIBILITIES = ("private", "shared", None)
VOCABULARY = (
    "ash",
    "bay",
    "gro",
    "grove",
    "grow",
    "growth",
    "elm",
    "éclair",
    "fjörd",
    "日本",
    "zen",
    "fog",
)
ATTRIBUTES = ("kind", "number", "price", "at", "tags")
KINDS = ("note", "fact", "task")
TAGS = ("red", "green", "blue")
DIMS = (1, 2, 3, 5, 8, 31, 32, 33, 40, 64, 70)
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

SHAPES = (
    Shape(),
    Shape(cell=("tenant", "visibility")),
    Shape(cell=(), integer_keys=True),
    Shape(
        cell=("tenant", "visibility"),
        lexical={"title": ("title",), "body": ("title", "text")},
        dense={"near": 0, "far": 0},
        integer_keys=True,
    ),
)


class Draw(random.Random):
    """A seeded generator with a few more draws."""

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.random() < probability

    def gaussian(self, dim: int) -> F32:
        """A vector of independent normal values."""
        return np.array([self.gauss(0.0, 1.0) for _ in range(dim)], np.float32)


@dataclass(frozen=True)
class Mix:
    """What a table is made of; the probabilities are per row."""

    n_rows: int = 40
    n_tenants: int = 4
    zipf: bool = False
    vocabulary: Sequence[str] = VOCABULARY
    longest: int = 8
    null: float = 0.1
    empty: float = 0.06
    twin: float = 0.3  # the text or the vector of an earlier row, so that scores tie
    lattice: float = (
        0.5  # a vector of few small integers, so that cosines tie across different vectors
    )


def draw_shape(draw: Draw) -> Shape:
    """One of the shapes, with dimensions, and weights where arms join columns."""
    shape = draw.choice(SHAPES)
    shape = replace(shape, dense={arm: draw.choice(DIMS) for arm in shape.dense})
    if len(shape.text_columns) == 1 or draw.chance(0.3):
        return shape
    weights = {
        arm: {column: draw.choice((1, 2, 3, 100)) for column in columns}
        for arm, columns in shape.lexical.items()
    }
    return replace(shape, weights=weights)


def draw_mix(draw: Draw) -> Mix:
    """A table of 0 to 80 rows."""
    return Mix(
        n_rows=draw.choice((0, 1, 2, 5, 12, 25, 40, 80)),
        n_tenants=draw.randint(1, len(TENANTS)),
        zipf=draw.chance(0.5),
        vocabulary=VOCABULARY[: draw.choice((3, 6, len(VOCABULARY)))],
        longest=draw.choice((3, 8)),
        twin=draw.choice((0.0, 0.3, 0.8)),
        lattice=draw.choice((0.0, 0.5, 1.0)),
    )


def draw_text(draw: Draw, mix: Mix) -> str | None:
    """A text; null, without tokens, or a few words."""
    if draw.chance(mix.null):
        return None
    if draw.chance(mix.empty):
        return draw.choice(("", " ", "--"))
    words = draw.choices(mix.vocabulary, k=draw.randint(1, mix.longest))
    return " ".join(word.upper() if word.isascii() and draw.chance(0.1) else word for word in words)


def draw_vector(draw: Draw, mix: Mix, dim: int) -> F32 | None:
    """A vector; null, zero, on a lattice, or Gaussian."""
    if draw.chance(mix.null):
        return None
    if draw.chance(mix.empty):
        return np.zeros(dim, np.float32)
    if draw.chance(mix.lattice):
        return np.array(draw.choices((-1.0, 0.0, 0.0, 1.0, 2.0), k=dim), np.float32)
    return draw.gaussian(dim)


def draw_weights(draw: Draw, mix: Mix, dim: int) -> F32 | None:
    """Weights of terms, of which most are 0; null, or none at all."""
    drawn = draw_vector(draw, mix, dim)
    if drawn is None:
        return None
    if draw.chance(0.3) and dim > 2:  # whose sum in float64 goes by their order, and so rounds
        uneven = np.full(dim, 2.0**-54, np.float32)
        uneven[draw.sample(range(dim), 2)] = 1.0, 2.0**-24
        return uneven
    kept = np.array([draw.chance(0.4) for _ in range(dim)])
    return np.where(kept, np.abs(drawn), np.float32(0))


def draw_bundle(draw: Draw, mix: Mix, dim: int) -> F32 | None:
    """Up to six vectors, some of them zero; null, or none at all."""
    if draw.chance(mix.null):
        return None
    drawn = [draw_vector(draw, mix, dim) for _ in range(draw.randint(0, 6))]
    vectors = [np.zeros(dim) if one is None else one for one in drawn]
    return np.array(vectors, np.float32).reshape(len(vectors), dim)


def draw_attributes(draw: Draw) -> dict[str, Value]:
    """Values of the filterable columns, each null now and then."""
    values: dict[str, Value] = {
        "kind": draw.choice(KINDS),
        "number": draw.randint(-3, 6),
        "price": draw.choice((-0.5, 0.0, 0.25, 1.0, 3.0)),
        "at": EPOCH + timedelta(microseconds=draw.randint(0, 5)),
        "tags": draw.sample(TAGS, draw.randint(0, 2)),
    }
    return {column: None if draw.chance(0.15) else value for column, value in values.items()}


def draw_cell(draw: Draw, shape: Shape, mix: Mix) -> Cell:
    """A cell; tenants are uniform or Zipf-like."""
    weights = [1 / (i + 1) if mix.zipf else 1 for i in range(mix.n_tenants)]
    values = {
        "tenant": draw.choices(TENANTS[: mix.n_tenants], weights)[0],
        "visibility": draw.choice(VISIBILITIES),
    }
    return tuple(values[column] for column in shape.cell)


def draw_rows(draw: Draw, shape: Shape, mix: Mix, *, taken: Sequence[Row] = ()) -> list[Row]:
    """Rows whose keys are unique in their cell (``taken`` ones included) and often met in another
    cell as well.
    """
    rows: list[Row] = []
    identities = {row.identity for row in taken}
    pool = list(taken)
    while len(rows) < mix.n_rows:
        cell = draw_cell(draw, shape, mix)
        number = draw.randrange(2 * (mix.n_rows + len(taken)) + 2)
        key = number - 3 if shape.integer_keys else f"k{number}"
        if (cell, key) in identities:
            continue
        identities.add((cell, key))
        twin = draw.choice(pool) if pool and draw.chance(mix.twin) else None
        vectors = {
            arm: (
                draw_bundle
                if arm in shape.many
                else draw_weights
                if arm in shape.sparse
                else draw_vector
            )(draw, mix, dim)
            for arm, dim in shape.dense.items()
        }
        texts = {column: draw_text(draw, mix) for column in shape.text_columns}
        if len(texts) > 1 and None in texts.values():  # joined columns are null together
            texts = dict.fromkeys(texts)
        row = Row(
            key,
            cell,
            twin.texts if twin else texts,
            twin.vectors if twin else vectors,
            draw_attributes(draw),
        )
        rows.append(row)
        pool.append(row)
    return rows


def draw_scope(draw: Draw, shape: Shape, rows: Sequence[Row]) -> Scope:
    """A scope: one cell most of the time, several, all, none, or one that no document lies in."""
    if not shape.cell:
        return frozenset({()})
    cells = sorted({row.cell for row in rows}, key=repr)
    unknown = ("nobody",) * len(shape.cell)
    kind = draw.random()
    if kind < 0.08:
        return frozenset()
    if kind < 0.16 or not cells:
        return frozenset({unknown})
    if kind < 0.55:
        return frozenset({draw.choice(cells)})
    if kind < 0.65:
        return frozenset({*cells, unknown})
    return frozenset(draw.sample(cells, draw.randint(1, len(cells))))


def draw_words(draw: Draw, vocabulary: Sequence[str], most: int = 4) -> str:
    """Query words, now and then one that no document holds."""
    words = draw.choices(vocabulary, k=draw.randint(1, most))
    return " ".join("absent" if draw.chance(0.05) else word for word in words)


def draw_query(draw: Draw, vocabulary: Sequence[str]) -> Query:
    """A typed text query: a bag of words half of the time, else a tree."""
    kind = draw.random()
    if kind < 0.5:
        return Words(draw_words(draw, vocabulary, most=6))
    if kind < 0.55:
        return Words(draw.choice(("", "--")))
    if kind < 0.65:
        return Phrase(draw_words(draw, vocabulary, most=3), draw.choice((0, 0, 1, 2)))
    if kind < 0.8:
        return draw_open_word(draw)
    children: list[Query] = [
        Words(word) for word in draw.sample(vocabulary, min(3, len(vocabulary)))
    ]
    if draw.chance(0.3):
        children[0] = Phrase(draw_words(draw, vocabulary, most=2))
    if draw.chance(0.3):
        children[-1] = Boost(children[-1], draw.choice((0.5, 2.0, 3.0)))
    children = children[: draw.randint(1, 3)]
    if draw.chance(0.2):
        children.append(Words(draw.choice(("", " ".join(draw.sample(vocabulary, 2))))))
    tree: Query = All(tuple(children)) if draw.chance(0.5) else Any(tuple(children))
    if draw.chance(0.2):
        tree = (
            Any((tree, Prefix("gr")))
            if draw.chance(0.5)
            else All((tree, Any((Words("ash"), Words("elm")))))
        )
    if draw.chance(0.25):
        tree = draw_without(draw, vocabulary, tree)
    return tree


def draw_open_word(draw: Draw) -> Query:
    """A query whose last word stands for several."""
    kind = draw.random()
    if kind < 0.4:
        return Prefix(draw.choice(("g", "gr", "grow", "a", "é", "x", "ash g", "gr ash")))
    if kind < 0.7:
        text = draw.choice(("ash g", "gro a", "elm ash b", "gr", ""))
        return Phrase(text, draw.choice((0, 1, 3)), prefix_last=True)
    word = draw.choice(("ahs", "grwo", "eml", "é", "x", "bay ahs", "gorw"))
    return Fuzzy(word, draw.choice((1, 2)))


def draw_without(draw: Draw, vocabulary: Sequence[str], tree: Query) -> Query:
    """A query that leaves out what matches another one; now and then it asks for nothing else."""
    word = Words(draw_words(draw, vocabulary, most=2))
    left_out: tuple[Query, ...] = (
        word,
        Phrase(draw_words(draw, vocabulary, most=2)),
        Prefix("gr"),
        Fuzzy("ahs"),
        Any((word, All((Words("ash"), Without(Words("elm")))))),
        Words(""),
    )
    without = Without(draw.choice(left_out))
    if draw.chance(0.1):
        return All((All((Words("--"), without)), tree))
    return All((tree, without)) if draw.chance(0.5) else Any((tree, word, without))


def draw_predicate(draw: Draw, depth: int = 0) -> Predicate:
    """A filter; a tree of and, or, not in a third of the cases."""
    if depth < 2 and draw.chance(0.35):
        left = draw_predicate(draw, depth + 1)
        kind = draw.randrange(3)
        if kind == 0:
            return Not(left)
        right = draw_predicate(draw, depth + 1)
        return And(left, right) if kind == 1 else Or(left, right)
    low, high = sorted(draw.choices((-4, -1, 0, 2, 5, 7), k=2))
    leaf: Sequence[Predicate] = (
        Equal("kind", draw.choice((*KINDS, "other"))),
        Equal("number", draw.randint(-3, 6)),
        Range("number", low if draw.chance(0.8) else None, high if draw.chance(0.8) else None),
        Range("price", low / 4, high / 4),
        Range(
            "at",
            EPOCH + timedelta(microseconds=max(low, 0)),
            EPOCH + timedelta(microseconds=max(high, 0)),
        ),
        AnyOf("kind", tuple(draw.sample(KINDS, 2))),
        AnyOf("tags", tuple(draw.sample(TAGS, 2))),
        NoneOf("kind", tuple(draw.sample(KINDS, 1))),
        NoneOf("tags", tuple(draw.sample(TAGS, 1))),
        AllOf("tags", tuple(draw.sample(TAGS, draw.randint(1, 2)))),
        IsNull(draw.choice(("kind", "number", "tags"))),
        NotNull(draw.choice(("kind", "price", "tags"))),
    )
    return draw.choice(leaf)


def draw_query_vector(
    draw: Draw, rows: Sequence[Row], arm: str, dim: int, *, many: bool = False
) -> F32 | None:
    """A query vector; that of a document, on the lattice, Gaussian, zero, or none at all.

    ``many``: as the only one of its query, or those of a document.
    """
    made = _draw_query_vector(draw, rows, arm, dim)
    return made if made is None or not many else made.reshape(-1, dim)


def draw_asked(draw: Draw, shape: Shape, rows: Sequence[Row], arm: str) -> F32 | None:
    """What a query asks a dense arm."""
    dim = shape.dense[arm]
    if arm in shape.many:
        is_bundle = draw.chance(0.7)
        return (
            draw_bundle(draw, Mix(), dim)
            if is_bundle
            else draw_query_vector(draw, rows, arm, dim, many=True)
        )
    if arm in shape.sparse and draw.chance(0.7):
        return draw_weights(draw, Mix(), dim)
    made = draw_query_vector(draw, rows, arm, dim)
    return made if made is None or arm not in shape.sparse else np.abs(made)


def _draw_query_vector(draw: Draw, rows: Sequence[Row], arm: str, dim: int) -> F32 | None:
    kind = draw.random()
    known = [vector for row in rows if (vector := row.vectors[arm]) is not None]
    if kind < 0.05:
        return None
    if kind < 0.1:
        return np.zeros(dim, np.float32)
    if kind < 0.4 and known:
        return draw.choice(known)
    if kind < 0.7:
        return np.array(draw.choices((-1.0, 0.0, 1.0), k=dim), np.float32)
    return draw.gaussian(dim)


def draw_bm25(draw: Draw) -> Bm25:
    """A variant with its usual constants, or with the corners k1 = 0, b = 0, b = 1, delta = 0, or
    with a b that goes by the lengths in scope.
    """
    preset = draw.choice(PRESETS)
    if draw.chance(0.7):
        return preset
    if preset.delta is not None:
        preset = replace(preset, delta=draw.choice((0.0, 0.5, 1.5)))
    k1 = draw.choice((0.0, 0.9, 2.0))
    b, b_mixed = draw.choice(((0.0, None), (0.4, 1.0), (1.0, 0.25)))
    return replace(preset, k1=k1, b=b, b_mixed=b_mixed)


def draw_call(
    draw: Draw, oracle: Oracle, n_queries: int, vocabulary: Sequence[str] = VOCABULARY
) -> Call:
    """A batch of queries with their scopes and filters, and options for all of them."""
    shape, rows = oracle.shape, oracle.rows
    lexical = draw.sample(list(shape.lexical), draw.randint(0, len(shape.lexical)))
    dense = draw.sample(list(shape.dense), draw.randint(0 if lexical else 1, len(shape.dense)))
    alone = len(lexical) + len(dense) == 1
    n_rows = max(1, len(rows))
    limit = draw.choice((1, 2, 3, 10, n_rows, n_rows + 5))
    offset = draw.choice((0, 0, 0, 1, 4))
    depth = draw.choice((None, limit + offset, limit + offset + 3, n_rows + 20))
    if alone and draw.chance(0.3):
        depth = 1  # one arm: depth is at least the limit
    if not alone and limit + offset > (depth or DEFAULT_DEPTH):
        depth = limit + offset
    texts = {
        arm: tuple(
            None if draw.chance(0.06) else draw_query(draw, vocabulary) for _ in range(n_queries)
        )
        for arm in lexical
    }
    vectors = {
        arm: tuple(draw_asked(draw, shape, rows, arm) for _ in range(n_queries)) for arm in dense
    }
    call = Call(
        scopes=tuple(draw_scope(draw, shape, rows) for _ in range(n_queries)),
        texts=texts,
        vectors=vectors,
        filters=tuple(draw_predicate(draw) if draw.chance(0.6) else None for _ in range(n_queries))
        if draw.chance(0.5)
        else None,
        limit=limit,
        offset=offset,
        depth=depth,
        fusion=draw_fusion(draw, lexical, dense, alone=len(shape.arms) == 2),
        bm25=draw_bm25(draw) if lexical and draw.chance(0.5) else None,
    )
    if isinstance(call.fusion, Rrf) and call.fusion.alpha == 1:
        call = replace(call, bm25=None)  # an option of an arm that is left out is refused
    return with_floors(draw, oracle, call) if draw.chance(0.3) else call


def draw_fusion(
    draw: Draw, lexical: Sequence[str], dense: Sequence[str], *, alone: bool
) -> Fusion | None:
    """A fusion; None leaves the default. ``alone``: the index has one arm of each kind."""
    arms = (*lexical, *dense)
    if draw.chance(0.35):
        return None
    weights = (
        {arm: draw.choice((0.25, 1.0, 1.5, 3.0)) for arm in arms} if draw.chance(0.5) else None
    )
    if draw.chance(0.5):
        if alone and len(lexical) == len(dense) == 1 and draw.chance(0.5):
            return Rrf(alpha=draw.choice((0.0, 0.3, 0.5, 1.0)))
        return Rrf(weights=weights, rank_constant=draw.choice((1, 60)))
    if draw.chance(0.35):
        return Dbsf(weights=weights, complete=draw.chance(0.7))
    made = Weighted(
        weights=weights,
        normalize=draw.choice(("minmax", "none")),
        complete=draw.chance(0.7),
        largest=draw.chance(0.3),
    )
    if made.normalize == "minmax" and not made.largest and draw.chance(0.5):
        return replace(made, balance=draw.choice((0.0, 0.5, 0.85, 1.2)))
    return made


def with_floors(draw: Draw, oracle: Oracle, call: Call) -> Call:
    """The call with floors that lie on, just above and just below scores that it gives."""
    replies = [oracle.recall(call, query) for query in range(len(call.scopes))]
    hits = [hit for reply in replies for hit in reply]
    min_score: dict[str, float | Above] = {}
    for at, arm in enumerate(oracle.shape.arms):
        known = [score for hit in hits if (score := hit.arm_scores[at]) is not None]
        if arm in call.arms and known and draw.chance(0.7):
            score = draw.choice(known)
            # A little more, but the same float32: the floor is rounded before it is compared.
            floor = draw.choice(
                (score, score + abs(score) * 2.0**-40, math.nextafter(score, math.inf))
            )
            min_score[arm] = Above(floor) if draw.chance(0.3) else floor
    call = replace(call, min_score=min_score)
    fused = [hit.score for hit in hits]
    if fused and len(call.arms) > 1 and draw.chance(0.3):
        call = replace(call, min_fused=draw.choice(fused))
    return call
