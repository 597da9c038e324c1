"""``push``, ``pull`` and ``follow`` from the command line, on a store and on an index."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("typer", reason="the extra [cli] is not installed")
pytest.importorskip("apsw", reason="the extra [memory] is not installed")

import hyrecall as hr
from hyrecall.memory import MemorySync

Run = Callable[..., SimpleNamespace]


def test_a_store_goes_to_another_folder_and_is_read_there(
    run: Run, filled: Path, tmp_path: Path
) -> None:
    remote, copy = tmp_path / "remote", tmp_path / "copy"
    pushed = run("push", remote.as_uri(), "--json")
    assert pushed.code == 0
    assert (pushed.data["generation"], pushed.data["is_new"]) == (1, True)
    assert run("push", remote, "--json").data["is_new"] is False
    pulled = run("pull", remote, "--path", copy, "--json")
    assert pulled.data["bytes_fetched"] == pulled.data["n_bytes"] == pushed.data["n_bytes"]
    assert 0 <= pulled.data["age"] < 600
    found = run("recall", "replication", "--user", "ann", "--path", copy)
    assert found.code == 0
    assert "logical replication on the primary" in found.out
    refused = run("remember", "mine", "--user", "ann", "--path", copy)
    assert refused.code == 1
    assert refused.err.startswith("error: read_only: expected True for a replica, got False")
    checked = run("doctor", "--path", copy, "--json")
    assert checked.code == 0
    told = {one["name"]: one["detail"] for one in checked.data["checks"]}["replica"]
    assert json.loads(told)["generation"] == 1


def test_an_index_goes_too_and_info_says_how_old_it_is(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    source, remote, copy = (tmp_path / name for name in ("source", "remote", "copy"))
    hr.Index.open(folder).save(source)
    assert run("push", remote, "--path", source).code == 0
    assert run("pull", remote, "--path", copy).code == 0
    told = run("info", copy, "--json").data["replica"]
    assert (told["url"], told["generation"]) == (remote.as_uri(), 1)
    assert told["age"] >= 0
    assert "generation 1 of file://" in run("info", copy).out
    assert run("info", source, "--json").data["replica"] is None


def test_a_prune_keeps_what_it_is_told_to(run: Run, filled: Path, tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    assert run("push", remote).code == 0
    for text in ("one", "two"):
        assert run("remember", text, "--user", "ann").code == 0
        assert run("push", remote).code == 0
    done = run("push", remote, "--prune", "--json")
    assert done.data["pruned"] == {"n_kept": 2, "n_removed": 0, "bytes_removed": 0}
    done = run("push", remote, "--prune", "--keep", "1", "--older-than", "0s")
    assert done.code == 0
    assert "1 generation kept" in done.out
    assert len(list((remote / "generations").iterdir())) == 1
    refused = run("push", remote, "--prune", "--older-than", "99999999999d")
    assert refused.code == 1
    assert refused.err.startswith("error: --older-than: expected at most 999999999 days, got")


def test_a_promoted_replica_takes_the_place_of_a_lost_store(
    run: Run, filled: Path, tmp_path: Path
) -> None:
    remote, copy = tmp_path / "remote", tmp_path / "copy"
    assert run("push", remote).code == 0
    assert run("pull", remote, "--path", copy, "--promote", "--json").data["promoted"] is True
    assert run("remember", "a new one", "--user", "ann", "--path", copy).code == 0
    assert run("push", remote, "--path", copy, "--json").data["generation"] == 2
    refused = run("push", remote)
    assert refused.code == 1
    assert "got generation 2 of another folder" in refused.err


def test_what_was_damaged_is_exit_code_3(run: Run, filled: Path, tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    assert run("push", remote).code == 0
    (remote / "HEAD").write_bytes(b"x")
    refused = run("pull", remote, "--path", tmp_path / "copy")
    assert refused.code == 3
    assert "HEAD: expected a body with its checksum" in refused.err


@pytest.mark.slow
def test_follow_shows_each_generation_until_it_is_interrupted(
    run: Run, filled: Path, tmp_path: Path
) -> None:
    remote, copy = tmp_path / "remote", tmp_path / "copy"
    words = ["follow", str(remote), "--path", str(copy), "--every", "0.05", "--json"]
    path = os.pathsep.join([str(Path(hr.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-m", "hyrecall.cli", *words], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        for generation in (1, 2):
            with MemorySync.open(filled, embedder=None) as memory:
                memory.remember(f"memory {generation}", user_id="ann")
            assert run("push", remote, "--path", filled).code == 0
            assert json.loads(process.stdout.readline())["generation"] == generation
    finally:
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in told
