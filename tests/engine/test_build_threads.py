"""How many threads build a column shows in no byte of it; and rows that are gathered natively."""

import itertools
import random
import threading
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import _core
from hyrecall.errors import DTypeError, InternalError

# ---- threads ----

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
        "x", [[pa.array(texts, pa.large_string())]], [1], order, analyzer, 5, None
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


# ---- gathered rows, against Arrow's own take ----

COLUMNS = {
    "ints": pa.array([3, None, -7, 2**62, 0, None, 5, 6, 7, 8, 9], pa.int64()),
    "strings": pa.array(
        ["a", "", None, "däs", "x" * 99, "b", None, "", "c", "d"], pa.large_string()
    ),
    "bools": pa.array([True, False, None, True, True, False, None, True, False, True], pa.bool_()),
    "floats": pa.array([1.5, None, float("nan"), -0.0, 5.0], pa.float64()),
    "times": pa.array(
        [datetime(2026, 1, d, tzinfo=UTC) for d in (1, 2, 3)], pa.timestamp("us", "UTC")
    ),
    "no nulls": pa.array(np.arange(40, dtype=np.int64)),
    "no text": pa.array(["", "", ""], pa.large_string()),
}


def gathered(columns: list[pa.Array], source: np.ndarray, row: np.ndarray) -> pa.Array:
    plain = [_core.rows.Column(column) for column in columns]
    made = _core.rows.gather(plain, source.astype(np.uint32), row.astype(np.uint32))
    out = pa.array(made)
    out.validate(full=True)
    return out


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("skipped", [0, 1, 2])
def test_rows_of_a_slice_are_those_that_arrow_takes(name: str, skipped: int) -> None:
    column = COLUMNS[name].slice(skipped)
    rng = np.random.default_rng(skipped)
    for n in (0, 1, 7, 8, 9, 70):
        row = rng.integers(0, len(column), n)
        expected = column.take(pa.array(row))
        out = gathered([column], np.zeros(n), row)
        assert out.type == column.type
        assert repr(out.to_pylist()) == repr(expected.to_pylist())  # repr: NaN and -0.0 are told
        assert out.null_count == expected.null_count


def test_rows_of_several_segments_come_in_the_order_asked() -> None:
    parts = [COLUMNS["strings"].slice(0, 4), COLUMNS["strings"].slice(4, 3)]
    source, row = np.array([1, 0, 1, 0, 0]), np.array([2, 3, 0, 0, 2])
    expected = [parts[s][r].as_py() for s, r in zip(source.tolist(), row.tolist(), strict=True)]
    assert gathered(parts, source, row).to_pylist() == expected


def test_what_was_gathered_outlives_its_column() -> None:
    out = gathered([pa.array(["kept", "gone"], pa.large_string())], np.zeros(1), np.zeros(1))
    assert out.to_pylist() == ["kept"]


def test_an_array_that_nobody_takes_is_let_go_and_one_is_taken_once() -> None:
    rows = np.zeros(1, np.uint32)
    made = _core.rows.gather([_core.rows.Column(COLUMNS["ints"])], rows, rows)
    made.__arrow_c_array__()  # both capsules die with their arrays
    with pytest.raises(InternalError):
        made.__arrow_c_array__()


def test_rows_that_are_not_there_are_refused() -> None:
    for source, row in ((0, 11), (1, 0)):
        with pytest.raises(InternalError):
            gathered([COLUMNS["ints"]], np.array([source]), np.array([row]))
    with pytest.raises(InternalError):
        gathered([COLUMNS["ints"], COLUMNS["bools"]], np.zeros(1), np.zeros(1))


def test_other_types_are_arrows_own() -> None:
    with pytest.raises(DTypeError, match="column: expected"):
        _core.rows.Column(pa.array([[1]]))
