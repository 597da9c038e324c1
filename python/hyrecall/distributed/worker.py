"""The process of one shard: ``python -m hyrecall.distributed.worker PATH``.

It opens the index of the path and answers the questions on standard input until that ends. It
loads a newer saved version before ``statistics`` and ``alone``, and by ``reload``,
unless ``--seal`` names the only version that it may open. The first answer after a version was
opened has the seal of this version as a third frame, which ``--checked`` passes to the next
process.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TypeVar

from hyrecall.distributed.channel import (
    PipeClosed,
    plain_error,
    read_frames,
    write_frames,
)
from hyrecall.distributed.shards import ShardOpening
from hyrecall.errors import (
    CorruptIndexError,
    IndexNotFoundError,
    InternalError,
    ShardLostError,
    error,
)
from hyrecall.index import Index
from hyrecall.parts.counts import Statistics
from hyrecall.parts.request import Request
from hyrecall.segments.manifest import MANIFEST, read_seal

T_ = TypeVar("T_")

_LOADING = (b"statistics", b"alone", b"reload")
"""Questions before which a newer saved version is loaded."""

MOST_RECENT = 16
MOST_RECENT_BYTES = 1 << 20
"""Limits of the recent requests that are kept; the newest one is always kept."""


def main(arguments: list[str] | None = None) -> None:
    """Open the index of the command line and answer until standard input ends."""
    parser = argparse.ArgumentParser(prog="hyrecall.distributed.worker")
    parser.add_argument("path")
    parser.add_argument("--opening", type=ShardOpening.from_json, default=ShardOpening())
    parser.add_argument("--seal")
    parser.add_argument("--checked")
    given = parser.parse_args(arguments)
    # Ctrl-C in a terminal goes to this process too; the asking process decides when it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # printed text must not mix with the answers
    answering = IndexAnswerer(given.path, given.opening, given.seal, given.checked)
    serve(answering, sys.stdin.buffer, answers)


def serve(answering: IndexAnswerer, questions: IO[bytes], answers: IO[bytes]) -> None:
    """Answer the questions of a pipe until the pipe ends."""
    while True:
        try:
            verb, *frames = read_frames(questions)
        except PipeClosed:
            return
        try:
            write_frames(answers, *answering.ask(verb, *frames), *answering.newly_checked())
        except OSError:
            return


class IndexAnswerer:
    """Answers questions about the index of a path, which the first question opens."""

    def __init__(
        self,
        path: str,
        opening: ShardOpening,
        seal: str | None = None,
        checked: str | None = None,
    ) -> None:
        self._path = path
        self._opening = opening
        self._seal = seal
        self._checked = checked
        self._told = checked  # which version the other side knows to be checked
        self._index: Index | None = None
        self._damaged: tuple[str, CorruptIndexError] | None = None
        self._met: CorruptIndexError | None = None  # by a question since the last reload
        self._recent: dict[bytes, Request] = {}  # the newest last

    def ask(self, verb: bytes, *frames: bytes) -> tuple[bytes, bytes]:
        """Return ``b"answer"`` and the answer, or ``b"error"`` and the error as JSON."""
        try:
            if verb == b"reload":  # the files may have been repaired
                self._damaged = self._met = None
            if self._index is None:
                self._index = self._unless_damaged(self._opened)
            return b"answer", self._answer(self._index, verb, frames)
        except Exception as fault:
            if isinstance(fault, CorruptIndexError) and not isinstance(fault, IndexNotFoundError):
                self._met = fault
            return b"error", plain_error(fault)

    def newly_checked(self) -> tuple[bytes, ...]:
        """Return the seal of the open version if it was not returned before; else nothing."""
        seals = () if self._index is None else self._index._lineage.seals
        if not seals or seals == (self._told,):
            return ()
        (self._told,) = seals
        return (self._told.encode(),)

    def _opened(self) -> Index:
        """Open the index."""
        try:
            index = self._checked_once()
        except IndexNotFoundError as fault:
            raise error(ShardLostError, self._path, "a saved index", "none any more") from fault
        if self._seal is not None and index._lineage.seals != (self._seal,):
            index.close()
            wish, got = f"the version {self._seal} that was opened", "another one"
            remedy = "index.reload(), or open the folder of shards again"
            raise error(ShardLostError, self._path, wish, got, remedy)
        return index

    def _checked_once(self) -> Index:
        """Open the index, without the checks of a version that another process has checked."""
        if self._checked is None or self._checked != self._seal_now():
            return self._opening.open(self._path)
        index = self._opening.once_checked.open(self._path)
        if index._lineage.seals != (self._checked,):  # it was saved anew meanwhile
            index.close()
            return self._opening.open(self._path)
        # A newer version that is taken up later gets all checks.
        index._opening = replace(index._opening, verify=self._opening.verify)
        return index

    def _seal_now(self) -> str | None:
        """Return the seal of the saved version; None: it cannot be read."""
        try:
            return read_seal(Path(self._path) / MANIFEST)
        except (OSError, CorruptIndexError):
            return None

    def _unless_damaged(self, read: Callable[[], T_]) -> T_:
        """Return the result of ``read``, unless the saved version is known to be damaged."""
        seal = self._seal_now()
        if self._damaged is not None and self._damaged[0] == seal:
            raise self._damaged[1].with_traceback(None)
        try:
            return read()
        except IndexNotFoundError:
            raise
        except CorruptIndexError as fault:
            if seal is not None:
                self._damaged = seal, fault
            raise

    def _answer(self, index: Index, verb: bytes, frames: Sequence[bytes]) -> bytes:
        may_change = self._seal is None and verb in _LOADING
        if may_change and index.is_stale:
            with contextlib.suppress(IndexNotFoundError):  # the open version stays readable
                self._unless_damaged(index.reload)
                self._met = None
        if verb == b"state" and self._met is not None:
            raise self._met.with_traceback(None)
        if verb in (b"reload", b"state"):
            return index._version.encode()
        request = self._read(frames[0])
        if verb in (b"statistics", b"count"):
            return index.statistics(request).to_bytes()
        if verb == b"candidates":
            return index.candidates(request, Statistics.from_bytes(frames[1])).to_bytes()
        if verb in (b"alone", b"alone_as_it_is"):
            return index.candidates(request, index.statistics(request)).to_bytes()
        wish = "statistics, count, candidates, alone, alone_as_it_is, reload or state"
        raise error(InternalError, "verb", wish, verb)

    def _read(self, data: bytes) -> Request:
        """Return the request of some bytes."""
        # Both questions of a recall send the same bytes, with those of other recalls in between.
        found = self._recent.pop(data, None)
        if found is None:
            found = Request.from_bytes(data)
        self._recent[data] = found
        while len(self._recent) > 1 and (
            len(self._recent) > MOST_RECENT or sum(map(len, self._recent)) > MOST_RECENT_BYTES
        ):
            del self._recent[next(iter(self._recent))]
        return found


if __name__ == "__main__":
    main()
