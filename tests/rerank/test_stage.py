"""A cross-encoder as the stage RerankBy of an index, and as the reranker of a store."""

import asyncio
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.memory import Episode, Memory, MemorySync
from hyrecall.stages import StageCall
from rerank.models import make_folder, overlap
from seams import DegradedReason

CrossEncoder = pytest.importorskip("hyrecall.rerank").CrossEncoder

TEXTS = {
    "ann": ["tea car", "green tea cup", "hot tea", "a red car", "old tea tea b c d e f"],
    "bob": ["hot green tea", "tea tea tea", "fast car"],
}
IN_TIME = "60s"


def index_of() -> hr.Index:
    rows = [(f"{user}{at}", user, text) for user, of in TEXTS.items() for at, text in enumerate(of)]
    ids, users, texts = zip(*rows, strict=True)
    table = pa.table({"id": ids, "user": users, "text": texts})
    return hr.Index.build(table, hr.Schema(key="id", cell="user", text="text"))


def expected(index: hr.Index, query: str, user: str, window: int) -> list[tuple[str, float | None]]:
    """Return keys and scores after a rerank of the first rows, from its definition."""
    plain = [(hit.key, hit.text) for hit in index.recall_one(text=query, scope=user)]
    scored = [(overlap(query, text), key) for key, text in plain[:window]]
    first = [(key, score) for score, key in sorted(scored, key=lambda pair: -pair[0])]
    return [*first, *((key, None) for key, _ in plain[window:])]


@pytest.mark.parametrize("window", [2, 50])
@pytest.mark.parametrize("is_async", [False, True])
def test_an_index_is_reranked_by_the_models_scores(
    tmp_path: Path, window: int, is_async: bool
) -> None:
    index = index_of()
    stage = hr.RerankBy(CrossEncoder(make_folder(tmp_path)), window=window, timeout=IN_TIME)
    queries, users = ["hot green tea", "tea car"], ["ann", "bob"]
    asked: Any = {"text": queries, "scope": users, "shaping": stage}
    hits = asyncio.run(index.arecall(**asked)) if is_async else index.recall(**asked)
    assert not hits.degraded
    found = hits.to_arrow().select(["query", "key", "rerank_score"]).to_pylist()
    for at, (query, user) in enumerate(zip(queries, users, strict=True)):
        pairs = [(one["key"], one["rerank_score"]) for one in found if one["query"] == at]
        assert pairs == expected(index, query, user, window)


def test_a_reranker_without_time_keeps_the_order_and_says_so(tmp_path: Path) -> None:
    index = index_of()
    encoder = CrossEncoder(make_folder(tmp_path), timeout=1e-9)
    hits = index.recall(text=["tea"], scope="ann", shaping=hr.RerankBy(encoder, timeout=IN_TIME))
    assert hits[0].keys == index.recall_one(text="tea", scope="ann").keys
    assert hits.trace.degraded == ("RerankBy kept the order: out of time for 1",)


class Seconds:
    """A reranker that says how many seconds it was given."""

    timeout = 40.0

    def __init__(self) -> None:
        self.given: list[float] = []

    def __call__(self, query: str, texts: list[str]) -> list[float]:
        raise AssertionError("scores_within is there")

    def scores_within(self, query: str, texts: list[str], seconds: float) -> list[float]:
        self.given.append(seconds)
        return [0.0] * len(texts)


def test_a_reranker_that_can_stop_is_told_how_much_time_is_left() -> None:
    reranker = Seconds()
    index_of().recall(text=["tea"] * 2, scope="ann", shaping=hr.RerankBy(reranker, timeout="30s"))
    first, second = reranker.given
    assert 30.0 >= first >= second > 0


def kept(memory: MemorySync) -> None:
    for user, texts in TEXTS.items():
        for at, text in enumerate(texts):
            memory.remember(Episode(id=f"{user}{at}", input=text, user_id=user))


def test_a_store_takes_a_cross_encoder_as_its_reranker(tmp_path: Path) -> None:
    encoder = CrossEncoder(make_folder(tmp_path / "model"), timeout=60)
    with MemorySync.open(tmp_path / "store", embedder=None) as memory:
        kept(memory)
        plain = [one.episode for one in memory.search("hot green tea", user_id="ann")]
        found = memory.search("hot green tea", user_id="ann", reranker=encoder)
    best = sorted(plain, key=lambda one: -overlap("hot green tea", one.full_text))
    assert [one.episode.id for one in found] == [one.id for one in best]
    assert found[0].rerank_score == overlap("hot green tea", best[0].full_text)
    assert not found.degraded


def test_an_asynchronous_store_takes_it_too(tmp_path: Path) -> None:
    encoder = CrossEncoder(make_folder(tmp_path / "model"), timeout=60)

    async def ask() -> Any:
        async with await Memory.open(tmp_path / "store", embedder=None) as memory:
            for at, text in enumerate(TEXTS["ann"]):
                await memory.remember(Episode(id=f"ann{at}", input=text, user_id="ann"))
            return await memory.search("hot green tea", user_id="ann", reranker=encoder)

    found = asyncio.run(ask())
    scores = [one.rerank_score for one in found]
    assert scores == sorted(scores, reverse=True)
    assert len({*scores}) > 1


def test_a_store_gives_a_reranker_its_own_time_instead_of_a_second(tmp_path: Path) -> None:
    reranker = Seconds()
    with MemorySync.open(tmp_path / "store", embedder=None) as memory:
        kept(memory)
        assert not memory.search("tea", user_id="ann", reranker=reranker).degraded
        encoder = CrossEncoder(make_folder(tmp_path / "model"), timeout=1e-9)
        late = memory.search("tea", user_id="ann", reranker=encoder)
    assert 40.0 >= reranker.given[0] > 1.0
    assert [one.reason for one in late.reasons] == [DegradedReason.RERANK]
    assert len(late) > 0


# ---- a reranker reads no text that the query's scope does not hold ----


class Listening:
    """A reranker that keeps what it was given."""

    def __init__(self, reranker: Any) -> None:
        self.reranker = reranker
        self.heard: list[tuple[str, list[str]]] = []

    def __call__(self, query: str, texts: list[str]) -> Any:
        self.heard.append((query, texts))
        return self.reranker(query, texts)


QUERIES = ["hot green tea", "car", "tea cup", "tea"]
SCOPES: list[Any] = ["ann", "bob", hr.Scope(["ann"]), hr.Scope([])]


def scoped(index: hr.Index, stage: hr.RerankBy) -> None:
    index.recall(text=QUERIES, scope=SCOPES, shaping=stage)


def scope_after_rerank(index: hr.Index, stage: hr.RerankBy) -> None:
    """Planted: all rows are ranked and reranked, and then those out of scope are dropped."""
    hits = index.recall(text=QUERIES, scope=hr.Scope([*TEXTS]), shaping=stage)
    _ = [[hit for hit in one if hit.cell == ("ann",)] for one in hits]


def neighbours_text(index: hr.Index, stage: hr.RerankBy) -> None:
    """Planted: the text of the next row of the segment is read."""
    column = StageCall.column

    def next_row(self: Any, pool: Any, name: str) -> Any:
        rows = (pool.arrays["row"] + 1) % len(index)
        return column(self, pool.with_arrays(row=rows), name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StageCall, "column", next_row)
        scoped(index, stage)


def foreign_texts(encoder: Any, recall: Any) -> list[tuple[str, str]]:
    """Recall for several scopes; return each query with the texts read for it out of its scope."""
    listening = Listening(encoder)
    recall(index_of(), hr.RerankBy(listening, timeout=IN_TIME))
    assert sum(len(texts) for _, texts in listening.heard) > 6
    allowed = dict(zip(QUERIES, (TEXTS["ann"], TEXTS["bob"], TEXTS["ann"], []), strict=True))
    return [(q, text) for q, texts in listening.heard for text in texts if text not in allowed[q]]


def test_only_texts_of_the_querys_scope_are_read(tmp_path: Path) -> None:
    assert foreign_texts(CrossEncoder(make_folder(tmp_path)), scoped) == []


@pytest.mark.parametrize("planted", [scope_after_rerank, neighbours_text])
def test_a_planted_reader_of_other_texts_is_caught(tmp_path: Path, planted: Any) -> None:
    assert foreign_texts(CrossEncoder(make_folder(tmp_path)), planted) != []


def test_only_the_callers_memories_are_read(tmp_path: Path) -> None:
    listening = Listening(CrossEncoder(make_folder(tmp_path / "model")))
    with MemorySync.open(tmp_path / "store", embedder=None) as memory:
        kept(memory)
        for user in TEXTS:
            memory.search("hot green tea car", user_id=user, reranker=listening)
    assert len(listening.heard) == 2
    for user, (_, texts) in zip(TEXTS, listening.heard, strict=True):
        assert texts
        assert set(texts) <= set(TEXTS[user])
