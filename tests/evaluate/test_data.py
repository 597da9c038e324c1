"""Sets: files of three kinds, what is refused in them, their halves, and sets without vectors."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

from hyrecall.embed import EmbedError, HashEmbedder
from hyrecall.errors import DTypeError, HyrecallError, OptionError
from hyrecall.evaluate import (
    Dataset,
    Indexes,
    embed_dataset,
    load_dataset,
    read_setting,
    run_setting,
)
from retrieval_set import DIM, write_folder

# ---- files ----

EVEN = (  # of q0 to q49
    "q0 q2 q3 q7 q9 q10 q11 q12 q13 q14 q16 q17 q19 q20 q25 q26 q29 "
    "q30 q31 q32 q33 q36 q38 q40 q41 q43 q44 q45 q46 q49"
)


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "beir"])
def test_a_set_is_the_same_from_files_of_every_kind(data, tmp_path, kind):
    loaded = load_dataset(write_folder(data, tmp_path / "small", kind=kind))
    assert loaded.name == "small"
    assert loaded.judgements == data.judgements
    for part in ("corpus", "queries"):
        ours, theirs = getattr(loaded, part), getattr(data, part)
        for column in theirs.column_names:
            assert ours[column].to_pylist() == theirs[column].to_pylist()
    assert loaded.corpus["embedding"].type.list_size == DIM
    assert (loaded.has_cells, loaded.has_vectors) == (True, True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A set of two documents as lines that a test spoils."""
    path = tmp_path / "two"
    path.mkdir()
    (path / "corpus.jsonl").write_text('{"id": "a", "text": "tea"}\n{"id": "b", "text": "milk"}\n')
    (path / "queries.jsonl").write_text('{"id": 1, "text": "hot tea"}\n')
    (path / "qrels.tsv").write_text("query\tdocument\tgrade\n1\ta\t2\n")
    return path


def test_whole_numbers_are_ids_and_other_files_of_judgements_can_be_named(folder):
    (folder / "others.tsv").write_text("query\tdocument\tgrade\r\n1\tb\t1.0\r\n\r\n")
    assert load_dataset(folder).judgements == {"1": {"a": 2}}
    assert load_dataset(folder, qrels="others.tsv").judgements == {"1": {"b": 1}}


def test_classes_of_duplicates_are_read(folder):
    (folder / "classes.tsv").write_text("document\tclass\na\tdrinks\nb\tdrinks\n")
    assert load_dataset(folder).classes == {"a": "drinks", "b": "drinks"}


def test_a_line_that_lacks_a_value_has_null_there(folder):
    lines = '{"id": "a", "text": "tea", "embedding": [1, 0.5]}\n\n{"id": "b", "text": "milk"}\n'
    (folder / "corpus.jsonl").write_text(lines)
    loaded = load_dataset(folder)
    assert loaded.corpus["embedding"].to_pylist() == [[1.0, 0.5], None]
    assert not loaded.has_vectors  # the queries have none


SPOILED = [
    ("qrels.tsv", "q\td\tg\n1\ta\n", "qrels.tsv line 2: expected 3 fields separated by tabs"),
    ("qrels.tsv", "q\td\tg\n1\ta\thigh\n", "qrels.tsv line 2: expected a whole grade"),
    ("qrels.tsv", "q\td\tg\n1\ta\t0.5\n", "qrels.tsv line 2: expected a whole grade"),
    ("qrels.tsv", "q\td\tg\n1\ta\tnan\n", "qrels.tsv line 2: expected a whole grade"),
    ("qrels.tsv", "q\td\tg\n1\ta\t9999999999\n", "qrels.tsv line 2: expected a whole grade"),
    ("qrels.tsv", "q\td\tg\n\n2\ta\t1\n", "qrels.tsv line 3: expected a query of the set, got '2'"),
    ("qrels.tsv", "2\ta\t1\n", "qrels.tsv line 1: expected a query of the set, got '2'"),
    ("qrels.tsv", "q\td\tg\n1\tc\t1\n", "qrels.tsv line 2: expected a document of the set"),
    ("qrels.tsv", "q\td\tg\n1\ta\t1\n1\ta\t0\n", "qrels.tsv line 3: expected each pair once"),
    ("classes.tsv", "d\tc\na\t\n", "classes.tsv line 2: expected 2 fields"),
    ("classes.tsv", "d\tc\nz\tdrinks\n", "classes.tsv line 2: expected a document of the set"),
    ("classes.tsv", "d\tc\na\tx\na\ty\n", "classes.tsv line 3: expected each document once"),
    ("corpus.jsonl", '{"id": "a", "text": "tea"}\n{"id"\n', "corpus.jsonl line 2: expected a JSON"),
    ("corpus.jsonl", '["a", "tea"]\n', "corpus.jsonl line 1: expected a JSON object, got list"),
    ("corpus.jsonl", '{"text": "tea"}\n', "corpus.jsonl: expected a column 'id'"),
    ("corpus.jsonl", '{"id": "a"}\n', "corpus.jsonl: expected a column 'text'"),
    ("corpus.jsonl", "", "corpus.jsonl: expected a column 'id'"),
    (
        "corpus.jsonl",
        '{"id": "a", "text": "tea"}\n\n{"text": "b"}\n',
        "corpus.jsonl line 3: expected 'id' as str or int, got None",
    ),
    ("corpus.jsonl", '{"id": "a", "text": 1}\n', "corpus.jsonl line 1: expected 'text' as str or"),
    (
        "corpus.jsonl",
        '{"id": "a", "text": "", "day": 1}\n{"id": "b", "text": "", "day": "x"}\n',
        "corpus.jsonl: day: expected values of one type",
    ),
    (
        "corpus.jsonl",
        '{"id": "a", "text": "", "embedding": [1]}\n{"id": "b", "text": "", "embedding": [1, 2]}\n',
        "corpus.jsonl line 2: expected 'embedding' as a list of 1 numbers",
    ),
    ("queries.jsonl", '{"id": 1, "text": "a"}\n{"id": "1", "text": "b"}\n', "queries: expected ea"),
]


@pytest.mark.parametrize(("name", "text", "message"), SPOILED)
def test_what_is_wrong_in_a_file_is_named_with_its_line(folder, name, text, message):
    (folder / name).write_text(text)
    with pytest.raises(HyrecallError) as caught:
        load_dataset(folder)
    assert isinstance(caught.value, OptionError | DTypeError)
    assert message in str(caught.value)
    assert str(folder) in str(caught.value)


def test_bytes_that_are_no_text_are_named_with_their_line(folder):
    (folder / "qrels.tsv").write_bytes(b"q\td\tg\n1\t\xff\t1\n")
    with pytest.raises(DTypeError, match=r"qrels.tsv line 2: expected UTF-8"):
        load_dataset(folder)


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl", "qrels.tsv"])
def test_a_file_that_is_missing_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(OptionError, match=name.partition(".")[0]):
        load_dataset(folder)


def test_a_first_line_that_is_data_is_no_header(folder):
    (folder / "qrels.tsv").write_text("1\ta\t2\n1\tb\t0\n")
    (folder / "classes.tsv").write_text("a\tdrinks\nb\tdrinks\n")
    loaded = load_dataset(folder)
    assert loaded.judgements == {"1": {"a": 2, "b": 0}}
    assert loaded.classes == {"a": "drinks", "b": "drinks"}


def test_a_folder_that_is_missing_is_refused(tmp_path):
    with pytest.raises(OptionError, match=r"nowhere: expected .* got no such file or folder$"):
        load_dataset(tmp_path / "nowhere")


def test_two_files_of_one_part_are_refused(folder):
    pq.write_table(pa.table({"id": ["a"], "text": ["tea"]}), folder / "corpus.parquet")
    with pytest.raises(OptionError, match="got both"):
        load_dataset(folder)


def test_a_parquet_file_that_is_none_or_has_other_types_is_refused(folder):
    (folder / "corpus.jsonl").unlink()
    path = folder / "corpus.parquet"
    path.write_text("no")
    with pytest.raises(DTypeError, match="expected a Parquet file"):
        load_dataset(folder)
    pq.write_table(pa.table({"id": ["a"], "text": [1]}), path)
    with pytest.raises(DTypeError, match="expected text in column 'text', got int64"):
        load_dataset(folder)
    pq.write_table(pa.table({"id": ["a", None], "text": ["x", "y"]}), path)
    with pytest.raises(DTypeError, match="row 2: expected an id, got null"):
        load_dataset(folder)


def test_a_tenant_on_one_side_only_is_refused(data):
    for corpus, queries in (
        (data.corpus.drop_columns("tenant"), data.queries),
        (data.corpus, data.queries.drop_columns("tenant")),
    ):
        with pytest.raises(OptionError, match="expected a column 'tenant'"):
            Dataset("one-sided", corpus, queries, {})


def test_the_halves_are_disjoint_and_whole(data):
    even, odd = data.split("even"), data.split("odd")
    halves = [set(half.queries["id"].to_pylist()) for half in (even, odd)]
    assert not halves[0] & halves[1]
    assert halves[0] | halves[1] == set(data.queries["id"].to_pylist())
    assert min(map(len, halves)) > 10
    for half, ids in ((even, halves[0]), (odd, halves[1])):
        assert set(half.judgements) == set(data.judgements) & ids
        assert half.corpus is data.corpus


def test_a_query_stays_in_its_half_whatever_else_the_set_holds(data):
    fewer = Dataset("fewer", data.corpus, data.queries.slice(20, 15)[::-1], data.judgements)
    for part in ("even", "odd"):
        kept = set(fewer.split(part).queries["id"].to_pylist())
        assert kept <= set(data.split(part).queries["id"].to_pylist())
        assert kept


def test_the_rule_of_the_split_is_the_one_that_is_written_down():
    queries = pa.table({"id": [f"q{at}" for at in range(50)], "text": ["x"] * 50})
    corpus = pa.table({"id": ["a"], "text": ["x"]})
    even = Dataset("s", corpus, queries, {}).split("even").queries["id"].to_pylist()
    hashes = [xxhash.xxh3_64(query.encode()).intdigest() for query in even]
    assert {value % 2 for value in hashes} == {0}
    assert " ".join(even) == EVEN  # figures of halves are comparable only while this holds


def test_judged_queries_are_those_with_judgements(data):
    assert data.judged.num_rows == len(data.judgements) == 54
    assert data.queries.num_rows == 60
    assert json.dumps(data.judged["id"].to_pylist()[:2]) == '["q0", "q1"]'


# ---- what is embedded, what is not, and what is refused ----

Rows = npt.NDArray[np.float32]


class Spy(HashEmbedder):
    """Keeps what it was given, call by call."""

    def __init__(self, dim: int = 8) -> None:
        super().__init__(dim=dim)
        self.calls: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> Rows:
        self.calls.append(list(texts))
        return super().embed(texts)


@pytest.fixture
def bare(data: Dataset) -> Dataset:
    """The small set without its vectors."""
    tables = (table.drop_columns(["embedding"]) for table in (data.corpus, data.queries))
    corpus, queries = tables
    return replace(data, corpus=corpus, queries=queries)


def vectors(table: pa.Table) -> list[list[float] | None]:
    return table["embedding"].to_pylist()  # type: ignore[no-any-return]


def test_title_and_text_are_embedded_and_the_judged_queries(bare: Dataset) -> None:
    spy = Spy()
    made = embed_dataset(bare, spy)
    rows = bare.corpus.to_pylist()
    wanted = [f"{row['title']} {row['text']}" for row in rows]
    wanted += bare.judged["text"].to_pylist()
    assert [text for call in spy.calls for text in call] == [*dict.fromkeys(wanted)]
    assert len(set(wanted)) < len(wanted)  # two queries have the same words
    assert max(map(len, spy.calls)) <= 64
    expected = HashEmbedder(dim=8).embed(wanted[: len(rows)])
    assert np.array_equal(np.array(vectors(made.corpus), np.float32), expected)
    judged = set(bare.judged["id"].to_pylist())
    assert judged < set(bare.queries["id"].to_pylist())
    for name, row in zip(made.queries["id"].to_pylist(), vectors(made.queries), strict=True):
        assert (row is not None) == (name in judged)


def test_what_was_embedded_can_be_asked(bare: Dataset) -> None:
    made = embed_dataset(bare, HashEmbedder(dim=32))
    run = run_setting(Indexes(made), made, read_setting("dense"))
    assert len(run.documents) == made.judged.num_rows
    assert all(run.documents.values())


def test_a_blank_document_has_no_vector_and_is_not_sent(bare: Dataset) -> None:
    texts = [None, " ", *bare.corpus["text"].to_pylist()[2:]]
    titles = ["", None, *bare.corpus["title"].to_pylist()[2:]]
    corpus = bare.corpus.drop_columns(["text", "title"])
    corpus = corpus.append_column("text", pa.array(texts)).append_column("title", pa.array(titles))
    spy = Spy()
    made = embed_dataset(replace(bare, corpus=corpus), spy)
    assert [row is None for row in vectors(made.corpus)[:3]] == [True, True, False]
    assert all(text.strip() for call in spy.calls for text in call)


def test_progress_is_told_to_the_last_text(bare: Dataset) -> None:
    told: list[tuple[int, int]] = []
    embed_dataset(bare, Spy(), progress=lambda done, total: told.append((done, total)))
    rows = bare.corpus.to_pylist()
    n_texts = len({f"{row['title']} {row['text']}" for row in rows})
    n_texts += len({*bare.judged["text"].to_pylist(), None})  # None: those that are not judged
    assert told == [(64, n_texts), (n_texts, n_texts)]


def test_a_set_with_vectors_is_refused(data: Dataset, bare: Dataset) -> None:
    spy = Spy()
    for one in (data, replace(bare, queries=data.queries), replace(bare, corpus=data.corpus)):
        with pytest.raises(OptionError, match=r"small (corpus|queries): expected no column"):
            embed_dataset(one, spy)
    assert spy.calls == []


class Failing(Spy):
    """Fails in its second call."""

    def embed(self, texts: Sequence[str]) -> Rows:
        if self.calls:
            raise RuntimeError("SECRET")
        return super().embed(texts)


def test_an_embedder_that_fails_is_an_error_without_a_text(bare: Dataset) -> None:
    with pytest.raises(EmbedError) as caught:
        embed_dataset(bare, Failing())
    told = "embedder: expected vectors of 59 texts, got crashed: RuntimeError"
    assert str(caught.value) == told
