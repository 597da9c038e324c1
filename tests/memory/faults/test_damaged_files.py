"""Any damage to any file of a store is told of, or does no harm: nothing is lost in silence.

Each damage is done to a copy, in a child process that would die alone. What becomes of the copy is
judged by everything that can be read of it.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hyrecall.errors import HyrecallError
from hyrecall.memory import EVERYONE, Fact, MemorySync
from laws.effort import Effort
from memory.children import in_child
from memory.copies import copy_store
from memory.stores import NOON, episode, open_store
from seams import INDEX, LOCK, LOG
from seams import memory_DATABASE as DATABASE

PER_CHILD = 20
PARTS = ("database", "log", "shared memory", "index", "lock")
WORDS = ("oak", "ash", "elm", "fir")

Content = dict[str, Any]
Damage = Callable[[bytes, bytes, random.Random], bytes | None]


# ---- stores ----


def fill(memory: MemorySync, first: int, n: int) -> None:
    for at in range(first, first + n):
        user = ("ann", "bob")[at % 2]
        memory.remember(episode(at, f"{WORDS[at % 4]} note {at} " + "x" * at, user_id=user))
    memory.update(f"e{first}", text=f"changed {first}", user_id=("ann", "bob")[first % 2])
    memory.forget(f"e{first + 1}", user_id=("ann", "bob")[(first + 1) % 2])
    memory.link([f"e{first + 2}", f"e{first + 4}"], "near", user_id="ann", id=f"edge{first}")
    valid_from = datetime(2026, 1, 1 + first, tzinfo=UTC)
    memory.remember_fact(
        Fact(id=f"f{first}", user_id="ann", subject="ann", predicate="has", object=f"{first}",
             valid_from=valid_from)
    )  # fmt: skip


@dataclass
class Stores:
    """A store that was closed, one whose writer was killed, and others to swap files with."""

    closed: Path
    killed: Path
    other: Path
    wanted: Content


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    root = tmp_path_factory.mktemp("damaged")
    for name, first in (("store", 0), ("other", 5)):
        with open_store(root / name, clock=lambda: NOON) as memory:
            fill(memory, first, 16)
        with open_store(root / name, clock=lambda: NOON) as memory:
            fill(memory, first + 16, 6)
            copy_store(root / name, root / f"{name} killed")
    shutil.rmtree(root / "other")
    closed, killed = root / "store", root / "store killed"
    wanted = []
    for path in (closed, killed):
        copy = copy_store(path, root / f"{path.name} whole")
        with open_store(copy, clock=lambda: NOON) as memory:
            wanted.append(content(memory))
            assert memory.doctor(full=True).ok
    assert wanted[0] == wanted[1]
    return Stores(closed, killed, root / "other killed", wanted[0])


def content(memory: MemorySync) -> Content:
    """Everything that can be read of a store, as JSON."""
    lines = memory.export(user_id=EVERYONE, history=True)
    assert isinstance(lines, list)
    found: Content = {"lines": sorted(json.dumps(one, sort_keys=True) for one in lines)}
    for user in ("ann", "bob"):
        found[f"{user}'s"] = [one.id for one in memory.list(user_id=user)]
        for word in WORDS:
            matches = memory.search(f"{word} note", user_id=user, limit=30)
            found[f"{user}: {word}"] = [
                (one.episode.id, one.score, one.bm25_score, one.vector_score) for one in matches
            ]
            found["degraded"] = found.get("degraded", False) or matches.degraded
    found["facts"] = [one.id for one in memory.recall_facts("ann has", user_id="ann")]
    return found


# ---- damages ----


def cut(whole: bytes, _: bytes, draw: random.Random) -> bytes:
    return whole[: draw.randrange(1, max(len(whole), 2))]


def flip(whole: bytes, _: bytes, draw: random.Random) -> bytes:
    made = bytearray(whole)
    if made:
        made[draw.randrange(len(made))] ^= 1 << draw.randrange(8)
    return bytes(made)


def zero(whole: bytes, _: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(max(len(whole), 1)) // 4096 * 4096
    return whole[:at] + bytes(min(4096, len(whole) - at)) + whole[at + 4096 :]


DAMAGES: dict[str, Damage] = {
    "cut": cut,
    "flip": flip,
    "zeroed page": zero,
    "empty": lambda *_: b"",
    "removed": lambda *_: None,
    "swapped": lambda _, other, __: other,
}


def files_of(path: Path, part: str) -> list[str]:
    named = {"database": DATABASE, "log": LOG, "shared memory": f"{DATABASE}-shm", "lock": LOCK}
    if part != "index":
        return [named[part]] if (path / named[part]).exists() else []
    files = (file for file in (path / INDEX).rglob("*") if file.is_file())
    return sorted(str(file.relative_to(path)) for file in files)


def kind_of(name: str) -> str:
    """What file of another store takes the place of this one."""
    return name.rpartition("/")[0] + name.rpartition("/")[2].partition("-")[2] or name


def damage(stores: Stores, path: Path, draw: random.Random) -> str:
    """Make a damaged copy of a store; say which damage it is."""
    part = draw.choice(PARTS)
    source = draw.choice([stores.closed, stores.killed])
    if not files_of(source, part):
        source = stores.killed
    name = draw.choice(files_of(source, part))
    kind = draw.choice(list(DAMAGES))
    others = files_of(stores.other, part)
    other = next((one for one in others if kind_of(one) == kind_of(name)), others[0])
    copy_store(source, path)
    whole = (path / name).read_bytes()
    made = DAMAGES[kind](whole, (stores.other / other).read_bytes(), draw)
    (path / name).unlink()
    if made is not None:
        (path / name).write_bytes(made)
    return f"{part}: {kind} of {source.name}"


# ---- outcomes ----


def outcome(path: Path, wanted: Content) -> str:
    """What a store is that was damaged."""
    try:
        with open_store(path, clock=lambda: NOON) as memory:
            found = content(memory)
            report = memory.doctor(full=True)
    except HyrecallError:
        return "refused"
    if found == wanted:
        return "right"
    if not report.ok:
        return "told by doctor"
    if found["degraded"]:
        return "degraded"
    return "LOST" if len(found["lines"]) < len(wanted["lines"]) else "ALTERED"


def is_bad(found: str) -> bool:
    return found.split(maxsplit=1)[0] in ("LOST", "ALTERED", "UNTYPED", "CRASH")


def tried(stores: Stores, folder: Path, seed: int, n: int) -> Counter[str]:
    """Do damages one after the other; outcomes and damages, as lines of a file."""
    draw = random.Random(seed)
    counts: Counter[str] = Counter()
    for at in range(n):
        path = folder / f"{seed}-{at}"
        kind = damage(stores, path, draw)
        try:
            found = outcome(path, stores.wanted)
        except Exception as fault:  # an error without a name of ours
            found = f"UNTYPED {type(fault).__name__} ({fault})"
        part = kind.partition(":")[0]
        counts[f"{part}\t{found}\t{kind if is_bad(found) else ''}"] += 1
        shutil.rmtree(path)
    return counts


def run(stores: Stores, folder: Path, n: int) -> Counter[tuple[str, str, str]]:
    """Do n damages in children, each of which may crash alone."""
    total: Counter[tuple[str, str, str]] = Counter()
    tally = folder / "tally"

    def child(seed: int, n_here: int) -> int:
        tally.write_text("\n".join(tried(stores, folder, seed, n_here).elements()))
        return 0

    for seed in range(-(-n // PER_CHILD)):
        n_here = min(PER_CHILD, n - seed * PER_CHILD)
        code = in_child(lambda seed=seed, n_here=n_here: child(seed, n_here))
        if code:
            total["child", f"CRASH {code}", f"seed {seed}"] += 1
            continue
        for line in tally.read_text().split("\n"):
            part, found, kind = line.split("\t")
            total[part, found, kind] += 1
    return total


@pytest.mark.slow
def test_no_damage_to_a_file_crashes_or_loses_anything_in_silence(
    stores: Stores, tmp_path: Path, effort: Effort
) -> None:
    n_damages = effort.cases(quick=PER_CHILD, full=500)
    counts = run(stores, tmp_path, n_damages)
    for part in PARTS:
        told = {found: n for (one, found, _), n in sorted(counts.items()) if one == part}
        print(f"damages of the {part}: {told}")
    bad = {key: n for key, n in counts.items() if is_bad(key[1])}
    assert bad == {}
    assert sum(counts.values()) == n_damages


def test_a_store_that_does_not_look_beside_its_database_loses_rows_in_silence(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control."""
    for name in ("check_is_there", "check_is_whole"):
        monkeypatch.setattr(f"hyrecall.memory.sql.database.{name}", lambda *_: None)
    for name in (DATABASE, LOG):
        path = copy_store(stores.killed, tmp_path / name)
        (path / name).write_bytes(b"")
        assert outcome(path, stores.wanted) == "LOST"
