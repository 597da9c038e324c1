"""Confidence: what the definition says, of the authorised cells only, the same bits everywhere."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

import hyrecall as hr
from hyrecall.distributed import ShardedIndex
from hyrecall.recipe import Coefficients
from laws.checks import LawBroken, foreign_rows, mingled
from laws.effort import Effort
from laws.engine import EngineSubject, arguments, recipe_of, schema, table
from laws.planted import STATISTICS, mutant, mutation
from oracle import confidence
from oracle.corpus import Draw, draw_call, draw_mix, draw_rows, draw_shape
from oracle.documents import Call, Row, Shape
from oracle.recall import Oracle
from oracle.words import Words
from seams import CONFIDENCE_MODELS, confidence_module, reply_of

Values = list[tuple[float | None, tuple[float | None, ...]]]  # of each query and of its hits
FAMILY = "minilm"
MODELS = {name: (one.query, one.hit) for name, one in CONFIDENCE_MODELS.items()}


@pytest.fixture(autouse=True)
def known_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    """All vectors are those of a known embedder, as if the index had made them."""
    monkeypatch.setattr(confidence_module, "_family", lambda *_: FAMILY)


def values_of(hits: hr.Hits) -> Values:
    return [(one.confidence, tuple(hit.confidence for hit in one)) for one in hits]


def by_definition(oracle: Oracle, call: Call, of: type = confidence.Confidence) -> Values:
    made = [of(oracle, MODELS, FAMILY).of(call, at) for at in range(len(call.scopes))]
    return [(one.reply, tuple(one.hits)) for one in made]


def is_close(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-9)


def check_definition(oracle: Callable[..., Oracle], seeds: Sequence[int], of: type) -> int:
    """Every confidence is the definition's."""
    cases = 0
    for seed in seeds:
        draw = Draw(f"confidence {seed}")
        shape = replace(draw_shape(draw), many=frozenset())
        rows = draw_rows(draw, shape, draw_mix(draw))
        subject = EngineSubject(shape, rows)
        for _ in range(4):
            call = with_names(draw, draw_call(draw, Oracle(shape, rows), 6))
            found = values_of(subject.index.recall(**arguments(shape, call)))
            for query, pair in enumerate(
                zip(found, by_definition(oracle(shape, rows), call, of), strict=True)
            ):
                (reply, hits), (right, right_hits) = pair
                same = is_close(reply, right) and len(hits) == len(right_hits)
                if not same or not all(map(is_close, hits, right_hits)):
                    raise LawBroken(f"seed {seed}: {call.take([query])!r}\n{pair}")
                cases += 1
    return cases


def with_names(draw: Draw, call: Call) -> Call:
    """The call with names and numbers in some of its plain texts."""
    texts = {
        arm: tuple(
            Words(f"{one.text} Ash {draw.choice(('Nowhere', 'Bay 7', 'x9'))}")
            if isinstance(one, Words) and draw.chance(0.5)
            else one
            for one in own
        )
        for arm, own in call.texts.items()
    }
    return replace(call, texts=texts)


def test_confidence_is_the_definitions(effort: Effort) -> None:
    n = effort.cases(quick=25, full=2000)
    assert check_definition(Oracle, range(n), confidence.Confidence) == 24 * n


class Everyones(confidence.Confidence):
    """A planted bug: the statistics of all cells."""

    def counted(self, search: Any, arm: str) -> Any:
        return self.oracle.has_text(arm)


class Filtered(confidence.Confidence):
    """A planted bug: the statistics of what passes the filter."""

    def counted(self, search: Any, arm: str) -> Any:
        return super().counted(search, arm) & search.visible


class Own(confidence.Confidence):
    """A planted bug: the constants of the lists are those of the share."""

    how = replace(confidence.DEFAULT_BM25, k1=1.2, b=0.75)


@pytest.mark.parametrize("bug", [Everyones, Filtered, Own])
def test_a_wrong_definition_is_noticed(bug: type) -> None:
    with pytest.raises(LawBroken):
        check_definition(Oracle, range(40), bug)


# ---- a recipe's own coefficients, whatever made the vectors

OWN = (
    ({"base": -1.0, "cosine": 2.0, "lead": 3.0, "names": -1.0},
     {"base": -2.0, "cosine": 1.0, "words": 1.5, "behind": -1.0, "query": 0.5}),
    ({"base": -1.0, "lead": 2.0, "names": -1.0}, {"base": 0.5, "words": 1.0, "behind": -3.0}),
    ({"base": -0.5, "lead": 4.0, "cosine": 1.0}, {"base": -1.0, "behind": -2.0, "query": 1.0}),
)  # fmt: skip
OF_OPTIONS = ("fusion", "min_score", "min_fused", "bm25", "depth", "shaping")


def by_recipe(shape: Shape, call: Call, own: Any) -> dict[str, Any]:
    """The call by a recipe that has coefficients."""
    recipe = recipe_of(call, shape, exact=False)
    recipe = recipe.replace(confidence=Coefficients(query=own[0], hit=own[1]))
    asked = {k: one for k, one in arguments(shape, call).items() if k not in OF_OPTIONS}
    return asked | {"recipe": recipe}


def is_blank(call: Call, at: int) -> bool:
    texts = [own[at] for own in call.texts.values()]
    is_text = any(not isinstance(one, Words) or one.text.strip() for one in texts if one)
    return not is_text and all(own[at] is None for own in call.vectors.values())


def of_own(of: type, seeds: Sequence[int], monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Check own coefficients by the definition; return by which coefficients replies were."""
    monkeypatch.setattr(confidence_module, "_family", lambda *_: None)
    models = set()
    for seed in seeds:
        draw = Draw(f"own {seed}")
        shape = replace(draw_shape(draw), many=frozenset())
        while not (shape.lexical and shape.dense) or shape.sparse:
            shape = replace(draw_shape(draw), many=frozenset())
        rows = draw_rows(draw, shape, draw_mix(draw))
        subject, oracle, own = EngineSubject(shape, rows), Oracle(shape, rows), OWN[seed % 3]
        for _ in range(3):
            call = replace(with_names(draw, draw_call(draw, oracle, 6)), depth=100)
            hits = subject.index.recall(**by_recipe(shape, call, own))
            for at, found in enumerate(values_of(hits)):
                made = of(oracle, MODELS, None, own).of(call, at)
                if is_blank(call, at):  # by a recipe it asks nothing
                    made = confidence.Judged(None, [])
                right = (made.reply, *made.hits)
                same = len(found[1]) == len(made.hits)
                if not same or not all(map(is_close, (found[0], *found[1]), right)):
                    raise LawBroken(f"seed {seed}: {call.take([at])!r}\n{found}\n{made}")
            parts = [reply_of(one).judged(one.query).query for one in hits]
            models.update(one.model for one in parts if one is not None)
    return models


def test_a_recipes_coefficients_are_the_definitions(
    effort: Effort, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = effort.cases(quick=24, full=1500)
    assert of_own(confidence.Confidence, range(n), monkeypatch) == {"recipe", "words"}


@pytest.mark.parametrize("bug", [Everyones, Filtered, Own])
def test_a_wrong_definition_is_noticed_by_a_recipe_too(
    bug: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LawBroken):
        of_own(bug, range(40), monkeypatch)


# ---- of the authorised cells only (L2)


def check_alone(make: Callable[[Shape, Sequence[Row]], Any], seeds: Sequence[int]) -> None:
    """Two worlds that share the authorised rows and nothing else are as sure, to the last bit."""
    for seed in seeds:
        draw = Draw(f"sure {seed}")
        shape = replace(draw_shape(draw), many=frozenset())
        while not shape.cell:
            shape = replace(draw_shape(draw), many=frozenset())
        rows = draw_rows(draw, shape, replace(draw_mix(draw), n_rows=draw.choice((6, 20, 40))))
        cells = sorted({row.cell for row in rows}, key=repr)
        granted = frozenset(draw.sample(cells, draw.randint(1, len(cells))))
        mine = [row for row in rows if row.cell in granted]
        other = mingled(draw, mine, foreign_rows(draw, shape, granted))
        call = with_names(draw, draw_call(draw, Oracle(shape, mine), 6))
        call = replace(call, scopes=(granted,) * len(call.scopes))
        left, right = (make(shape, world)(call) for world in (rows, other))
        if left != right:
            raise LawBroken(f"seed {seed}: {call!r}\n{left}\n{right}")


def engine(shape: Shape, rows: Sequence[Row]) -> Callable[[Call], Values]:
    subject = EngineSubject(shape, rows)
    return lambda call: values_of(subject.index.recall(**arguments(shape, call)))


def test_others_rows_change_no_bit(effort: Effort) -> None:
    check_alone(engine, range(effort.cases(quick=40, full=5000)))


@pytest.mark.parametrize("own", OWN)
def test_others_rows_change_no_bit_by_a_recipes_coefficients(own: Any, effort: Effort) -> None:
    def made(shape: Shape, rows: Sequence[Row]) -> Callable[[Call], Values]:
        index = EngineSubject(shape, rows).index
        return lambda call: values_of(index.recall(**by_recipe(shape, call, own)))

    check_alone(made, range(effort.cases(quick=12, full=1500)))


def test_statistics_of_all_cells_are_noticed() -> None:
    def leaking(shape: Shape, rows: Sequence[Row]) -> Callable[[Call], Values]:
        return lambda call: by_definition(Oracle(shape, rows), call, Everyones)

    with pytest.raises(LawBroken):
        check_alone(leaking, range(100))


# ---- the same bits everywhere (L3, L4), and whatever page is shown (L6)


def world() -> tuple[Shape, list[Row], Call]:
    draw = Draw("everywhere")
    shape = Shape(cell=("tenant",), lexical={"text": ("text",)}, dense={"embedding": 3})
    rows = draw_rows(draw, shape, replace(draw_mix(draw), n_rows=300, n_tenants=2))
    call = draw_call(draw, Oracle(shape, rows), 40)
    while not (call.texts and call.vectors) or call.min_score or call.filters:
        call = draw_call(draw, Oracle(shape, rows), 40)
    call = replace(call, fusion=None, min_fused=None, limit=10, offset=0, depth=30)
    return shape, rows, with_names(draw, call)


def test_batches_threads_devices_segments_shards_and_history_change_no_bit(device: str) -> None:
    shape, rows, call = world()
    asked = arguments(shape, call)
    one = EngineSubject(shape, rows, threads=1)
    truth = values_of(one.index.recall(**asked))
    assert any(reply not in (None, 0.0) for reply, _ in truth)
    alone = [
        values_of(one.index.recall(**arguments(shape, call.take([at]))))[0]
        for at in range(len(call.scopes))
    ]
    assert alone == truth
    batch = one.index.recall(**asked)
    assert batch.confidence == [reply for reply, _ in truth]
    assert values_of(EngineSubject(shape, rows, threads=4).index.recall(**asked)) == truth
    assert values_of(EngineSubject(shape, rows, device=device).index.recall(**asked)) == truth
    grown = EngineSubject(shape, rows[:100])
    grown.add(rows[100:250])
    grown.add(rows[250:])
    assert values_of(grown.index.recall(**asked)) == truth
    parts = [table(shape, rows[:120]), table(shape, rows[120:])]
    shards = ShardedIndex.build(parts, schema(shape), analyzer=hr.Analyzer("word"), device="cpu")
    assert values_of(shards.recall(**asked)) == truth
    grown.delete([row.key for row in rows[:50]], [frozenset({row.cell}) for row in rows[:50]])
    fresh = EngineSubject(shape, rows[50:])
    assert values_of(grown.index.recall(**asked)) == values_of(fresh.index.recall(**asked))


def test_the_page_changes_no_bit() -> None:
    shape, rows, call = world()
    index = EngineSubject(shape, rows).index
    whole = values_of(index.recall(**arguments(shape, call)))
    for limit, offset in ((1, 0), (3, 2), (0, 0)):
        page = replace(call, limit=limit, offset=offset)
        shown = values_of(index.recall(**arguments(shape, page)))
        assert shown == [(one, hits[offset : offset + limit]) for one, hits in whole]


# ---- the coefficients


def test_nothing_met_is_never_above_one_half_and_more_is_never_less() -> None:
    falling = {"names", "behind"}
    for of_query, of_hit in MODELS.values():
        assert confidence.probability(of_query["base"]) < 0.5
        for coefficients in (of_query, of_hit):
            for name, weight in coefficients.items():
                assert name == "base" or (weight < 0) == (name in falling), name


STATISTICS_BUG = mutation(STATISTICS["N, doc_freq and mean length are those of the whole index"])


def test_the_planted_statistics_of_plain_recall_are_noticed_here_too() -> None:
    with pytest.raises(LawBroken):
        check_definition(mutant(Oracle, STATISTICS_BUG), range(40), confidence.Confidence)
