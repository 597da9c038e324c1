"""Arms for each table: against one recall of each table, whose lists are put together by score."""

from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import recipes
from seams import Dense, Fill, Lexical, Recipe, Tables

TABLES = Tables("table", ("memory", "summary", "session"))
VALUES = ("memory", "summary", "session", None, "elsewhere")
WORDS = ("deploy", "failed", "database", "lock", "cache", "team", "note")
DIM, N, N_QUERIES = 12, 260, 9
NOW = datetime(2026, 6, 1, tzinfo=UTC)
FUSIONS = {
    "rrf": hr.RRF(),
    "sum": hr.WeightedSum(),
    "balanced": hr.WeightedSum(balance=0.85),
    "max": hr.Max(),
    "dbsf": hr.DBSF(),
}


def table_of(rng: np.random.Generator, n: int, user: str, first: int = 0) -> pa.Table:
    kinds = rng.integers(len(VALUES), size=n)
    texts = [None if rng.random() < 0.1 else " ".join(rng.choice(WORDS, 5)) for _ in range(n)]
    return pa.table({
        "id": [f"{user}{first + at}" for at in range(n)],
        "user": [user] * n,
        "table": pa.array([VALUES[kind] for kind in kinds], pa.string()),
        "source": pa.array([VALUES[kind] for kind in kinds], pa.string()),
        "created_at": pa.array([NOW] * n, pa.timestamp("us", "UTC")),
        "text": pa.array(texts, pa.string()),
    })  # fmt: skip


def vectors_of(rng: np.random.Generator, n: int) -> npt.NDArray[np.float32]:
    rows = rng.standard_normal((n, DIM)).astype(np.float32)
    rows[rng.random(n) < 0.1] = 0  # without a vector
    return rows


SCHEMA = hr.Schema(
    key="id", cell=("user", "table"), text="text", vector="embedding",
    attributes=("source", "created_at"),
)  # fmt: skip


@pytest.fixture
def index(device: str) -> Iterator[hr.Index]:
    """Two users; the rows came in three parts, and some went."""
    rng = np.random.default_rng(3)
    both = [table_of(rng, N, "ann"), table_of(rng, N, "bob")]
    with hr.Index.build(
        pa.concat_tables(both), SCHEMA, vectors={"embedding": vectors_of(rng, 2 * N)}, device=device
    ) as made:
        for part in range(2):
            more = table_of(rng, 40, "ann", N + 40 * part)
            made.add(more, vectors={"embedding": vectors_of(rng, 40)})
        made.delete([f"ann{at}" for at in range(0, N, 7)], scope=whole())
        yield made


def whole(user: str = "ann") -> object:
    return hr.Scope.matching(user=user, table=hr.ANY)


def asked(n: int = N_QUERIES) -> tuple[list[str], npt.NDArray[np.float32]]:
    rng = np.random.default_rng(5)
    texts = [" ".join(rng.choice(WORDS, 2)) for _ in range(n)]
    return texts, vectors_of(rng, n)


def scope_of(table: str) -> hr.Scope:
    cells = [None, "elsewhere"] if table == "other" else [table]
    return hr.Scope([("ann", one) for one in cells])


def recipe_of(fusion: object, **more: object) -> Recipe:
    return Recipe(name="mine", arms=(Lexical(), Dense()), fusion=fusion, **more)  # type: ignore[arg-type]


def one_by_one(index: hr.Index, recipe: Recipe, limit: int) -> list[list[tuple[str, float]]]:
    """Recall each table on its own, and order what all found by score and insertion."""
    texts, vectors = asked()
    seqs = {key: at for at, key in enumerate(insertion(index))}
    found: list[list[tuple[str, float]]] = [[] for _ in texts]
    for table in TABLES.all_names:
        hits = index.recall(
            text=texts, vectors=vectors, scope=scope_of(table), recipe=recipe, limit=recipe.depth
        )
        for at, one in enumerate(hits):
            found[at] += [(hit.key, hit.score) for hit in one]
    return [sorted(one, key=lambda hit: (-hit[1], seqs[hit[0]]))[:limit] for one in found]


def insertion(index: hr.Index) -> list[str]:
    keys = [f"{user}{at}" for user in ("ann", "bob") for at in range(N)]
    return [*keys, *(f"ann{at}" for at in range(N, N + 80))]


def listed(hits: hr.Hits) -> list[list[tuple[str, float]]]:
    return [[(hit.key, hit.score) for hit in one] for one in hits]


@pytest.mark.plain_cases(2)
@pytest.mark.parametrize("name", FUSIONS)
def test_the_reply_is_that_of_a_recall_of_each_table(index: hr.Index, name: str) -> None:
    texts, vectors = asked()
    recipe = recipe_of(FUSIONS[name], depth=30)
    hits = index.recall(
        text=texts, vectors=vectors, scope=whole(), recipe=recipe.replace(tables=TABLES), limit=25
    )
    expected = one_by_one(index, recipe, 25)
    assert listed(hits) == expected
    for one in hits:
        for hit in one:
            assert hit.explain().score == hit.score
    # With one table for all the ranks are others: the comparison can fail.
    mixed = index.recall(text=texts, vectors=vectors, scope=whole(), recipe=recipe, limit=25)
    assert listed(mixed) != expected


def test_scores_and_ranks_of_an_arm_are_those_of_the_rows_own_table(index: hr.Index) -> None:
    texts, vectors = asked(1)
    recipe = recipe_of(hr.RRF(), tables=TABLES, depth=60)
    (hits,) = index.recall(text=texts, vectors=vectors, scope=whole(), recipe=recipe, limit=60)
    assert set(hits.n_candidates) == {
        f"{table}.{arm}" for table in TABLES.all_names for arm in ("text", "embedding")
    }
    for hit in hits:
        own = hit["source"] if hit["source"] in TABLES.names else "other"
        for arm in ("text", "embedding"):
            assert hit.arm_rank(arm) == hit.arm_rank(f"{own}.{arm}")
            assert hit.arm_score(arm) == hit.arm_score(f"{own}.{arm}")
            for other in set(TABLES.all_names) - {own}:
                assert hit.arm_score(f"{other}.{arm}") is None
                assert hit.arm_rank(f"{other}.{arm}") is None
        assert hit.bm25_score == hit.arm_score("text")
        assert {part.arm for part in hit.explain().components} == {
            f"{own}.text",
            f"{own}.embedding",
        }
    first = [hit for hit in hits if hit.arm_rank("text") == 1]
    assert len(first) > 1  # a first rank in each table
    names = hits.to_arrow().column_names
    assert [one for one in names if "_score" in one] == ["text_score", "embedding_score"]


@pytest.mark.parametrize("name", FUSIONS)
def test_a_long_batch_gives_each_query_what_it_gets_alone(index: hr.Index, name: str) -> None:
    texts, vectors = asked(530)  # more than run at a time
    recipe = recipe_of(FUSIONS[name], tables=TABLES, depth=10, normalize=True)
    scopes = [whole("ann" if at % 3 else "bob") for at in range(len(texts))]
    filters = [hr.Filter(source="session") if at % 5 == 0 else None for at in range(len(texts))]
    hits = index.recall(
        text=texts, vectors=vectors, scope=scopes, filter=filters, recipe=recipe, limit=5
    )
    for at in (0, 1, 5, 511, 512, 529):
        (alone,) = index.recall(
            text=texts[at : at + 1], vectors=vectors[at : at + 1], scope=scopes[at],
            filter=filters[at], recipe=recipe, limit=5,
        )  # fmt: skip
        assert [(hit.key, hit.score) for hit in alone] == listed(hits)[at]
        assert all(0 <= hit.score <= 1 for hit in alone)


def test_what_others_have_changes_nothing(index: hr.Index) -> None:
    texts, vectors = asked()
    recipe = recipe_of(hr.RRF(), tables=TABLES, depth=30)

    def reply() -> pa.Table:
        return index.recall(
            text=texts, vectors=vectors, scope=whole(), recipe=recipe, limit=20
        ).to_arrow()

    before = reply()
    index.delete([f"bob{at}" for at in range(0, N, 2)], scope=whole("bob"))
    assert reply().equals(before)
    assert set(before.column("user").to_pylist()) == {"ann"}


def test_a_table_that_is_not_there_leaves_the_others_as_they_are(index: hr.Index) -> None:
    texts, vectors = asked(1)
    recipe = recipe_of(hr.RRF(), tables=TABLES, depth=400)

    def reply() -> hr.QueryHits:
        return index.recall(text=texts, vectors=vectors, scope=whole(), recipe=recipe, limit=400)[0]

    before = [(hit.key, hit.score) for hit in reply() if hit["source"] != "session"]
    gone = index.recall(arms=hr.arms.Newest("created_at"), scope=scope_of("session"), limit=400)
    index.delete(gone[0].keys, scope=scope_of("session"))
    after = reply()
    assert [(hit.key, hit.score) for hit in after] == before
    assert after.n_candidates["session.text"] == after.n_candidates["session.embedding"] == 0
    assert after.n_candidates["memory.text"] > 0


def test_one_arm_alone_keeps_its_scores(index: hr.Index) -> None:
    recipe = Recipe(name="mine", arms=(Lexical(),), fusion=hr.RRF(), tables=TABLES)
    (hits,) = index.recall(text=["deploy"], scope=whole(), recipe=recipe, limit=10)
    assert [hit.score for hit in hits] == [hit.bm25_score for hit in hits]
    assert [hit.explain().score for hit in hits] == [hit.score for hit in hits]


def test_lists_are_filled_beside_tables(index: hr.Index) -> None:
    fill = Fill("created_at", when="always")
    recipe = recipe_of(hr.RRF(), tables=TABLES, fill=fill, depth=400)
    (hits,) = index.recall(text=["absent"], scope=whole(), recipe=recipe, limit=300)
    assert len(hits) == len({hit.key for hit in hits}) > 200
    for hit in hits:
        assert hit.arm_score("text") == (None if hit["text"] is None else 0.0)


def test_shaping_reads_the_arm_of_every_table(index: hr.Index) -> None:
    texts, vectors = asked(1)
    recipe = recipe_of(
        hr.RRF(), tables=TABLES, shaping=(hr.Rerank(window=30), hr.Dedup(0.99), hr.MMR(0.7))
    )
    (hits,) = index.recall(text=texts, vectors=vectors, scope=whole(), recipe=recipe, limit=10)
    assert [hit.explain().score for hit in hits] == [hit.score for hit in hits]
    assert len({hit["source"] for hit in hits}) > 2


def test_an_index_without_the_column_is_one_table() -> None:
    rows = pa.table({"id": ["a", "b"], "text": ["deploy failed", "deploy"]})
    with hr.Index.build(rows, hr.Schema(key="id", cell=None, text="text"), device="cpu") as index:
        recipe = recipe_of(hr.RRF(), tables=TABLES)
        hits = index.recall(text=["deploy"], recipe=recipe)
        assert hits[0].keys == ["b", "a"]
        assert "one table: the index has no cell column 'table'" in hits.trace.notes


def test_honeycomb_has_arms_for_facts_summaries_and_dialogue() -> None:
    assert recipes.honeycomb.tables == TABLES
