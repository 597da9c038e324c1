"""A folder forged with fitting checksums may give wrong answers, but nothing worse.

No crash, no error without a type, no memory beyond what its files are large: a crash would end the
process it is in, so folders are tried in processes of their own.
"""

import json
import os
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
from engine.saved_index import DIM, build, grown
from laws.effort import Effort

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
