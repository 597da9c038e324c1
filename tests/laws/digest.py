"""Prints the instruction set and digests of replies, so that processes can be compared.

``python -m laws.digest N`` with the tests folder on the path prints JSON: the instruction set, and
digests by the first plane of a dense scan and of all recipes.
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterable
from functools import cache

from laws.checks import large_mix
from laws.engine import EngineSubject
from laws.planes import PLANES, VARIABLE
from laws.registry import ENTRIES, Entry
from oracle.corpus import Draw, Mix, draw_call, draw_rows, draw_shape
from oracle.documents import Call, Row, Shape
from oracle.recall import Oracle

Table = tuple[Shape, list[Row], list[Call]]


def of_many(seeds: int) -> Iterable[Table]:
    """Large tables whose rows have many vectors."""
    shape = Shape(cell=("tenant",), dense={"embedding": 40}, many=frozenset({"embedding"}))
    return (large_table(seed, shape) for seed in range(seeds))


def large_table(seed: int, shape: Shape | None = None) -> Table:
    """A large table, of any shape if none is given, and four calls."""
    draw = Draw(seed)
    shape = shape or draw_shape(draw)
    rows = draw_rows(draw, shape, large_mix(draw))
    guide = Oracle(shape, rows)
    return shape, rows, [draw_call(draw, guide, 16) for _ in range(4)]


@cache
def rows_of(n_rows: int, seed: int) -> tuple[Shape, list[Row], Oracle]:
    """A table of four tenants, and the oracle of its first rows."""
    shape = Shape(cell=("tenant",), dense={"embedding": 7})
    rows = draw_rows(Draw(seed), shape, Mix(n_rows=n_rows, n_tenants=4, zipf=True))
    return shape, rows, Oracle(shape, rows[:200])


def table_of(
    n_rows: int, *entries: Entry, n_queries: int = 16, n_calls: int = 1, seed: int = 21
) -> Table:
    """A table of four tenants, and calls for each entry."""
    shape, rows, guide = rows_of(n_rows, seed)
    draw = Draw(seed)
    return shape, rows, [e.call(draw, guide, n_queries) for e in entries for _ in range(n_calls)]


def digest(asked: Iterable[tuple[EngineSubject, list[Call]]]) -> str:
    """SHA-256 over the Arrow bytes of every reply."""
    total = hashlib.sha256()
    for subject, calls in asked:
        for call in calls:
            total.update(subject.recall_bytes(call))
    return total.hexdigest()


def digests(seeds: int) -> dict[str, str]:
    """The instruction set in force, and a digest for each plane and of all recipes."""
    tables = [large_table(seed) for seed in range(seeds)]
    found = {"isa": EngineSubject(*tables[0][:2]).index.stats()["isa"]}
    shape, rows, calls = table_of(400, *ENTRIES, n_queries=8)
    found["recipes"] = digest([(EngineSubject(shape, rows, threaded=True), calls)])
    found["max_sim"] = digest((EngineSubject(*table[:2]), table[2]) for table in of_many(seeds))
    for plane in PLANES:
        os.environ[VARIABLE] = plane  # each call reads it anew
        found[plane] = digest((EngineSubject(*table[:2]), table[2]) for table in tables)
    return found


if __name__ == "__main__":
    print(json.dumps(digests(int(sys.argv[1]))))
