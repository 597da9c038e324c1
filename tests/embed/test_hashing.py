"""The embedder for tests: the same everywhere, unit rows, near where words are shared."""

import numpy as np
import pytest

from hyrecall.embed import Embedder, HashEmbedder, check_vectors


def test_a_row_is_the_same_alone_and_among_others() -> None:
    embedder = HashEmbedder()
    texts = ["green tea", "", "Straße", "tea \ud800", "a b c d"]
    rows = check_vectors(embedder.embed(texts), 5, 64)
    for at, text in enumerate(texts):
        assert embedder.embed([text])[0].tobytes() == rows[at].tobytes()
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    assert lengths.tolist() == pytest.approx([1, 0, 1, 1, 1])
    assert isinstance(embedder, Embedder)


GOLDEN = [-1, 1, -1, -1, -1, -1, -1, 1]


def test_it_is_the_same_on_every_machine() -> None:
    row = HashEmbedder(dim=8).embed(["tea"])[0] * np.float32(8**0.5)
    assert np.rint(row).astype(int).tolist() == GOLDEN


def test_texts_that_share_words_are_nearer() -> None:
    rows = HashEmbedder(dim=1024).embed(["hot green tea", "cold green tea", "disk is full"])
    assert rows[0] @ rows[1] > 0.5 > abs(rows[0] @ rows[2])
