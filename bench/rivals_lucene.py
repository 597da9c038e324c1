"""Lucene as a rival, in a process of its own that ``LuceneRival.java`` describes.

``HYRECALL_LUCENE`` names a folder with Anserini's jar, which has Lucene in it (README.md has the
commands); without it, or without a JDK, Lucene is left out by name. Nothing of it is part of this
project.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import weakref
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from bench.rivals_lexical import Reply, Searcher

_SOURCE = Path(__file__).with_name("LuceneRival.java")
_WARM_UPS = 5  # the virtual machine compiles what runs often
_OPTIONS = ("-Xms2g", "-Xmx6g", "-XX:+UseSerialGC")


def _tools() -> tuple[Path, str, str]:
    """Return the jar, the compiler and the virtual machine; skip where one is missing."""
    folder = os.environ.get("HYRECALL_LUCENE")
    if not folder:
        pytest.skip("HYRECALL_LUCENE names no folder with Anserini's jar")
    (jar,) = Path(folder).rglob("anserini-*.jar")
    javac = shutil.which("javac")
    # A newer one beside the jar, where there is one: Lucene reads files faster from Java 21 on.
    beside = [str(one) for one in Path(folder).rglob("bin/java")]
    java = beside[0] if beside else shutil.which("java")
    if javac is None or java is None:
        pytest.skip("Lucene needs a JDK: java and javac")
    return jar, javac, java


class LuceneIndex:
    """Texts indexed by Lucene in one segment, in a process that ends when the index does."""

    def __init__(self, texts: list[str]) -> None:
        """Index texts; their numbers are the rows of the answers."""
        jar, javac, java = _tools()
        path = Path(tempfile.mkdtemp(prefix="lucene-"))
        subprocess.run([javac, "-cp", jar, "-d", path, _SOURCE], check=True)
        lines = path / "texts"
        lines.write_text("".join(f"{text}\n" for text in texts))
        classes = f"{jar}{os.pathsep}{path}"
        self._process = subprocess.Popen(
            [java, *_OPTIONS, "-cp", classes, _SOURCE.stem, lines, path / "index"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        weakref.finalize(self, _end, self._process, path)
        (n,) = self._read(1, ">i4")
        assert n == len(texts), f"Lucene indexed {n} of {len(texts)} texts"

    def searcher(self, queries: list[str], k: int, threads: int) -> Searcher:
        """Return a search that has answered these queries a few times."""
        for _ in range(_WARM_UPS):
            self._search(queries, k, threads)
        return lambda asked, most: self._search(asked, most, threads)

    def _search(self, queries: list[str], k: int, threads: int) -> Reply:
        encoded = [query.encode() for query in queries]
        head = np.array([threads, k, len(encoded)], ">i4").tobytes()
        parts = [part for text in encoded for part in (len(text).to_bytes(4, "big"), text)]
        pipe = self._process.stdin
        assert pipe is not None
        pipe.write(head + b"".join(parts))
        pipe.flush()
        shape = (len(encoded), k)
        ids = self._read(len(encoded) * k, ">i4").astype(np.int64).reshape(shape)
        return ids, self._read(len(encoded) * k, ">f4").astype(np.float64).reshape(shape)

    def _read(self, n: int, kind: str) -> np.ndarray:
        pipe: IO[bytes] | None = self._process.stdout
        assert pipe is not None
        data = pipe.read(4 * n)
        assert len(data) == 4 * n, f"Lucene ended with {self._process.poll()}"
        return np.frombuffer(data, kind)


def _end(process: subprocess.Popen[bytes], path: Path) -> None:
    process.kill()
    with process:  # closes its pipes, waits for it
        pass
    shutil.rmtree(path)
