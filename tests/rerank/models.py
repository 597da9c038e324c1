"""Folders with small cross-encoders whose scores can be counted by hand.

The model counts, for each token of the query, the equal tokens of the text: it needs the numbers,
the mask and the types of all tokens, so that a wrong one changes a score.
"""

import json
from pathlib import Path
from typing import Any

import pytest

onnx = pytest.importorskip("onnx", reason="needs the package onnx, which makes a small model")
pytest.importorskip("onnxruntime", reason="the extra [rerank] is not installed")

WORDS = ("tea", "green", "hot", "cup", "car", "red", "fast", "old", "a", "b", "c", "d", "e", "f")
SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[UNK]")
ALL = ("input_ids", "attention_mask", "token_type_ids")


def overlap(query: str, text: str) -> float:
    """Return what the model returns for a pair that is not cut, by its definition."""
    known = [[w if w in WORDS else "[UNK]" for w in one.split()] for one in (query, text)]
    return 1.0 + sum(one == other for one in known[0] for other in known[1])  # 1: both have a [SEP]


def make_folder(
    path: Path,
    *,
    form: str = "one",
    inputs: tuple[str, ...] = ALL,
    integer: str = "INT64",
    file: str = "model.onnx",
    name: str = "logits",
    **settings: Any,
) -> Path:
    """Write a folder of a model.

    ``form``: "flat" is (n,), "one" (n, 1), "two" (n, 2) with the score as a difference, "three"
    (n, 3), "tokens" (n, tokens, 1). Other keywords: of ``config.json``.
    """
    (path / file).parent.mkdir(parents=True, exist_ok=True)
    onnx.save(_model(form, inputs, getattr(onnx.TensorProto, integer), name), path / file)
    write_tokenizer(path)
    if settings:
        (path / "config.json").write_text(json.dumps(settings))
    return path


def write_tokenizer(path: Path, *, padding: int | None = None, cut: int | None = None) -> None:
    """Write a tokenizer of words that joins pairs as BERT's does."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    numbers = {word: at for at, word in enumerate((*SPECIAL, *WORDS))}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    if padding is not None:
        tokenizer.enable_padding(length=padding, pad_id=0)
    if cut is not None:
        tokenizer.enable_truncation(cut)
    tokenizer.save(str(path / "tokenizer.json"))


def _model(form: str, inputs: tuple[str, ...], integer: int, name: str) -> Any:
    helper, kinds = onnx.helper, onnx.TensorProto
    nodes = []

    def node(operation: str, given: list[str], made: str, **options: Any) -> str:
        nodes.append(helper.make_node(operation, given, [made], **options))
        return made

    def floats(given: str) -> str:
        return node("Cast", [given], f"{given}_f", to=kinds.FLOAT)

    constants = {"first": [1], "second": [2], "both": [1, 2]}
    held = [
        helper.make_tensor(one, kinds.INT64, [len(axes)], axes) for one, axes in constants.items()
    ]
    held += [helper.make_tensor("one", kinds.FLOAT, [], [1.0])]
    ids = floats("input_ids")
    mask = floats("attention_mask") if "attention_mask" in inputs else None
    if "token_type_ids" in inputs:
        kind = floats("token_type_ids")
        query = node("Sub", ["one", kind], "of_query")
        parts = [query, kind]
        if mask is not None:
            parts = [node("Mul", [part, mask], f"{part}_seen") for part in parts]
        rows = node("Unsqueeze", [ids, "second"], "rows")
        columns = node("Unsqueeze", [ids, "first"], "columns")
        same = node("Cast", [node("Equal", [rows, columns], "is_same")], "same", to=kinds.FLOAT)
        ours = node("Mul", [same, node("Unsqueeze", [parts[0], "second"], "left")], "ours")
        both = node("Mul", [ours, node("Unsqueeze", [parts[1], "first"], "right")], "pairs")
        score = node("ReduceSum", [both, "both"], "sums", keepdims=0)
    else:  # the sum of the numbers: whoever pads without a mask changes it
        plain = ids if mask is None else node("Mul", [ids, mask], "seen")
        shifted = node("Add", [plain, "one"], "shifted")
        score = node("ReduceSum", [shifted, "first"], "sums", keepdims=0)
    column = node("Unsqueeze", [score, "first"], "column")
    half = node("Neg", [column], "negative")
    shape: list[Any] = ["n"]
    if form == "flat":
        node("Identity", [score], name)
    elif form == "tokens":
        shape = ["n", "tokens", 1]
        node("Unsqueeze", [ids, "second"], name)
    else:
        columns_of = {"one": [column], "two": [half, column], "three": [half, column, half]}[form]
        node("Concat", columns_of, name, axis=1)
        shape = ["n", len(columns_of)]
    graph = helper.make_graph(
        nodes,
        "overlap",
        [helper.make_tensor_value_info(one, integer, ["n", "tokens"]) for one in inputs],
        [helper.make_tensor_value_info(name, kinds.FLOAT, shape)],
        held,
    )
    opset = helper.make_opsetid("", 17)
    made = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    onnx.checker.check_model(made)
    return made
