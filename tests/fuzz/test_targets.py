"""Each fuzz target runs a few cases here, and finds the bug that is planted for it."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")
pytest.importorskip("fastapi", reason="the extra [serve] is not installed")

from fuzz import doors, peers, run
from seams import manifest_module, tensors


@pytest.mark.parametrize("n", [300, pytest.param(20_000, marks=pytest.mark.slow)])
def test_bytes_of_a_peer_are_read_or_refused(n: int) -> None:
    for name, data in peers.seeds().items():
        assert peers.check(data) == "read", name
    ends = Counter(peers.case(seed) for seed in range(n))
    assert ends["read"] > n // 30
    assert ends["refused"] > n // 3


def test_a_border_that_is_taken_away_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found = manifest_module.MALFORMED
    monkeypatch.setattr(manifest_module, "MALFORMED", found)  # put back afterwards
    peers.plant()
    with pytest.raises(found):
        Counter(peers.case(seed) for seed in range(1_000))


def test_no_request_fails_or_takes_too_much() -> None:
    """The first few; `.ci/run fuzz` goes on with thousands."""
    statuses = Counter(doors.case(seed) for seed in range(30))
    assert statuses["200"] > 3


@pytest.mark.slow
def test_a_request_that_fails_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYRECALL_FUZZ_PLANTED", "1")
    doors.routes.cache_clear()
    try:
        with pytest.raises(AssertionError, match="500 for"):
            Counter(map(doors.case, count()))
    finally:
        doors.routes.cache_clear()


def test_strides_that_are_ignored_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "_from_dlpack", tensors._from_dlpack)  # put back afterwards
    monkeypatch.setenv("HYRECALL_FUZZ_PLANTED", "1")
    with pytest.raises(SystemExit, match="FOUND by border with seed"):
        run.main("border", 20, 0)


def test_a_run_names_the_seed_of_a_case_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def case(seed: int) -> str:
        assert seed < 7
        return "200"

    monkeypatch.setattr(doors, "case", case)
    with pytest.raises(SystemExit, match="FOUND by doors with seed 7"):
        run.main("doors", 20, 3)
