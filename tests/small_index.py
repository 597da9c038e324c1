"""Six documents of three cells, and how a refusal is checked."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr

N = 6
TEXTS = ("hot tea", "cold tea", "green tea", "tea", "coffee", "hot milk")
ONE = np.ones((1, 3), np.float32)


def documents(first: int = 0) -> pa.Table:
    return pa.table(
        {
            "id": [f"k{i}" for i in range(first, first + N)],
            "user": ["ana", "ana", "ana", "bob", "bob", None],
            "text": TEXTS,
            "kind": [0, 1, 0, 1, 0, 1],
        }
    )


VECTORS = np.arange(1, 3 * N + 1, dtype=np.float32).reshape(N, 3)
SCHEMA = hr.Schema(key="id", cell="user", text="text", vector="embedding", attributes="kind")


def built(schema: hr.Schema = SCHEMA, **options: Any) -> hr.Index:
    return hr.Index.build(documents(), schema, vectors={"embedding": VECTORS}, **options)


def refused(
    call: Callable[[], object], kind: type[hr.HyrecallError], message: str, argument: str | None
) -> None:
    """The call raises exactly this; ``argument`` defaults to what stands before the colon."""
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == message
    assert re.fullmatch(r".+?: expected .+, got .+", message, re.DOTALL)
    assert caught.value.argument == (argument or message.split(":", 1)[0])  # type: ignore[attr-defined]


def said(fault: object) -> str:
    """The message of an error without the remedy at its end."""
    return str(fault).removesuffix(f"; {getattr(fault, 'remedy', '')}")


TEXT = {"text": ["tea"], "scope": "ana"}
BOTH = {**TEXT, "vectors": ONE}
