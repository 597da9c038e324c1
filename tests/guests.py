"""Packages that users bring: a test that needs one which is not there skips by its own name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest


def torch_or_skip() -> Any:
    """Return torch, or skip the test that asks."""
    return pytest.importorskip("torch", reason="torch is not installed (the extra [torch])")


@dataclass(frozen=True)
class FromTorch:
    """A test's value that torch makes, when the test runs: collecting needs no torch."""

    make: Callable[[Any], Any]


def made(value: Any) -> Any:
    """Return the value itself, made by torch if it must be."""
    return value.make(torch_or_skip()) if isinstance(value, FromTorch) else value
