"""A process that forks children which save and push, and kills them.

``python -m replicas.kill_child`` reads one order a line and answers each with a line: it has
imported what the children need, so that each starts at once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from hyrecall.errors import HyrecallError
from hyrecall.replicas import pull, push
from replicas.world import index_versions, next_index, next_store, store_versions

# Imported before the first fork, or each child would import them.
_ = (pull, index_versions, store_versions)


def work(order: dict[str, Any], told: int) -> None:
    """Save and push one version after the other, and tell of each when it is pushed."""
    folder, version = Path(order["folder"]), order["version"]
    step = next_store if order["kind"] == "store" else next_index
    while True:
        if order["is_pull"]:
            pull(order["url"], folder)
        else:
            step(folder, version)
            push(folder, order["url"])
        os.write(told, b".")
        version += 1


def killed(order: dict[str, Any]) -> dict[str, Any]:
    """Fork a child and kill it some time after it has told of some versions.

    Returns how it ended, of how many versions it told, and what it failed with.
    """
    ends = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(ends[0])
            work(order, ends[1])
        except HyrecallError as fault:
            os.write(ends[1], f"!{type(fault).__name__}: {fault}".encode())
        finally:
            os._exit(1)
    os.close(ends[1])
    with os.fdopen(ends[0], "rb", buffering=0) as file:
        told = file.read(order["wait_for"]).decode() if order["wait_for"] else ""
        time.sleep(order["after"])
        os.kill(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        told += file.read().decode()
    return {"ended": status, "told": told.count("."), "fault": told.partition("!")[2]}


def main() -> None:
    """Answer orders until there are no more."""
    for line in sys.stdin:
        print(json.dumps(killed(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
