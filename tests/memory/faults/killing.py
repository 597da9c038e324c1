"""The parent of the process that kills, and what it finds in the stores afterwards."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memory.faults.work import Expected, contents
from seams import Database, examine

Kill = Callable[..., dict[str, int]]
MANY = 10_000


@contextmanager
def killing() -> Iterator[Kill]:
    """Has a child of a process without torch write to a store, and gives how it ended.

    ``after`` so many seconds it is killed, counted from when it has told of ``wait_for`` steps;
    or at a ``point``, when it comes there for the ``nth`` time.
    """
    path = os.pathsep.join(one for one in sys.path if one)
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "memory.faults.kill_child"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    told, answers = process.stdin, process.stdout

    def order(folder: Path, **options: Any) -> dict[str, int]:
        plain: dict[str, Any] = {
            "folder": str(folder), "seed": 0, "start": 0, "steps": MANY, "after": None,
            "wait_for": 0, "point": "", "nth": 1, "early": False, "whole": False,
        }  # fmt: skip
        told.write(json.dumps(plain | options) + "\n")
        told.flush()
        answer: dict[str, int] = json.loads(answers.readline())
        return answer

    yield order
    told.close()
    process.wait()
    answers.close()


def survivors(folder: Path, expected: Expected, start: list[int], told: int, at: int) -> list[int]:
    """The steps that are in the store: those that were told of, and perhaps the one after.

    ``start`` were there before, the child began with step ``at``.
    """
    done = [*start, *range(at, at + told)]
    database = Database.open(folder)
    found = contents(database)
    report = examine(database, full=True)
    assert report.ok, report
    database.close()
    for steps in (done, [*done, at + told]):
        if found == expected.after(steps):
            return steps
    raise AssertionError(f"{folder}: none of what {told} told steps, or one more, leave")
