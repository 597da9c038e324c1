"""Draw a large index's rows batch by batch, as a stream: texts, vectors, tenants in any order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import hyrecall as hr
from bench import corpus, grown

TENANT_ROWS = 5_000
BATCH_ROWS = 32_768

SCHEMA = hr.Schema(key="id", cell="tenant", text="text", vector="embedding", attributes="created")


def batches(n: int) -> Iterator[pa.RecordBatch]:
    """Draw rows of 384 dimensions as a model makes them, with texts of 40 to 80 words."""
    tenants = corpus.uniform_tenants(n, max(1, n // TENANT_ROWS))
    for number, begin in enumerate(range(0, n, BATCH_ROWS)):
        end = min(n, begin + BATCH_ROWS)
        rows = grown.rows(end - begin, part=number)
        texts = corpus.zipf_texts(end - begin, name=f"texts {number}")
        yield pa.record_batch(
            {
                "id": np.arange(begin, end),
                "tenant": tenants[begin:end],
                "created": np.arange(begin, end) * 1000,
                "text": texts.strings,
                "embedding": pa.FixedSizeListArray.from_arrays(
                    pa.array(rows.reshape(-1)), rows.shape[1]
                ),
            }
        )
