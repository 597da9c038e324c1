"""``hyrecall learn`` of a store: one user's feedback becomes a recipe that recall takes."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")
pytest.importorskip("ir_measures", reason="the extra [evaluate] is not installed")
pytest.importorskip("scipy", reason="the extra [evaluate] is not installed")

from hyrecall.memory import Episode, MemorySync


def test_a_store_is_learnt_from_for_one_user(
    run: Callable[..., SimpleNamespace], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYRECALL_EMBED_DISABLE", "1")
    folder, path = tmp_path / "agent.mem", tmp_path / "ann.json"
    with MemorySync.open(folder, embedder=None) as memory:
        memory.remember_batch(
            Episode(id=f"m{at}", text=f"word t{at // 2}", kind=("a", "b")[at % 2], user_id="ann")
            for at in range(160)
        )
        for at in range(80):
            memory.feedback(used=[f"m{2 * at + 1}"], query=f"which t{at}?", user_id="ann")
    asked = ("learn", folder, "--feature", "kind=b", "--measure", "RR@10", "-o", path)
    reply = run(*asked, "--user", "ann")
    assert reply.code == 0, reply.err
    assert f"written to {path}" in reply.err
    by_it = ("--path", folder, "--user", "ann", "--recipe", path, "--json")
    found = run("recall", "which t7?", *by_it)
    assert found.data["items"][0]["episode"]["id"] == "m15"
    nobody = run(*asked, "--user", "bob")
    told = "error: feedback: expected at least 20 queries with a memory that helped, got 0"
    assert (nobody.code, told in nobody.err) == (1, True)
    for wrong in (("--thread", "x"), ("--analyzer", "word"), ("--qrels", "x")):
        refused = run(*asked, "--user", "ann", *wrong)
        assert refused.code == 1
        assert f"{wrong[0]}: expected none with a store" in refused.err
    refused = run(*asked, "--user", "ann", "--confidence")
    assert (refused.code, "--confidence: expected none with a store" in refused.err) == (1, True)
    refused = run("learn", tmp_path, "--user", "ann")
    told = "error: --user: expected none with a retrieval set, got 'ann'\n"
    assert (refused.code, refused.err) == (1, told)
