"""Indexes over the six documents, one for all tests of a file; and the emulated device."""

import os
from typing import Any

import pyarrow as pa
import pytest

import hyrecall as hr
from emulated_guests import emulator
from small_index import TEXTS, VECTORS, built, documents


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    controls = emulator()
    monkeypatch.setenv("HYRECALL_CUDA_LIBRARY", os.environ["HYRECALL_EMULATED"])
    return controls


@pytest.fixture(scope="module")
def index() -> hr.Index:
    return built()


@pytest.fixture(scope="module")
def many() -> hr.Index:
    """Two arms of each kind."""
    table = documents().append_column("title", pa.array(TEXTS[::-1]))
    schema = hr.Schema(
        key="id",
        cell="user",
        text={"title": "title", "body": hr.Text("title", "text")},
        vector=("near", "far"),
    )
    return hr.Index.build(table, schema, vectors={"near": VECTORS, "far": VECTORS[:, :2]})


@pytest.fixture(scope="module")
def only_text() -> hr.Index:
    return hr.Index.build(documents(), hr.Schema(key="id", cell=None, text="text"))


@pytest.fixture(scope="module")
def only_vector() -> hr.Index:
    schema = hr.Schema(key="id", cell="user", vector="embedding")
    return hr.Index.build(documents(), schema, vectors={"embedding": VECTORS})
