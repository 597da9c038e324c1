"""Reads what a model's folder says: its ONNX file, its tokenizer and the most tokens of a pair."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from hyrecall.base.arguments import as_int
from hyrecall.errors import OptionError, error

__all__ = ["PairTokenizer", "model_file", "read_tokenizer"]

_FILES = ("model.onnx", "onnx/model.onnx")
_TOKENIZER, _CONFIG, _OF_TOKENIZER = "tokenizer.json", "config.json", "tokenizer_config.json"
_DEFAULT_TOKENS = 512
_LATE_POSITIONS = ("roberta", "camembert", "mpnet", "longformer")


@dataclass(frozen=True)
class PairTokenizer:
    """A tokenizer that cuts pairs, the number for padding, and the most tokens of a pair."""

    tokenizer: Any
    padding: int
    max_length: int


def model_file(folder: Path, given: str | None) -> Path:
    """Return the ONNX file of a folder: the one with this name, or a usual one."""
    names = _FILES if given is None else (given,)
    for name in names:
        if (folder / name).is_file():
            return folder / name
    argument = "folder" if given is None else "file"
    raise error(OptionError, argument, f"a folder with {' or '.join(names)}", str(folder))


def read_tokenizer(folder: Path, max_length: int | None) -> PairTokenizer:
    """Return the tokenizer of a folder, which cuts each pair to the most tokens."""
    # Without ``max_length`` the most tokens are the least of what the tokenizer, its configuration
    # and the model's configuration say.
    path = folder / _TOKENIZER
    if not path.is_file():
        raise error(OptionError, "folder", f"a folder with {_TOKENIZER}", str(folder))
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as fault:  # the package raises plain exceptions
        raise error(OptionError, str(path), "a tokenizer", f"{type(fault).__name__}") from None
    config = _settings(folder / _CONFIG)
    padding = (tokenizer.padding or {}).get("pad_id", as_int(config.get("pad_token_id")) or 0)
    positions = _positions(config)
    least = tokenizer.num_special_tokens_to_add(is_pair=True) + 2  # a token of each text
    if max_length is None:
        cut = (tokenizer.truncation or {}).get("max_length")
        told = as_int(_settings(folder / _OF_TOKENIZER).get("model_max_length"))
        limits = [one for one in (cut, told, positions) if one is not None and one >= least]
        max_length = min(limits, default=_DEFAULT_TOKENS)
    elif max_length < least or (positions is not None and max_length > positions):
        end = "" if positions is None else f" and at most {positions}"
        wish = f"an int of at least {least}{end}, as the model takes"
        raise error(OptionError, "max_length", wish, max_length)
    tokenizer.no_padding()  # a batch is padded to its own longest pair
    tokenizer.enable_truncation(max_length, strategy="longest_first")
    return PairTokenizer(tokenizer, padding, max_length)


def _positions(config: Mapping[str, Any]) -> int | None:
    """Return how many tokens have a position in the model, if its configuration says so."""
    places = as_int(config.get("max_position_embeddings"))
    if places is None or places < 1:
        return None
    kind = str(config.get("model_type", ""))
    if any(name in kind for name in _LATE_POSITIONS):
        # These models count positions from the number after that of the padding.
        return places - (as_int(config.get("pad_token_id")) or 1) - 1
    return places


def _settings(path: Path) -> Mapping[str, Any]:
    """Return the JSON object of a file; an empty one if there is no file."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as fault:
        raise error(OptionError, str(path), "a JSON object", type(fault).__name__) from None
    if not isinstance(found, dict):
        raise error(OptionError, str(path), "a JSON object", type(found).__name__)
    return found
