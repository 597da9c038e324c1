"""Tensors that lie on a CUDA device: in a file of their own, which needs no guest but torch."""

import numpy as np
import pytest

from guests import torch_or_skip
from seams import query_vectors


def test_tensors_on_a_device_are_copied_on_the_current_stream() -> None:
    torch = torch_or_skip()
    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        value = torch.zeros(1 << 12, 256, device="cuda")
        for _ in range(50):
            value += 1
        queries, _ = query_vectors(value, dim=256)
    assert (queries == 50).all()
    rows = np.array([[1.5, -2.0], [0.0, 3.25], [2.0**-10, 40.0]], np.float32)
    half, _ = query_vectors(torch.tensor(rows).bfloat16().cuda(), dim=2)
    assert np.array_equal(half, rows)
