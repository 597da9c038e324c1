"""Bytes that other processes and files may hand over, guided by coverage where atheris is there.

    python -m fuzz.peers -max_total_time=30 CORPUS       (with tests in PYTHONPATH)

The first byte chooses the reader. Oracle: a typed error or a value, within a second, that is not
much larger than its bytes. ``HYRECALL_FUZZ_PLANTED=1`` takes the border away that words what Arrow
and Python say.
"""

from __future__ import annotations

import datetime as dt
import inspect
import io
import os
import random
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

import hyrecall as hr
from hyrecall.errors import HyrecallError, InternalError
from hyrecall.memory import MemorySync
from hyrecall.recipes import loom
from seams import CODEC, Manifest, manifest_module, protocol

N_READERS = 5
SECONDS = 1.0
NUMBERS = (0, 1, -1, 7, 10**6, 2**31, 2**32, 3 * 10**9, 2**62, 2**63 - 1, -(2**63))
ODD: tuple[Any, ...] = (
    None, -1, 2**40, 2**63, 1e308, float("nan"), "x", "", [], {}, [[]], True,
    {"kind": "timedelta", "of": [10**12, 0, 0]},
)  # fmt: skip


@cache
def store() -> MemorySync:
    return MemorySync.in_memory(recipe=loom, embedder=None)


def read(data: bytes) -> Any:
    """Read bytes by the reader of the first one."""
    which, body = data[0] % N_READERS, data[1:]
    if which in (0, 1):
        return CODEC.decode(body)
    if which == 2:
        kind = protocol.Hello if body[:1] < b"\x85" else protocol.Welcome
        return kind.of_bytes(body)
    if which == 3:
        text = body + b"\n"
        text += f"xxh3_64 {xxhash.xxh3_64_hexdigest(text)}\n".encode()
        return Manifest.from_bytes(text, Path("MANIFEST"))
    return store().import_(io.StringIO(body.decode("utf-8", "surrogateescape")))


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
        if data[0] % N_READERS not in (0, 1):  # the constructor of a class may refuse its values
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
    out = {}
    values: list[Any] = [
        {"a": (1, 2.5, None), 2: [b"x", "é"]}, {1, 2}, frozenset("ab"), 2**80, dt.date(2026, 1, 1),
        dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.time(1), dt.timedelta(1), np.float64(2), loom,
        np.arange(6, dtype=np.float32).reshape(2, 3), np.array(["a", "bc"]), np.array([b"xx"]),
        np.array(["2026-01-01"], "M8[D]"),
    ]  # fmt: skip
    out |= {f"wire{at}": b"\x00" + CODEC.encode(one) for at, one in enumerate(values)}
    out["hello"] = b"\x02" + protocol.Hello(1).to_bytes()
    out["welcome"] = b"\x02" + protocol.Welcome(1).to_bytes()
    lines = io.StringIO()
    with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        memory.remember("tea", id="m1", user_id="ann", tags=["a"])
        memory.remember("oak", id="m2", user_id="ann")
        memory.link(["m1", "m2"], "goes with", user_id="ann")
        memory.export(lines, user_id="ann")
    with tempfile.TemporaryDirectory() as folder:
        rows = pa.table({"id": [1], "x": ["tea"]})
        index = hr.Index.build(rows, hr.Schema(key="id", cell=None, text="x"), device="cpu")
        index.save(folder)
        whole = (Path(folder) / "MANIFEST").read_bytes()
    out["manifest"] = b"\x03" + whole[: whole.rindex(b"\n", 0, -1)]
    out["lines"] = b"\x04" + lines.getvalue().encode()
    return out


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
        data = random_bytes(data, 6_000, draw)
    return check(data)


@cache
def seeds_once() -> dict[str, bytes]:
    return seeds()


def plant() -> None:
    """Let errors of Python and Arrow through the border that words them."""
    manifest_module.MALFORMED = ()  # type: ignore[attr-defined]


def main() -> None:
    import atheris

    for module in (manifest_module, protocol):
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

    atheris.Setup(sys.argv, lambda data: check(bytes(data)) and None)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
