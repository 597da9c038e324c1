"""A lexical column made from parts checks all that its scans follow."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import _core

Parts = dict[str, Any]
Change = Callable[[Parts], None]

TEXTS = ["tea oak", "oak " * 300, None, "", "ash tea tea", *["tea fir"] * 8200, "oak yew"]


@pytest.fixture(scope="module")
def column() -> _core.LexicalColumn:
    """Postings in two tiles of rows, and some whose length does not fit into their bits."""
    table = pa.table({"id": range(len(TEXTS)), "text": pa.array(TEXTS, pa.string())})
    index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"), device="cpu")
    return index._state.segments[0].lexical["text"]


@pytest.fixture
def parts(column: _core.LexicalColumn) -> Parts:
    """Copies of its parts, to be changed."""
    return {
        name: np.array(part) if isinstance(part, np.ndarray) else part
        for name, part in column.parts().items()
    }


def made(parts: Parts) -> _core.LexicalColumn:
    return _core.LexicalColumn.from_parts("body", parts, 2)


def test_the_parts_of_a_column_make_the_same_column(
    column: _core.LexicalColumn, parts: Parts
) -> None:
    assert len(parts["escapes"]) > 0
    assert len(parts["runs"]) // 2 > column.n_terms, "some term is in two tiles"
    again = made(parts).parts()
    for name, part in column.parts().items():
        np.testing.assert_array_equal(again[name], part, err_msg=name)


def put(name: str, at: int, value: int) -> Change:
    def change(parts: Parts) -> None:
        parts[name][at] = value

    change.__name__ = f"{name}[{at}] = {value}"
    return change


def cut(name: str, n: int = 1) -> Change:
    def change(parts: Parts) -> None:
        parts[name] = parts[name][:-n]

    change.__name__ = f"{name} without its last {n}"
    return change


def scale(name: str, step: int) -> Change:
    def change(parts: Parts) -> None:
        parts[name] = parts[name] + np.asarray(step).astype(parts[name].dtype)

    change.__name__ = f"{name} + {step}"
    return change


def width(value: int) -> Change:
    def change(parts: Parts) -> None:
        parts["posting_width"] = value

    change.__name__ = f"width {value}"
    return change


def turned(name: str) -> Change:
    def change(parts: Parts) -> None:
        parts[name] = parts[name][::-1].copy()

    change.__name__ = f"{name} turned round"
    return change


def first_token(value: int) -> Change:
    """Another byte as the first token of the first document."""
    return put("forward_bytes", 0, value)


CHANGES = [
    *(put(name, -1, 2**40) for name in ("term_offsets", "posting_offsets", "forward_offsets")),
    *(put(name, -1, 2**31) for name in ("run_offsets", "escape_offsets")),
    *(put(name, 1, 2**62) for name in ("term_offsets", "posting_offsets", "forward_offsets")),
    put("term_offsets", 0, -1),
    put("term_offsets", 0, -(2**63)),
    *(turned(f"{name}_offsets") for name in ("term", "posting", "forward", "run", "escape")),
    *(cut(name) for name in ("posting_offsets", "forward_offsets", "run_offsets")),
    *(cut(name) for name in ("doc_lengths", "postings", "forward_bytes", "term_bytes")),
    *(cut(name, 2) for name in ("runs", "escapes")),
    *(scale("runs", step) for step in (1, 2**31)),
    scale("escapes", 1),
    scale("doc_lengths", 1),
    put("doc_lengths", 0, 2**32 - 1),
    *(put("doc_lengths", 3, length) for length in (1, 5, 2**32 - 257)),  # of no tokens
    *(put("doc_lengths", 1, length) for length in (299, 301)),  # of postings without a length
    *(put("postings", at, 255) for at in (0, 1, 2, -1, -2, -3)),
    *(width(value) for value in (0, 1, 2, 4, 5, 2**32 - 1)),
    *(first_token(value) for value in (0, 0x7F, 0x80, 0xFF, 3)),
    put("forward_bytes", -1, 0x80),
    put("forward_bytes", -1, 0),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_parts_that_no_build_makes_are_refused(parts: Parts, change: Change) -> None:
    change(parts)
    with pytest.raises(hr.CorruptIndexError, match=r"^body: expected .*, got ") as caught:
        made(parts)
    assert caught.value.argument == "body"


def test_tokens_and_postings_of_different_documents_are_refused(parts: Parts) -> None:
    """Each is well made; only together they do not fit."""
    tokens = parts["forward_bytes"]
    begin, end = parts["forward_offsets"][[4, 5]]
    tokens[begin:end] = tokens[begin:end][::-1]  # ash tea tea: one occurrence more or less of each
    tokens[begin + 1] = tokens[begin + 2]
    with pytest.raises(hr.CorruptIndexError, match="postings of the documents' tokens"):
        made(parts)


@pytest.mark.parametrize("seed", range(8))
def test_random_changes_make_a_column_that_can_be_read_or_none(parts: Parts, seed: int) -> None:
    """Whatever passes the checks survives being read from end to end."""
    draw = np.random.default_rng(seed)
    whole = {name: part.copy() for name, part in parts.items() if isinstance(part, np.ndarray)}
    for _ in range(12):
        name = draw.choice(sorted(whole))
        changed: npt.NDArray[Any] = whole[name].copy()
        raw = changed.view(np.uint8)
        raw[draw.integers(len(raw))] ^= 1 << draw.integers(8)
        try:
            column = made({**parts, name: changed})
        except hr.CorruptIndexError:
            continue
        rows = np.arange(len(TEXTS), dtype=np.uint32)
        _core.LexicalColumn.merge([column], np.zeros(len(TEXTS), np.uint32), rows)
