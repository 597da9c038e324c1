"""``hyrecall evaluate`` on a folder without vectors: by which embedder, and what is refused."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from cli.test_embedding import nobody
from embed.stub_server import StubServer, serving
from retrieval_set import small_set, write_folder

pytest.importorskip("ir_measures", reason="the extra [evaluate] is not installed")
pytest.importorskip("scipy", reason="the extra [evaluate] is not installed")

Run = Callable[..., SimpleNamespace]
NAMES = ("EMBEDDING_URL", "EMBEDDING_MODEL", "EMBEDDING_API_KEY", "EMBED_TIMEOUT", "EMBED_DISABLE")
N_TEXTS = 80 + 54  # documents, and queries with judgements
N_DISTINCT = 122  # what is sent: a text is embedded once


@pytest.fixture
def server() -> Iterator[StubServer]:
    with serving() as one:
        yield one


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small set as JSON lines, without vectors; nothing is set, no model is installed."""
    data = small_set()
    corpus, queries = (t.drop_columns(["embedding"]) for t in (data.corpus, data.queries))
    folder = write_folder(
        type(data)("bare", corpus, queries, data.judgements), tmp_path / "bare", kind="jsonl"
    )
    monkeypatch.setenv("HYRECALL_CONFIG", str(tmp_path / "config.json"))
    monkeypatch.setattr("hyrecall.embed.StaticEmbedder.available", lambda: False)
    for name in NAMES:
        monkeypatch.delenv(f"HYRECALL_{name}", raising=False)
        monkeypatch.delenv(f"LTM_{name}", raising=False)
    return folder


def settings_of(reply: SimpleNamespace) -> list[str]:
    return [one["name"] for one in reply.data["settings"]]


def test_an_endpoint_embeds_what_has_no_vectors(run: Run, bare: Path, server: StubServer) -> None:
    reply = run("evaluate", bare, "--embedder", server.url("ok"), "--json")
    assert reply.code == 0, reply.err
    assert settings_of(reply) == ["bm25", "dense", "rrf", "minmax"]
    assert f"embedding {N_TEXTS} texts with " in reply.err
    assert "embedded in " in reply.err
    assert sum(len(one.texts) for one in server.requests) == N_DISTINCT


def test_what_is_configured_embeds_too(
    run: Run, bare: Path, server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LTM_EMBEDDING_URL", server.url("ok"))
    monkeypatch.setenv("LTM_EMBEDDING_MODEL", "small")
    reply = run("evaluate", bare, "-r", "default", "--split", "odd", "--json")
    assert reply.code == 0, reply.err
    assert "texts with small" in reply.err
    assert 80 < sum(len(one.texts) for one in server.requests) < N_TEXTS  # one half of the queries
    monkeypatch.delenv("LTM_EMBEDDING_URL")
    assert run("config", "set", "embedding_url", server.url("ok")).code == 0
    assert settings_of(run("evaluate", bare, "-r", "dense", "--json")) == ["dense"]


def test_a_set_that_was_embedded_can_be_tuned(run: Run, bare: Path, server: StubServer) -> None:
    reply = run("tune", bare, "--embedder", server.url("ok"), "--json")
    assert reply.code == 0, reply.err
    assert sum(len(one.texts) for one in server.requests) == N_DISTINCT


def test_nothing_is_embedded_where_no_setting_asks(
    run: Run, bare: Path, server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LTM_EMBEDDING_URL", server.url("ok"))
    assert run("evaluate", bare, "-r", "bm25").code == 0
    assert (
        run("evaluate", bare, "--embedder", "off", "--json").data["settings"][0]["name"] == "bm25"
    )
    full = write_folder(small_set(), bare.parent / "full")
    assert settings_of(run("evaluate", full, "--json")) == ["bm25", "dense", "rrf", "minmax"]
    assert server.requests == []


def test_without_an_embedder_words_are_measured_and_it_says_why(run: Run, bare: Path) -> None:
    reply = run("evaluate", bare, "--json")
    assert (reply.code, settings_of(reply)) == (0, ["bm25"])
    assert "note: no vectors: none is installed or set" in reply.err


def refused(reply: SimpleNamespace) -> str:
    assert reply.code == 1
    (line,) = [one for one in reply.err.splitlines() if one.startswith("error: ")]
    return line.removeprefix("error: ")


def test_what_cannot_be_had_is_refused(run: Run, bare: Path) -> None:
    told = refused(run("evaluate", bare, "-r", "bm25", "-r", "rrf"))
    wish = "--embedder: expected static or the URL of an endpoint, for rrf, got "
    assert told.startswith(f"{wish}none is installed or set")
    assert refused(run("tune", bare, "--embedder", "off")) == f'{wish}embedder="off"'
    told = refused(run("evaluate", bare, "--embedder", "klingon"))
    assert (
        told == "--embedder: expected static, minilm, off or the URL of an endpoint, got 'klingon'"
    )
    told = refused(run("evaluate", bare, "--embedder", nobody()))
    assert told.startswith("embedder: expected vectors of 64 texts, got unreachable: ")


def test_an_embedder_that_would_be_ignored_is_refused(
    run: Run, bare: Path, server: StubServer
) -> None:
    told = refused(run("evaluate", bare, "-r", "bm25", "--embedder", server.url("ok")))
    assert told == "--embedder: expected a setting that uses vectors, got bm25"
    full = write_folder(small_set(), bare.parent / "full")
    told = refused(run("evaluate", full, "--embedder", server.url("ok")))
    assert told == "--embedder: expected none for a set with vectors, got a column 'embedding'"
    assert server.requests == []
