"""Stores as released versions wrote them. ``python -m memory.golden_stores`` makes this version's.

A format's store is made once, when the format is new, and kept: every later version opens it.
"""

from __future__ import annotations

import base64
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hyrecall.memory.sql.database import DATABASE, Database
from hyrecall.memory.sql.schema import FORMAT
from memory.faults.work import contents, do

__all__ = ["GOLDEN", "as_json", "make"]

GOLDEN = Path(__file__).parent / "golden"
SEED = 20261122
N_STEPS = 60


def as_json(found: dict[str, list[Any]]) -> Any:
    """Contents, with bytes as base64, as they come back from JSON."""
    encode = lambda value: {"base64": base64.b64encode(value).decode()}  # noqa: E731
    return json.loads(json.dumps(found, default=encode))


def make(folder: Path) -> None:
    """Write the store and what is in it."""
    with tempfile.TemporaryDirectory() as working:
        database = Database.open(Path(working) / "store")
        for at in range(N_STEPS):
            do(database, SEED, at)
        found = as_json(contents(database))
        database.close()
        folder.mkdir(parents=True)
        shutil.copy(Path(working) / "store" / DATABASE, folder / DATABASE)
    lines = [f'"{name}": {json.dumps(rows)}' for name, rows in found.items()]
    (folder / "contents.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    place = GOLDEN / f"format_{FORMAT}"
    if place.exists():
        sys.exit(f"{place.name} is there, and is kept")
    make(place)
