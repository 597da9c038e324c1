"""Bytes that other processes and files may hand over, guided by coverage where atheris is there.

    python -m fuzz.peers -max_total_time=30 CORPUS       (with tests in PYTHONPATH)

The first byte chooses the reader. Oracle: a typed error or a value, within a second, that is not
much larger than its bytes. ``HYRECALL_FUZZ_PLANTED=1`` takes the border away that words what Arrow
and Python say.
"""

from __future__ import annotations

import copy
import datetime as dt
import inspect
import io
import os
import random
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

import hyrecall as hr
from hyrecall.distributed import Part, Request, Statistics, merge
from hyrecall.errors import HyrecallError, InternalError
from hyrecall.memory import MemorySync
from hyrecall.recipes import loom
from seams import CODEC, Manifest, part, protocol, request
from seams import counts_module as counts
from seams import parts_frames_module as frames

KINDS = (counts.KIND, part.KIND, request.KIND)
N_READERS = 9
SECONDS = 1.0
NUMBERS = (0, 1, -1, 7, 10**6, 2**31, 2**32, 3 * 10**9, 2**62, 2**63 - 1, -(2**63))
ODD: tuple[Any, ...] = (
    None, -1, 2**40, 2**63, 1e308, float("nan"), "x", "", [], {}, [[]], True,
    {"kind": "timedelta", "of": [10**12, 0, 0]},
)  # fmt: skip


class World:
    """An index and a store that the bytes meet."""

    def __init__(self) -> None:
        texts = ["tea oak", "ash", "tea", None, "oak", "tea tea"]
        vectors = pa.array(list(np.ones((6, 4), np.float32)), pa.list_(pa.float32(), 4))
        self.table = pa.table({"id": range(6), "c": ["a"] * 6, "x": texts, "v": vectors})
        schema = hr.Schema(key="id", cell="c", text="x", vector="v")
        self.index = hr.Index.build(self.table, schema, device="cpu", threads=1)
        self.asked = self.request()
        self.statistics = self.index.statistics(self.asked)
        self.part = self.index.candidates(self.asked, self.statistics)
        self.memory = MemorySync.in_memory(recipe=loom, embedder=None)

    def request(self, **options: Any) -> Request:
        vectors = np.ones((1, 4), np.float32)
        return Request(text=["tea"], vectors=vectors, scope=["a"], **options)


@cache
def world() -> World:
    return World()


def read(data: bytes) -> Any:  # noqa: PLR0911
    """Read bytes by the reader of the first one."""
    here, which, body = world(), data[0] % N_READERS, data[1:]
    if which < 3:
        sealed = body + xxhash.xxh3_64_digest(body)
        if which == 0:
            told = Statistics.from_bytes(sealed)
            Statistics.sum([told, here.statistics])
            return here.index.candidates(here.asked, told)
        if which == 1:
            return merge(here.asked, [Part.from_bytes(sealed)]).to_arrow()
        return here.index.statistics(Request.from_bytes(sealed))
    if which == 3:
        return frames.unpack_table(body)
    if which in (4, 5):
        return CODEC.decode(body)
    if which == 6:
        kind = protocol.Hello if body[:1] < b"\x85" else protocol.Welcome
        return kind.of_bytes(body)
    if which == 7:
        text = body + b"\n"
        text += f"xxh3_64 {xxhash.xxh3_64_hexdigest(text)}\n".encode()
        return Manifest.from_bytes(text, Path("MANIFEST"))
    return here.memory.import_(io.StringIO(body.decode("utf-8", "surrogateescape")))


def check(data: bytes) -> str:
    """Read bytes; returns how it ended, or raises what nobody should see."""
    if not data:
        return "nothing"
    began = time.monotonic()
    end = "read"
    try:
        value = read(data)
    except InternalError:
        raise
    except HyrecallError:
        end = "refused"
    except (TypeError, ValueError):
        if data[0] % N_READERS not in (4, 5):  # the constructor of a class may refuse its values
            raise
        end = "refused"
    else:
        size = _size(value)
        assert size <= 1_000 * len(data) + (1 << 20), f"{size} bytes of {len(data)}"
    took = time.monotonic() - began
    assert took <= SECONDS, f"{took:.1f} s for {len(data)} bytes"
    return end


def _size(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, list | tuple | set | frozenset):
        return sum(map(_size, value))
    if isinstance(value, dict):
        return sum(_size(key) + _size(one) for key, one in value.items())
    return 8


# ---- inputs ----


def seeds() -> dict[str, bytes]:
    """Sound messages of every kind."""
    here, out = world(), {}
    for at, options in enumerate(({}, {"shaping": (hr.MMR(0.5),)})):
        asked = here.request(**options) if options else here.asked
        told = here.index.statistics(asked)
        for which, one in enumerate((told, here.index.candidates(asked, told), asked)):
            out[f"part{which}{at}"] = bytes([which]) + bytes(one.to_bytes())[:-8]
    out["table"] = b"\x03" + frames.pack_table(here.table)
    values: list[Any] = [
        {"a": (1, 2.5, None), 2: [b"x", "é"]}, {1, 2}, frozenset("ab"), 2**80, dt.date(2026, 1, 1),
        dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.time(1), dt.timedelta(1), np.float64(2), loom,
        np.arange(6, dtype=np.float32).reshape(2, 3), np.array(["a", "bc"]), np.array([b"xx"]),
        np.array(["2026-01-01"], "M8[D]"),
    ]  # fmt: skip
    out |= {f"wire{at}": b"\x04" + CODEC.encode(one) for at, one in enumerate(values)}
    out["hello"] = b"\x06" + protocol.Hello(1).to_bytes()
    out["welcome"] = b"\x06" + protocol.Welcome(1).to_bytes()
    lines = io.StringIO()
    with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        memory.remember("tea", id="m1", user_id="ann", tags=["a"])
        memory.remember("oak", id="m2", user_id="ann")
        memory.link(["m1", "m2"], "goes with", user_id="ann")
        memory.export(lines, user_id="ann")
    out["lines"] = b"\x08" + lines.getvalue().encode()
    return out


def mutate(data: bytes, most: int, seed: int, plain: Callable[[bytes, int], bytes]) -> bytes:
    """Change most messages of parts by their arrays and header, all others as bytes."""
    draw = random.Random(seed)
    if not data or data[0] % N_READERS > 2 or draw.random() < 0.3:
        return plain(data, most)
    body = bytes(data[1:])
    kind = KINDS[data[0] % N_READERS]
    try:
        header, arrays = frames.unpack(kind, body + xxhash.xxh3_64_digest(body))
    except HyrecallError:
        return plain(data, most)
    for _ in range(draw.choice((1, 1, 2))):
        if draw.random() < 0.4:
            _change_header(header, draw)
        elif arrays:
            name = draw.choice(sorted(arrays))
            arrays[name] = _changed(arrays[name], draw)
    try:
        out = bytes(data[:1]) + frames.pack(kind, header, arrays)[:-8]
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return data
    return out if len(out) <= most else data


def _change_header(header: Any, draw: random.Random) -> None:
    node = header
    while node:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = draw.choice(keys)
        below = node[key]
        if not isinstance(below, dict | list) or not below or draw.random() < 0.2:
            node[key] = copy.deepcopy(draw.choice(ODD))
            return
        node = below


def _changed(array: Any, draw: random.Random) -> Any:
    if isinstance(array, bytes):
        return random_bytes(array or b"x", len(array) + 64, draw)
    how = draw.randrange(6) if len(array) else 3 + draw.randrange(3)
    if how < 3:
        array, at = array.copy(), draw.randrange(len(array))
        odd = (float("nan"), float("inf"), -0.0, 1e38, -1.0) if array.dtype.kind == "f" else NUMBERS
        with np.errstate(all="ignore"):
            array[at] = np.array(draw.choice(odd)).astype(array.dtype)
        return array
    if how == 3:
        return array[: draw.choice([0, draw.randrange(len(array) + 1)])]
    if how == 4:
        return np.concatenate([array, array])
    with np.errstate(all="ignore"):
        return array.astype(draw.choice(["i8", "u4", "f4", "f8", "u1"]))


def random_bytes(data: bytes, most: int, draw: random.Random) -> bytes:
    """Change a few bytes, as libFuzzer does where it is not there."""
    out = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 5])):
        at = draw.randrange(len(out)) if out else 0
        how = draw.randrange(4)
        if how == 0 and out:
            out[at] ^= 1 << draw.randrange(8)
        elif how == 1 and out:
            out[at] = draw.choice([0, 1, 0x7F, 0x80, 0xC4, 0xFF])
        elif how == 2:
            del out[at : at + draw.choice([1, 4, 8, 64])]
        else:
            out[at:at] = out[at : at + draw.choice([1, 8, 64])]
    return bytes(out[:most])


def case(seed: int) -> str:
    """Check a seed that is changed a few times."""
    draw = random.Random(seed)
    data = draw.choice(sorted(seeds_once().values()))
    for _ in range(draw.choice([1, 1, 2, 3])):
        data = mutate(
            data, 6_000, draw.randrange(2**32), lambda one, most: random_bytes(one, most, draw)
        )
    return check(data)


@cache
def seeds_once() -> dict[str, bytes]:
    return seeds()


def plant() -> None:
    """Let errors of Python and Arrow through the border that words them."""
    frames.MALFORMED = ()  # type: ignore[attr-defined]


def main() -> None:
    import atheris

    for module in (frames, part, request, counts, protocol):
        own = [one for one in vars(module).values() if inspect.isclass(one)]
        for holder in (module, *own):
            for name, one in list(vars(holder).items()):
                if inspect.isfunction(one) and one.__module__ == module.__name__:
                    setattr(holder, name, atheris.instrument_func(one))
    folder = Path(sys.argv[-1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in seeds().items():
        (folder / name).write_bytes(data)
    if os.environ.get("HYRECALL_FUZZ_PLANTED"):
        plant()

    def changed(data: bytes, most: int, seed: int) -> bytes:
        return mutate(bytes(data), most, seed, atheris.Mutate)

    atheris.Setup(sys.argv, lambda data: check(bytes(data)) and None, custom_mutator=changed)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
