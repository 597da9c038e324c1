"""Settings become the arguments of recall, and their lists become runs."""

from dataclasses import replace

import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.errors import OptionError
from hyrecall.evaluate import Dataset, Indexes, Setting, read_setting, run_setting, score_run
from seams import score_setting

pytest.importorskip("ir_measures", reason="the extra [evaluate] is not installed")
pytest.importorskip("scipy", reason="the extra [evaluate] is not installed")


def test_a_run_holds_what_recall_gives_within_each_querys_tenant(data, indexes):
    run = run_setting(indexes, data, read_setting("rrf"))
    tenant = dict(zip(*(data.corpus[name].to_pylist() for name in ("id", "tenant")), strict=True))
    own = dict(zip(*(data.queries[name].to_pylist() for name in ("id", "tenant")), strict=True))
    index = indexes.get(read_setting("rrf"))
    for row in data.judged.to_pylist()[:10]:
        hits = index.recall_one(
            text=row["text"], vector=row["embedding"], scope=row["tenant"], limit=100, depth=1000,
            fusion=hr.RRF(),
        )  # fmt: skip
        assert run.documents[row["id"]] == tuple(hits.keys)
        assert run.scores[row["id"]] == tuple(hit.score for hit in hits)
    for query, documents in run.documents.items():
        assert {tenant[document] for document in documents} == {own[query]}


def test_only_judged_queries_are_asked(data, indexes):
    run = run_setting(indexes, data, read_setting("bm25"))
    assert list(run.documents) == data.judged["id"].to_pylist()


@pytest.mark.parametrize(("name", "handed"), [("bm25", "text"), ("dense", "vector")])
def test_an_arm_alone_is_asked_alone(data, indexes, name, handed):
    index = indexes.get(read_setting(name))
    run = run_setting(indexes, data, read_setting(name))
    for row in data.judged.to_pylist()[:10]:
        asked = {handed: row["text" if handed == "text" else "embedding"]}
        hits = index.recall_one(**asked, scope=row["tenant"], limit=100)
        assert run.documents[row["id"]] == tuple(hits.keys)


def test_a_set_without_tenants_titles_or_vectors_is_asked_by_its_texts():
    corpus = pa.table({"id": ["a", "b"], "text": ["hot tea", "milk"]})
    queries = pa.table({"id": ["p", "q"], "text": ["milk", "nothing"]})
    plain = Dataset("plain", corpus, queries, {"p": {"b": 1}, "q": {"a": 1}})
    run = run_setting(Indexes(plain), plain, read_setting("bm25"))
    assert run.documents == {"p": ("b",), "q": ()}
    with pytest.raises(OptionError, match="setting 'rrf': expected an embedding"):
        run_setting(Indexes(plain), plain, read_setting("rrf"))


def test_a_set_without_judgements_gives_an_empty_run_and_zeros(data, indexes):
    unjudged = replace(data, judgements={})
    assert run_setting(indexes, unjudged, read_setting("rrf")).documents == {}
    scores = score_setting(indexes, unjudged, read_setting("rrf"), measures=["AP", "R@5"])
    assert scores.means == {"AP": 0.0, "R@5": 0.0}


def test_an_index_is_built_once_for_an_analyzer(data):
    indexes = Indexes(data)
    words = Setting("words", analyzer=hr.Analyzer("word"), arms=("text",))
    assert indexes.get(words) is indexes.get(replace(words, name="again", arms=("vectors",)))
    assert indexes.get(words) is not indexes.get(read_setting("bm25"))
    stemmed = replace(words, analyzer=hr.Analyzer("snowball:english"))
    assert indexes.get(stemmed) is not indexes.get(words)


def with_more_columns() -> Dataset:
    """Three texts with columns of every kind that becomes an arm."""
    one, many = pa.list_(pa.float32(), 2), pa.list_(pa.list_(pa.float32(), 2))
    terms = pa.map_(pa.string(), pa.float32())

    def columns(rows: list[tuple]) -> dict[str, pa.Array]:
        names = {"near": one, "tokens": many, "terms": terms}
        made = zip(names.items(), zip(*rows, strict=True), strict=True)
        return {name: pa.array(values, kind) for (name, kind), values in made}

    rows = [
        ([1, 0], [[1, 0], [0, 1]], [("hot", 2.0)]),
        ([0, 1], [[0, 1]], [("cold", 1.0)]),
        ([1, 1], [[1, 1]], [("hot", 1.0), ("cold", 1.0)]),
    ]
    corpus = pa.table(
        {"id": ["a", "b", "c"], "text": ["tea", "tea", "tea"], "who": ["ann", "bob", "ann"]}
        | columns(rows)
    )
    queries = pa.table({"id": ["q"], "text": ["tea of bob"]} | columns(rows[1:2]))
    return Dataset("drinks", corpus, queries, {"q": {"b": 1}})


MORE = ("who", "near", "tokens", "terms")


def test_more_columns_are_arms_by_their_types_and_each_is_asked_its_own():
    data = with_more_columns()
    setting = Setting("all", {"fusion": hr.RRF()}, arms=("text",), more_arms=MORE)
    indexes = Indexes(data)
    schema = indexes.get(setting).schema
    assert schema.text_arms.keys() == {"text", "who"}
    kinds = {name: type(arm) for name, arm in schema.vector_arms.items()}
    assert kinds == {"near": hr.Vector, "tokens": hr.MaxSim, "terms": hr.Sparse}
    row = data.queries.to_pylist()[0]
    vectors = {name: row[name] for name in MORE[1:]} | {"terms": dict(row["terms"])}
    hits = indexes.get(setting).recall_one(text=row["text"], vector=vectors, fusion=hr.RRF())
    run = run_setting(indexes, data, setting)
    assert run.documents["q"] == tuple(hits.keys)
    assert run.scores["q"] == tuple(hit.score for hit in hits)
    assert run.documents["q"][0] == "b"
    ranked = hits.to_arrow().to_pylist()[0]
    assert {ranked[f"{arm}_rank"] for arm in MORE} == {1}


def test_columns_that_cannot_be_more_arms_are_refused():
    data = with_more_columns()
    for name in ("absent", "text"):
        setting = Setting("x", arms=("text",), more_arms=(name,))
        with pytest.raises(OptionError, match=f"more_arms: expected columns of .*got '{name}'"):
            run_setting(Indexes(data), data, setting)
    bare = replace(data, queries=data.queries.drop_columns(["terms"]))
    setting = Setting("x", arms=("text",), more_arms=("terms",))
    with pytest.raises(OptionError, match="queries: expected a column 'terms', as in the corpus"):
        run_setting(Indexes(bare), bare, setting)


def test_attributes_of_a_setting_can_be_filtered_by(data, indexes):
    early = Setting(
        "early", {"filter": hr.Filter(day=(None, 19))}, arms=("text",), attributes=("day",)
    )
    found = run_setting(indexes, data, early).documents.values()
    numbers = [int(document[1:]) for documents in found for document in documents]
    assert numbers
    assert max(numbers) <= 19


def test_lists_are_as_long_as_the_measures_read_and_no_longer_than_the_depth(data, indexes):
    bm25, rrf = read_setting("bm25"), read_setting("rrf")
    assert max(map(len, run_setting(indexes, data, rrf, limit=7).documents.values())) == 7
    shallow = run_setting(indexes, data, rrf.but("shallow", depth=5), limit=7)
    assert max(map(len, shallow.documents.values())) == 5
    with pytest.raises(OptionError, match="limit of setting 'ten': expected >= 100, which"):
        score_setting(indexes, data, bm25.but("ten", limit=10), measures=["R@5", "R@100"])
    assert score_setting(indexes, data, bm25.but("ten", limit=10), measures=["R@10"]).means


def test_scoring_a_setting_is_scoring_its_run(data, indexes):
    setting = read_setting("minmax")
    whole = score_run(run_setting(indexes, data, setting).documents, data.judgements)
    at_once = score_setting(indexes, data, setting)
    assert at_once.means == whole.means
    assert at_once.queries == whole.queries
    assert 0.2 < at_once.means["nDCG@10"] < 1


def test_clones_of_a_set_change_no_score(data):
    clones = data.corpus.slice(0, 40)
    names = pa.array([f"clone of {name}" for name in clones["id"].to_pylist()])
    classes = {
        **{name: name for name in clones["id"].to_pylist()},
        **{f"clone of {name}": name for name in clones["id"].to_pylist()},
    }
    corpus = pa.concat_tables([data.corpus, clones.set_column(0, "id", names)])
    cloned = replace(data, corpus=corpus, classes=classes)
    dense = read_setting("dense")  # cosine knows nothing of other documents, as BM25 does
    before = score_setting(Indexes(data), data, dense, measures=["nDCG@10", "RR@10", "R@10"])
    after = score_setting(Indexes(cloned), cloned, dense, measures=["nDCG@10", "RR@10", "R@10"])
    assert after.means == before.means
