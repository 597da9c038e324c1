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
