"""The library reads no settings file: what a store answers depends on its arguments alone."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hyrecall import recipes
from hyrecall.memory import MemorySync
from memory.stores import DIM, HOUR, NOON, Clock, folder
from seams import choose, settings

OTHERWISE = {
    "path": "/nowhere", "recipe": "l0", "analyzer": "word", "embedder": "http://127.0.0.1:9/v1",
    "embedding_model": "other", "embed_timeout": "1ms", "recall_timeout": 0.0,
    "weight_recency": 0.0, "weight_importance": 9.0, "weight_relevance": 0.0,
}  # fmt: skip


def as_settings(path: Path) -> None:
    path.write_text(json.dumps(OTHERWISE))


def as_no_json(path: Path) -> None:
    path.write_bytes(b"\xff{")


def as_a_folder(path: Path) -> None:
    path.mkdir()


def answers() -> list[Any]:
    """What stores answer that are opened and asked without naming embedder or weights."""
    given: dict[str, Any] = {"clock": Clock(NOON), "recall_timeout": 30.0, "dim": DIM}
    out: list[Any] = []
    for recipe in (recipes.hebb, recipes.l0):
        with MemorySync.open(folder(), recipe=recipe, **given) as memory:
            out.append((repr(memory._store.guard._embedder), memory._store.guard.off))
            for key, hours, importance in (("old", 48, 9.0), ("new", 0, 1.0)):
                memory.remember(
                    "deploy the cluster", id=key, user_id="ann", importance=importance,
                    occurred_at=NOON - hours * HOUR,
                )  # fmt: skip
            matches = memory.search("deploy", user_id="ann")
            out.append([(match.episode.id, match.score) for match in matches])
            out.append([str(reason) for reason in matches.reasons])
    return out


def test_the_settings_that_say_otherwise_are_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings.KEYS.keys() - OTHERWISE.keys() == {"embedding_url"}
    monkeypatch.setenv("HYRECALL_CONFIG", str(tmp_path / "config.json"))
    as_settings(tmp_path / "config.json")
    assert settings.read_settings() == OTHERWISE


@pytest.mark.plain_cases(3)
@pytest.mark.parametrize("make", [as_settings, as_no_json, as_a_folder])
@pytest.mark.parametrize("place", ["HYRECALL_CONFIG", "XDG_CONFIG_HOME", "HOME"])
def test_a_settings_file_changes_no_answer_of_the_library(
    make: Callable[[Path], None], place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*choose.URL, *choose.DISABLE, *choose.KEY, "HYRECALL_CONFIG", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    # Without a packaged model neither test nor store loads one.
    monkeypatch.setattr(choose.StaticEmbedder, "available", staticmethod(lambda: False))
    monkeypatch.setenv("HOME", str(tmp_path / "empty"))
    expected = answers()
    path = {
        "HYRECALL_CONFIG": tmp_path / "config.json",
        "XDG_CONFIG_HOME": tmp_path / "hyrecall" / "config.json",
        "HOME": tmp_path / ".config" / "hyrecall" / "config.json",
    }[place]
    path.parent.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv(place, str(path if place == "HYRECALL_CONFIG" else tmp_path))
    assert settings.settings_path() == path
    make(path)
    assert answers() == expected
