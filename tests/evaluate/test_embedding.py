"""A set without vectors, and an embedder: what is embedded, what is not, and what is refused."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from hyrecall.embed import EmbedError, HashEmbedder
from hyrecall.errors import OptionError
from hyrecall.evaluate import Dataset, Indexes, embed_dataset, read_setting, run_setting

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
    assert [text for call in spy.calls for text in call] == wanted
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
    n_texts = bare.corpus.num_rows + bare.queries.num_rows
    assert told == [(64, n_texts), (128, n_texts), (n_texts, n_texts)]


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
    told = "embedder: expected vectors of 64 texts, got crashed: RuntimeError"
    assert str(caught.value) == told
