"""Lets SIGTERM end the ``hyrecall`` command where it is the first process of a container.

The kernel drops a signal of process 1 that has no handler. So there is one from the first line of
``hyrecall/__init__.py``, before the packages are imported; other processes keep the default.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path


def end_at_sigterm() -> None:
    """End process 1 at SIGTERM as any other process ends, if it is the command."""
    if os.getpid() != 1 or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return
    name = sys.argv[0] if sys.argv else ""
    # While ``python -m hyrecall`` imports the package, "-m" stands for the module's path.
    of_module = name == "-m" and {"hyrecall", "hyrecall.cli"} & set(sys.orig_argv)
    if of_module or Path(name).name == "hyrecall":
        signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
