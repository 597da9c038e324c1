"""The process of one shard: ``python -m hyrecall.distributed.worker PATH``.

It opens the index of the path and answers what comes on standard input, until that ends. A saved
version that is newer than its own is taken up before a request is counted.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import IO

from hyrecall.distributed.pipes import PipeClosed, plain_error, read_frames, write_frames
from hyrecall.errors import InternalError, error
from hyrecall.index import Index
from hyrecall.parts.counts import Statistics
from hyrecall.parts.request import Request

__all__ = ["main", "serve"]


def main(arguments: list[str] | None = None) -> None:
    """Open the index of the command line and answer until standard input ends."""
    parser = argparse.ArgumentParser(prog="hyrecall.distributed.worker")
    parser.add_argument("path")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int)
    given = parser.parse_args(arguments)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything prints must not reach the answers
    serve(given.path, given.device, given.threads, sys.stdin.buffer, answers)


def serve(
    path: str, device: str, threads: int | None, questions: IO[bytes], answers: IO[bytes]
) -> None:
    """Answer the questions of a pipe about the index of a path, until the pipe ends."""
    index: Index | None = None
    while True:
        try:
            verb, *frames = read_frames(questions)
        except PipeClosed:
            return
        try:
            if index is None:
                index = Index.open(path, device=device, threads=threads)
            kind, answer = b"answer", _answer(index, verb, frames)
        except Exception as fault:
            kind, answer = b"error", plain_error(fault)
        try:
            write_frames(answers, kind, answer)
        except OSError:
            return


def _answer(index: Index, verb: bytes, frames: list[bytes]) -> bytes:
    request = Request.from_bytes(frames[0])
    if verb == b"statistics":
        if index.is_stale:
            index.reload()
        return index.statistics(request).to_bytes()
    if verb == b"candidates":
        return index.candidates(request, Statistics.from_bytes(frames[1])).to_bytes()
    raise error(InternalError, "verb", "statistics or candidates", verb)


if __name__ == "__main__":
    main()
