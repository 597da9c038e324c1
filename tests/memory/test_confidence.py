"""How sure a reply of a store is: the same as of its index, in every process, by its embedder."""

from pathlib import Path
from typing import Any

import pytest

import hyrecall as hr
from hyrecall.embed import HashEmbedder
from hyrecall.memory import EpisodeMatch, MemorySync
from hyrecall.recipe import Coefficients
from seams import CONFIDENCE_MODELS, recalling

TEXTS = ("Ann drinks green tea", "rain in May", "Ann bought a car in 2023")


class MiniLm(HashEmbedder):
    """Vectors of hashes under the name of a model whose coefficients are known."""

    def __init__(self) -> None:
        super().__init__(dim=32)
        self.model = "all-MiniLM-L6-v2"


def filled(memory: MemorySync) -> MemorySync:
    for text in TEXTS:
        memory.remember(text, user_id="ann")
    return memory


def test_a_reply_and_its_matches_have_a_confidence() -> None:
    with filled(MemorySync.in_memory(recipe=hr.recipes.default, embedder=None)) as memory:
        sure = memory.search("who drinks green tea", user_id="ann")
        unsure = memory.search("May Bob come", user_id="ann")
        nothing = memory.search("zebra", user_id="ann")
        assert sure.confidence > unsure.confidence > nothing.confidence == 0.0
        assert (sure.answerable, unsure.answerable, nothing.answerable) == (True, False, False)
        made = sure[0].explain()
        assert sure[0].confidence == made.confidence.value
        assert sure.confidence == made.reply_confidence.value
        by_hand = EpisodeMatch.model_validate(sure[0].model_dump())
        with pytest.raises(hr.OptionError, match="match: expected one that an index ranked"):
            _ = by_hand.confidence


def test_vectors_count_by_the_stores_embedder() -> None:
    for embedder, model in ((MiniLm(), "minilm"), (HashEmbedder(dim=32), "words")):
        with filled(MemorySync.in_memory(recipe=hr.recipes.default, embedder=embedder)) as memory:
            made = memory.search("green tea", user_id="ann")[0].explain().reply_confidence
            assert made.model == model
            assert made.model in CONFIDENCE_MODELS


def test_a_stores_recipe_may_have_coefficients_of_its_own(tmp_path: Path) -> None:
    own = Coefficients(
        query={"base": -1, "cosine": 3, "names": -1}, hit={"base": -1, "cosine": 2, "query": 0.5}
    )
    how: dict[str, Any] = {"recipe": hr.recipes.default.replace(confidence=own)}
    how["embedder"] = HashEmbedder(dim=32)
    with filled(MemorySync.open(tmp_path / "m", **how)) as owner:
        mine = owner.search("green tea", user_id="ann")
        made = mine[0].explain().reply_confidence
        assert made.model == "recipe"
        assert [(one.name, one.weight) for one in made.signals] == [*own.query]
        assert mine.confidence == made.value
        with MemorySync.open(tmp_path / "m", **how) as other:
            theirs = other.search("green tea", user_id="ann")
            assert theirs.confidence == mine.confidence
            assert [one.confidence for one in theirs] == [one.confidence for one in mine]


def test_another_process_of_the_store_is_as_sure(tmp_path: Path) -> None:
    with filled(MemorySync.open(tmp_path / "m", recipe=hr.recipes.default, embedder=None)) as owner:
        mine = owner.search("who drinks green tea", user_id="ann")
        with MemorySync.open(tmp_path / "m", recipe=hr.recipes.default, embedder=None) as other:
            theirs = other.search("who drinks green tea", user_id="ann")
            assert theirs.confidence == mine.confidence
            assert [one.confidence for one in theirs] == [one.confidence for one in mine]
            assert theirs[0].explain() == mine[0].explain()
            owner.remember("green tea drinks Ann", user_id="ann")
            with pytest.raises(hr.OptionError, match="matches: expected matches that are still"):
                _ = theirs.confidence


def test_below_the_floor_there_are_no_matches_and_nothing_is_counted(tmp_path: Path) -> None:
    with filled(MemorySync.open(tmp_path / "m", recipe=hr.recipes.default, embedder=None)) as owner:
        sure, unsure = "who drinks green tea", "May Bob come"
        floor = owner.search(sure, user_id="ann").confidence
        with MemorySync.open(tmp_path / "m", recipe=hr.recipes.default, embedder=None) as other:
            for memory in (owner, other):
                plain = memory.search(sure, user_id="ann")
                assert memory.search(sure, user_id="ann", min_confidence=floor) == plain
                below = memory.search(unsure, user_id="ann", min_confidence=floor, touch=True)
                assert (below, below.degraded) == ([], False)
                assert below.confidence == memory.search(unsure, user_id="ann").confidence < floor
        assert count_accesses(owner, tmp_path) == 0
        owner.search(unsure, user_id="ann", touch=True)
        assert count_accesses(owner, tmp_path) > 0
        with pytest.raises(hr.OptionError, match="min_confidence: expected a number in"):
            owner.search(sure, user_id="ann", min_confidence=20)


def count_accesses(memory: MemorySync, folder: Path) -> int:
    memory.export(folder / "all.jsonl", user_id="ann")
    return (folder / "all.jsonl").read_text("utf-8").count('"access_count":1')


def test_a_reply_without_a_confidence_reaches_no_floor() -> None:
    with filled(MemorySync.in_memory(recipe=hr.recipes.loom, embedder=None)) as memory:
        newest = memory.search("", user_id="ann")
        assert (len(newest), newest.confidence) == (3, None)
        assert memory.search("", user_id="ann", min_confidence=0.0) == []


def test_a_reply_that_its_store_has_changed_since_is_searched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        filled(MemorySync.open(tmp_path / "m", recipe=hr.recipes.default, embedder=None)) as owner,
        MemorySync.open(tmp_path / "m", recipe=hr.recipes.default, embedder=None) as other,
    ):
        ranked, changes = recalling._ranked, ["once", "twice"]

        def then_changed(*given: Any) -> Any:
            found = ranked(*given)
            if changes:
                owner.remember(f"{changes.pop()} more", user_id="ann")
            return found

        monkeypatch.setattr(recalling, "_ranked", then_changed)
        asked = "who drinks green tea"
        assert len(other.search(asked, user_id="ann", min_confidence=0.1)) > 0
        assert changes == []
        changes += ["a third", "a fourth", "a fifth"]
        with pytest.raises(hr.OptionError, match="matches: expected matches that are still"):
            other.search(asked, user_id="ann", min_confidence=0.1)
