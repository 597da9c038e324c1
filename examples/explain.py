"""Text and vectors fused, narrowed by a filter, and a score explained down to its integers."""

from datetime import datetime

import numpy as np
import pyarrow as pa

import hyrecall as hr

rng = np.random.default_rng(1)
table = pa.table(
    {
        "id": list(range(6)),
        "title": ["deploy", "incident", "incident", "recipe", "incident", "note"],
        "text": [
            "version 4.2 went to production",
            "the queue INC-2031 was stuck for an hour",
            "the queue was stuck again, see INC-2031",
            "lentil soup with lemon",
            "disk full on db-7",
            "INC-2031 is closed",
        ],
        "at": [datetime(2025, 3, day, 12) for day in range(1, 7)],
    }
)
vectors = rng.standard_normal((6, 16), dtype=np.float32)
schema = hr.Schema(
    key="id",
    cell=None,  # one audience: a recall takes no scope
    text={"body": hr.Text("title", "text")},
    vector="embedding",
    attributes="at",
)
index = hr.Index.build(table, schema, vectors={"embedding": vectors})

hits = index.recall(
    text=[hr.Any("incident", hr.Boost("INC-2031", 2.0))],
    vectors=vectors[2:3],
    filter=hr.Filter(at=(datetime(2025, 3, 2), None)),
    fusion=hr.RRF(alpha=0.5),
    limit=3,
)
print(hits)
best = hits[0][0]
explanation = best.explain()
print(explanation)
assert explanation.score == best.score
