"""A cross-encoder of a real model's size with random weights: it costs what the real one costs.

The default sizes are those of MiniLM with six layers, 22.7 million weights, which many published
cross-encoders have. Its scores mean nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Sizes:
    """The sizes of a BERT."""

    layers: int = 6
    hidden: int = 384
    heads: int = 12
    inner: int = 1536
    words: int = 30522
    positions: int = 512


@dataclass
class _Graph:
    """Nodes and weights of a model as they are added."""

    hidden: int
    rng: np.random.Generator
    nodes: list[Any] = field(default_factory=list)
    weights: list[Any] = field(default_factory=list)

    def add(self, operation: str, given: Sequence[str], **options: Any) -> str:
        """Add an operation and return the name of what it makes."""
        made = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, list(given), [made], **options))
        return made

    def constant(self, value: npt.NDArray[Any]) -> str:
        """Add an array and return its name."""
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def random(self, *shape: int) -> str:
        """Add random weights of about the spread of a trained model's."""
        drawn: Floats = self.rng.normal(0, 0.02, shape).astype(np.float32)
        return self.constant(drawn)

    def dense(self, given: str, n_in: int, n_out: int) -> str:
        """Multiply by weights and add a bias."""
        return self.add(
            "Add", [self.add("MatMul", [given, self.random(n_in, n_out)]), self.random(n_out)]
        )

    def norm(self, given: str) -> str:
        """Normalise each token's row."""
        ones, zeros = np.ones(self.hidden, np.float32), np.zeros(self.hidden, np.float32)
        held = [self.constant(ones), self.constant(zeros)]
        return self.add("LayerNormalization", [given, *held], axis=-1, epsilon=1e-12)

    def scalar(self, value: float) -> str:
        """Add a number."""
        return self.constant(np.array(value, np.float32))


def write_encoder(folder: Path, sizes: Sizes | None = None) -> Path:
    """Write a folder with a model of these sizes and a tokenizer of the words w0, w1, ..."""
    sizes = sizes or Sizes()
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(_model(sizes), folder / "model.onnx")
    config = {"max_position_embeddings": sizes.positions, "pad_token_id": 0}
    (folder / "config.json").write_text(json.dumps(config))
    special = {"[PAD]": 0, "[CLS]": 1, "[SEP]": 2, "[UNK]": 3}
    words = {f"w{at}": at for at in range(len(special), sizes.words)}
    tokenizer = Tokenizer(models.WordLevel(special | words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def _model(sizes: Sizes) -> Any:
    g = _Graph(sizes.hidden, np.random.default_rng(20261126))
    rows = g.add("Gather", [g.random(sizes.words, sizes.hidden), "input_ids"])
    kinds = g.add("Gather", [g.random(2, sizes.hidden), "token_type_ids"])
    zero, one = (g.constant(np.array([value], np.int64)) for value in (0, 1))
    length = g.add("Shape", ["input_ids"], start=1, end=2)
    places = g.add("Slice", [g.random(sizes.positions, sizes.hidden), zero, length, zero])
    x = g.norm(g.add("Add", [g.add("Add", [rows, kinds]), places]))
    mask = g.add("Cast", ["attention_mask"], to=TensorProto.FLOAT)
    absent = g.add("Mul", [g.add("Sub", [g.scalar(1), mask]), g.scalar(-1e9)])
    bias = g.add("Unsqueeze", [absent, g.constant(np.array([1, 2], np.int64))])
    for _ in range(sizes.layers):
        x = _layer(g, x, bias, sizes)
    first = g.add("Slice", [x, zero, one, one])
    pooled = g.add("Tanh", [g.dense(g.add("Squeeze", [first, one]), sizes.hidden, sizes.hidden)])
    logits = g.dense(pooled, sizes.hidden, 1)
    g.nodes.append(helper.make_node("Identity", [logits], ["logits"]))
    graph = helper.make_graph(
        g.nodes,
        "encoder",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["pairs", "tokens"])
            for name in ("input_ids", "attention_mask", "token_type_ids")
        ],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["pairs", 1])],
        g.weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _layer(g: _Graph, x: str, bias: str, sizes: Sizes) -> str:
    width = sizes.hidden // sizes.heads
    split = g.constant(np.array([0, 0, sizes.heads, width], np.int64))
    joined = g.constant(np.array([0, 0, sizes.hidden], np.int64))

    def head(order: list[int]) -> str:
        made = g.add("Reshape", [g.dense(x, sizes.hidden, sizes.hidden), split])
        return g.add("Transpose", [made], perm=order)

    queries, keys, values = head([0, 2, 1, 3]), head([0, 2, 3, 1]), head([0, 2, 1, 3])
    products = g.add("Mul", [g.add("MatMul", [queries, keys]), g.scalar(width**-0.5)])
    shares = g.add("Softmax", [g.add("Add", [products, bias])], axis=-1)
    seen = g.add("Transpose", [g.add("MatMul", [shares, values])], perm=[0, 2, 1, 3])
    made = g.dense(g.add("Reshape", [seen, joined]), sizes.hidden, sizes.hidden)
    x = g.norm(g.add("Add", [x, made]))
    inner = g.dense(x, sizes.hidden, sizes.inner)
    erf = g.add("Erf", [g.add("Mul", [inner, g.scalar(0.5**0.5)])])
    gelu = g.add("Mul", [g.add("Mul", [inner, g.scalar(0.5)]), g.add("Add", [erf, g.scalar(1)])])
    return g.norm(g.add("Add", [x, g.dense(gelu, sizes.inner, sizes.hidden)]))
