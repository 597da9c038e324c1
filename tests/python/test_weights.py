"""A column of weight w in a text arm counts as if it stood there w times."""

import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.errors import OptionError

TITLES = ["green tea", "a cup", None, "tea", "", "of green tea and green tea"]
BODIES = ["leaves in hot water", "of green tea", "green tea cups", None, "tea", "well-known tea"]
QUERIES = ["tea", "green cup", hr.Phrase("green tea"), hr.Phrase("tea green", slop=3),
           hr.Prefix("te"), hr.Prefix("green te"), hr.All("cup", "tea")]  # fmt: skip
TABLE = pa.table(
    {
        "id": range(6),
        "title": pa.array(TITLES, pa.string()),
        "body": pa.array(BODIES, pa.string()),
    }
)


def built(*columns: str, **weights: int) -> hr.Index:
    copies = {name: TABLE["title"] for name in columns if name not in TABLE.column_names}
    table = pa.table({name: TABLE[name] for name in TABLE.column_names} | copies)
    text = {"text": hr.Text(*columns, weights=weights)}
    return hr.Index.build(table, hr.Schema(key="id", cell=None, text=text, stored=()))


@pytest.mark.parametrize("bm25", [hr.BM25(), hr.BM25("bm25l"), hr.BM25(b=(0.25, 0.9))])
def test_a_weight_is_that_many_columns(bm25: hr.BM25) -> None:
    weighted, copied = built("title", "body", title=3), built("title", "body", "again", "more")
    replies = [i.recall(text=QUERIES, bm25=bm25).to_arrow() for i in (weighted, copied)]
    assert replies[0].equals(replies[1])
    assert not replies[0].equals(built("title", "body").recall(text=QUERIES, bm25=bm25).to_arrow())
    for index in (weighted, copied):
        index.delete([1, 5])
        index.compact()
    replies = [i.recall(text=QUERIES, bm25=bm25).to_arrow() for i in (weighted, copied)]
    assert replies[0].equals(replies[1])


def test_an_explanation_counts_by_weights() -> None:
    hits = built("title", "body", title=100).recall(text=[hr.Phrase("green tea")])[0]
    shown = {hit.key: hit.explain().components[0] for hit in hits}
    assert {key: one.terms[0].term_freq for key, one in shown.items()} == {
        0: 100,
        1: 1,
        2: 1,
        5: 200,
    }
    assert {key: one.doc_length for key, one in shown.items()} == {0: 204, 1: 203, 2: 3, 5: 603}


def test_more_positions_than_a_document_can_have_are_refused() -> None:
    names = [f"c{at}" for at in range(43)]
    with pytest.raises(OptionError, match="text: expected fewer than 2\\^32 positions in a doc"):
        built(*names, **dict.fromkeys(names, 100))
    assert len(built(*names[:42], **dict.fromkeys(names[:42], 100))) == 6
