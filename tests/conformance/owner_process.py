"""The process that owns stores which the tests' process uses: it opens and closes them as told."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from conformance.store_face import Opening
from conformance.store_python import opening_options
from hyrecall.memory import MemorySync


def main() -> None:
    os.environ["HYRECALL_EMBED_DISABLE"] = "1"  # read where a scenario names no embedder
    memory: MemorySync | None = None
    for line in sys.stdin:
        match json.loads(line):
            case ["open", folder, recipe, embeds]:
                options = opening_options(Opening(Path(folder), recipe, embeds))
                memory = MemorySync.open(folder, **options)
            case ["close"]:
                assert memory is not None
                memory.close()
        print("done", flush=True)


if __name__ == "__main__":
    main()
