"""Recompute embeddings.parquet: the packaged static model over every memory and every query.

Run it after a change of corpus.jsonl or queries.jsonl; it needs the extra ``[local]``:

    python tests/evaluate/golden/make_embeddings.py
"""

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from hyrecall.embed import StaticEmbedder

HERE = Path(__file__).parent


def texts() -> dict[str, str]:
    """Every text by its id, memories first, in the order of the files."""
    found = {}
    for name in ("corpus.jsonl", "queries.jsonl"):
        for line in (HERE / name).read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            found[row["id"]] = row["text"]
    return found


def compute() -> tuple[list[str], npt.NDArray[np.float16]]:
    """Ids and their vectors, float16 as the model gives them (not of unit length)."""
    by_id = texts()
    return list(by_id), StaticEmbedder().embed(list(by_id.values())).astype(np.float16)


def main() -> None:
    """Write embeddings.parquet beside this file."""
    ids, rows = compute()
    flat = pa.array(rows.reshape(-1), pa.float16())
    vectors = pa.FixedSizeListArray.from_arrays(flat, rows.shape[1])
    # High and low bytes apart compress best; a dictionary or statistics would only add bytes.
    pq.write_table(
        pa.table({"id": ids, "embedding": vectors}),
        HERE / "embeddings.parquet",
        compression="zstd",
        use_dictionary=False,
        use_byte_stream_split=["embedding.list.element"],
        write_statistics=False,
    )


if __name__ == "__main__":
    main()
