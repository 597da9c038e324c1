"""What is particular to a second look: sums to the last bit, and who may be heard."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import hyrecall as hr
from hyrecall import _core
from hyrecall.errors import InternalError
from laws.checks import QUERIES_PER_CALL
from laws.engine import EngineSubject
from laws.planted import Mutation, mutant
from laws.planted_stages import SUMMED
from laws.registry import BY_NAME
from oracle.corpus import Draw, Mix, draw_mix, draw_rows, draw_shape
from oracle.documents import Call, Row, Shape
from oracle.recall import Oracle
from oracle.recipe import RecipeOracle
from seams import read_scopes

STAGE = hr.Feedback(3, 0.4, 6, 0.2)


def cancelling(seed: int) -> tuple[Shape, list[Row], Call]:
    """A world where the last bits of a sum over rows are seen.

    In most dimensions the query is the opposite of what its rows add, so that only roundings are
    left of it there; rows that have nothing else show them in their scores.
    """
    random = np.random.default_rng(seed)
    n_cancelled, dim = 384, 400
    heard = random.standard_normal((3, dim)) * np.where(np.arange(dim) < n_cancelled, 0.01, 1.0)
    heard[:, n_cancelled:] = np.abs(heard[:, n_cancelled:])
    heard = heard.astype(np.float32)
    units = heard / np.sqrt((heard.astype(np.float64) ** 2).sum(axis=1))[:, None]
    vector = units.mean(axis=0)
    small = -0.4 * vector[:n_cancelled]
    rest = vector[n_cancelled:]
    rest = rest / np.sqrt((rest**2).sum()) * np.sqrt(1.0 - (small**2).sum())
    probes = random.standard_normal((8, dim)).astype(np.float32)
    probes[:, n_cancelled:] = 0
    shape = Shape(cell=("tenant",), dense={"embedding": dim})
    drawn_rows = draw_rows(Draw(seed), shape, Mix(n_rows=len(heard) + len(probes)))
    rows = [
        replace(row, key=f"k{at}", cell=("a",), vectors={"embedding": one})
        for at, (row, one) in enumerate(zip(drawn_rows, [*heard, *probes], strict=True))
    ]
    query = np.concatenate([small, rest]).astype(np.float32)
    return (
        shape,
        rows,
        Call((frozenset({("a",)}),), vectors={"embedding": (query,)}, limit=20, shaping=(STAGE,)),
    )


@pytest.mark.parametrize("bug", SUMMED.values(), ids=SUMMED)
def test_rows_are_added_up_best_first(
    bug: Mutation, make_engine: Callable[..., EngineSubject]
) -> None:
    differs = 0
    for seed in range(40):
        shape, rows, call = cancelling(seed)
        (reply,) = make_engine(shape, rows).recall(call)
        assert reply == RecipeOracle(shape, rows).recall(call, 0)
        differs += reply != mutant(RecipeOracle, bug)(shape, rows).recall(call, 0)
    assert differs > 0


def test_explanations_say_what_a_second_look_added(
    make_engine: partial[EngineSubject],
) -> None:
    moved = extended = 0
    for seed in range(60):
        draw = Draw(seed)
        shape = draw_shape(draw)
        rows = draw_rows(draw, shape, draw_mix(draw))
        call = BY_NAME["Feedback"].call(draw, Oracle(shape, rows), QUERIES_PER_CALL)
        reply = make_engine(shape, rows, threaded=True).hits(call)
        for query, hits in enumerate(reply):
            for hit in hits:
                made = hit.explain()
                assert made.feedback == reply.trace.feedback.get(query)
                if made.feedback is not None:
                    moved += bool(made.feedback.vectors)
                    extended += bool(made.feedback.terms)
    assert moved > 50
    assert extended > 50


def test_a_row_outside_the_scope_cannot_be_heard() -> None:
    shape = Shape(cell=("tenant",))
    rows = [
        replace(row, cell=(cell,))
        for cell, row in zip("ab", draw_rows(Draw(1), shape, Mix(n_rows=2)), strict=True)
    ]
    index = EngineSubject(shape, rows).index
    scopes = read_scopes(index._facts.cell_types, index._state.snapshot, "a", 1)
    request = _core.BatchRequest(
        scopes=scopes, filters=[], filter_of=None, depth=1, limit=1, offset=0, threads=1
    )
    execution = _core.Execution(index._state.snapshot, request)

    def hear(row: int) -> object:
        one = np.array([row], np.uint32)
        given = np.array([0, 1]), np.zeros(1, np.uint32), one
        return _core.shaping.second_look(execution, *given, dense=1.0, n_terms=1, lexical=1.0)

    assert hear(0) == ([], [])
    with pytest.raises(InternalError, match="a row in the query's scope"):
        hear(1)
