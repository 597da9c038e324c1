"""A wrong field of a memory is an error of this package that names it, never one of pydantic."""

from collections.abc import Callable

import pytest

import hyrecall as hr
from hyrecall.memory import MemorySync
from hyrecall.recipes import loom


def refused(call: Callable[[], object], kind: type[hr.HyrecallError], told: str) -> None:
    with pytest.raises(hr.HyrecallError) as raised:
        call()
    assert type(raised.value) is kind
    assert str(raised.value).startswith(told)
    assert raised.value.argument == told.partition(":")[0]
    assert raised.value.__cause__ is None


def test_a_number_of_too_many_digits_is_called_so() -> None:
    told = "metadata: expected JSON, got an int of more than 4,300 digits"
    with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        refused(lambda: memory.remember("tea", metadata={"n": 10**5_000}), hr.OptionError, told)
