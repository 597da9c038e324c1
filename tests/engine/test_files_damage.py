"""Damage to a saved index is detected before any of it is used: no wrong answer, no crash.

A crash would end this process, so that it is the test that there is none.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import hyrecall as hr
from engine.saved_index import ask, grown
from laws.effort import Effort
from seams import disk

REFUSED, SAME, WRONG = "refused", "same replies", "wrong replies"


@pytest.fixture(params=["blocks", "ends"])
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A small index whose files are many blocks long, so that all kinds of blocks are hit."""
    monkeypatch.setattr(disk, "BLOCK_BYTES", 512)
    if request.param == "ends":
        monkeypatch.setattr(disk, "SMALL_BYTES", 0)
    grown().save(tmp_path / "index")
    return tmp_path / "index"


def targets(folder: Path) -> list[Path]:
    """Every file that an index is made of. LOCK is none: it holds nothing."""
    return sorted(file for file in folder.iterdir() if file.name != disk.LOCK)


def outcome(folder: Path, right: bytes, *, memory: str, verify: str) -> str:
    """What open and the questions after it make of a folder."""
    try:
        replies = ask(hr.Index.open(folder, memory=memory, verify=verify))
    except hr.CorruptIndexError:
        return REFUSED
    return SAME if replies == right else WRONG


def attempt(
    draw: random.Random, folder: Path, right: bytes, damage: Callable[[bytes], bytes]
) -> str:
    """Damage one file, look, and put it right again."""
    file = draw.choice(targets(folder))
    whole = file.read_bytes()
    file.unlink()  # a new file each time: the old one may still be mapped
    file.write_bytes(damage(whole))
    memory, verify = draw.choice(("mmap", "ram")), draw.choice(("full", "structure"))
    found = outcome(folder, right, memory=memory, verify=verify)
    file.unlink()
    file.write_bytes(whole)
    return found


def flip(draw: random.Random) -> Callable[[bytes], bytes]:
    """One bit turns over."""

    def damage(whole: bytes) -> bytes:
        changed = bytearray(whole)
        changed[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        return bytes(changed)

    return damage


def cut(draw: random.Random) -> Callable[[bytes], bytes]:
    """The end is missing; now and then nearly nothing or nearly everything is left."""

    def damage(whole: bytes) -> bytes:
        few = draw.randrange(min(9, len(whole)))
        return whole[: draw.choice((draw.randrange(len(whole)), few, len(whole) - 1 - few))]

    return damage


def zero(draw: random.Random) -> Callable[[bytes], bytes]:
    """A sector was never written."""

    def damage(whole: bytes) -> bytes:
        sectors = [at for at in range(0, len(whole), 512) if any(whole[at : at + 512])]
        at = draw.choice(sectors)
        return whole[:at] + bytes(len(whole[at : at + 512])) + whole[at + 512 :]

    return damage


@pytest.mark.slow
def test_flipped_bits_and_cut_files_are_refused(folder: Path, effort: Effort) -> None:
    right = ask(grown())
    draw = random.Random(5)
    assert outcome(folder, right, memory="mmap", verify="full") == SAME
    kinds = {flip: (300, 10_000), cut: (60, 1000), zero: (30, 300)}
    for kind, (quick, full) in kinds.items():
        for number in range(full if effort.full else quick):
            found = attempt(draw, folder, right, kind(draw))
            assert found == REFUSED, f"{kind.__name__} {number}: {found}"
    assert outcome(folder, right, memory="mmap", verify="full") == SAME


def test_extra_bytes_are_refused(folder: Path) -> None:
    draw, right = random.Random(6), ask(grown())
    for extra in (b"\0", b"\n", b"ARROW1"):
        for _ in range(5):
            assert attempt(draw, folder, right, lambda whole, e=extra: whole + e) == REFUSED


def test_a_missing_or_damaged_file_is_refused_by_name(folder: Path) -> None:
    for file in targets(folder):
        whole = file.read_bytes()
        for damaged in (None, flip(random.Random(7))(whole)):
            file.unlink()
            if damaged is not None:
                file.write_bytes(damaged)
            with pytest.raises(hr.CorruptIndexError) as caught:
                hr.Index.open(folder)
            assert str(file) in str(caught.value)
            file.write_bytes(whole)


def test_files_of_two_tenants_that_changed_places_are_refused(tmp_path: Path) -> None:
    """The same shape, the same sizes, other documents."""
    for tenant in ("alice", "bob"):
        index = grown()
        index.delete(list(range(9)), scope=tenant)
        index.save(tmp_path / tenant)
    ours, theirs = ([*sorted((tmp_path / t).glob("*-dead-*"))] for t in ("alice", "bob"))
    for mine, other in zip(ours, theirs, strict=True):
        if mine.read_bytes() == other.read_bytes():
            continue
        shutil.copy(other, mine)
        with pytest.raises(hr.CorruptIndexError, match="-dead-"):
            hr.Index.open(tmp_path / "alice")
        return
    pytest.fail("the two indexes have the same deleted rows")


def test_the_checks_above_notice_an_engine_that_does_not_verify(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: without checksums the same damage gives wrong replies.

    Only to numbers of the vectors: a wrong offset would take the process down, which is the point.
    """
    right = ask(grown())
    plane = max(folder.glob("*-vectors-0.arrow"), key=lambda file: file.stat().st_size)
    damaged = bytearray(plane.read_bytes())
    for at in range(len(damaged) // 2 - 400, len(damaged) // 2 + 400, 4):
        damaged[at] ^= 0xFF  # low bits of 200 floats
    plane.unlink()
    plane.write_bytes(damaged)
    assert outcome(folder, right, memory="mmap", verify="full") == REFUSED
    assert outcome(folder, right, memory="mmap", verify="structure") == REFUSED
    monkeypatch.setattr(disk, "check_blocks", lambda *_: None)
    monkeypatch.setattr(disk, "late_checks", lambda *_: None)
    assert outcome(folder, right, memory="mmap", verify="full") == WRONG
    assert outcome(folder, right, memory="mmap", verify="structure") == WRONG
