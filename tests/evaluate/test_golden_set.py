"""The golden set is what its README says: counts, references, languages, difficulty, vectors."""

import json
import re
import runpy
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import pytest

from hyrecall.embed import StaticEmbedder

GOLDEN = Path(__file__).parent / "golden"
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
OLDEST = datetime(2024, 12, 1, tzinfo=UTC)  # 18 months before NOW
FIELDS = {
    "id": str,
    "tenant": str,
    "session": str,
    "source": str,
    "kind": str,
    "lang": str,
    "text": str,
    "tags": list,
    "importance": int,
    "created_at": str,
    "updated_at": str,
    "last_accessed": str,
    "pinned": bool,
    "supersedes": str | None,
    "superseded": bool,
}
SOURCES = {"memory", "summary", "session"}
KINDS = {"fact", "preference", "decision", "convention", "gotcha", "event"}
LANGUAGES = {"en", "it", "zh"}
TYPES = {
    "identifier",
    "keyword",
    "paraphrase",
    "cross-language",
    "temporal",
    "multi-relevant",
    "preference",
}


class GoldenSet(NamedTuple):
    """All files but the vectors."""

    docs: dict[str, dict[str, Any]]
    queries: dict[str, dict[str, Any]]
    judged: dict[str, dict[str, int]]  # query -> doc -> grade
    classes: dict[str, str]  # doc -> class

    def pairs(self) -> list[tuple[str, str]]:
        return [(query, doc) for query, grades in self.judged.items() for doc in grades]

    def members(self) -> dict[str, list[str]]:
        found = defaultdict(list)
        for doc, name in self.classes.items():
            found[name].append(doc)
        return found


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN / name).read_text("utf-8").splitlines()]


def cells(name: str, *header: str) -> list[list[str]]:
    first, *rest = (GOLDEN / name).read_text("utf-8").splitlines()
    assert first.split("\t") == list(header)
    return [line.split("\t") for line in rest]


def tokens(text: str) -> set[str]:
    """Lower-case words; a run of Chinese characters gives its bigrams (or its only character)."""
    found = set()
    for word in re.findall(r"\w+", text.lower()):
        for part in re.findall(r"[\u4e00-\u9fff]+|[^\u4e00-\u9fff]+", word):
            if "\u4e00" <= part[0] <= "\u9fff" and len(part) > 1:
                found.update(part[at : at + 2] for at in range(len(part) - 1))
            else:
                found.add(part)
    return found


@pytest.fixture(scope="module")
def golden() -> GoldenSet:
    judged: dict[str, dict[str, int]] = defaultdict(dict)
    for query, doc, grade in cells("qrels.tsv", "query-id", "corpus-id", "grade"):
        assert doc not in judged[query], "judged twice"
        judged[query][doc] = int(grade)
    classes = [(doc, name) for doc, name in cells("classes.tsv", "corpus-id", "class")]
    assert len({doc for doc, _ in classes}) == len(classes), "a memory in two classes"
    return GoldenSet(
        {row["id"]: row for row in rows("corpus.jsonl")},
        {row["id"]: row for row in rows("queries.jsonl")},
        dict(judged),
        dict(classes),
    )


@pytest.fixture(scope="module")
def vectors() -> dict[str, npt.NDArray[np.float16]]:
    table = pq.read_table(GOLDEN / "embeddings.parquet")
    column = table["embedding"].combine_chunks()
    assert str(column.type.value_type) == "halffloat"
    matrix = column.flatten().to_numpy().reshape(len(table), column.type.list_size)
    return dict(zip(table["id"].to_pylist(), matrix, strict=True))


def test_the_set_is_as_large_as_promised(golden: GoldenSet) -> None:
    assert len(golden.docs) >= 220
    assert len(golden.queries) >= 320
    assert len({doc["tenant"] for doc in golden.docs.values()}) >= 4
    assert min(Counter(doc["tenant"] for doc in golden.docs.values()).values()) >= 20


def test_ids_are_unique_over_memories_and_queries() -> None:
    ids = [row["id"] for name in ("corpus.jsonl", "queries.jsonl") for row in rows(name)]
    assert len(set(ids)) == len(ids)


def test_no_text_is_empty_or_written_twice() -> None:
    memories = [row["text"] for row in rows("corpus.jsonl")]
    assert all(text.strip() == text != "" for text in memories)
    assert len({" ".join(text.lower().split()) for text in memories}) == len(memories)
    # Tenants may ask the same thing; one tenant asks it once.
    asked = [(row["tenant"], row["text"]) for row in rows("queries.jsonl")]
    assert all(text.strip() == text != "" for _, text in asked)
    assert len(set(asked)) == len(asked)


def test_every_memory_has_every_field_with_a_known_value(golden: GoldenSet) -> None:
    for doc in golden.docs.values():
        assert doc.keys() == FIELDS.keys(), doc["id"]
        for name, kind in FIELDS.items():
            assert isinstance(doc[name], kind), (doc["id"], name)
        assert doc["source"] in SOURCES
        assert doc["kind"] in KINDS
        assert doc["lang"] in LANGUAGES
        assert 0 <= doc["importance"] <= 10
        assert doc["tags"]
        assert all(isinstance(tag, str) and tag for tag in doc["tags"])
    assert {doc["source"] for doc in golden.docs.values()} == SOURCES
    assert {doc["kind"] for doc in golden.docs.values()} == KINDS
    assert any(doc["pinned"] for doc in golden.docs.values())


def test_times_run_from_creation_over_update_to_access_before_now(golden: GoldenSet) -> None:
    for doc in golden.docs.values():
        created, updated, accessed = (
            datetime.fromisoformat(doc[name])
            for name in ("created_at", "updated_at", "last_accessed")
        )
        assert OLDEST <= created <= updated <= accessed <= NOW, doc["id"]


def test_every_query_has_every_field_with_a_known_value(golden: GoldenSet) -> None:
    tenants = {doc["tenant"] for doc in golden.docs.values()}
    for query in golden.queries.values():
        assert query.keys() == {"id", "tenant", "lang", "type", "text"}, query["id"]
        assert query["tenant"] in tenants
        assert query["lang"] in LANGUAGES
        assert query["type"] in TYPES
    assert min(Counter(q["type"] for q in golden.queries.values()).values()) >= 15
    assert {query["type"] for query in golden.queries.values()} == TYPES


def test_judgements_name_existing_memories_of_the_querys_tenant(golden: GoldenSet) -> None:
    assert golden.judged.keys() == golden.queries.keys()  # every query is judged
    for query, doc in golden.pairs():
        assert golden.docs[doc]["tenant"] == golden.queries[query]["tenant"], (query, doc)
        assert golden.judged[query][doc] in {1, 2, 3}
    assert all(max(grades.values()) >= 2 for grades in golden.judged.values())
    assert {grade for grades in golden.judged.values() for grade in grades.values()} == {1, 2, 3}


def test_every_memory_but_a_few_distractors_answers_a_query(golden: GoldenSet) -> None:
    answering = {doc for _, doc in golden.pairs()}
    assert len(answering) >= 0.95 * len(golden.docs)


def test_multi_relevant_queries_have_several_answers(golden: GoldenSet) -> None:
    several = [query for query, grades in golden.judged.items() if len(grades) > 1]
    assert len(several) >= 100
    kinds = Counter(golden.queries[query]["type"] for query in several)
    assert kinds["multi-relevant"] >= 15


def test_three_languages_are_spoken(golden: GoldenSet) -> None:
    memories = Counter(doc["lang"] for doc in golden.docs.values())
    assert 0.65 <= memories["en"] / len(golden.docs) <= 0.80
    assert min(memories["it"], memories["zh"]) >= 30
    queries = Counter(query["lang"] for query in golden.queries.values())
    assert min(queries["it"], queries["zh"]) >= 30
    for doc in golden.docs.values():
        chinese = re.search(r"[\u4e00-\u9fff]", doc["text"]) is not None
        assert chinese == (doc["lang"] == "zh"), doc["id"]


def test_cross_language_queries_are_answered_in_another_language(golden: GoldenSet) -> None:
    crossing = Counter[tuple[str, str]]()
    for name, query in golden.queries.items():
        grades = golden.judged[name]
        best = {golden.docs[doc]["lang"] for doc in grades if grades[doc] == max(grades.values())}
        if query["type"] == "cross-language":
            assert query["lang"] not in best, name
            crossing.update((query["lang"], lang) for lang in best)
        elif query["type"] in {"keyword", "paraphrase", "preference"}:
            assert query["lang"] in best, name
    assert {("en", "it"), ("en", "zh"), ("it", "en"), ("zh", "en")} <= crossing.keys()


def test_two_in_five_relevant_pairs_share_no_token(golden: GoldenSet) -> None:
    asked = {name: tokens(query["text"]) for name, query in golden.queries.items()}
    written = {name: tokens(doc["text"]) for name, doc in golden.docs.items()}
    pairs = golden.pairs()
    apart = [(query, doc) for query, doc in pairs if not asked[query] & written[doc]]
    assert len(apart) >= 0.40 * len(pairs)


def test_tokens_are_words_and_chinese_bigrams() -> None:
    assert tokens("Runner-ELM-2: it's E07") == {"runner", "elm", "2", "it", "s", "e07"}
    assert tokens("用zstd压缩率") == {"用", "zstd", "压缩", "缩率"}


def test_classes_hold_two_to_four_memories_of_one_tenant(golden: GoldenSet) -> None:
    classes = golden.members()
    assert len(classes) >= 15
    for members in classes.values():
        assert 2 <= len(members) <= 4
        assert len({golden.docs[doc]["tenant"] for doc in members}) == 1
    forms = [{golden.docs[doc]["source"] for doc in members} for members in classes.values()]
    assert sum({"memory", "session"} <= form for form in forms) >= 10  # raw row and its fact


def test_a_judgement_of_one_near_duplicate_holds_for_all(golden: GoldenSet) -> None:
    members = golden.members()
    for query, doc in golden.pairs():
        if doc in golden.classes:
            assert set(members[golden.classes[doc]]) <= golden.judged[query].keys(), (query, doc)


def test_links_of_superseded_memories_are_sound(golden: GoldenSet) -> None:
    links = {doc["id"]: doc["supersedes"] for doc in golden.docs.values() if doc["supersedes"]}
    assert len(links) >= 15
    assert len(set(links.values())) == len(links), "superseded twice"
    assert set(links.values()) == {doc["id"] for doc in golden.docs.values() if doc["superseded"]}
    for new, old in links.items():
        assert golden.docs[old]["tenant"] == golden.docs[new]["tenant"]
        assert golden.docs[old]["created_at"] < golden.docs[new]["created_at"]
        assert golden.classes.get(old, old) != golden.classes.get(new, new)


def test_queries_about_the_present_prefer_the_new_fact(golden: GoldenSet) -> None:
    links = {doc["id"]: doc["supersedes"] for doc in golden.docs.values() if doc["supersedes"]}
    asked = set()
    for name, query in golden.queries.items():
        if query["type"] != "temporal":
            continue
        grades = golden.judged[name]
        for new, old in links.items():
            if {new, old} & grades.keys():
                asked.add(new)
                if not golden.docs[new]["superseded"]:
                    assert grades.get(new, 0) >= 2, (name, new)
                assert grades.get(old, 0) <= 1, (name, old)
    assert len(asked) >= 15


def test_identifiers_have_neighbours_that_differ_in_little(golden: GoldenSet) -> None:
    named = Counter[str]()
    for doc in golden.docs.values():
        found = re.findall(r"\b[A-Z]+-?[\dA-Z-]*\d{2,}\b", doc["text"])
        named.update({(doc["tenant"], name) for name in found})
    sorted_letters = Counter((tenant, "".join(sorted(name))) for tenant, name in named)
    assert sum(count > 1 for count in sorted_letters.values()) >= 8  # 4107 and 4170


def test_tenants_share_words_so_that_a_leak_would_show(golden: GoldenSet) -> None:
    holders = defaultdict(set)
    for doc in golden.docs.values():
        for token in tokens(doc["text"]):
            if len(token) >= 4 or not token.isascii():
                holders[token].add(doc["tenant"])
    tempted = [
        query
        for query in golden.queries.values()
        if any(holders[token] - {query["tenant"]} for token in tokens(query["text"]))
    ]
    assert len(tempted) >= 0.5 * len(golden.queries)
    for name in ("INV-2025-0417", "CB-70613"):  # one number, another thing in each tenant
        found = {doc["tenant"] for doc in golden.docs.values() if name in doc["text"]}
        assert len(found) >= 2, name


def test_every_memory_and_query_has_a_finite_vector(
    golden: GoldenSet, vectors: dict[str, npt.NDArray[np.float16]]
) -> None:
    assert list(vectors) == [*golden.docs, *golden.queries]
    for name, vector in vectors.items():
        assert vector.shape == (256,)
        assert np.isfinite(vector).all(), name
        assert np.any(vector != 0), name


@pytest.mark.skipif(not StaticEmbedder.available(), reason="needs the extra [local]")
def test_the_vectors_equal_a_recomputation(vectors: dict[str, npt.NDArray[np.float16]]) -> None:
    ids, matrix = runpy.run_path(str(GOLDEN / "make_embeddings.py"))["compute"]()
    assert ids == list(vectors)
    np.testing.assert_array_equal(matrix, np.stack(list(vectors.values())))


def test_the_files_stay_small() -> None:
    assert (GOLDEN / "embeddings.parquet").stat().st_size < 400_000
    assert sum(file.stat().st_size for file in GOLDEN.glob("*.[jtp]*")) < 700_000
