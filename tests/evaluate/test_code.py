"""A setting as Python: what is printed makes an equal setting when it runs."""

import math

import pytest

import hyrecall as hr
from hyrecall.evaluate import Setting, read_setting, setting_code

SETTINGS = [
    Setting("bm25", arms=("text",)),
    Setting("rrf", {"fusion": hr.RRF(alpha=0.3, rank_constant=10), "depth": 200}),
    Setting("sum", {"fusion": hr.WeightedSum({"text": 0.6, "embedding": 0.4}, complete=False)}),
    Setting("max", {"fusion": hr.Max({"text": 1, "embedding": 2}, normalize="none")}),
    Setting("dbsf", {"fusion": hr.DBSF(), "bm25": {"text": hr.BM25("bm25+", k1=0.9, delta=0.5)}}),
    Setting("floors", {"min_score": {"embedding": hr.Above(0.3)}, "min_fused": 0.1}),
    Setting(
        "stages",
        {
            "shaping": (hr.Dedup(0.9), hr.Recency("created_at", half_life="30d"), hr.MMR(0.7)),
            "normalize": True,
        },
        analyzer=hr.Analyzer("snowball:english", stopwords=["der", "das"]),
        attributes=("created_at",),
    ),
    Setting("own", {"recipe": hr.Recipe(name="own", arms=(hr.recipe.Dense(),), fusion=hr.DBSF())}),
    *map(read_setting, hr.recipes.__all__),
    Setting("open", {"min_fused": -math.inf, "limit": 3}),
]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda one: one.name)
def test_the_code_of_a_setting_makes_its_options_and_its_analyzer(setting):
    made: dict[str, object] = {}
    exec(setting_code(setting), made)
    expected = dict(setting.options)
    if "recipe" not in expected:
        expected.setdefault("depth", 1000)
    assert made["options"] == expected
    assert made["analyzer"] == setting.analyzer


def test_our_recipes_are_named_and_others_are_written_out():
    assert '"recipe": hr.recipes.default,' in setting_code(read_setting("default"))
    assert '"recipe": hr.recipes.l0,' in setting_code(read_setting("l0"))
    assert "hr.recipes.hypergraph.without_graphs()," in setting_code(read_setting("hypergraph"))
    assert "hr.Recipe.from_json(" in setting_code(SETTINGS[7])


def test_the_call_hands_over_what_the_setting_asks():
    assert "recall(text=texts, scope=scopes, **options)" in setting_code(SETTINGS[0])
    assert "recall(text=texts, vectors=vectors, scope" in setting_code(SETTINGS[1])
    assert "recall(text=texts, **options)" in setting_code(SETTINGS[0], has_cells=False)
    assert 'attributes=("created_at",)' in setting_code(SETTINGS[6])
    assert 'attributes=("pinned", "updated_at")\n' in setting_code(read_setting("l0"))


def test_the_analyzer_may_be_given_as_python():
    code = setting_code(SETTINGS[0], analyzer="hr.Analyzer.from_tokenizer('t.json')")
    assert "\nanalyzer = hr.Analyzer.from_tokenizer('t.json')\n" in code


def test_what_no_python_can_make_again_is_refused_by_name():
    setting = Setting("own", {"shaping": (hr.RerankBy(lambda query, texts: [0.0]),)})
    with pytest.raises(hr.OptionError, match=r"^setting: expected .* got a function"):
        setting_code(setting)
