"""A tiny random transformer against torch called by hand, text by text."""

import json
from pathlib import Path

import numpy as np
import pytest

from hyrecall.embed import Embedder
from hyrecall.errors import DTypeError, MissingExtraError, OptionError
from seams import Guard, TransformerEmbedder

transformers = pytest.importorskip("transformers", reason="needs the extra [transformer]")
torch = pytest.importorskip("torch", reason="needs the extra [transformer]")

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "green",
    "tea",
    "hot",
    "coffee",
    "cup",
    "of",
    "disk",
    "is",
    "full",
]
DIM = 16
MOST_TOKENS = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model as one has it on the disk."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing

    path = tmp_path_factory.mktemp("models") / "tiny"
    base = Tokenizer(WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))
    base.pre_tokenizer = Whitespace()
    base.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=base,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    ).save_pretrained(path)
    torch.manual_seed(7)
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=DIM,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=MOST_TOKENS,
    )
    transformers.BertModel(config).save_pretrained(path)
    return path


def by_hand(folder: Path, text: str, pooling: str) -> np.ndarray:
    """One text alone: no batch, no padding, no mask."""
    words = [WORDS.index(word) if word in WORDS else 1 for word in text.split()]
    ids = [2, *words[: MOST_TOKENS - 2], 3]
    network = transformers.AutoModel.from_pretrained(folder, local_files_only=True).eval()
    with torch.no_grad():
        layer = network(torch.tensor([ids])).last_hidden_state[0].numpy().astype(np.float64)
    row = {"mean": layer.mean(axis=0), "cls": layer[0], "last": layer[-1]}[pooling]
    return row / np.linalg.norm(row)


TEXTS = ["hot green tea", "", "disk is full of coffee", "coffee", "tea " * 30, "wörter unbekannt"]


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
@pytest.mark.parametrize("batch", [1, 2, 32])
def test_rows_are_those_of_each_text_alone(folder: Path, pooling: str, batch: int) -> None:
    embedder = TransformerEmbedder(folder, pooling=pooling, batch=batch)  # type: ignore[arg-type]
    rows = embedder.embed(TEXTS)
    assert (rows.shape, rows.dtype) == ((len(TEXTS), DIM), np.float32)
    for text, row in zip(TEXTS, rows, strict=True):
        if text:
            np.testing.assert_allclose(row, by_hand(folder, text, pooling), atol=1e-5)
        else:
            assert not row.any()


def test_it_is_an_embedder_that_knows_its_width_before_it_loads(folder: Path) -> None:
    embedder = TransformerEmbedder(folder)
    assert isinstance(embedder, Embedder)
    assert (embedder.model, embedder.dim, embedder._loaded) == ("tiny/mean", DIM, None)
    embedder.warm()
    assert embedder._loaded is not None
    embedder.close()
    assert embedder._loaded is None
    guard = Guard(embedder)
    assert guard.embed(["tea"], budget=30.0).shape == (1, DIM)  # type: ignore[union-attr]
    guard.close()
    assert TransformerEmbedder(folder, model="mine").model == "mine"
    assert embedder.embed([]).shape == (0, DIM)


def test_without_normalizing_the_direction_is_the_same(folder: Path) -> None:
    (row,) = TransformerEmbedder(folder, normalize=False).embed(["hot tea"])
    (unit,) = TransformerEmbedder(folder).embed(["hot tea"])
    assert abs(np.linalg.norm(row) - 1) > 0.01
    np.testing.assert_allclose(row / np.linalg.norm(row), unit, atol=1e-6)


def test_weights_that_are_no_safetensors_are_refused(folder: Path, tmp_path: Path) -> None:
    for path in folder.iterdir():
        if path.suffix != ".safetensors":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    torch.save({}, tmp_path / "pytorch_model.bin")
    with pytest.raises(OSError, match="safetensors"):
        TransformerEmbedder(tmp_path).warm()


def test_arguments_that_are_none_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"folder: expected a folder with config\.json"):
        TransformerEmbedder(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(OptionError, match="expected a JSON object"):
        TransformerEmbedder(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"d_model": 4}))
    assert TransformerEmbedder(tmp_path).dim is None
    with pytest.raises(OptionError, match='pooling: expected "mean", "cls" or "last"'):
        TransformerEmbedder(folder, pooling="max")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="batch: expected an int of at least 1"):
        TransformerEmbedder(folder, batch=0)
    with pytest.raises(DTypeError, match="texts: expected a sequence of str"):
        TransformerEmbedder(folder).embed("tea")
    with pytest.raises(DTypeError, match=r"texts\[0\]: expected a str"):
        TransformerEmbedder(folder).embed([None])  # type: ignore[list-item]


def test_without_the_extra_the_install_line_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hyrecall.embed.transformer.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'hyrecall\[transformer\]'"):
        TransformerEmbedder(folder)


def test_of_a_text_of_megabytes_only_the_beginning_is_tokenized(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = TransformerEmbedder(folder)
    embedder.warm()
    assert embedder._loaded is not None
    tokenizer, network = embedder._loaded
    read: list[int] = []

    def counting(texts: list[str], **options: object) -> object:
        read.extend(map(len, texts))
        return tokenizer(texts, **options)

    counting.model_max_length = tokenizer.model_max_length  # type: ignore[attr-defined]
    embedder._loaded = counting, network
    text = "green tea hot coffee " * 400_000
    rows = embedder.embed([text, text[:1000]])
    assert max(read) <= 32 * MOST_TOKENS
    assert rows[0] == pytest.approx(rows[1])
