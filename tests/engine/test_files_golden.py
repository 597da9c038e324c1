"""A folder written before still opens, and the layout changes only with its number.

A folder of today's format is kept under ``golden/``. It was written once by
``golden_index().save(...)``; its analyzer is a callable, so that no table of ours is part of it.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from seams import segments_FORMAT as FORMAT

FOLDER = Path(__file__).parent / "golden" / f"format-{FORMAT}"


def words(text: str) -> list[str]:
    return text.split()


DTYPES = {"v": "float32", "h": "float16", "b": "bfloat16"}
ANALYZER = hr.Analyzer.from_callable(words, name="words", version="1")


def rows(first: int, texts: list[str | None]) -> pa.Table:
    """Rows of two users; the vectors are whole numbers, exact in every dtype."""
    n = len(texts)
    vectors = [[float((first + i) % 5), 1.0, float(i % 3), -2.0] for i in range(n)]
    vectors[0] = [0.0] * 4
    return pa.table(
        {
            "id": [f"k{first + i}" for i in range(n)],
            "user": ["ann" if (first + i) % 3 else "ben" for i in range(n)],
            "text": pa.array(texts, pa.string()),
            "year": pa.array([None if i == 2 else 2000 + i for i in range(n)], pa.int16()),
            "v": pa.array(vectors, pa.list_(pa.float32(), 4)),
            "h": pa.array(np.array(vectors, np.float16).tolist(), pa.list_(pa.float16(), 4)),
            "b": pa.array(
                (np.array(vectors, np.float32).view(np.uint32) >> 16).astype(np.uint16).tolist(),
                pa.list_(pa.uint16(), 4),
            ),
        }
    )


def golden_index() -> hr.Index:
    """Two segments, deleted rows, three dtypes, blocks of postings, a null text, a zero vector."""
    schema = hr.Schema(
        key="id",
        cell="user",
        text={"text": hr.Text("text", bm25=hr.BM25("okapi"))},
        vector={arm: hr.Vector(arm, dtype=dtype) for arm, dtype in DTYPES.items()},
        attributes="year",
    )
    many: list[str | None] = [f"hot tea {'tea ' * (i % 4)}{i % 7}" for i in range(140)]
    index = hr.Index.build(rows(0, [*many, None, ""]), schema, analyzer=ANALYZER)
    index.add(rows(200, ["cold tea", "iced  tea", None, "tea"]))
    index.delete(["k1", "k203", "k7"], scope="ann")
    return index


def ask(index: hr.Index) -> pa.Table:
    """Every arm, fused, with what is stored."""
    query = np.array([[1, 1, 0, -1], [4, 0, 2, -2]], np.float32)
    return index.recall(
        text=["hot tea 3", hr.Phrase("tea tea")],
        vectors=dict.fromkeys(DTYPES, query),
        scope=["ann", hr.Scope([("ann",), ("ben",)])],
        fusion=hr.WeightedSum({"text": 1, "v": 0.5, "h": 0.25, "b": 2}),
        limit=100,
        columns=("text", "year"),
    ).to_arrow()


@pytest.mark.parametrize("memory", ["mmap", "ram"])
def test_a_folder_written_before_opens(memory: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FOLDER, tmp_path / "index"))
    index = hr.Index.open(folder, analyzer=ANALYZER, memory=memory)
    assert ask(index).equals(ask(golden_index()))
    assert ask(index).num_rows > 100
    index.add(rows(300, ["more tea"]))
    index.save(tmp_path / "index")
    again = hr.Index.open(tmp_path / "index", analyzer=ANALYZER)
    assert ask(again).equals(ask(index))


def layout(folder: Path) -> dict[str, object]:
    """The fields of the MANIFEST, and names, types and metadata of each role's columns."""
    manifest = json.loads((folder / "MANIFEST").read_bytes().splitlines()[0])
    segment = manifest["segments"][0]
    found: dict[str, object] = {"manifest": list(manifest), "segment": list(segment)}
    found |= {name: manifest[name] for name in ("format", "schema", "texts", "dims")}
    for role, file in segment["files"].items():
        with pa.memory_map(str(folder / file["name"])) as source:
            columns = pa.ipc.open_file(source).schema
            found[role] = [list(file), columns.to_string(truncate_metadata=False)]
    return found


def test_the_layout_changes_only_with_its_number(tmp_path: Path) -> None:
    golden_index().save(tmp_path)
    assert layout(tmp_path) == layout(FOLDER)
