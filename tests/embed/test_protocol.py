"""What an embedder is, what its replies are held to, and the one for tests."""

import doctest
import importlib
import pkgutil
import time

import numpy as np
import pytest

import hyrecall.embed
from hyrecall.embed import Embedder, EmbedError, EmbedFault, HashEmbedder, StaticEmbedder
from seams import MOST_CHARACTERS, check_vectors

# ---- the protocol ----


class Letters:
    model = "letters"
    dim = 2

    def embed(self, texts: list[str]) -> np.ndarray:
        return np.array([[text.count("a"), text.count("b")] for text in texts], np.float32)


def test_anything_with_a_model_a_dim_and_embed_is_an_embedder() -> None:
    assert isinstance(Letters(), Embedder)
    assert not isinstance(object(), Embedder)


@pytest.mark.skipif(not StaticEmbedder.available(), reason="needs the extra [local]")
def test_the_packaged_model_is_an_embedder_with_a_name() -> None:
    embedder = StaticEmbedder()
    assert isinstance(embedder, Embedder)
    assert embedder.model.startswith("wordllama/")
    rows = check_vectors(embedder.embed(["tea", "coffee"]), 2, embedder.dim)
    assert rows.shape == (2, 256)


@pytest.mark.parametrize(
    "reply",
    [
        np.ones((2, 3), np.float32),
        np.ones((2, 3), np.float64),
        np.ones((2, 3), np.float16),
        np.ones((3, 2), np.int64).T,
        [[1, 2, 3], [4.5, 5, 6]],
        ((0, 0, 0), (0, 0, 0)),
        [[2.0**60, 0, 0], [0, 0, 2.0**-60]],
    ],
    ids=lambda reply: type(reply).__name__,
)
def test_rows_of_numbers_become_contiguous_float32(reply: object) -> None:
    rows = check_vectors(reply, 2, 3)
    assert rows.dtype == np.float32
    assert rows.flags.c_contiguous
    assert rows.tolist() == np.asarray(reply, np.float32).tolist()


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        (None, EmbedFault.MALFORMED),
        ("abc", EmbedFault.MALFORMED),
        ([[1, 2, 3]], EmbedFault.MALFORMED),
        ([1, 2, 3], EmbedFault.MALFORMED),
        ([[1, 2, 3], [1, 2]], EmbedFault.MALFORMED),
        ([["a", "b", "c"], ["d", "e", "f"]], EmbedFault.MALFORMED),
        ([[1, 2, None], [1, 2, 3]], EmbedFault.MALFORMED),
        ([[1, 2, float("nan")], [1, 2, 3]], EmbedFault.MALFORMED),
        ([[1, 2, float("inf")], [1, 2, 3]], EmbedFault.MALFORMED),
        ([[1, 2, 1e39], [1, 2, 3]], EmbedFault.MALFORMED),
        ([[1, 2, 3], [0, 2.0**60, 2.0**59]], EmbedFault.MALFORMED),
        ([[1, 2, 3], [2.0**-61, 2.0**-62, 0]], EmbedFault.MALFORMED),
        ([[1, 2, 3], [1e-25, 0, 0]], EmbedFault.MALFORMED),
        (np.ones((2, 3), np.complex64), EmbedFault.MALFORMED),
        (np.ones((2, 3), bool), EmbedFault.MALFORMED),
        (np.ones((2, 3, 1)), EmbedFault.MALFORMED),
        (np.ones((2, 4)), EmbedFault.WRONG_SIZE),
        (np.ones((2, 0)), EmbedFault.WRONG_SIZE),
    ],
    ids=repr,
)
def test_any_other_reply_is_a_fault_of_its_kind(reply: object, fault: EmbedFault) -> None:
    with pytest.raises(EmbedError, match="embedder: expected") as caught:
        check_vectors(reply, 2, 3)
    assert caught.value.fault is fault
    assert caught.value.argument == "embedder"


def test_a_length_that_is_not_known_yet_may_be_any_but_0() -> None:
    assert check_vectors([[1.0] * 5], 1, None).shape == (1, 5)
    with pytest.raises(EmbedError) as caught:
        check_vectors(np.ones((1, 0)), 1, None)
    assert caught.value.fault is EmbedFault.WRONG_SIZE


def test_a_norm_that_no_index_takes_is_named_with_its_row() -> None:
    with pytest.raises(EmbedError, match=r"a norm in \[2\^-60, 2\^60\].*got 1e\+25 in row 1"):
        check_vectors([[1.0, 0.0], [1e25, 0.0]], 2, 2)


def test_of_a_text_of_megabytes_an_embedder_reads_the_beginning_that_a_model_can_take() -> None:
    embedders: list[Embedder] = [HashEmbedder(8)]
    if StaticEmbedder.available():
        embedders.append(StaticEmbedder())
    text = " \n" * 50_000 + "green tea and coffee " * 400_000
    for embedder in embedders:
        embedder.embed(["loads the model"])
        begun = time.monotonic()
        (row,) = embedder.embed([text])
        assert time.monotonic() - begun < 5  # whole it took a minute
        (same,) = embedder.embed([text.lstrip()[:MOST_CHARACTERS]])
        (other,) = embedder.embed([text.lstrip()[: MOST_CHARACTERS // 2]])
        assert row.tolist() == same.tolist() != other.tolist()


# ---- the embedder for tests: the same everywhere, unit rows ----


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


# ---- the examples in the docstrings of the embedders ----

MODULES = [module.name for module in pkgutil.iter_modules(hyrecall.embed.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str) -> None:
    if name == "static" and not StaticEmbedder.available():
        pytest.skip("needs the extra [local]")
    module = importlib.import_module(f"hyrecall.embed.{name}")
    assert doctest.testmod(module, extraglobs={"np": __import__("numpy")}).failed == 0
