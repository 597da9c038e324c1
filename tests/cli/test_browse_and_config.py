"""``hyrecall browse`` and ``config``: files of a store, and settings that last."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyrecall import recipes

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

from hyrecall.memory import MemorySync
from seams import KEYS, choose, settings_path

Run = Callable[..., SimpleNamespace]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "agent.mem"
    monkeypatch.setenv("HYRECALL_PATH", str(path))
    monkeypatch.setenv("HYRECALL_CONFIG", str(tmp_path / "config.json"))
    monkeypatch.setenv("HYRECALL_EMBED_DISABLE", "1")
    with MemorySync.open(path, embedder=None, recipe=recipes.hebb) as memory:
        memory.remember("tea at four", id="tea", user_id="ann")
        memory.remember("coffee at five", id="coffee", user_id="bob")
        for agent, policy in (("a1", "shared"), ("a2", "isolated")):
            memory.set_policy(agent, org="acme", workspace="lab", policy=policy)
            memory.remember(
                f"said by {agent}", id=agent, user_id=agent, org="acme", workspace="lab",
                visibility="global",
            )  # fmt: skip
    return path


def test_browse_says_in_a_note_that_nothing_was_found(run: Run, store: Path) -> None:
    for arguments, told in (
        (("cat", "/memories/episodic/coffee.md"), "no such file"),
        (("cat", "/memories/none.md"), "no such file"),  # no folder of a kind is meant
        (("ls", "/none"), "nothing found"),
        (("find", "coffee*"), "nothing found"),
        (("grep", "coffee"), "nothing found"),
    ):
        reply = run("browse", *arguments, "--user", "ann")
        assert (reply.code, reply.out) == (0, ""), arguments
        assert reply.err.endswith(f"note: {told}\n"), arguments
        assert told not in run("browse", *arguments, "--user", "ann", "--json").err


def test_browse_as_an_agent_follows_its_policy(run: Run, store: Path) -> None:
    def listed(agent: str) -> list[str]:
        house = ("--org", "acme", "--workspace", "lab")
        return run("browse", "find", "--agent", agent, *house, "--json").data["entries"]

    assert set(listed("a1")) == {"/shared/a1/episodic/a1.md", "/shared/a2/episodic/a2.md"}
    assert listed("a2") == ["/shared/a2/episodic/a2.md"]
    assert run("browse", "ls", "--agent", "a1").code == 1  # no org
    assert run("browse", "ls", "--agent", "a1", "--user", "ann").code == 2


def test_browse_refuses_what_is_no_question(run: Run, store: Path) -> None:
    assert run("browse", "cat", "/memories").code == 1
    assert run("browse", "grep", "(", "--regex").code == 1
    assert run("browse", "rm", "/index.md").code == 2
    assert run("browse").code == 2


def test_config_sets_gets_lists_and_takes_away(run: Run, store: Path, tmp_path: Path) -> None:
    assert run("config", "path").out == f"{tmp_path / 'config.json'}\n"
    assert run("config", "get", "recipe").out == ""
    assert run("config", "set", "recipe", "hebb").out == "hebb\n"
    assert run("config", "set", "weight_recency", "2", "--json").data == {
        "key": "weight_recency", "value": 2.0,
    }  # fmt: skip
    assert run("config", "get", "weight_recency").out == "2.0\n"
    assert run("config", "list", "--json").data == {"recipe": "hebb", "weight_recency": 2.0}
    assert "recipe = hebb" in run("config", "list").out
    assert run("config", "path", "--json").data == {"path": str(tmp_path / "config.json")}
    assert run("config", "unset", "recipe", "--json").data == {"key": "recipe", "value": None}
    assert run("config", "unset", "recipe").out == ""
    assert run("config", "list", "--json").data == {"weight_recency": 2.0}
    for arguments in (("set", "recipe", "what"), ("set", "what", "1"), ("get", "what")):
        reply = run("config", *arguments)
        assert reply.code == 1
        assert "expected one of" in reply.err
    help_text = run("config", "--help").out
    assert all(key in help_text for key in KEYS)


PAGE = (
    "config set weight_relevance 2.0",
    "config set weight_importance 1.0",
    "config set weight_recency 0.5",
    "config set weight_recency 2.0",
    "config set weight_relevance 1.0",
    "config set weight_importance 1.0",
)


def test_F14_the_six_lines_of_the_page_persist_and_change_the_next_search(
    run: Run, store: Path
) -> None:
    now = datetime.now(UTC)
    with MemorySync.open(store, embedder=None, recipe=recipes.hebb) as memory:
        for key, text, days in (("old", "deploy deploy deploy", 300), ("new", "deploy of x y", 0)):
            memory.remember(
                text, id=key, user_id="cy", importance=5, occurred_at=now - timedelta(days=days)
            )

    def first() -> str:
        reply = run("recall", "deploy", "--user", "cy", "--recipe", "hebb", "--json")
        assert reply.code == 0, reply.err
        return str(reply.data["items"][0]["episode"]["id"])

    def scores() -> dict[str, float]:
        reply = run("recall", "deploy", "--user", "cy", "--recipe", "hebb", "--json")
        return {one["episode"]["id"]: one["score"] for one in reply.data["items"]}

    unset = scores()
    for line in PAGE[:3]:
        assert run(*line.split()).code == 0
    relevance = scores()
    assert first() == "old"
    for line in PAGE[3:]:
        assert run(*line.split()).code == 0
    recency = scores()
    assert first() == "new"
    assert unset != relevance != recency
    assert run("config", "list", "--json").data == {
        "weight_importance": 1.0, "weight_recency": 2.0, "weight_relevance": 1.0,
    }  # fmt: skip


def test_F15_a_request_says_its_weights_the_rest_are_the_settings_then_the_recipes(
    run: Run, store: Path
) -> None:
    now = datetime.now(UTC)
    with MemorySync.open(store, embedder=None, recipe=recipes.hebb) as memory:
        for key, importance in (("high", 10), ("low", 0)):
            memory.remember(
                "deploy the cluster", id=key, user_id="cy", importance=importance,
                occurred_at=now + timedelta(days=1),  # in the future: recency 1
            )  # fmt: skip

    def scores(*options: str) -> tuple[float, float]:
        asked = ("--user", "cy", "--recipe", "hebb", "--json", *options)
        found = run("recall", "deploy", *asked).data["items"]
        by_id = {one["episode"]["id"]: one["score"] for one in found}
        return by_id["high"], by_id["low"]

    assert scores() == (1.0, pytest.approx(2 / 3))
    assert run("config", "set", "weight_importance", "2").code == 0
    assert scores() == (1.0, pytest.approx(2 / 4))
    assert scores("--weights", "recency=3") == (1.0, pytest.approx(4 / 6))
    assert scores("--weights", "importance=0") == (1.0, 1.0)
    assert scores() == (1.0, pytest.approx(2 / 4))  # each for its request only
    # Recipes without such weights are as they are.
    assert run("recall", "deploy", "--user", "cy", "--recipe", "loom").code == 0


def test_a_command_takes_its_embedder_from_the_settings(
    run: Run, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*choose.URL, *choose.DISABLE):
        monkeypatch.delenv(name, raising=False)

    def reasons() -> str:
        reply = run("recall", "tea", "--user", "ann", "--json")
        assert reply.code == 0, reply.err
        return " ".join(one["detail"] for one in reply.data["reasons"])

    assert run("config", "set", "embedder", "off").code == 0
    assert 'settings.embedder="off"' in reasons()
    monkeypatch.setenv("HYRECALL_EMBED_DISABLE", "1")  # the environment goes before
    assert "HYRECALL_EMBED_DISABLE" in reasons()


def test_a_command_reads_the_settings_once(
    run: Run, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times_read: list[Path] = []
    opening = Path.open

    def counted(self: Path, *rest: Any, **options: Any) -> Any:
        if self == settings_path():
            times_read.append(self)
        return opening(self, *rest, **options)

    monkeypatch.setattr(Path, "open", counted)
    with MemorySync.open(store, embedder=None):  # a writer is at work
        for command in (
            ("recall", "tea", "--user", "ann", "--recipe", "hebb", "--weights", "recency=2"),
            ("recall", "tea", "--user", "ann", "--session-id", "c1"),
            ("browse", "ls", "--user", "ann"),
            ("doctor",),
        ):
            times_read.clear()
            assert run(*command).code == 0
            assert len(times_read) == 1, command
