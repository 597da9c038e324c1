"""Saved indexes with planes, kept under ``golden/``: what they hold, and what is asked of them.

``python -m engine.golden_planes``, with the folder of tests on the path, writes them again: one
folder for each plane, all of the same rows, and the replies of a scan that reads no plane.
"""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa

import hyrecall as hr
from seams import segments_FORMAT as FORMAT

GOLDEN = Path(__file__).parent / "golden"
REPLIES = GOLDEN / "planes.json"
FOLDERS = {
    plane: GOLDEN / f"format-{FORMAT}-{plane}" for plane in ("head8", "head4", "int8")
}  # by the value of HYRECALL_FRONT_PLANE that each was written with
DIM, N_ROWS, N_QUERIES = 32, 180, 12
USERS = ("ann", "ben", "cyd")


def drawn(n_rows: int, seed: int) -> np.ndarray:
    """Vectors whose directions fall in strength; exact, and the same with every numpy."""
    rows = np.empty((n_rows, DIM), np.float32)
    state = seed
    for row in rows:
        for i in range(DIM):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            row[i] = ((state >> 33) % 2001 - 1000) / 2.0 ** (10 + i // 6)
    return rows


def rows() -> pa.Table:
    """Rows of three users: one without a vector, one of zeros, and some that are equal."""
    vectors = drawn(N_ROWS, seed=1)
    vectors[40], vectors[60:64] = 0, vectors[59]
    listed: list[list[float] | None] = [list(map(float, row)) for row in vectors]
    listed[41] = None
    return pa.table(
        {
            "id": [f"k{i}" for i in range(N_ROWS)],
            "user": [USERS[i % 3] for i in range(N_ROWS)],
            "v": pa.array(listed, pa.list_(pa.float32(), DIM)),
        }
    )


def queries() -> np.ndarray:
    """Vectors of no row, and some close to one."""
    close = drawn(N_ROWS, seed=1)[:: N_ROWS // 4][:4] + drawn(4, seed=2) / 8
    return np.concatenate([drawn(N_QUERIES - 4, seed=3), close])


def golden_index() -> hr.Index:
    """The index, with the planes that the variable asks for."""
    return hr.Index.build(rows(), hr.Schema(key="id", cell="user", text=(), vector="v"))


def everyone() -> hr.Scope:
    return hr.Scope([(user,) for user in USERS])


def ask(index: hr.Index) -> list[list[object]]:
    """Query, key and the bits of the score of each hit: alone, in batches, with scopes, floors."""
    asked = queries()
    scopes = [hr.Scope([(USERS[q % 3],), (USERS[q % 2],)]) for q in range(N_QUERIES)]
    replies = [
        *(index.recall(vectors=one[None], scope=everyone(), limit=10, depth=10) for one in asked),
        index.recall(vectors=asked, scope=everyone(), limit=10, depth=10),
        index.recall(vectors=asked, scope=scopes, limit=20),
        index.recall(vectors=asked, scope=everyone(), limit=10, min_score={"v": 0.4}),
    ]
    hits: list[list[object]] = []
    for number, reply in enumerate(replies):
        table = reply.to_arrow()
        bits = np.asarray(table["v_score"]).view(np.uint32).tolist()
        places = table["query"].to_pylist(), table["key"].to_pylist(), bits
        hits += [[number, *hit] for hit in zip(*places, strict=True)]
    return hits


def main() -> None:
    """Write the folders and the replies."""
    for plane, folder in FOLDERS.items():
        os.environ["HYRECALL_FRONT_PLANE"] = plane
        golden_index().save(folder)
        (folder / "LOCK").unlink()
    os.environ["HYRECALL_FRONT_PLANE"] = "rows"
    lines = ",\n".join(json.dumps(hit) for hit in ask(golden_index()))
    REPLIES.write_text(f"[{lines}]\n")


if __name__ == "__main__":
    main()
