"""Prints the instruction set and a digest of replies, so that processes can be compared.

``python -m laws.digest N`` with the tests folder on the path.
"""

import hashlib
import sys

from laws.checks import large_mix
from laws.engine import EngineSubject
from oracle.corpus import Draw, draw_call, draw_rows, draw_shape
from oracle.recall import Oracle


def digest(seeds: int) -> str:
    """The instruction set in force, and SHA-256 over the Arrow bytes of every reply."""
    total = hashlib.sha256()
    for seed in range(seeds):
        draw = Draw(seed)
        shape = draw_shape(draw)
        rows = draw_rows(draw, shape, large_mix(draw))
        subject, guide = EngineSubject(shape, rows), Oracle(shape, rows)
        for _ in range(4):
            total.update(subject.recall_bytes(draw_call(draw, guide, 16)))
    return f"{subject.index.stats()['isa']} {total.hexdigest()}"


if __name__ == "__main__":
    print(digest(int(sys.argv[1])))
