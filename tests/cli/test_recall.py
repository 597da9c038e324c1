"""hyrecall recall says what Index.recall says."""

import datetime as dt
import json

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.embed import EmbedBy, HashEmbedder, StaticEmbedder
from hyrecall.memory import MemorySync
from memory.stores import episode

QUERY = "amber delta kelp"
VECTOR = [0.5, -1.0, 0.25, 2.0, 0.0, 1.0, -0.5, 0.125]


@pytest.fixture
def index(folder):
    return hr.Index.open(folder)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (["--bm25", "bm25+:1.2:0.75:0.5"], {"bm25": hr.BM25("bm25+", delta=0.5)}),
        (["--bm25", "robertson"], {"bm25": hr.BM25("robertson")}),
        (
            ["--min-score", "body=1.5", "--normalize"],
            {"min_score": {"body": 1.5}, "normalize": True},
        ),
        (
            ["--filter", '{"stars": {"from": 3}}', "--filter", '{"stars": [3]}'],
            {"filter": hr.Filter(stars=3)},
        ),
        (["--fusion", "rrf"], {"fusion": hr.RRF()}),
        (["--fusion", "rrf:20"], {"fusion": hr.RRF(rank_constant=20)}),
        (["--fusion", "rrf:10,body=2"], {"fusion": hr.RRF({"body": 2}, rank_constant=10)}),
        (
            ["--fusion", "sum:none,complete=no"],
            {"fusion": hr.WeightedSum(normalize="none", complete=False)},
        ),
        (["--fusion", "max"], {"fusion": hr.Max()}),
        (
            ["--fusion", "dbsf:body=2,complete=no"],
            {"fusion": hr.DBSF({"body": 2}, complete=False)},
        ),
    ],
)
def test_every_option_reaches_the_engine(run, folder, index, arguments, options):
    asked = ["recall", folder, QUERY, "--scope", "acme", "--vector", json.dumps(VECTOR)]
    reply = run(*asked, "--depth", 50, "--min-fused", 0.001, "--json", *arguments)
    assert reply.code == 0, reply.err
    assert reply.data["text"] == QUERY
    how = {"scope": "acme", "depth": 50, "min_fused": 0.001, **options}
    found = index.recall(text=[QUERY], vectors=[VECTOR], columns=["title", "text"], **how)
    wanted = [
        {name: value for name, value in row.items() if name != "query"}
        for row in found.to_list()[0]
    ]
    assert reply.data["hits"] == wanted
    assert wanted


def test_parse_reads_the_text_and_needs_one(run, folder):
    asked = "recall", folder, "--scope", "acme", "--vector", json.dumps(VECTOR)
    reply = run(*asked, "--parse")
    assert reply.code == 1
    assert "--parse: expected TEXT with it" in " ".join(reply.err.split())


def test_a_floor_without_an_arm_is_that_of_the_only_one(run, folder, index):
    reply = run("recall", folder, QUERY, "--scope", "acme", "--min-score", "1.5", "--json")
    wanted = index.recall_one(text=QUERY, scope="acme", min_score=1.5)
    assert [hit["key"] for hit in reply.data["hits"]] == wanted.keys


@pytest.mark.parametrize("text", [[], [QUERY]], ids=["vectors", "both"])
def test_vectors_come_from_files_and_by_arm(run, folder, tmp_path, text):
    (tmp_path / "v.json").write_text(json.dumps(VECTOR))
    np.save(tmp_path / "v.npy", np.array(VECTOR, np.float32))
    forms = [json.dumps(VECTOR), f"@{tmp_path}/v.json", f"@{tmp_path}/v.npy"]
    forms.append(f"embedding={json.dumps(VECTOR)}")
    asked = ["recall", folder, *text, "--scope", "acme", "--json", "--vector"]
    replies = [run(*asked, form) for form in forms]
    assert all(reply.data["arms"][-1] == "embedding" for reply in replies)
    assert all(len(reply.data["arms"]) == 1 + len(text) for reply in replies)
    assert all(reply.data["hits"] == replies[0].data["hits"] for reply in replies)


def test_the_table_takes_no_text_for_markup_or_emoji(run, tmp_path):
    text = "tea [bold]loud[/bold] :smile: [/x]"
    table = pa.table({"id": ["[red]k"], "text": [text]})
    hr.Index.build(table, hr.Schema(key="id", cell=None, text="text")).save(tmp_path / "i")
    reply = run("recall", tmp_path / "i", "tea")
    assert text in reply.out
    assert "[red]k" in reply.out


def test_times_of_day_are_asked_in_iso_and_durations_only_for_null(run, tmp_path):
    table = pa.table(
        {
            "id": [1, 2, 3],
            "text": ["tea"] * 3,
            "at": pa.array([dt.time(8), dt.time(12, 30), None]),
            "long": pa.array([dt.timedelta(hours=1), None, None]),
        }
    )
    schema = hr.Schema(key="id", cell=None, text="text", attributes=("at", "long"))
    hr.Index.build(table, schema).save(tmp_path / "i")

    def keys(asked):
        reply = run("recall", tmp_path / "i", "tea", "--json", "--filter", json.dumps(asked))
        return [hit["key"] for hit in reply.data["hits"]] if reply.code == 0 else reply.err

    assert keys({"at": "08:00"}) == [1]
    assert keys({"at": {"from": "09:00:00"}}) == [2]
    assert keys({"at": ["08:00", "12:30"]}) == [1, 2]
    assert "error: --filter at: expected an ISO 8601 time, got 'noon'" in keys({"at": "noon"})
    assert keys({"long": None}) == [2, 3]
    assert keys({"long": {"null": False}}) == [1]
    for asked in ("1:00:00", 3600, ["PT1H"], {"from": 1}):
        assert keys({"long": asked}).startswith("error: --filter long: expected null or ")
    assert "durations are not supported" in " ".join(run("recall", "--help").out.split())


def test_json_has_null_where_a_number_is_not_finite(run, tmp_path):
    values = [float("nan"), float("inf"), 0.5]
    nested = [{"a": [value]} for value in values]
    table = pa.table({"id": [1, 2, 3], "text": ["tea"] * 3, "x": values, "y": nested})
    schema = hr.Schema(key="id", cell=None, text="text", attributes="x", stored=("text", "y"))
    hr.Index.build(table, schema).save(tmp_path / "i")
    reply = run("recall", tmp_path / "i", "tea", "--columns", "x,y", "--json")
    assert "NaN" not in reply.out
    assert "Infinity" not in reply.out
    assert [hit["x"] for hit in reply.data["hits"]] == [None, None, 0.5]
    assert [hit["y"]["a"] for hit in reply.data["hits"]] == [[None], [None], [0.5]]


def test_embed_refuses_an_arm_that_the_model_cannot_fill(run, folder):
    if not StaticEmbedder.available():
        pytest.skip("the extra [local] is not installed")
    reply = run("recall", folder, QUERY, "--scope", "acme", "--embed")
    assert reply.code == 1
    assert "error: --embed: expected an index with one vector arm of 256 dimensions" in reply.err


def test_an_index_of_vectors_alone_says_that_its_embedder_is_missing(run, tmp_path):
    table = pa.table({"id": ["a"], "text": ["tea"]})
    schema = hr.Schema(key="id", cell=None, vector="v")
    by = EmbedBy(HashEmbedder(dim=8), columns="text")
    hr.Index.build(table, schema, embed=by).save(tmp_path / "i")
    reply = run("recall", tmp_path / "i", "tea", "--json")
    assert (reply.code, reply.data["hits"]) == (0, [])
    assert "v did not run: its vectors are of 'hash-8'" in reply.data["degraded"][0]
    reply = run("recall", tmp_path / "i", "tea", "--vector", json.dumps(VECTOR))
    assert "error: text: expected none (the index has no text arm)" in reply.err


# ---- threads and sessions ----


TURNS = ("where is the key?", "under the stone", "thanks!", "what a day")


@pytest.fixture
def chat(tmp_path):
    rows = {"id": [1, 2, 3, 4], "day": ["may"] * 4, "turn": [1, 2, 3, 4], "text": list(TURNS)}
    schema = hr.Schema(key="id", cell=None, text="text", thread="day", place="turn")
    hr.Index.build(pa.table(rows), schema).save(tmp_path / "chat")
    return tmp_path / "chat"


@pytest.fixture
def store(tmp_path):
    with MemorySync.open(tmp_path / "chat.mem", embedder=None) as memory:
        memory.remember_batch([episode(at, t, session_id="s") for at, t in enumerate(TURNS)])
    return tmp_path / "chat.mem"


def test_rows_around_a_hit_stand_beneath_it(run, chat):
    reply = run("recall", chat, "stone", "--around", "1")
    assert reply.code == 0, reply.err
    lines = [line.strip() for line in reply.out.splitlines()]
    at = lines.index("under the stone")
    assert lines[at + 1 : at + 3] == ["-1  1  where is the key?", "+1  3  thanks!"]
    assert "thanks!" not in run("recall", chat, "stone").out


def test_one_hit_a_thread_lists_its_best_rows(run, chat):
    reply = run("recall", chat, "the", "--by-thread", "--recipe", "default")
    assert reply.code == 0, reply.err
    assert sum("thread: " in line for line in reply.out.splitlines()) == 1
    data = run("recall", chat, "the", "--by-thread", "--around", "1", "--json").data
    (hit,) = data["hits"]
    assert next(row["key"] for row in hit["thread"]) == hit["key"]
    assert all(row["step"] in (-1, 1) for row in hit["surrounding"])


def test_what_was_dropped_names_the_hit_that_a_row_is_shown_with(run, chat):
    asked = ("recall", chat, "the", "--by-thread", "--around", "1", "--recipe", "default")
    index = hr.Index.open(chat)
    found = index.recall_one(text="the", recipe=hr.recipes.default, group="thread", surrounding=1)
    dropped = found.explain_dropped()
    assert {row.reason for row in dropped.stages[-2].rows} == {"group", "surrounding"}
    assert run(*asked, "--explain", "--json").data["dropped"] == dropped.to_list()
    shown = run(*asked, "--explain").out
    for row in dropped.stages[-2].rows:
        assert f"  {row}\n" in shown


def test_memories_around_a_match_stand_beneath_it(run, store):
    asked = ("recall", store, "stone", "--user", "alice", "--around", "1")
    reply = run(*asked)
    assert reply.code == 0, reply.err
    shown = [line.split("    ")[-1].strip() for line in reply.out.splitlines()]
    at = next(at for at, line in enumerate(shown) if line.endswith("under the stone"))
    assert shown[at + 1 : at + 3] == ["where is the key?", "thanks!"]
    (first, *_) = run(*asked, "--json").data["around"]
    assert [one["id"] for one in first] == ["e0", "e2"]


def test_a_recall_that_hears_no_threads_says_so(run, chat):
    note = "note: threads are not heard without a recipe (--recipe default hears them)"
    assert note in run("recall", chat, "stone").err
    assert note not in run("recall", chat, "stone", "--recipe", "default").err


def test_info_names_the_columns_of_threads(run, chat):
    lines = [line.split(maxsplit=1) for line in run("info", chat).out.splitlines()]
    assert ["threads", "day, by turn"] in lines


def test_columns_order_what_is_found_and_values_are_counted(run, folder, index):
    asked = ["recall", folder, "--scope", "acme", "--limit", 4]
    page = ["--sort", "stars:desc", "--facet", "stars", "--json"]
    for text in ([], [QUERY]):
        reply = run(*asked[:2], *text, *asked[2:], *page)
        given = {"text": QUERY, "vector": {}} if text else {}
        found = index.recall_one(
            **given, scope="acme", sort=("stars", "desc"), facets="stars", limit=4
        )
        assert [hit["key"] for hit in reply.data["hits"]] == found.keys
        assert reply.data["total"] == found.total
        assert reply.data["facets"]["stars"] == [
            {"value": value, "count": count} for value, count in found.facets["stars"]
        ]
    shown = run(*asked, "--sort", "stars", "--facet", "stars=,3,")
    assert f"note: {found.total} rows match" not in shown.out
    assert ["rows", "stars"] in [line.split() for line in shown.out.splitlines()]
    assert "to 3" in shown.out
    wrong = run(*asked, "--facet", "stars=3")
    assert (wrong.code, "edges: expected two edges or more" in wrong.err) == (1, True)
