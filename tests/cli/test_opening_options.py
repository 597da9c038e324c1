"""--memory, --verify and --pin of the commands that answer queries of a saved index."""

import logging
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hyrecall as hr
from hyrecall.distributed import ShardedIndex
from seams import serve_command

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")

HOW = ("--memory", "ram", "--verify", "structure", "--threads", "1")


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list:
    """The indexes that commands would serve."""
    found: list = []
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    monkeypatch.setattr("hyrecall.serve.create_app", lambda index, _: found.append(index))
    monkeypatch.setattr("hyrecall.serve.run", lambda *_, **__: None)
    return found


def options(index):
    return index._opening.memory, index._opening.verify, index._opening.pin


def test_an_index_is_served_as_asked(run, folder, served):
    for more, want in (
        (HOW, ("ram", "structure", ())),
        (("--pin", "terms,rows", "--pin", "plane"), ("mmap", None, ("terms", "rows", "plane"))),
        ((), ("mmap", None, ())),
    ):
        reply = run("serve", folder, *more)
        assert reply.code == 0, reply.err
        assert options(served[-1]) == want


def test_a_worker_of_the_service_gets_the_options(run, folder, served, monkeypatch):
    monkeypatch.setenv("HYRECALL_SERVE", "")  # the command sets it
    monkeypatch.setattr("hyrecall.serve.workers.run_workers", lambda *_, **__: None)
    assert run("serve", folder, "--workers", "2", *HOW).code == 0
    serve_command.app_of_a_worker()
    assert options(served[0]) == ("ram", "structure", ())


def test_shards_are_served_as_asked(run, folder, served, monkeypatch, tmp_path):
    opened = ShardedIndex.open
    asked: list = []

    def noted(*args, **how):
        index = opened(*args, **how)
        asked.append([options(one.index) for one in index.shards])
        return index

    monkeypatch.setattr(ShardedIndex, "open", noted)
    shutil.copytree(folder, tmp_path / "several" / "0")
    reply = run("serve", tmp_path / "several", *HOW)
    assert reply.code == 0, reply.err
    assert asked == [[("ram", "structure", ())]]
    assert len(served) == 1


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--pin", "all"), "pin: expected parts of ['plane', 'terms', 'documents', 'rows', "),
        (("--pin", "rows", "--memory", "ram"), 'pin: expected nothing with memory="ram", got '),
        (("--memory", "2GB"), "'2GB' is not one of 'mmap', 'ram'"),
        (("--verify", "all"), "'all' is not one of 'full', 'structure'"),
    ],
    ids=" ".join,
)
def test_wrong_options_are_refused(run, folder, tmp_path, more, told):
    pq.write_table(pa.table({"q": ["amber"], "who": ["acme"]}), tmp_path / "q.parquet")
    batch = ("batch", folder, tmp_path / "q.parquet", "-o", tmp_path / "hits.parquet",
             "--query-text", "q", "--query-scope", "who")  # fmt: skip
    for command in (("serve", folder), batch):
        reply = run(*command, *more)
        assert reply.code != 0
        assert told in " ".join(reply.err.split())


def test_a_store_has_no_such_options(run, store):
    for option, value in (("--memory", "ram"), ("--verify", "full"), ("--pin", "rows")):
        reply = run("serve", store, option, value)
        assert reply.code == 1
        assert f"{option}: expected no such option for a store" in reply.err


def test_a_batch_opens_the_index_as_asked_and_answers_the_same(run, folder, tmp_path, monkeypatch):
    pq.write_table(
        pa.table({"q": ["amber", "kelp"], "who": ["acme", "bolt"]}), tmp_path / "q.parquet"
    )
    asked: list = []
    opened = hr.Index.open

    def noted(*args, **how):
        index = opened(*args, **how)
        asked.append(options(index))
        return index

    monkeypatch.setattr(hr.Index, "open", noted)
    replies = []
    for more in ((), HOW):
        output = tmp_path / f"hits-{len(replies)}.parquet"
        reply = run("batch", folder, tmp_path / "q.parquet", "-o", output, "--query-text", "q",
                    "--query-scope", "who", *more)  # fmt: skip
        assert reply.code == 0, reply.err
        replies.append(pq.read_table(output))
    assert replies[0].equals(replies[1])
    assert replies[0].num_rows
    assert asked == [("mmap", None, ()), ("ram", "structure", ())]
