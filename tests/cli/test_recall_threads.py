"""``hyrecall recall`` shows what stands around a hit in its thread or session."""

import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.memory import MemorySync
from memory.stores import episode

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


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--around", "101"), "error: surrounding: expected an int in [0, 100], got 101"),
        (("--around", "-1"), "error: surrounding: expected an int in [0, 100], got -1"),
    ],
)
def test_another_number_of_rows_is_refused(run, chat, arguments, line):
    reply = run("recall", chat, "stone", *arguments)
    assert (reply.code, reply.err.splitlines()[-1]) == (1, line)


def test_a_recall_that_hears_no_threads_says_so(run, chat):
    note = "note: threads are not heard without a recipe (--recipe default hears them)"
    assert note in run("recall", chat, "stone").err
    assert note not in run("recall", chat, "stone", "--recipe", "default").err


def test_info_names_the_columns_of_threads(run, chat):
    lines = [line.split(maxsplit=1) for line in run("info", chat).out.splitlines()]
    assert ["threads", "day, by turn"] in lines
