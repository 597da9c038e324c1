"""An index whose segments have heads of 8 bits, of 4 or none, as one of before that grew."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from engine.head_definition import REST, is_narrow
from engine.test_dense_heads import DIM, built, heads_of, spectral
from engine.test_dense_plane import is_plain_reply


@pytest.mark.parametrize("fronts", [("head8", "head4"), ("head4", "head8"), ("head4", "int8")])
def test_each_segment_keeps_the_heads_that_it_has(
    fronts: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, other = spectral(9_000, DIM), spectral(5_000, DIM, seed=6)
    monkeypatch.setenv("HYRECALL_FRONT_PLANE", fronts[0])
    index = built(made.rows, cells=5)
    monkeypatch.setenv("HYRECALL_FRONT_PLANE", fronts[1])
    columns = {"id": np.arange(9_000, 14_000), "cell": np.arange(5_000) % 5}
    table = pa.table(columns | {"at": np.arange(5_000) % 7})
    index.add(table, vectors={"embedding": other.rows})
    index.save(tmp_path)
    index = hr.Index.open(tmp_path, device="cpu")
    n_heads = DIM // 2 + REST
    narrow = [head and is_narrow(head[1], n_heads) for head in heads_of(index)]
    of = {"head8": False, "head4": True, "int8": None}
    assert narrow == [of[front] for front in fronts]
    for front in ("head4", "head8"):
        monkeypatch.setenv("HYRECALL_FRONT_PLANE", front)
        for queries in (made.queries[:1], other.queries[:1], made.queries):
            assert is_plain_reply(monkeypatch, index, queries, 30, 5)
    index.compact()
    (head,) = heads_of(index)
    assert head is not None
    assert is_narrow(head[1], n_heads) == narrow[0], "a merge keeps the heads of most rows"
    assert is_plain_reply(monkeypatch, index, made.queries, 30, 5)
