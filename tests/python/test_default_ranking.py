"""Several arms rank as recipes.default does where a call names neither fusion nor constants."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import recipes
from seams import Newest

FUSION = hr.WeightedSum(normalize="minmax", balance=0.85)
BM25 = hr.BM25("lucene", k1=0.75, b=0.25)
WORDS = ("ash", "oak", "elm", "fir", "yew", "bay")
ASKED: dict[str, Any] = {"text": ["ash oak", None, "elm yew yew"], "scope": "ana"}
DEFAULT = recipes.default.replace(exact=False)


def built(texts: Any = "text", seed: int = 1, **options: Any) -> hr.Index:
    rng = np.random.default_rng(seed)
    n = 40
    table = pa.table({
        "id": list(range(n)),
        "user": ["ana" if one else "bob" for one in rng.random(n) < 0.9],
        "at": rng.permutation(n),
        "text": [" ".join(rng.choice(WORDS, rng.integers(1, 20))) for _ in range(n)],
        "title": [" ".join(rng.choice(WORDS, rng.integers(1, 4))) for _ in range(n)],
    })  # fmt: skip
    schema = hr.Schema(key="id", cell="user", text=texts, vector=("v", "w"), attributes="at")
    vectors = {arm: rng.standard_normal((n, 6)).astype(np.float32) for arm in ("v", "w")}
    return hr.Index.build(table, schema, vectors=vectors, **options)


def vectors(*arms: str) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {arm: rng.standard_normal((3, 6)).astype(np.float32) for arm in arms}


def table(hits: hr.Hits) -> pa.Table:
    assert hits.n_hits > 0
    return hits.to_arrow()


TEXTS: dict[str, Any] = {"one": "text", "two": {"words": "text", "title": "title"}}


@pytest.mark.parametrize("arms", [(), ("v",), ("v", "w")], ids=str)
@pytest.mark.parametrize("texts", TEXTS)
@pytest.mark.parametrize("beside", [(), Newest("at")], ids=["none", "newest"])
def test_the_default_has_the_bits_of_the_default_recipe(
    texts: str, arms: tuple[str, ...], beside: Any
) -> None:
    index = built(TEXTS[texts])
    asked = {**ASKED, "vectors": vectors(*arms) or None}
    plain = index.recall(**asked, arms=beside)
    n_arms = len(plain.trace.arms)
    more = () if beside == () else (beside,)
    if n_arms == 1:  # an arm alone has the constants of the index, in the recipe those it names
        assert table(plain).equals(table(index.recall(**asked, bm25=hr.BM25())))
        assert plain[0][0].explain().fusion == "the score of the only arm"
        return
    assert table(plain).equals(table(index.recall(**asked, recipe=DEFAULT.replace(more=more))))
    named = index.recall(**asked, arms=beside, fusion=FUSION, bm25=BM25)
    assert table(plain).equals(table(named))
    assert not table(plain).equals(table(index.recall(**asked, arms=beside, fusion=hr.RRF())))
    for one in plain:
        for hit in one:
            assert hit.explain().score == hit.score
            assert hit.explain().fusion == "weighted sum, balance 0.85"


def test_a_default_that_nobody_named_leaves_no_note() -> None:
    index = built(TEXTS["two"])
    assert index.recall(**ASKED).trace.notes == ()
    notes = index.recall(**ASKED, fusion=FUSION).trace.notes
    assert notes == ("balance has no effect: arms of one kind run",)


def test_constants_that_call_schema_or_build_name_are_kept() -> None:
    own = hr.BM25("okapi", k1=0.4, b=0.1)
    asked = {**ASKED, "vectors": vectors("v")}
    given = table(built().recall(**asked, bm25=own))
    by_schema = built(hr.Text("text", bm25=own))
    by_build = built(bm25=own)
    for index in (by_schema, by_build):
        assert table(index.recall(**asked)).equals(given)
        assert table(index.recall(**asked, bm25=BM25)).equals(table(built().recall(**asked)))
    field = built(hr.Text("text", bm25=hr.BM25()))  # named, though it is what others have unnamed
    assert table(field.recall(**asked)).equals(table(built().recall(**asked, bm25=hr.BM25())))
    # To build with the default by name says no more than to build without.
    assert table(built(bm25=hr.BM25()).recall(**asked)).equals(table(built().recall(**asked)))


def test_each_text_arm_has_its_own_constants_or_the_default() -> None:
    own = hr.BM25("okapi", k1=0.4, b=0.1)
    index = built({"words": "text", "title": hr.Text("title", bm25=own)})
    found = table(index.recall(**ASKED))
    assert found.equals(table(index.recall(**ASKED, bm25={"words": BM25, "title": own})))
    assert not found.equals(table(index.recall(**ASKED, bm25=BM25)))
    named = index.recall(**ASKED, bm25={"words": own})
    assert table(named).equals(table(index.recall(**ASKED, bm25=own)))


@pytest.mark.parametrize("named", ["nowhere", "schema", "build"])
def test_what_was_named_is_known_after_save_and_open(named: str, tmp_path: Path) -> None:
    own = hr.BM25(k1=0.9) if named == "build" else hr.BM25()
    index = {
        "nowhere": built,
        "schema": lambda: built(hr.Text("text", bm25=own)),
        "build": lambda: built(bm25=own),
    }[named]()
    asked = {**ASKED, "vectors": vectors("v")}
    before = table(index.recall(**asked))
    index.save(tmp_path / "index")
    again = hr.Index.open(tmp_path / "index")
    assert table(again.recall(**asked)).equals(before)
    expected = BM25 if named == "nowhere" else own
    assert before.equals(table(index.recall(**asked, bm25=expected)))


def test_a_named_fusion_leaves_the_constants_of_the_index() -> None:
    asked = {**ASKED, "vectors": vectors("v")}
    for fusion in (hr.RRF(), FUSION, hr.Max(), hr.DBSF()):
        found = table(built().recall(**asked, fusion=fusion))
        assert found.equals(table(built().recall(**asked, fusion=fusion, bm25=hr.BM25())))
