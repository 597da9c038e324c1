"""Several worker processes answer from one index, and read and write one store.

Each process opens the folders itself. The files of an index are memory-mapped, so the workers share
one copy; one process writes it. A store is written by all: the first process that opens it owns it,
the others reach the owner through a socket in its folder, and when the owner ends another one takes
over. So a web application that opens a store when a worker starts needs nothing more to run with
``uvicorn --workers 4``.
"""

import multiprocessing
import os
import pickle
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path

import pyarrow as pa

import hyrecall as hr
from hyrecall.memory import MemorySync

STORE = {"recipe": hr.recipes.default, "embedder": None}  # the same in every process


def write(folder: Path) -> None:
    """Add documents and memories. This is the only process that writes the index."""
    index = hr.Index.open(folder / "index")
    with MemorySync.open(folder / "store", **STORE) as memory:
        for cup in range(4):
            rows = {"id": [f"a{cup}", f"b{cup}"], "user": ["ann", "bob"], "text": ["tea", "tea"]}
            index.add(pa.table(rows))
            index.save(folder / "index")  # readers see all of it or none of it
            memory.remember(f"tea, cup {cup}", user_id="ann")  # on disk when this returns


@cache  # once in each worker; the pool has processes, so one thread each is enough
def opened(folder: Path) -> tuple[hr.Index, MemorySync]:
    """Open the index and the store for a worker."""
    index = hr.Index.open(folder / "index", threads=1)
    return index, MemorySync.open(folder / "store", threads=1, **STORE)


def answer(folder: Path, user: str) -> tuple[int, int, int]:
    """Return the worker's process id, and how many documents and memories it finds for a user."""
    index, memory = opened(folder)
    if index.is_stale:  # reads one small file
        index.reload()  # reads only the segments that are new
    matches = memory.search("tea", user_id=user)  # sees every write that was acknowledged
    memory.remember("asked for cups", user_id=f"log of {user}")  # workers write, too
    return os.getpid(), len(index.recall_one(text="tea", scope=user)), len(matches)


def main(folder: Path) -> None:
    """Start the writer and the workers, and show what is refused."""
    table = pa.table({"id": ["a"], "user": ["ann"], "text": ["white tea"]})
    index = hr.Index.build(table, hr.Schema(key="id", cell="user", text="text"))
    index.save(folder / "index")

    spawn = multiprocessing.get_context("spawn")  # an open store does not survive a fork
    ask = partial(answer, folder)
    with ProcessPoolExecutor(2, mp_context=spawn) as pool:
        writer = spawn.Process(target=write, args=(folder,))
        writer.start()
        while writer.is_alive():
            print("now:", *pool.map(ask, ["ann", "bob"]))
            writer.join(timeout=0.1)
        assert [found for _, *found in pool.map(ask, ["ann", "bob"])] == [[5, 4], [4, 0]]

    index.add(pa.table({"id": ["late"], "user": ["ann"], "text": ["cold tea"]}))
    with MemorySync.open(folder / "store", **STORE) as memory:
        assert memory.list(user_id="log of ann")
        for refused in (
            lambda: pickle.dumps(index),  # share the folder instead
            lambda: index.save(folder / "index"),  # would undo the writer's save
            lambda: pickle.dumps(memory),
            lambda: MemorySync.open(folder / "store", shared=False, **STORE),  # it is in use
        ):
            try:
                refused()
            except hr.HyrecallError as error:
                print(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
