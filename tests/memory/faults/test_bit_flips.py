"""A damaged snapshot is never believed, a damaged database never passes for an empty one (D5, D6).

Each damage is done in a child process, some hundred of them a child: one that crashed on a damaged
file would show.
"""

from __future__ import annotations

import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hyrecall.errors import HyrecallError
from laws.effort import Effort
from memory.children import in_child
from memory.copies import copy_store
from memory.small_store import (
    DIM,
    LOOM,
    MODEL,
    USERS,
    episode,
    follower_of,
    forget,
    link,
    ready_of,
    rebuilt,
    remember,
    replies,
)
from seams import (
    HEADER,
    INDEX,
    Database,
    Header,
    Report,
    StaleError,
    Wish,
    disk,
    examine,
    index_header,
    n_live,
    snapshots,
)
from seams import memory_DATABASE as DATABASE
from seams import segments_opening_module as files

WISH = Wish(LOOM, MODEL, DIM, threads=1)
PER_CHILD = 500
WRONG = 3

Damage = Callable[[random.Random], tuple[Path, bytes]]


@dataclass
class Saved:
    """A store with a snapshot, what it should be, and what it should answer."""

    folder: Path
    header: Header
    wanted: bytes

    @property
    def files(self) -> list[Path]:
        found = sorted(path for path in (self.folder / INDEX).rglob("*") if path.is_file())
        return [path for path in found if path.stat().st_size]

    def outcome(self) -> str:
        """What becomes of the snapshot as it is now: taken and right, refused, or wrong."""
        try:
            held = snapshots.take_snapshot(self.folder / INDEX, WISH, self.header)
        except StaleError:
            return "refused"
        return "right" if replies(ready_of(held)) == self.wanted else "wrong"


def saved_store(folder: Path, first: int = 0) -> Saved:
    database = Database.open(folder)
    remember(database, *(episode(first + n, user=USERS[n % 3]) for n in range(40)))
    link(database, "edge", [f"e{first}", f"e{first + 3}"])
    follower = follower_of(database)
    follower.open()
    follower.snapshot()
    remember(database, *(episode(first + n) for n in range(100, 110)))
    forget(database, f"e{first + 6}")
    follower.close()
    wanted = replies(rebuilt(database))
    with database.reading() as connection:
        made = WISH.header(connection)
    database.close()
    saved = Saved(folder, made, wanted)
    assert saved.outcome() == "right"
    return saved


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    return saved_store(tmp_path_factory.mktemp("flips") / "store")


def a_flip(files: list[Path]) -> Damage:
    """One bit, the same chance for each of all."""
    contents = {path: path.read_bytes() for path in files}
    sizes = [len(content) for content in contents.values()]

    def damage(draw: random.Random) -> tuple[Path, bytes]:
        path = draw.choices(list(contents), sizes)[0]
        made = bytearray(contents[path])
        made[draw.randrange(len(made))] ^= 1 << draw.randrange(8)
        return path, bytes(made)

    return damage


def a_cut(files: list[Path]) -> Damage:
    """A file that ends early, or a page of zeros in its middle."""
    contents = {path: path.read_bytes() for path in files}

    def damage(draw: random.Random) -> tuple[Path, bytes]:
        path, whole = draw.choice(list(contents.items()))
        at = draw.randrange(len(whole))
        if draw.random() < 0.5:
            return path, whole[:at]
        zeros = bytes(min(4096, len(whole) - at))
        made = whole[:at] + zeros + whole[at + len(zeros) :]
        return path, made if made != whole else whole[:-1]

    return damage


def tried(damage: Damage, seed: int, n: int, outcome: Callable[[], str], tally: Path) -> int:
    """Do so many damages, one after the other, each undone; the exit code of a child."""
    draw = random.Random(seed)
    counts: Counter[str] = Counter()
    for _ in range(n):
        path, content = damage(draw)
        whole = path.read_bytes()
        replace_by(path, content)
        counts[outcome()] += 1
        replace_by(path, whole)
        if counts["wrong"]:
            break
    tally.write_text("\n".join(counts.elements()))
    return WRONG if counts["wrong"] else 0


def replace_by(path: Path, content: bytes) -> None:
    """Put a new file in the place of one: what is mapped must not be shortened."""
    made = path.with_name("made")
    made.write_bytes(content)
    made.replace(path)


def in_children(
    damage: Damage, n: int, outcome: Callable[[], str], tally: Path
) -> Iterator[tuple[int, Counter[str]]]:
    """Return (exit code or minus the signal, outcomes) of child after child."""
    for seed in range(-(-n // PER_CHILD)):
        code = in_child(
            lambda seed=seed: tried(
                damage, seed, min(n - seed * PER_CHILD, PER_CHILD), outcome, tally
            )
        )
        yield code, Counter(tally.read_text().split("\n") if tally.exists() else ())
        tally.unlink(missing_ok=True)


def total(found: Iterator[tuple[int, Counter[str]]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for code, outcomes in found:
        assert code == 0, f"a child ended with {code} after {outcomes}"
        counts += outcomes
    return counts


def test_no_flipped_bit_of_a_snapshot_is_believed(
    saved: Saved, tmp_path: Path, effort: Effort
) -> None:
    n = effort.cases(quick=250, full=10_000)
    counts = total(in_children(a_flip(saved.files), n, saved.outcome, tmp_path / "tally"))
    print(f"D5: {n} bit flips of a snapshot: {dict(counts)}")
    assert counts["refused"] == n  # every byte of it is under a checksum


def test_no_shortened_or_zeroed_file_is_believed(
    saved: Saved, tmp_path: Path, effort: Effort
) -> None:
    n = effort.cases(quick=100, full=2_000)
    counts = total(in_children(a_cut(saved.files), n, saved.outcome, tmp_path / "tally"))
    print(f"D5: {n} truncations and zeroed pages of a snapshot: {dict(counts)}")
    assert counts["refused"] == n


def test_a_checksum_that_is_not_compared_lets_wrong_answers_through(
    saved: Saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (disk, files):
        monkeypatch.setattr(module, "check_blocks", lambda *_: None, raising=False)
    flips = a_flip([path for path in saved.files if path.suffix == ".arrow"])
    codes = (code for code, _ in in_children(flips, 1_000, saved.outcome, tmp_path / "tally"))
    assert any(code != 0 for code in codes)  # wrong answers, or a crash


def test_a_damaged_snapshot_is_built_anew_and_counted(saved: Saved, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    for path in saved.files:
        shutil.rmtree(folder, ignore_errors=True)
        copy_store(saved.folder, folder)
        damaged = folder / path.relative_to(saved.folder)
        content = bytearray(damaged.read_bytes())
        content[len(content) // 2] ^= 16
        damaged.write_bytes(content)
        database = Database.open(folder)
        follower = follower_of(database)
        report = follower.open()
        assert report.how == "rebuilt"
        assert report.reason in ("HEADER is damaged", "HEADER is of other manifests") or (
            "damaged" in report.reason
        )
        assert follower.report()["rebuilds"] == 1
        assert replies(follower.ready()) == saved.wanted
        follower.close()
        assert follower_of(database).open().how == "snapshot"  # a sound one took its place
        database.close()


def test_files_and_snapshots_of_another_store_are_refused(saved: Saved, tmp_path: Path) -> None:
    other = saved_store(tmp_path / "other", first=1_000)
    mixed = Saved(tmp_path / "mixed", saved.header, saved.wanted)
    others = [path.relative_to(other.folder) for path in other.files]
    # Every file by itself, under the name of one of its kind, and the whole folder.
    for path in saved.files:
        inside = path.relative_to(saved.folder)
        kin = [one for one in others if one.parent == inside.parent and _kind(one) == _kind(inside)]
        if path.read_bytes() == (other.folder / kin[0]).read_bytes():
            # Numbers of rows, as of those deleted, may agree; what holds the memories may not.
            assert inside.suffix == ".arrow", inside
            assert _kind(inside) != "rows.arrow", inside
            continue
        shutil.rmtree(mixed.folder, ignore_errors=True)
        copy_store(saved.folder, mixed.folder)
        shutil.copyfile(other.folder / kin[0], mixed.folder / inside)
        assert mixed.outcome() == "refused", inside
    shutil.rmtree(mixed.folder)
    copy_store(other.folder, mixed.folder)
    assert mixed.outcome() == "refused"


def _kind(path: Path) -> str:
    return path.name.partition("-")[2].partition("-")[0] or path.name


def test_a_header_that_names_no_manifests_lets_foreign_files_through(
    saved: Saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = saved_store(tmp_path / "other", first=1_000)
    shutil.copyfile(saved.folder / INDEX / HEADER, other.folder / INDEX / HEADER)
    mixed = Saved(other.folder, saved.header, saved.wanted)
    assert mixed.outcome() == "refused"
    monkeypatch.setattr(index_header, "_manifests", lambda _: {})
    index_header.write_header(other.folder / INDEX, saved.header)
    assert mixed.outcome() == "wrong"


# ---- the database ----


def counted(folder: Path) -> int:
    database = Database.open(folder, read_only=True)
    try:
        with database.reading() as connection:
            return n_live(connection)
    finally:
        database.close()


class Flipped:
    """A copy of a store, and what is said of it when a bit of its database is another."""

    def __init__(self, saved: Saved, folder: Path) -> None:
        copy_store(saved.folder, folder)
        self.folder = folder
        self.n_rows = counted(folder)
        self.flips = a_flip([folder / DATABASE])

    def outcome(self) -> str:
        database = None
        try:
            database = Database.open(self.folder, read_only=True)
            checks = examine(database, full=True).checks
            # The others are of the folder.
            if any(not one.ok for one in checks if one.name not in ("modes", "log")):
                return "told by doctor"
            return "right" if counted(self.folder) == self.n_rows else "wrong"
        except HyrecallError:
            return "refused"
        finally:
            if database is not None:
                database.close()


def test_no_flip_makes_a_database_lose_rows_in_silence(
    saved: Saved, tmp_path: Path, effort: Effort
) -> None:
    """SQLite has no checksums: a flipped letter of a text stays one, and every row is there."""
    flipped = Flipped(saved, tmp_path / "store")
    assert flipped.outcome() == "right"
    n = effort.cases(quick=150, full=5_000)
    counts = total(in_children(flipped.flips, n, flipped.outcome, tmp_path / "tally"))
    print(f"D6: {n} bit flips of a database: {dict(counts)}")
    assert counts["told by doctor"] > n / 50
    assert counts["refused"] > n / 50


@pytest.mark.slow
def test_a_database_that_nobody_checks_loses_rows_in_silence(
    saved: Saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flipped = Flipped(saved, tmp_path / "store")
    monkeypatch.setattr(sys.modules[__name__], "examine", lambda *_, **__: Report((), {}))
    found = in_children(flipped.flips, 1_000, flipped.outcome, tmp_path / "tally")
    assert any(code != 0 for code, _ in found)
