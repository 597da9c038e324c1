"""``hyrecall demo``: answers questions of several users from a small scoped index."""

from __future__ import annotations

import json
from importlib.resources import files

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
from hyrecall.embed import EmbedBy, StaticEmbedder
from hyrecall.embed.choose import LocalModel
from hyrecall.embed.guard import Off
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

_SECONDS = 60.0  # for the vectors of the questions: nobody waits for less


def demo(*, limit: int = 3, embedder: LocalModel = "static", as_json: bool = False) -> None:
    """Index a packaged set of memories of four users and answer a batch of questions.

    Options
    limit N: The number of hits per question.
    embedder: The model of the vectors: the packaged static one, or all-MiniLM-L6-v2 (extra
        [minilm]).
    """
    lines = files("hyrecall").joinpath("data/demo.jsonl").read_text("utf-8").splitlines()
    table = pa.Table.from_pylist([json.loads(line) for line in lines])
    has_model = embedder != "static" or StaticEmbedder.available()
    index = _build(table, EmbedBy(embedder, timeout=_SECONDS) if has_model else None)
    users = len(set(table.column("user").to_pylist()))
    say(f"{len(index)} memories of {users} users; {len(_QUESTIONS)} questions in one batch,")
    say("each answered only from the memories of its user.")
    hits = _ask(index, limit)
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


def _build(table: pa.Table, by: EmbedBy | None) -> Index:
    missing = "the packaged static model is not installed (pip install 'hyrecall[local]')"
    model = Off(missing) if by is None else by.chosen
    if isinstance(model, Off):
        say(f"note: {model.detail},")
        say("so this demo has no vectors and uses only BM25.")
        by = None
    else:
        say(f"vectors: {model.model}, {model.dim} dimensions, no download")
    schema = Schema(
        key="id",
        cell="user",
        text="text",
        vector=() if by is None else "embedding",
        attributes=("kind", "day"),
    )
    return Index.build(table, schema, embed=by, analyzer=Analyzer("unicode", stopwords="english"))


def _ask(index: Index, limit: int) -> Hits:
    users, queries = zip(*_QUESTIONS, strict=True)
    return index.recall(text=list(queries), scope=list(users), limit=limit, columns=("text",))
