"""How many threads build a column shows in no byte of it."""

import itertools
import random
import threading

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import _core

WORDS = [f"w{i}" for i in range(3000)]
ODD = ["INV-2026-0042", "Crème", "東京都", "C++", "ΟΔΟΣ", "a_b.c", "don't", "ภาษาไทย"]
N = 6000  # rows, in batches of 1,024


def draw(rng: random.Random) -> str | None:
    if rng.random() < 0.05:
        return None
    ranks = [int(rng.paretovariate(0.6)) % len(WORDS) for _ in range(rng.randrange(40))]
    words = [WORDS[rank] for rank in ranks]
    if rng.random() < 0.2:
        words.append(rng.choice(ODD))
    return " ".join(words)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = random.Random(11)
    texts = [draw(rng) for _ in range(N)]
    texts[70] = " ".join(rng.choices(WORDS, k=400_000))  # a batch of its own
    return pa.table(
        {
            "id": range(N),
            "user": [rng.randrange(3) for _ in range(N)],
            "title": pa.array([draw(rng) for _ in range(N)], pa.string()),
            "text": pa.chunked_array([texts[:1000], texts[1000:]], pa.large_string()),
        }
    )


def parts(table: pa.Table, text: hr.Text, threads: int) -> dict[str, bytes]:
    schema = hr.Schema(key="id", cell="user", text={"x": text}, stored=())
    index = hr.Index.build(table, schema, threads=threads)
    column = index._state.segments[0].lexical["x"]
    return {name: np.asarray(part).tobytes() for name, part in column.parts().items()}


@pytest.mark.plain_cases(2)
@pytest.mark.parametrize("preset", ["word", "unicode", "porter"])
@pytest.mark.parametrize("columns", [("text",), ("title", "text")])
def test_every_part_has_the_same_bytes(
    table: pa.Table, preset: str, columns: tuple[str, ...]
) -> None:
    text = hr.Text(*columns, analyzer=hr.Analyzer(preset))
    alone = parts(table, text, 1)
    assert len(alone["term_bytes"]) > 10_000
    for threads in (2, 5):
        many = parts(table, text, threads)
        assert many.keys() == alone.keys()
        for name, part in many.items():
            assert part == alone[name], f"{name} differs with {threads} threads"


def test_terms_are_numbered_by_first_use(table: pa.Table) -> None:
    analyzer = _core.Analyzer("word")
    texts = table["text"].to_pylist()[:3000]
    order = np.arange(len(texts), dtype=np.uint32)
    column = _core.LexicalColumn.build(
        "x", [[pa.array(texts, pa.large_string())]], order, analyzer, 5, None
    )
    held = column.parts()
    offsets, spelled = held["term_offsets"].tolist(), held["term_bytes"].tobytes()
    terms = [spelled[a:b].decode() for a, b in itertools.pairwise(offsets)]
    words = " ".join(t for t in texts if t).split()
    wanted = analyzer.analyze([" ".join(words)], "document")[0]
    assert terms == wanted


def test_functions_of_the_caller_are_called_by_his_thread_alone(table: pa.Table) -> None:
    seen: set[int] = set()

    def shorten(token: str) -> list[str]:
        seen.add(threading.get_ident())
        return [token[:3]]

    function = hr.TokenFunction(shorten, name="shorten", version="1")
    text = hr.Text("text", analyzer=hr.Analyzer("word", token_function=function))
    alone = parts(table, text, 1)
    assert parts(table, text, 5) == alone
    assert seen == {threading.get_ident()}


def test_a_function_that_fails_ends_the_build_with_its_own_error(table: pa.Table) -> None:
    def fail(token: str) -> list[str]:
        if token == "w2999":
            raise KeyError(token)
        return [token]

    function = hr.TokenFunction(fail, name="fail", version="1")
    text = hr.Text("text", analyzer=hr.Analyzer("word", token_function=function))
    with pytest.raises(KeyError, match="w2999"):
        parts(table, text, 5)
