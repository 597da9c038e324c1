"""Damage to a saved index, also with fitting checksums: it is detected, or harms nobody else."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import hyrecall as hr
from engine import forge
from engine.saved_index import DIM, ask, build, grown
from laws.effort import Effort
from seams import disk

# ---- damage is detected before any of it is used: no wrong answer, no crash ----
# A crash would end this process, so that it is the test that there is none.

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


# ---- forged with fitting checksums: perhaps wrong answers, but nothing worse ----
# No crash, no error without a type, no memory beyond what its files are large: a crash would end
# the process it is in, so folders are tried in processes of their own.

TESTS = Path(__file__).parents[1]
BATCH = 250
MOST_CRASHES = 1  # enough to fail, and each costs a process more
SECONDS_A_FOLDER = 5


@dataclass
class Tally:
    """How forged folders ended."""

    ends: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def run_batch(
    folder: Path, kind: str, first: int, count: int, tally: Tally, *options: str, front: str
) -> None:
    """Try folders in a process; after one that ends it, go on behind that one in another.

    front: heads of 8 bits or of 4, so that every column has planes, and scans read them.
    """
    end = first + count
    while first < end and tally.ends["crashed"] < MOST_CRASHES:
        command = [sys.executable, "-X", "faulthandler", "-m", "engine.forge"]
        command += [str(folder), kind, str(first), str(end - first), *options]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
            "HYRECALL_FRONT_PLANE": front,
        }
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=environment,
            timeout=60 + SECONDS_A_FOLDER * count,
            check=False,
        )
        what = ""
        for line in done.stdout.splitlines():
            if not line.startswith("= "):
                what = line
                continue
            tally.ends[line[2:].split(" ")[0]] += 1
            if line.startswith("= untyped"):
                tally.faults.append(f"{kind} {what}: {line[2:]}")
            first += 1
        if what == "done":
            return
        assert what, f"no folder was tried: {done.stderr[-3000:]}"
        tally.ends["crashed"] += 1
        tally.faults.append(f"{kind} {what}: ended by {done.returncode}, {done.stderr[:600]}")
        first += 1


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize("options", [(), ("--late",)], ids=["at open", "late"])
@pytest.mark.parametrize("front", ["head8", pytest.param("head4", marks=pytest.mark.slow)])
def test_forged_folders_neither_crash_nor_raise_what_nobody_expects(
    front: str, options: tuple[str, ...], tmp_path: Path, effort: Effort
) -> None:
    counts = {"file": 3000, "manifest": 3000 if front == "head8" else 500}
    for kind, count in counts.items() if effort.full else [("both", 60)]:
        tally = Tally()
        for first in range(0, count, BATCH):
            some = min(BATCH, count - first)
            run_batch(tmp_path, kind, first, some, tally, *options, front=front)
        print(f"{kind}: {dict(tally.ends)}")
        assert tally.faults == []
        assert tally.ends.total() == count
        assert tally.ends["refused"] > count / 4
        assert tally.ends["used"] > 0, "some change what no structure tells"


@pytest.mark.slow
def test_the_check_above_notices_a_crash(tmp_path: Path) -> None:
    """The control: without the check of offsets some of such folders raise or crash."""
    tally = Tally()
    for first in range(100, 600, 20):  # none of the first hundred does
        run_batch(tmp_path, "file", first, 20, tally, "--plant", front="head8")
        if tally.faults:
            return
    pytest.fail("each folder was refused or used")


# One by one


def resealed(tmp_path: Path, change: Any, index: hr.Index | None = None) -> Path:
    """A folder whose MANIFEST was changed and sealed again."""
    folder = tmp_path / "index"
    (index or grown()).save(folder)
    data = forge.read_manifest(folder)
    change(data)
    forge.seal(folder, json.dumps(data).encode() + b"\n")
    return folder


def test_a_segment_listed_twice_is_refused(tmp_path: Path) -> None:
    folder = resealed(tmp_path, lambda data: data["segments"].append(data["segments"][0]))
    with pytest.raises(hr.CorruptIndexError, match=r"MANIFEST.*listed twice"):
        hr.Index.open(folder)


def test_a_copy_of_a_segment_under_another_name_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    build().save(folder)
    data = forge.read_manifest(folder)
    (segment,) = data["segments"]
    twin = json.loads(json.dumps(segment).replace(segment["name"], "0" * 16))
    for ours, theirs in zip(segment["files"].values(), twin["files"].values(), strict=True):
        (folder / theirs["name"]).write_bytes((folder / ours["name"]).read_bytes())
    data["segments"].append(twin)
    forge.seal(folder, json.dumps(data).encode() + b"\n")
    with pytest.raises(hr.CorruptIndexError, match="unique insertion numbers"):
        hr.Index.open(folder)


OTHER_ANALYZER = (
    f"analyzer of 'body': expected hash {'0' * 16} .as stored by hyrecall.*"
    f"{hr.Analyzer().hash}.*build the index again"
)
OUTSIDE = ("../{}", "/etc/passwd", "sub/{}", "..", "", "{}\n", "MANIFEST")


def renamed(name: str) -> Callable[[Any], None]:
    """Let a file have a name that leaves the folder."""

    def change(data: Any) -> None:
        file = data["segments"][0]["files"]["rows"]
        file["name"] = name.format(file["name"])

    return change


@pytest.mark.parametrize(
    ("change", "wish"),
    [
        (lambda data: data.update(next_seq=5), r"insertion numbers in \[0, 5\)"),
        (lambda data: data.update(next_seq=True), "next_seq True"),
        (lambda data: data.update(next_seq=2**70), "next_seq 1180591620717411303424"),
        (lambda data: data.update(version="1"), "version '1'"),
        (lambda data: data["dims"].update(v=2**40), "dim of 'v'"),
        (lambda data: data["dims"].update(w=3), "arms that the schema does not have"),
        (lambda data: data["segments"][0].update(n_rows=2**40), "n_rows of"),
        (lambda data: data["segments"][0].update(n_rows=1.0), "n_rows of"),
        (lambda data: data["schema"].update(key=7), "MANIFEST: expected the options of an index"),
        (lambda data: data["schema"].update(text={"\ud800": ["body"]}), "surrogates not allowed"),
        (lambda data: data["texts"]["body"].update(bm25={"k": 1}), "the options of an index"),
        (lambda data: data["texts"]["body"].update(analyzer={"kind": 7}), "an analyzer"),
        (lambda data: data["texts"]["body"].update(analyzer=[]), "text without analyzer"),
        (lambda data: data["texts"].pop("all"), "expected the options of an index"),
        (lambda data: data.update(format=2.0), "format 2.0"),
        (lambda data: data.update(flags=1), "MANIFEST: expected the fields of a MANIFEST"),
        (lambda data: data["dims"].update(v=DIM + 1), r"vectors-0\.arrow"),
        (lambda data: data["segments"][1]["files"].pop("terms-1"), r"segment .*terms-1"),
        (lambda data: data["texts"]["body"].update(analyzer_hash="0" * 16), OTHER_ANALYZER),
        *((renamed(name), r"MANIFEST.*file name") for name in OUTSIDE),
    ],
)
def test_a_manifest_of_other_types_or_ranges_is_refused(
    tmp_path: Path, change: Any, wish: str
) -> None:
    with pytest.raises(hr.CorruptIndexError, match=wish):
        hr.Index.open(resealed(tmp_path, change))


def test_a_manifest_nested_beyond_all_measure_is_refused(tmp_path: Path) -> None:
    build(9).save(tmp_path)
    forge.seal(tmp_path, b"[" * 200_000 + b"]" * 200_000 + b"\n")
    with pytest.raises(hr.CorruptIndexError, match="the fields of a MANIFEST"):
        hr.Index.open(tmp_path)
