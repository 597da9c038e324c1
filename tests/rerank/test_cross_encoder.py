"""The cross-encoder gives each pair the model's own score, whatever else is in the batch."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyrecall as hr
from hyrecall.errors import MissingExtraError
from rerank.models import WORDS, make_folder, overlap, write_tokenizer

CrossEncoder = pytest.importorskip("hyrecall.rerank").CrossEncoder


def texts_of(n: int, seed: int = 1) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, size=rng.integers(0, 30))) for _ in range(n)]


@pytest.mark.parametrize("batch", [1, 3, 16, 200])
@pytest.mark.parametrize("form", ["flat", "one", "two"])
def test_every_pair_has_the_models_score_at_its_own_place(
    tmp_path: Path, form: str, batch: int
) -> None:
    encoder = CrossEncoder(make_folder(tmp_path, form=form), batch=batch)
    texts = texts_of(40)
    factor = 2.0 if form == "two" else 1.0  # a difference of score and -score
    scores = encoder("hot green tea tea", texts)
    assert scores.dtype == np.float64
    assert scores.tolist() == [factor * overlap("hot green tea tea", one) for one in texts]


def test_either_of_two_logits_may_be_the_relevant_one(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, form="two")
    first, second = CrossEncoder(folder, relevant=0), CrossEncoder(folder, relevant=1)
    assert first("tea", ["tea", "car"]).tolist() == [-4.0, -2.0]
    assert second("tea", ["tea", "car"]).tolist() == [4.0, 2.0]


def test_a_model_without_a_mask_reads_no_padding(tmp_path: Path) -> None:
    encoder = CrossEncoder(make_folder(tmp_path, inputs=("input_ids",)))
    texts = texts_of(40)
    alone = [encoder("tea", [one])[0] for one in texts]
    assert len({len(one.split()) for one in texts}) > 5
    assert encoder("tea", texts).tolist() == alone


@pytest.mark.parametrize(
    "options",
    [
        {"integer": "INT32"},
        {"name": "score"},
        {"inputs": ("token_type_ids", "input_ids", "attention_mask")},
        {"file": "onnx/model.onnx"},
    ],
    ids=str,
)
def test_inputs_outputs_and_files_are_found_by_name(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    encoder = CrossEncoder(make_folder(tmp_path, **options))
    assert encoder("tea", ["tea tea", "car"]).tolist() == [3.0, 1.0]


def test_another_file_of_the_folder_is_named(tmp_path: Path) -> None:
    make_folder(tmp_path, form="three")
    make_folder(tmp_path, file="small.onnx")
    assert CrossEncoder(tmp_path, file="small.onnx")("tea", ["tea"]).tolist() == [2.0]


def test_padding_of_the_tokenizers_own_is_switched_off(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, inputs=("input_ids",))
    bare = CrossEncoder(folder)("tea", ["tea", "hot cup"])
    write_tokenizer(folder, padding=64)
    assert CrossEncoder(folder)("tea", ["tea", "hot cup"]).tolist() == bare.tolist()


# ---- lengths ----

LENGTHS: list[tuple[dict[str, Any], dict[str, Any], int | None, int]] = [
    ({}, {}, None, 512),
    ({"max_position_embeddings": 256}, {}, None, 256),
    ({"max_position_embeddings": 256}, {"model_max_length": 128}, None, 128),
    ({"max_position_embeddings": 256}, {"model_max_length": 10**30}, None, 256),
    ({"max_position_embeddings": 256}, {"model_max_length": 128}, 64, 64),
    (
        {"max_position_embeddings": 514, "model_type": "xlm-roberta", "pad_token_id": 1},
        {},
        None,
        512,
    ),
]


@pytest.mark.parametrize(("config", "of_tokenizer", "cut", "most"), LENGTHS)
def test_the_most_tokens_are_the_least_that_anything_says(
    tmp_path: Path,
    config: dict[str, Any],
    of_tokenizer: dict[str, Any],
    cut: int | None,
    most: int,
) -> None:
    folder = make_folder(tmp_path, **config)
    write_tokenizer(folder, cut=cut)
    if of_tokenizer:
        (folder / "tokenizer_config.json").write_text(str(of_tokenizer).replace("'", '"'))
    assert CrossEncoder(folder).max_length == most


def test_of_a_long_pair_the_longer_text_is_cut(tmp_path: Path) -> None:
    encoder = CrossEncoder(make_folder(tmp_path), max_length=10)
    long = "car " * 30 + "tea"
    assert encoder("tea", [long]).tolist() == [1.0]
    assert encoder("car", [long]).tolist() == [1.0 + 6]  # 10 without three marks and the query
    assert encoder("car tea", ["tea " + long]).tolist() == [1.0 + 5]


# ---- what is refused ----

BAD_MODELS: list[tuple[dict[str, Any], str]] = [
    ({"form": "three"}, "one or two logits for each pair"),
    ({"form": "tokens"}, "one or two logits for each pair"),
    ({"inputs": ("attention_mask", "token_type_ids", "input_ids"), "integer": "FLOAT"}, "integer"),
]


@pytest.mark.parametrize(("options", "message"), BAD_MODELS, ids=str)
def test_a_model_that_scores_no_pairs_is_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    folder = make_folder(tmp_path, **options)
    with pytest.raises(hr.OptionError, match=message):
        CrossEncoder(folder)


BAD_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"batch": 0}, "batch"),
    ({"batch": True}, "batch"),
    ({"max_length": 4}, "max_length: expected an int of at least 5"),
    ({"max_length": 300}, "max_length: .* at most 256"),
    ({"relevant": 2}, "relevant"),
    ({"relevant": 0}, "relevant: expected None"),
    ({"timeout": 0}, "timeout"),
    ({"timeout": float("nan")}, "timeout"),
    ({"threads": 0}, "threads"),
    ({"file": "none.onnx"}, "file: expected a folder with none.onnx"),
]


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS, ids=str)
def test_an_option_that_is_not_valid_is_named(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    folder = make_folder(tmp_path, max_position_embeddings=256)
    with pytest.raises(hr.OptionError, match=message) as raised:
        CrossEncoder(folder, **options)
    assert raised.value.argument == next(iter(options))


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_missing_or_damaged_file_is_named(tmp_path: Path, name: str) -> None:
    folder = make_folder(tmp_path)
    (folder / name).write_bytes(b"no")
    with pytest.raises(hr.OptionError, match=name):
        CrossEncoder(folder)
    (folder / name).unlink()
    with pytest.raises(hr.OptionError, match=f"folder: expected a folder with {name}"):
        CrossEncoder(folder)


def test_a_damaged_configuration_is_named(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    (folder / "config.json").write_text("[]")
    with pytest.raises(hr.OptionError, match=r"config\.json: expected a JSON object"):
        CrossEncoder(folder)


@pytest.mark.parametrize("texts", ["tea", ["tea", None], ["tea", 1]])
def test_texts_that_are_none_are_refused(tmp_path: Path, texts: Any) -> None:
    encoder = CrossEncoder(make_folder(tmp_path))
    with pytest.raises(hr.DTypeError, match="texts"):
        encoder("tea", texts)
    with pytest.raises(hr.DTypeError, match="query"):
        encoder(None, ["tea"])


def test_without_the_extra_the_error_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_folder(tmp_path)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setattr("hyrecall.rerank.cross_encoder.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'hyrecall\[rerank\]'"):
        CrossEncoder(folder)


# ---- life ----


def test_no_text_has_no_score_and_blank_texts_have_one(tmp_path: Path) -> None:
    encoder = CrossEncoder(make_folder(tmp_path))
    assert encoder("tea", []).shape == (0,)
    assert encoder("", ["", "tea"]).tolist() == [1.0, 1.0]


def test_no_pass_begins_after_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = CrossEncoder(make_folder(tmp_path), batch=2)
    passes = []
    clock = iter([0.0, *np.arange(1.0, 50.0)])  # a second a pass
    monkeypatch.setattr("hyrecall.rerank.cross_encoder.time.monotonic", lambda: next(clock))
    monkeypatch.setattr(
        encoder, "_logits", lambda pairs: passes.append(len(pairs)) or np.zeros((len(pairs), 1))
    )
    with pytest.raises(TimeoutError):
        encoder.scores_within("tea", ["tea"] * 40, 3.5)
    assert passes == [2, 2, 2]


def test_the_shorter_of_both_limits_holds(tmp_path: Path) -> None:
    encoder = CrossEncoder(make_folder(tmp_path), timeout=1e-9)
    with pytest.raises(TimeoutError):
        encoder("tea", ["tea"])
    with pytest.raises(TimeoutError):
        encoder.scores_within("tea", ["tea"], 100.0)
    with pytest.raises(TimeoutError):
        CrossEncoder(tmp_path).scores_within("tea", ["tea"], 0.0)


def test_a_closed_encoder_loads_again(tmp_path: Path) -> None:
    encoder = CrossEncoder(make_folder(tmp_path))
    encoder.close()
    encoder.close()
    assert encoder("tea", ["tea"]).tolist() == [2.0]


FORKS = """
import gc, os, sys
from hyrecall.rerank import CrossEncoder
encoder = CrossEncoder(sys.argv[1], threads=2)
assert encoder("tea", ["tea"]).tolist() == [2.0]
child = os.fork()
if child == 0:
    try:
        assert encoder("tea", ["tea", "car"]).tolist() == [2.0, 1.0]
        del encoder
        gc.collect()  # the destructor of the parent's model would wait for the parent's threads
    except BaseException:
        os._exit(1)
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert encoder("tea", ["tea"]).tolist() == [2.0]
"""


def test_a_forked_process_loads_its_own_model(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", FORKS, str(make_folder(tmp_path))], check=True, timeout=90
    )


def test_of_texts_of_megabytes_only_the_beginning_is_tokenized(tmp_path: Path) -> None:
    encoder = CrossEncoder(make_folder(tmp_path), max_length=10)
    long = "car " * 2_000_000
    begun = time.monotonic()
    assert encoder("tea", [long]).tolist() == encoder("tea", ["car " * 30]).tolist()
    assert encoder(long, ["tea"]).tolist() == encoder("car " * 30, ["tea"]).tolist()
    assert time.monotonic() - begun < 5
