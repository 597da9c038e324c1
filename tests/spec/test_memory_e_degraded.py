"""Part E of the acceptance rows, through a store: what is missing is said, and nothing raises."""

import logging
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import hyrecall as hr
from embed.fakes import Fake, hanging
from embed.lateness import within
from embed.stub_server import StubServer, serving
from hyrecall import recipes
from hyrecall.embed import HashEmbedder, HttpEmbedder, StaticEmbedder
from hyrecall.memory import DegradedReason, Episode, Matches, MemorySync
from memory.servers import free_port
from memory.stores import (
    DIM,
    HOUR,
    NOON,
    BrokenEmbedder,
    Clock,
    FixedEmbedder,
    episode,
    folder,
    open_store,
)
from seams import IndexNotReadyError, Off, follower

Rows = npt.NDArray[np.float32]
BUDGET = 0.15


class Acting:
    """An embedder that does something else."""

    model = "acting"
    dim = DIM

    def __init__(self, act: Callable[[Sequence[str]], Any]) -> None:
        self.act = act
        self.n_calls = 0

    def embed(self, texts: Sequence[str]) -> Any:
        self.n_calls += 1
        return self.act(texts)


def _sleeps(texts: Sequence[str]) -> Any:
    time.sleep(6.0)


def _raises(texts: Sequence[str]) -> Any:
    raise RuntimeError("of the embedder")


def _leaves(texts: Sequence[str]) -> Any:
    raise SystemExit(1)


CAUSES: dict[str, tuple[Callable[[], Any], str, str]] = {
    "off": (lambda: "off", "embeddings_off", "off"),
    "nothing there": (lambda: Off("none is installed"), "embeddings_off", "installed"),
    "timeout": (lambda: Acting(_sleeps), "embed_timeout", "150 ms"),
    "crashed": (lambda: Acting(_raises), "embed_unavailable", "crashed: RuntimeError"),
    "left": (lambda: Acting(_leaves), "embed_unavailable", "crashed: SystemExit"),
    "garbage": (lambda: Acting(lambda texts: "garbage"), "embed_unavailable", "malformed"),
    "not finite": (
        lambda: Acting(lambda texts: np.full((len(texts), DIM), np.nan, np.float32)),
        "embed_unavailable", "malformed",
    ),
    "norm too large": (
        lambda: Acting(lambda texts: np.full((len(texts), DIM), 1e25, np.float32)),
        "embed_unavailable", "malformed: expected a norm in [2^-60, 2^60]",
    ),
    "norm too small": (
        lambda: Acting(lambda texts: np.full((len(texts), DIM), 1e-25, np.float32)),
        "embed_unavailable", "malformed: expected a norm in [2^-60, 2^60]",
    ),
    "wrong size": (
        lambda: Acting(lambda texts: np.ones((len(texts), DIM + 1), np.float32)),
        "embed_unavailable", "wrong size",
    ),
    "unreachable": (
        lambda: HttpEmbedder(f"http://127.0.0.1:{free_port()}/v1"),
        "embed_unavailable", "unreachable",
    ),
}  # fmt: skip


@pytest.fixture
def path() -> Path:
    """A store of three episodes with vectors, closed."""
    made = folder()
    with open_store(made, recipe=recipes.honeycomb) as memory:
        memory.remember_batch([episode(at, f"note {'disk' * (at == 1)}") for at in range(3)])
    return made


@pytest.mark.parametrize("value", [1e25, 1e-25])
def test_E10_vectors_that_no_index_takes_are_kept_by_nobody(value: float) -> None:
    bad = Acting(lambda texts: np.full((len(texts), DIM), value, np.float32))
    with open_store(embedder=bad, recipe=recipes.honeycomb) as memory:
        kept = memory.remember(episode(0, "disk"))
        assert not kept.embedded
        assert "a norm in" in str(kept.reasons[0])
        for vector in ([value] * DIM, [0.0] * (DIM - 1) + [value]):
            with pytest.raises(ValueError, match=r"vectors: expected a norm in .*got .* in row 0"):
                memory.remember(episode(1, "tea"), vector=vector)
            with pytest.raises(ValueError, match=r"^vector: expected a norm in"):
                memory.search("disk", user_id="alice", vector=vector)
        assert memory.remember(episode(1, "tea"), vector=[0.0] * DIM).id == "e1"
        assert [m.episode.id for m in memory.search("disk", user_id="alice", limit=1)] == ["e0"]


def test_E10_what_is_asked_for_is_not_degraded(path: Path) -> None:
    with open_store(path, embedder=None, recipe=recipes.honeycomb) as memory:
        assert not memory.recall_scored("disk", user_id="alice").degraded
    with open_store(path, recipe=recipes.honeycomb) as memory:
        assert not memory.recall_scored("disk", user_id="alice").degraded
        assert not memory.recall_scored("disk", user_id="nobody").degraded
        assert not memory.recall_scored("", user_id="alice").degraded
    with open_store(path, embedder="off", dim=DIM, recipe=recipes.honeycomb) as memory:
        assert not memory.recall_scored("disk", user_id="alice", alpha=0.0).degraded


def test_E09_warming_is_in_the_background(path: Path) -> None:
    may_load = threading.Event()

    class Slow(HashEmbedder):
        def warm(self) -> None:
            may_load.wait(60)

    def seconds() -> float:
        """How long it takes to open, however long the model takes to load."""
        began = time.monotonic()
        with open_store(
            path, embedder=Slow(dim=DIM), read_only=True, recipe=recipes.honeycomb
        ) as memory:
            took = time.monotonic() - began
            assert memory.recall_scored("disk", user_id="alice").degraded
        return took

    opening = [seconds() for _ in range(3)]
    assert min(opening) < within(0.1), opening
    with open_store(path, embedder=Slow(dim=DIM), recipe=recipes.honeycomb) as memory:
        matches = memory.recall_scored("disk", user_id="alice")
        assert [str(reason) for reason in matches.reasons] == ["embed_not_ready"]
        assert matches[0].episode.id == "e1"
        may_load.set()
        until = time.monotonic() + 30
        while memory.recall_scored("disk", user_id="alice").degraded:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert memory.recall_scored("disk", user_id="alice")[0].vector_score is not None


def test_E11_never_throws_never_hangs(path: Path) -> None:
    for act in (_sleeps, _raises, _leaves, lambda texts: object()):
        with open_store(
            path, embedder=Acting(act), recall_timeout=BUDGET, recipe=recipes.honeycomb
        ) as memory:
            for _ in range(7):
                began = time.monotonic()
                matches = memory.search("disk", user_id="alice")
                assert time.monotonic() - began < within(BUDGET + 0.3)
                assert matches.degraded
                assert matches[0].episode.id == "e1"


def reranks(matches: Matches) -> list[str]:
    """The stages that reranked."""
    assert matches.trace is not None
    return [one.stage for one in matches.trace.stages if "rerank" in one.stage.lower()]


def test_E12_a_query_asks_once_and_only_where_it_matters(path: Path) -> None:
    spy = Acting(lambda texts: HashEmbedder(dim=DIM).embed(texts))
    with open_store(path, embedder=spy, recipe=recipes.honeycomb) as memory:
        matches = memory.search("disk", user_id="alice")
        assert spy.n_calls == 1
        assert reranks(matches) == []
        assert {match.rerank_score for match in matches} == {None}
        memory.search("", user_id="alice")
        memory.search("disk", user_id="alice", alpha=0.0)
        memory.search("disk", user_id="alice", limit=0)
        memory.search("disk", user_id="alice", vector=np.ones(DIM))
        assert spy.n_calls == 1
        # By request one runs, and is seen.
        again = memory.search("disk", user_id="alice", reranker=lambda q, t: [1.0] * len(t))
        assert {match.rerank_score for match in again} == {1.0}
        assert len(reranks(again)) == 1


def test_E06_dimensions_and_vectors_of_another_length() -> None:
    with open_store(embedder=None, recipe=recipes.honeycomb) as memory:
        assert memory._store.dim == 768
    with open_store(embedder=Off("none"), dim=12, recipe=recipes.honeycomb) as memory:
        assert memory._store.dim == 12
    embedder = FixedEmbedder({"disk": [1.0, 0.0], "query": [0.0, 1.0]})
    with open_store(embedder=embedder, recipe=recipes.honeycomb) as memory:
        memory.remember(episode(0, "disk"))
        matches = memory.search("disk", user_id="alice", vector=[1.0, 0.0, 0.0])
        assert [reason.reason for reason in matches.reasons] == [DegradedReason.EMBED_UNAVAILABLE]
        assert "expected 2" in str(matches.reasons[0])
        assert matches[0].vector_score is None
        with pytest.raises(ValueError, match="vectors"):
            memory.remember(episode(1, "tea"), vector=[1.0, 0.0, 0.0])
        assert memory.get("e1", user_id="alice") is None


@pytest.mark.skipif(not StaticEmbedder.available(), reason="the extra [local] is not installed")
def test_E08_a_fresh_store_answers_by_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("LTM_", "HYRECALL_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HYRECALL_CONFIG", str(folder() / "none.json"))
    with MemorySync.open(folder(), recipe=recipes.honeycomb) as memory:
        until = time.monotonic() + 60
        while not memory._store.guard.is_ready:
            assert time.monotonic() < until
            time.sleep(0.05)
        memory.remember("The server ran out of disk space", user_id="alice")
        memory.remember("We had pancakes for breakfast", user_id="alice")
        matches = memory.recall_scored("storage is full", user_id="alice")
        assert not matches.degraded
        assert matches[0].episode.text == "The server ran out of disk space"
        assert matches[0].vector_score is not None


# ---- without an index ----


def _cannot(*args: Any, **options: Any) -> Any:
    raise IndexNotReadyError(DegradedReason.INDEX_UNAVAILABLE, "planted")


def test_E04_without_an_index_texts_are_searched(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not honeycomb: the test also reads the newest rows by a blank query.
    with open_store(path, embedder=None, recipe=recipes.loom) as memory:
        memory.remember("the DISK of bob", user_id="bob")
        indexed = {m.episode.id for m in memory.search("disk", user_id="alice") if m.score > 0}
        monkeypatch.setattr(follower.Follower, "ready", _cannot)
        matches = memory.search("DISK", user_id="alice")
        assert matches.lexical_mode == "substring"
        assert [str(reason) for reason in matches.reasons] == ["index_unavailable (planted)"]
        assert {match.episode.id for match in matches} == indexed == {"e1"}
        assert memory.search("disk", user_id="alice", kind="other") == []
        assert memory.search("disk", user_id="alice", tags=["none"]) == []
        newest = memory.recall_scored("", user_id="alice")
        assert [match.episode.id for match in newest] == ["e2", "e1", "e0"]
        page = memory.search("note", user_id="alice", limit=1, offset=1)
        assert [match.episode.id for match in page] == ["e1"]


def test_an_own_filter_without_an_index_keeps_what_it_keeps_with_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import hyrecall as hr

    with open_store(path) as memory:
        asked: list[Any] = [hr.Filter(pinned=True), ~hr.Filter(pinned=True), hr.Filter(tags="x")]
        asked += [hr.Filter(occurred_at=(None, memory.list(user_id="alice")[1].occurred_at))]

        def found() -> list[set[str]]:
            replies = [memory.search("note", user_id="alice", filter=one) for one in asked]
            return [{match.episode.id for match in reply} for reply in replies]

        indexed = found()
        monkeypatch.setattr(follower.Follower, "ready", _cannot)
        assert found() == indexed
        assert {len(one) for one in indexed} == {0, 2, 3}
        assert memory.search("note", user_id="alice", filter=asked[0]).degraded


def test_E45_what_is_not_ranked_passes_no_gate(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import hyrecall as hr
    from hyrecall.recipes import default, loom

    with open_store(path, embedder=None, recipe=recipes.honeycomb) as memory:
        gated: dict[str, Any] = {"normalize": True, "min_score": 0.6, "user_id": "alice"}
        injected = memory.search("disk", **gated)
        assert [match.episode.id for match in injected] == ["e1"]
        assert all(match.score >= 0.6 for match in injected)
        assert memory.search("zebra", **gated) == []
        assert len(memory.browse(user_id="alice").grep("note")) == 3  # passes by the gate
        monkeypatch.setattr(follower.Follower, "ready", _cannot)
        asked: list[dict[str, Any]] = [
            {"min_score": 0.6, "normalize": True},
            {"min_score": 1e-9},
            {"recipe": loom.replace(min_fused=0.01)},
            {"recipe": loom.replace(min_fused=hr.Above(0.0))},
            {"recipe": loom.replace(shaping=(hr.Gate(0.1),))},
        ]
        for options in asked:
            matches = memory.search("disk", user_id="alice", **options)
            assert list(matches) == []
            assert matches.degraded
        asked = [{"min_score": 0.0}, {"recipe": loom.replace(min_fused=0.0)}]
        for options in asked:
            matches = memory.search("disk", user_id="alice", **options)
            assert [(match.episode.id, match.score) for match in matches] == [("e1", 0.0)]
        # A blank query is fully right: of every memory, or where the recipe says so of none.
        newest = memory.search("", user_id="alice", recipe=loom.replace(min_fused=1.0))
        assert [match.score for match in newest] == [1.0] * 3
        above = loom.replace(min_fused=hr.Above(1.0))
        assert memory.search("", user_id="alice", recipe=above) == []
        assert memory.search("", user_id="alice", min_score=0.5) == []
        assert memory.search("", user_id="alice", recipe=default) == []


@pytest.mark.parametrize("harm", ["gone", "cut"])
def test_E04_E52_a_lost_or_damaged_index_is_made_anew(path: Path, harm: str) -> None:
    if harm == "gone":
        shutil.rmtree(path / "index")
    else:
        for file in (path / "index").rglob("*"):
            if file.is_file():
                file.write_bytes(file.read_bytes()[:-7])
    with open_store(path, recipe=recipes.honeycomb) as memory:
        matches = memory.recall_scored("disk", user_id="alice")
        assert not matches.degraded
        assert matches.lexical_mode == "bm25"
        assert matches[0].episode.id == "e1"
        assert all(match.vector_score is not None for match in matches)  # from the rows


def test_E03_all_arms_fail_and_nothing_raises(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(path, embedder=BrokenEmbedder(), recipe=recipes.honeycomb) as memory:
        monkeypatch.setattr(follower.Follower, "ready", _cannot)
        matches = memory.recall_scored("zebra", user_id="alice")
        assert matches == []
        assert {reason.reason for reason in matches.reasons} == {
            DegradedReason.EMBED_UNAVAILABLE, DegradedReason.INDEX_UNAVAILABLE,
        }  # fmt: skip


def test_an_index_without_memory_is_one_that_is_not_there(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import hyrecall as hr

    def full(*args: Any, **options: Any) -> Any:
        raise MemoryError

    with open_store(path) as memory:
        monkeypatch.setattr(hr.Index, "recall", full)
        matches = memory.search("disk", user_id="alice")
        assert [str(reason) for reason in matches.reasons] == ["index_unavailable (MemoryError)"]
        assert [match.episode.id for match in matches] == ["e1"]


def test_E50_no_log_line_holds_what_was_kept_or_asked(caplog: pytest.LogCaptureFixture) -> None:
    secrets = ("zqkept", "zqasked", "zqtag", "zquser", "zqmeta")
    path = folder()
    with caplog.at_level(logging.DEBUG):
        for embedder in (HashEmbedder(dim=DIM), BrokenEmbedder(), "off", None):
            with open_store(path, embedder=embedder, dim=DIM, recipe=recipes.honeycomb) as memory:
                kept = memory.remember(
                    "zqkept note", user_id="zquser", tags=("zqtag",), metadata={"a": "zqmeta"}
                )
                memory.search("zqasked zqkept", user_id="zquser")
                memory.update(kept.id, user_id="zquser", text="zqkept too", reason="zqmeta")
                memory.doctor(full=True)
                memory.forget(kept.id, user_id="zquser")
            for file in (path / "index").rglob("*"):
                if file.is_file():
                    file.write_bytes(b"damaged")
    text = "\n".join(record.getMessage() + str(record.exc_info) for record in caplog.records)
    assert caplog.records
    assert [one for one in secrets if one in text] == []


# ---- distilled facts above raw dialogue, whatever ran ----
# The figures are the document's: rank 2 of a fact is worth 1/62, rank 1 of raw dialogue .4/61.


ASKED = "deploy failed"
RAW = "deploy failed"
FACT = "the deploy failed because the disk of the builder was full"
NEARER = "the deploy failed: lock"
SECOND_OF_FACTS, FIRST_OF_RAW = 1 / 62, 0.4 / 61


def opened(raw_and_fact: Path, embedder: Any, **options: Any) -> MemorySync:
    given = {"recipe": recipes.honeycomb, "clock": Clock(), "recall_timeout": 30.0} | options
    return MemorySync.open(raw_and_fact, embedder=embedder, **given)


def keep(memory: MemorySync) -> None:
    for name, source, text in (
        ("raw", "session", RAW),
        ("fact", "memory", FACT),
        ("nearer", "memory", NEARER),
    ):
        memory.remember(
            Episode(id=name, source=source, text=text, user_id="alice", occurred_at=NOON)
        )


@pytest.fixture
def raw_and_fact() -> Iterator[Path]:
    """A store whose rows have no vectors: its answers are of words alone, degraded or not."""
    made = folder()
    with opened(made, None) as memory:
        keep(memory)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def scores(matches: Matches) -> dict[str, float]:
    return {one.episode.id: one.score for one in matches}


ORDER = ["nearer", "fact", "raw"]
WANTED = {
    "nearer": pytest.approx(1 / 61),
    "fact": pytest.approx(SECOND_OF_FACTS),
    "raw": pytest.approx(FIRST_OF_RAW),
}


def test_E14_the_figures_of_the_document_where_the_answer_is_whole(raw_and_fact: Path) -> None:
    with opened(raw_and_fact, None) as memory:  # no vectors are wanted, so none is missing
        matches = memory.search(ASKED, user_id="alice")
    assert not matches.degraded
    assert [one.episode.id for one in matches] == ORDER
    assert scores(matches) == WANTED


@pytest.mark.parametrize("cause", CAUSES)
def test_E10_E14_a_cause_has_its_reason_and_changes_no_figure(
    raw_and_fact: Path, cause: str
) -> None:
    make, reason, detail = CAUSES[cause]
    budget = BUDGET if reason == "embed_timeout" else 30.0
    with opened(raw_and_fact, make(), dim=8, recall_timeout=budget) as memory:
        began = time.monotonic()
        matches = memory.search(ASKED, user_id="alice")
        assert time.monotonic() - began < within(budget + 0.5)
    assert matches.degraded
    (said,) = matches.reasons
    assert said.reason == reason
    assert detail in str(said)
    assert all(one.vector_score is None for one in matches)
    assert [one.episode.id for one in matches] == ORDER
    assert scores(matches) == WANTED


def test_E14_without_an_index_facts_come_first_too(
    raw_and_fact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object, **__: object) -> None:
        raise hr.CorruptIndexError("segment: expected its bytes, got others")

    with opened(raw_and_fact, None) as memory:
        newer = {"id": "newer", "source": "session", "occurred_at": NOON + HOUR}
        memory.remember(Episode(text=RAW, user_id="alice", **newer))
        monkeypatch.setattr("hyrecall.memory.recall.index_search.IndexSearch.__call__", unreadable)
        matches = memory.search(ASKED, user_id="alice")
        assert matches.lexical_mode == "substring"
        assert [one.episode.id for one in matches] == ["nearer", "fact", "newer", "raw"]
        first = memory.search(ASKED, user_id="alice", limit=1)
        assert [one.episode.id for one in first] == ["nearer"]


def test_E14_raw_first_in_both_arms_stays_below_a_fact_first_in_one() -> None:
    made = folder()
    with opened(made, FixedEmbedder({ASKED: [1.0, 0.0]})) as memory:
        for name, source, text, vector in (
            ("raw", "session", "deploy failed", [1.0, 0.0]),
            ("fact", "memory", "the quota of the builder", [0.0, 0.0]),
        ):
            one = Episode(id=name, source=source, text=text, user_id="alice", occurred_at=NOON)
            memory.remember(one, vector=np.array(vector, np.float32))
        (raw,) = memory.search(ASKED, user_id="alice")
        (fact,) = memory.search("quota", user_id="alice", limit=1)
    assert raw.score == pytest.approx(0.8 / 61)  # first in both arms
    assert (fact.episode.id, fact.score) == ("fact", pytest.approx(1 / 61))
    shutil.rmtree(made)


def test_a_store_that_does_not_fuse_one_arm_would_be_seen(raw_and_fact: Path) -> None:
    """The control: raw scores weighed by provenance put raw dialogue first."""
    with opened(raw_and_fact, None) as memory:
        plain = recipes.honeycomb.replace(fuse_one_arm=False)
        matches = memory.search(ASKED, user_id="alice", recipe=plain)
    assert scores(matches) != WANTED


# ---- an embedder that fails again and again ----


# Not honeycomb: it has an arm for each table, so its tiers and scores have other names and values.
RECIPE = recipes.loom
TEXTS = ("green tea", "hot tea pot", "disk is full", "a cup of coffee")


@pytest.fixture(scope="module")
def server() -> Iterator[StubServer]:
    with serving() as one:
        yield one


@pytest.fixture(scope="module")
def filled() -> Path:
    """A store whose rows have vectors of ``hash-8``."""
    path = folder()
    with MemorySync.open(path, embedder=HashEmbedder(DIM), recipe=RECIPE) as memory:
        for n, text in enumerate(TEXTS):
            memory.remember(text, id=f"e{n}", user_id="ana")
    return path


@pytest.fixture(scope="module")
def by_words(filled: Path) -> list[tuple[str, float]]:
    with MemorySync.open(filled, embedder=None, recipe=RECIPE) as memory:
        return found(memory.search("tea", user_id="ana"))


def found(matches: Any) -> list[tuple[str, float]]:
    return [(match.episode.id, match.score) for match in matches]


def reasons(matches: Any) -> list[DegradedReason]:
    assert matches.degraded == bool(matches.reasons)
    return [one.reason for one in matches.reasons]


class Hashed(Fake):
    """Like the embedder of the rows, with a reply of the test's."""

    def __init__(self, reply: Callable[[Sequence[str]], object] | None = None) -> None:
        super().__init__(reply or HashEmbedder(DIM).embed, dim=DIM, model=f"hash-{DIM}")


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.005)


SECONDS = 0.2


def test_E10_an_open_breaker_says_so(filled: Path, by_words: list[Any]) -> None:
    def raises(texts: Sequence[str]) -> object:
        raise OSError

    broken = Hashed(raises)
    with MemorySync.open(filled, embedder=broken, recipe=RECIPE) as memory:
        for _ in range(8):
            matches = memory.search("tea", user_id="ana")
            assert reasons(matches) == [DegradedReason.EMBED_UNAVAILABLE]
            assert found(matches) == by_words
        assert "resting" in str(matches.reasons[0])
        plain = ["How long is a vector?"]  # whether the embedder fails whatever the text
        assert broken.calls == [["tea"]] * 5 + [plain]


def test_E11_one_that_kills_its_worker_is_asked_again(filled: Path) -> None:
    def dies(texts: Sequence[str]) -> object:
        if len(mortal.calls) < 4:
            sys.exit()
        return HashEmbedder(DIM).embed(texts)

    mortal = Hashed(dies)
    with MemorySync.open(filled, embedder=mortal, recipe=RECIPE) as memory:
        seen = [memory.search("tea", user_id="ana").degraded for _ in range(5)]
        assert seen == [True, True, True, False, False]


def test_E11_a_write_waits_no_longer_than_it_may() -> None:
    fake = hanging(DIM)
    with MemorySync.open(folder(), embedder=fake, write_timeout=0.2, recipe=RECIPE) as memory:
        begun = time.monotonic()
        kept = memory.remember("tea", id="e0", user_id="ana")
        assert time.monotonic() - begun < 5  # and not the 30 s of the embedder
        assert not kept.embedded
        assert [one.reason for one in kept.reasons] == [DegradedReason.EMBED_TIMEOUT]
        fake.release.set()
        assert memory.get("e0", user_id="ana") is not None
