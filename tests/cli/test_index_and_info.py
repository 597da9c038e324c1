"""hyrecall index reads Parquet, JSON lines and CSV into the index that the API builds."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hyrecall as hr
from hyrecall.distributed import ShardedIndex

ARMS = ["--key", "id", "--cell", "tenant", "--text", "body=title+text", "--attribute", "stars"]
QUERIES = ["amber delta", "kelp"]


def replies(index):
    return index.recall(text=QUERIES, scope=["acme", "bolt"], columns=["stars", "text"]).to_arrow()


@pytest.fixture
def expected(table):
    schema = hr.Schema(
        key="id", cell="tenant", text={"body": hr.Text("title", "text")}, attributes="stars"
    )
    return replies(hr.Index.build(table, schema))


def test_vectors_analyzer_stopwords_and_bm25_reach_the_index(run, table, tmp_path):
    corpus = tmp_path / "corpus.parquet"
    pq.write_table(table, corpus)
    options = ["--vector", "embedding:float16", "--analyzer", "body=snowball:english"]
    options += ["--stopwords", "english", "--bm25", "lucene:0.9:0.4", "--cluster", "stars"]
    reply = run("index", corpus, "-o", tmp_path / "index", *ARMS, *options)
    assert reply.code == 0, reply.err
    info = run("info", tmp_path / "index", "--json").data
    assert info["n_docs"] == 300
    assert info["dims"] == {"embedding": 8}
    assert info["schema"]["cluster"] == "stars"
    assert info["analyzer"]["body"] == repr(hr.Analyzer("snowball:english", stopwords="english"))
    assert info["bm25"]["body"] == repr(hr.BM25("lucene", k1=0.9, b=0.4))
    opened = hr.Index.open(tmp_path / "index")
    assert opened.recall_one(vector=[1.0] * 8, scope="acme", limit=3).keys
    shown = run("info", tmp_path / "index")
    told = (
        "title + text, words by snowball:english, stop list english, BM25 lucene with k1 0.9, b 0.4"
    )
    for part in ("300 live, 0 deleted", told, "embedding, 8 dimensions"):
        assert part in " ".join(shown.out.split())


def test_many_and_sparse_vectors_reach_the_index(run, tmp_path):
    rows = [
        {"id": "a", "tokens": [[1.0, 0.0], [0.0, 1.0]], "terms": {"cat": 1.5, "pet": 0.5}},
        {"id": "b", "tokens": [[1.0, 1.0]], "terms": {"car": 2.0}},
    ]
    corpus = tmp_path / "rows.jsonl"
    corpus.write_text("\n".join(map(json.dumps, rows)))
    arms = ("--key", "id", "--no-cell", "--vector", "tokens:maxsim", "--vector", "terms:sparse")
    reply = run("index", corpus, "-o", tmp_path / "index", *arms)
    assert reply.code == 0, reply.err
    schema = hr.Index.open(tmp_path / "index").schema
    assert schema.vector_arms == {
        "tokens": hr.MaxSim("tokens", dtype="float32"),
        "terms": hr.Sparse("terms", dtype="float32"),
    }
    found = run("recall", tmp_path / "index", "--vector", 'terms={"pet": 2}', "--explain")
    assert found.code == 0, found.err
    assert "pet: 2 x 0.5 = 1" in found.out
    assert "terms, sparse" in " ".join(run("info", tmp_path / "index").out.split())
    late = run("recall", tmp_path / "index", "--vector", "tokens=[[0, 1]]", "--json")
    assert [hit["key"] for hit in late.data["hits"]] == ["a", "b"]


def test_weights_of_columns_reach_the_index(run, table, tmp_path):
    corpus = tmp_path / "corpus.parquet"
    pq.write_table(table, corpus)
    arms = ("--text", "body=title:3+text", "--text", "title:2", "--text", "x=id:a")
    given = ("index", corpus, "-o", tmp_path / "index", "--key", "id", "--cell", "tenant")
    assert "id:a" in run(*given, *arms).err  # no weight, so a column that is not there
    assert run(*given, *arms[:4]).code == 0
    schema = hr.Index.open(tmp_path / "index").schema
    assert schema.text_arms == {
        "body": hr.Text("title", "text", weights={"title": 3}),
        "title": hr.Text("title", weights={"title": 2}),
    }
    shown = run("info", tmp_path / "index").out
    assert "title:3 + text, words" in shown
    assert run("info", tmp_path / "index", "--json").data["schema"]["text"]["title"] == {
        "columns": ["title"], "weights": {"title": 2},
    }  # fmt: skip


def test_scopes_of_int_cells_and_of_the_null_cell(run, tmp_path):
    rows = {"id": ["a", "b", "c"], "n": [1, 2, None], "text": ["tea"] * 3}
    pq.write_table(pa.table(rows), tmp_path / "c.parquet")
    options = ("--key", "id", "--cell", "n", "--text", "text")
    assert run("index", tmp_path / "c.parquet", "-o", tmp_path / "i", *options).code == 0
    for scope, key in (("2", "b"), ("null", "c"), ("[null]", "c")):
        reply = run("recall", tmp_path / "i", "tea", "--json", "--scope", scope)
        assert [hit["key"] for hit in reply.data["hits"]] == [key]


def test_csv_keys_and_cells_stay_text_as_written(run, tmp_path):
    (tmp_path / "c.csv").write_text('id,org,text\n007,01,"hot\ntea"\n8,1,tea\n')
    options = ("--key", "id", "--cell", "org", "--text", "text")
    assert run("index", tmp_path / "c.csv", "-o", tmp_path / "i", *options).code == 0
    reply = run("recall", tmp_path / "i", "tea", "--scope", "01", "--json")
    assert [(hit["key"], hit["text"]) for hit in reply.data["hits"]] == [("007", "hot\ntea")]


def test_texts_of_json_lines_that_look_like_times_stay_text(run, tmp_path):
    (tmp_path / "c.jsonl").write_text('{"id": 1, "text": "2024-05-01"}\n')
    options = ("--key", "id", "--no-cell", "--text", "text")
    assert run("index", tmp_path / "c.jsonl", "-o", tmp_path / "i", *options).code == 0
    (hit,) = run("recall", tmp_path / "i", "2024", "--json").data["hits"]
    assert (hit["key"], hit["text"]) == (1, "2024-05-01")


def test_keys_and_cells_of_json_lines_that_look_like_times_stay_text(run, tmp_path):
    days = ["2024-05-01", "2024-05-02 10:00:00"]
    rows = [{"id": day, "org": day, "day": day, "text": "tea"} for day in days]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ("--key", "id", "--cell", "org", "--text", "text", "--attribute", "day")
    made = run("index", tmp_path / "c.jsonl", "-o", tmp_path / "i", *options)
    assert made.code == 0, made.err
    asked = ["--scope", days[1], "--filter", '{"day": {"from": "2024-05-02"}}', "--json"]
    (hit,) = run("recall", tmp_path / "i", "tea", *asked).data["hits"]
    assert (hit["key"], hit["org"]) == (days[1], days[1])
    types = run("info", tmp_path / "i", "--json").data["types"]
    assert (types["id"], types["org"]) == ("large_string", "large_string")
    assert types["day"].startswith("timestamp")


def test_info_on_a_store_says_which_command_shows_it(run, tmp_path):
    (tmp_path / "memory.db").touch()
    shown = run("info", tmp_path)
    assert shown.code == 1
    told = "expected a saved index, got a store (hyrecall doctor --path shows it)"
    assert shown.err == f"error: {tmp_path}: {told}\n"


def test_a_folder_of_shards_says_what_opens_it(run, table, tmp_path):
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "0.parquet")
    into = tmp_path / "shards"
    reply = run("shards", "build", tmp_path / "in", into, "--shards", 2,
                *ARMS)  # fmt: skip
    assert reply.code == 0, reply.err
    reply = run("info", into)
    assert reply.code == 1
    got = f"path: expected the folder of a saved index, got a folder of shards, {into}"
    assert f"{got} (hyrecall shards info shows it)" in " ".join(reply.err.split())
    assert run("shards", "info", into).code == 0
    with pytest.raises(hr.IndexNotFoundError) as caught:
        hr.Index.open(into)
    assert caught.value.remedy == f"ShardedIndex.open({str(into)!r})"
    with ShardedIndex.open(into) as index:
        assert len(index) == 2


def test_vectors_of_json_lines_may_be_whole_numbers(run, tmp_path):
    for vectors, wanted in (
        ([[1, 0], [0, 1]], [1, 2]),
        ([[1, 0], [0.5, 1]], [1, 2]),
        ([[1, 0], None], [1]),
    ):
        rows = [{"id": at, "v": v} for at, v in enumerate(vectors, start=1)]
        (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        options = ("--key", "id", "--no-cell", "--vector", "v", "--replace")
        made = run("index", tmp_path / "c.jsonl", "-o", tmp_path / "i", *options)
        assert made.code == 0, made.err
        asked = run("recall", tmp_path / "i", "--vector", "[1, 0]", "--json").data
        assert [hit["key"] for hit in asked["hits"]] == wanted


def test_one_stop_word_is_told_from_the_name_of_a_language(run, table, tmp_path):
    pq.write_table(table, tmp_path / "c.parquet")
    options = ("--key", "id", "--no-cell", "--text", "text", "--replace", "--stopwords")
    for given, words in (("english", "english"), ("amber,", ("amber",)), ("a,b", ("a", "b"))):
        made = run("index", tmp_path / "c.parquet", "-o", tmp_path / "i", *options, given)
        assert made.code == 0, made.err
        analyzer = run("info", tmp_path / "i", "--json").data["analyzer"]["text"]
        assert analyzer == repr(hr.Analyzer(stopwords=words))
    reply = run("index", tmp_path / "c.parquet", "-o", tmp_path / "i", *options, "german")
    assert reply.code == 1
    assert reply.err == (
        "error: --stopwords: expected english, or words separated by commas "
        "('german,' is a list of one), got 'german'\n"
    )


def test_an_index_that_is_there_is_replaced_only_when_asked(run, table, tmp_path):
    corpus, output = tmp_path / "corpus.parquet", tmp_path / "index"
    pq.write_table(table, corpus)
    assert run("index", corpus, "-o", output, *ARMS).code == 0
    pq.write_table(table.slice(0, 30), corpus)
    refused = run("index", corpus, "-o", output, *ARMS)
    assert refused.code == 1
    assert "--replace" in refused.err
    assert len(hr.Index.open(output)) == 300
    assert run("index", corpus, "-o", output, *ARMS, "--replace").code == 0
    assert len(hr.Index.open(output)) == 30
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    assert run("index", corpus, "-o", other, *ARMS, "--replace").code == 1
    assert [file.name for file in other.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--key", "id", "--text", "text"], "error: --cell: expected --cell COLUMN, or --no-cell"),
        (["--key", "no", "--no-cell", "--text", "text"], "error: --key: expected a column of"),
        (["--key", "id", "--no-cell", "--text", "title+text"], "error: --text: expected a name"),
        (["--key", "id", "--no-cell", "--text", "a=", "--text", "b"], "error: --text: expected"),
        (["--key", "id", "--no-cell", "--text", "a=b+text:0"], "error: --text: expected COLUMN:W"),
        (["--key", "id", "--no-cell", "--text", "text:101"], "error: --text: expected COLUMN:W"),
        (["--key", "id", "--no-cell"], "error: schema: expected at least one text or vector arm"),
        (
            ["--key", "id", "--no-cell", "--text", "text", "--bm25", "body=okapi"],
            "error: --bm25: expected a text arm of ['text'], got 'body'",
        ),
        (
            ["--key", "id", "--no-cell", "--text", "text", "--analyzer", "snowball:klingon"],
            "error: --analyzer: name: expected",
        ),
        (["--key", "tenant", "--no-cell", "--text", "text"], "error: tenant: expected"),
    ],
)
def test_what_index_refuses_names_the_option_and_leaves_no_folder(
    run, table, tmp_path, options, line
):
    corpus = tmp_path / "corpus.parquet"
    pq.write_table(table, corpus)
    reply = run("index", corpus, "-o", tmp_path / "index", *options)
    assert reply.code == 1
    assert reply.err.splitlines()[-1].startswith(line)
    assert not (tmp_path / "index").exists()


def test_index_never_writes_over_its_own_corpus(run, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(table, "corpus.parquet")
    before = (tmp_path / "corpus.parquet").read_bytes()
    for output in ("corpus.parquet", tmp_path / "corpus.parquet"):
        reply = run("index", "corpus.parquet", "-o", output, *ARMS, "--replace")
        assert reply.code == 1
        assert reply.err == (
            f"error: --output: expected a folder, not the corpus, got {str(output)!r}\n"
        )
    assert (tmp_path / "corpus.parquet").read_bytes() == before


@pytest.mark.parametrize("name", ["corpus.txt", "absent.parquet", "broken.parquet", "broken.jsonl"])
def test_files_that_cannot_be_read_are_named(run, tmp_path, name):
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 not quite")
    (tmp_path / "broken.jsonl").write_text('{"id": \n')
    reply = run("index", tmp_path / name, "-o", tmp_path / "index", *ARMS)
    assert reply.code == 1
    assert reply.err.startswith("error: ")
    assert name in reply.err
    assert reply.err.count("\n") == 1


def test_a_chat_is_indexed_with_its_threads_and_found_beside_the_words(run, tmp_path):
    chat = tmp_path / "chat.jsonl"
    rows = [
        (1, "may", 2, "where did you put the key?"),
        (2, "may", 3, "under the red stone"),
        (3, "may", 1, "hello"),
        (4, "june", 1, "what a day"),
    ]
    names = ("id", "session", "turn", "text")
    lines = [json.dumps(dict(zip(names, row, strict=True)) | {"user": "ann"}) for row in rows]
    chat.write_text("\n".join(lines), "utf-8")
    made = run(
        "index", chat, "-o", tmp_path / "idx", "--key", "id", "--cell", "user", "--text", "text",
        "--thread", "session", "--place", "turn",
    )  # fmt: skip
    assert made.code == 0
    schema = hr.Index.open(tmp_path / "idx").schema
    assert (schema.thread, schema.place) == ("session", "turn")
    asked = ("recall", tmp_path / "idx", "key", "--scope", "ann")
    assert "under the red stone" not in run(*asked).out
    told = run(*asked, "--recipe", "conversation", "--explain")
    assert told.code == 0
    assert "under the red stone" in told.out
    assert "neighbour 1 is row 1" in told.out
