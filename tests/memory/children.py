"""Forked children of a test."""

import os
import warnings
from collections.abc import Callable


def fork() -> int:
    """Fork; newer Pythons warn of threads that are there, which here are not the child's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def in_child(work: Callable[[], int]) -> int:
    """Run in a forked child; give its exit code, or minus the signal that killed it."""
    child = fork()
    if child == 0:
        code = 99
        try:
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
