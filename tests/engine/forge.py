"""Forged folders: files changed in ways that their checksums do not tell, and what becomes of them.

Run as a program it tries many in a row and prints a line before and after each, so that whoever
started it sees which one a crash was in.
"""

import argparse
import json
import random
import resource
import shutil
import struct
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import xxhash

import hyrecall as hr
from engine import saved_index, test_files_golden
from hyrecall.errors import HyrecallError, InternalError
from seams import arrow_read, disk

ROOM = 2 * 2**30
"""Bytes of address space that a forged folder of some 100 kB may make a process ask for."""

GOLDEN = test_files_golden.FOLDER


# ---- what is forged ----


def long_index() -> hr.Index:
    """Several tiles of rows, texts of every length, and terms that come often in one text."""
    draw = random.Random(3)
    texts = [" ".join(draw.choices(saved_index.WORDS, k=draw.randrange(4))) for _ in range(8300)]
    texts[7] = "tea " * 700
    texts[8200] = "oak ash " * 200
    table = pa.table({"id": range(len(texts)), "text": texts})
    return hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"), device="cpu")


def make_bases(folder: Path) -> None:
    """Save what is forged: the golden index, one of several tiles, one with everything in it."""
    saved_index.grown().save(folder / "grown")
    long_index().save(folder / "long")
    shutil.copytree(GOLDEN, folder / "golden")


def opening(name: str) -> dict[str, Any]:
    """The options that an index of that name needs."""
    return {"analyzer": test_files_golden.ANALYZER} if name == "golden" else {}


def use(name: str, folder: Path, target: Path, draw: random.Random) -> None:
    """Open an index, ask all it can answer, change it, and save and open it again."""
    modes = {"memory": draw.choice(("mmap", "ram")), "verify": draw.choice(("full", "structure"))}
    index = hr.Index.open(folder, device="cpu", **modes, **opening(name))
    questions(name, index)
    if name == "grown":
        index.delete([7, 1004], scope=saved_index.everyone(index))
        index.upsert(saved_index.table(30, 4))
    elif name == "long":
        index.delete([8200, 12])
    else:
        index.delete(["k3"], scope="ann")
    questions(name, index)
    if draw.random() < 0.5:
        index.compact()
    index.save(target)
    questions(name, hr.Index.open(target, device="cpu", verify="full", **opening(name)))


def questions(name: str, index: hr.Index) -> None:
    """Ask every arm, with phrases, prefixes and filters."""
    if name == "grown":
        saved_index.ask(index)
    elif name == "golden":
        test_files_golden.ask(index)
    else:
        asked = ["tea oak", hr.Phrase("oak ash"), hr.Prefix("t"), hr.Any("fir", hr.Boost("yew", 2))]
        for bm25 in (hr.BM25("robertson"), hr.BM25("atire")):
            index.recall(text=asked, limit=50, bm25=bm25).to_arrow()


# ---- how ----


def forge(base: Path, folder: Path, kind: str, draw: random.Random) -> str:
    """Copy a folder with one thing changed and its checksums made to fit; say what."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(base, folder)
    if kind == "manifest":
        return _forge_manifest(folder, draw)
    return _forge_file(folder, draw)


def read_manifest(folder: Path) -> Any:
    """The fields of a MANIFEST."""
    return json.loads((folder / "MANIFEST").read_bytes().splitlines()[0])


def seal(folder: Path, body: bytes) -> None:
    """Write a MANIFEST whose last line fits."""
    checksum = xxhash.xxh3_64_hexdigest(body)
    (folder / "MANIFEST").write_bytes(body + f"xxh3_64 {checksum}\n".encode())


def reseal(folder: Path, data: Any, file: dict[str, Any], content: bytes) -> None:
    """Write a file anew and its size and checksums into the MANIFEST."""
    (folder / file["name"]).unlink()
    (folder / file["name"]).write_bytes(content)
    file["size"] = len(content)
    file["blocks"] = list(disk.block_checksums(pa.py_buffer(content)))
    sizes = [min(size, len(content)) for size, _ in file.get("ends", ())]
    ends = [end(content, size) for end, size in zip((_first, _last), sizes, strict=False)]
    file |= {"ends": [[len(one), xxhash.xxh3_64_hexdigest(one)] for one in ends]} if ends else {}
    seal(folder, json.dumps(data).encode() + b"\n")


def _first(content: bytes, size: int) -> bytes:
    return content[:size]


def _last(content: bytes, size: int) -> bytes:
    return content[len(content) - size :]


def _forge_file(folder: Path, draw: random.Random) -> str:
    data = read_manifest(folder)
    segment = draw.choice(data["segments"])
    role, file = draw.choice(sorted(segment["files"].items()))
    content = bytearray((folder / file["name"]).read_bytes())
    how = draw.choice((_flip, _flip, _number, _number, _cut, _swap, _fill))
    how(content, draw)
    reseal(folder, data, file, bytes(content))
    return f"{role}: {how.__name__}"


def _flip(content: bytearray, draw: random.Random) -> None:
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)


def _number(content: bytearray, draw: random.Random) -> None:
    """Put a number that breaks bounds where one may stand."""
    width = draw.choice((4, 8))
    at = draw.randrange(0, len(content) - width, width)
    edges = (0, 1, 2, 7, 255, 8191, 8192, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63)
    value = draw.choice(edges) + draw.choice((0, 0, -1, 1))
    content[at : at + width] = struct.pack("<Q", value % 2**64)[:width]


def _cut(content: bytearray, draw: random.Random) -> None:
    """Take bytes out, so that all behind them moves."""
    at = draw.randrange(len(content))
    del content[at : at + draw.choice((1, 8, 64, len(content)))]
    content += b"x" * (not content)  # no file is empty


def _swap(content: bytearray, draw: random.Random) -> None:
    n_bytes = draw.choice((1, 4, 8, 64))
    a, b = (draw.randrange(len(content) - n_bytes) for _ in range(2))
    content[a : a + n_bytes], content[b : b + n_bytes] = (
        content[b : b + n_bytes], content[a : a + n_bytes],
    )  # fmt: skip


def _fill(content: bytearray, draw: random.Random) -> None:
    at = draw.randrange(len(content))
    n_bytes = min(draw.choice((1, 3, 8, 200)), len(content) - at)
    content[at : at + n_bytes] = bytes([draw.choice((0, 0x7F, 0x80, 0xFF))]) * n_bytes


def _forge_manifest(folder: Path, draw: random.Random) -> str:
    data = read_manifest(folder)
    if draw.random() < 0.15:
        body = bytearray(json.dumps(data).encode() + b"\n")
        _flip(body, draw)
        seal(folder, bytes(body))
        return "a flipped bit"
    *way, last = draw.choice(list(_places(data, ())))
    holder = data
    for step in way:
        holder = holder[step]
    change = draw.randrange(4)
    if change == 0 and isinstance(holder, list):
        holder.append(holder[last])  # a segment or a checksum twice
    elif change == 1:
        del holder[last]
    elif change == 2:
        *way, other = draw.choice(list(_places(data, ())))
        value = data
        for step in (*way, other):
            value = value[step]
        holder[last] = json.loads(json.dumps(value))
    else:
        holder[last] = draw.choice(JUNK)
    seal(folder, json.dumps(data).encode() + b"\n")
    return f"{'.'.join(map(str, (*way, last)))}: change {change}"


JUNK: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2, 3, 1.5, 2**31, 2**32 - 1, 2**63, 10**30, float("nan"), "", "x",
    "\ud800", "a\0b", "../x", "0" * 16, "body", "v", "callable", [], {}, [1], ["x"], [["x"]],
    {"x": 1}, {"name": "x", "version": "1"}, [None], "é" * 300,
)  # fmt: skip


def _places(value: Any, way: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Every place in plain data, as the steps that lead there."""
    steps: list[Any] = []
    if isinstance(value, dict):
        steps = list(value)
    elif isinstance(value, list):
        steps = list(range(len(value)))
    for step in steps:
        yield (*way, step)
        yield from _places(value[step], (*way, step))


# ---- the program ----


def outcome(body: Callable[[], None]) -> str:
    """What became of it: refused, used, or the name of what no caller can expect."""
    try:
        body()
    except InternalError:
        return f"untyped {traceback.format_exc()!r}"
    except HyrecallError:
        return "refused"
    except Exception:
        return f"untyped {traceback.format_exc()!r}"
    return "used"


def limit_memory() -> None:
    """Let a request for far more memory than the files are large fail."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main() -> None:
    """Try ``count`` forged folders from a seed on; print how each ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("kind", choices=("file", "manifest", "both"))
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--plant", action="store_true", help="leave out a check, for the control")
    parser.add_argument("--late", action="store_true", help="leave rows of small files for later")
    parser.add_argument("--unlimited", action="store_true", help="for sanitizers")
    given = parser.parse_args()
    if given.plant:
        arrow_read._check_array = lambda array: None
    if given.late:
        disk.SMALL_BYTES = 0
    bases = given.folder / "bases"
    if not bases.exists():
        make_bases(bases)
    names = sorted(base.name for base in bases.iterdir())
    forged, target = given.folder / "forged", given.folder / "target"
    for name in names:  # all is loaded, and the questions work
        shutil.rmtree(target, ignore_errors=True)
        use(name, bases / name, target, random.Random(0))
    if not given.unlimited:
        limit_memory()
    for number in range(given.first, given.first + given.count):
        kind = given.kind if given.kind != "both" else ("file", "manifest")[number % 2]
        draw = random.Random(f"{kind} {number}")
        name = draw.choice(names)
        what = forge(bases / name, forged, kind, draw)
        print(f"{kind} {number} {name} {what}", flush=True)
        shutil.rmtree(target, ignore_errors=True)
        ended = outcome(lambda name=name, draw=draw: use(name, forged, target, draw))
        print(f"= {ended}", flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    sys.exit(main())
