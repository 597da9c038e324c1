"""The refusals of the public API: callables, what the message starts with, and wrong values.

A row holds for each callable of its block that has the argument, which is the word before the colon
or ``of``. Other keywords stand beside the wrong value in the call. "[IS]*ndex" is Index and
ShardedIndex, not DocumentIndex.
"""

import io
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

import hyrecall as hr
from api.small_world import Several
from hyrecall import arms
from hyrecall.adapters.documents import Document
from hyrecall.errors import (
    DTypeError,
    HyrecallError,
    KeyConflictError,
    NotFoundError,
    OptionError,
    ScopeError,
    ShapeError,
)
from hyrecall.evaluate import read_setting
from hyrecall.memory import Episode, Fact
from hyrecall.recipe import Dense, Lexical, TieBreak
from small_index import ONE, SCHEMA, built, documents

NAN, INF, LONE = float("nan"), float("inf"), "\ud800"
LOOP: list[Any] = []
LOOP.append(LOOP)
SHAPES = [np.ones(size, "f") for size in ((6, 4), 6, (6, 3, 1), (6, 0))]
ODD = [np.ones((6, 3), kind) for kind in (np.uint16, bool, np.complex64, object, str)]
MASKED, TINY = np.ma.masked_array(np.ones((6, 3), "f")), np.full((6, 3), 1e-30, "f")
ADDED = documents(first=100)
OF_RESULTS = ("query", "rank", "key", "score", "origin", "text_score", "e_rank")
SECONDS = ("deadline", "drain", "keep_alive", "slow")
MOST = (
    "max_arrow_batch", "max_arrow_body", "max_arrow_hits", "max_batch", "max_body", "max_hits",
    "max_ids", "max_joined", "max_levels", "max_limit", "max_per_token", "max_query", "max_reply",
    "max_running", "max_store_batch",
)  # fmt: skip
OF_OTHER_LENGTHS = [
    [[1.0, 1.0]], [[1.0] * 3, [1.0]], [None, []], [np.ones((2, 3), "f")], [np.array(1.0)],
    pa.array([[1.0] * 4]), pa.array([[1.0]], pa.list_(pa.float32(), 1)),
]  # fmt: skip
WRITTEN = SCHEMA.to_dict()
TABLE_INDEX = built()
PLAINLY = hr.Recipe(name="plain", arms=(Lexical(),), fusion=hr.RRF())
MISCOUNTED = [[PLAINLY], [PLAINLY] * 2, [PLAINLY] * 4]
UNANSWERABLE = [
    {"x": 1}, [[1]], hr.AllOf([["a", "b"]]), hr.AllOf("a", ["b"]), b"a", np.zeros((2, 2)),
    hr.IsNull,
]  # fmt: skip
OF_SETS = ("text", "vectors", "scope", "columns")
PLAIN = read_setting("bm25")
TIES = hr.recipes.default.replace(tie_break=TieBreak("kind", prefer=("x",)))
HINTS = arms.Listed("hints")
BALANCED, KIND_0 = hr.WeightedSum(balance=0.5), hr.Filter(kind=0)
EMBEDDING = hr.WeightedSum({"text": 0.0, "embedding": 1.0})
SCALES = (Lexical(scale="minmax"), Dense(scale="unit"))
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SAME = (  # callables that refuse as others do
    ("AgentMemory.", "AgentMemorySync."),
    ("Memory.", "MemorySync."),
    ("Index.arecall", "Index.recall"),
    ("ShardedIndex.arecall", "ShardedIndex.recall"),
)


class Row(NamedTuple):
    argument: str
    error: type[HyrecallError]
    words: str
    values: tuple[Any, ...]
    beside: dict[str, Any]


def rows_with(error: type[HyrecallError]) -> Callable[..., Row]:
    def row(words: str, *values: Any, of: str | None = None, **beside: Any) -> Row:
        argument = of or re.match(r"\w+", words)[0]  # type: ignore[index]
        return Row(argument, error, words, values, beside)

    return row


def second(**given: Any) -> list[Document]:
    """Documents of which the second one does not fit."""
    return [Document(text="tea"), Document(**{"text": "x", **given})]


def added(value: np.ndarray) -> dict[str, Any]:
    return {"embedding": value}


absent, conflict, dtype = map(rows_with, (NotFoundError, KeyConflictError, DTypeError))
option, scope, shape = map(rows_with, (OptionError, ScopeError, ShapeError))

ROWS: dict[str, list[Row]] = {
    "*": [
        scope("user: expected user= or user_from=, whose the records are", -1, "x", of="user_from"),
        option("shards: expected shards= or shard_rows=", -1, "x", of="shard_rows"),
        dtype("complete: expected a bool", "x", -1),
        dtype("differences: expected a ndarray", -1, "x", None, NAN),
        dtype("embed_timeout: expected seconds in [0, 3600]", "x", [3]),
        option("embed_timeout: expected seconds in [0, 3600]", -1, NAN),
        dtype("features: expected a sequence of str", -1, "x", None, NAN),
        option("half_life: expected a duration above 0: seconds, a timedelta, or a numbe", "x", -1),
        dtype("half_life: expected a duration above 0: seconds, a timedelta, or a numb", None, [3]),
        dtype("indexes: expected an Indexes", -1, "x", None, NAN),
        option("memory_limit: expected an int of at least 268435456 bytes", "x", -1),
        dtype("object: expected a str", -1, 3),
        dtype("predicate: expected a str", -1, 3),
        dtype("seed: expected an int", "x", None, NAN, [3]),
        dtype("study: expected a Study", -1, "x", None, NAN),
        dtype("subject: expected a str", -1, 3),
        dtype("tell: expected a callable", -1, "x", None, NAN),
        dtype("valid_at: expected a datetime", "x", -1),
        dtype("width: expected an int", "x", None, NAN, [3]),
    ],
    "*.build *.open BatchRecall DocumentIndex Hits.* MemorySync.in_memory": [
        option("device: expected 'cpu', 'cuda:N' or 'auto'", "x", -1, "cuda", "", "CUDA:0"),
        option("device: expected 'cpu', 'cuda:N' or 'auto'", "cuda:-1", "cuda:x", "gpu"),
    ],
    "*.build BatchRecall DocumentIndex DocumentIndex.open Index.* ShardedIndex.open "
    "build_shards rebalance": [
        option("threads: expected an int in [1, 1024], or None", "x", -1),
    ],
    "*.build DocumentIndex DocumentIndex.open Graph.open Index.build_in_parts build_shards": [
        dtype("analyzer: expected an hr.Analyzer", "x", -1),
    ],
    "*.build DocumentIndex Lexical": [dtype("bm25: expected an hr.BM25", "x", -1)],
    "*.build Index.add Index.replace Index.update Index.upsert": [
        option("vectors: expected a mapping {arm: array}", "x", [3]),
    ],
    "*.delete": [
        option("keys: expected keys, a filter, or everything=True for the whole scope", None),
        dtype("everything: expected True or False", "x", -1),
    ],
    "MemorySync.forget": [
        dtype("erase: expected True or False", -1, "x", None, NAN),
        dtype("everything: expected True, or the name of the user", -1, None),
        option("everything: expected the name of the user", "x", id=None),
        option("if_version: expected an int >= 1", 0, "x"),
        option("if_version: expected none without one id", 1, of="if_version", id=["a", "b"]),
        dtype("id[1]: expected a str", ["a", 3], of="id"),
    ],
    "MemorySync.forget MemorySync.update_many": [
        dtype("before: expected a datetime", "x", -1),
        dtype("id: expected an id, or a sequence of ids", 3, []),
        option("kind: expected 1 to 512 bytes, not blank, without NUL", ""),
        dtype("tags: expected a sequence of str", "x", -1),
        dtype("metadata: expected a mapping of key to value", "x", -1),
    ],
    "MemorySync.update_many": [
        dtype("changes: expected a mapping of fields to values", -1, "x", None),
        option("changes: expected a field to change", {}),
        option("changes['text']: expected one of", {"text": "x"}, of="changes"),
        option("importance: expected less than or equal to 10", {"importance": 11}, of="changes"),
        option("id: expected an id, a session_id, a time or a filter", None),
    ],
    "*.remember": [
        option("ttl: expected seconds, more than 0, or a timedelta", 0, -1, NAN, INF),
        dtype("ttl: expected seconds, more than 0, or a timedelta", "x"),
        option("ttl: expected one that ends before the year 10000", 1e300),
        option("ttl: expected none beside expires_at", 3, expires_at=NOW),
    ],
    "*.remember *.update MemorySync.supersede": [
        option("author: expected 'user', 'agent', 'tool', 'web' or 'import'", "x"),
        option("expires_at: expected a valid datetime", "x"),
    ],
    "*.update MemorySync.supersede AgentMemorySync.forget": [
        option("if_version: expected an int >= 1", 0, "x", -1),
    ],
    "MemorySync.list_*": [
        option("limit: expected an int >= 0", -1, "x"),
        option("offset: expected an int >= 0", -1, "x"),
    ],
    "*.end_fact": [dtype("at: expected a datetime", "x", -1)],
    "*.end_fact MemorySync.pin MemorySync.supersede MemorySync.update": [
        absent("id: expected a memory that is there", "x"),
    ],
    "*.explain_dropped": [option("most: expected an int >= 0", "x", -1)],
    "*.feedback": [
        option("query: expected 1 to 65,536 bytes, not blank", "", " ", "x" * 65_537, "a\0b"),
        option("query: expected valid Unicode", LONE),
        dtype("query: expected a str", 3),
        dtype("used: expected a sequence of ids", "x", -1),
        option("used: expected 1 to 1,000 ids", [], ["a"] * 1_001),
        dtype("used[0]: expected a str", [3]),
        option("used[0]: expected 1 to 512 bytes", [""]),
    ],
    "*.get *.history *.links *.remember *MemorySync.forget AgentMemorySync.update "
    "MemorySync.link MemorySync.unlink": [
        option("id: expected 1 to 512 bytes, not blank, without NUL", ""),
    ],
    "*.list *.search MemorySync.count": [
        dtype("since: expected a datetime, a date, or one of them as ISO 8601", -1, [3]),
        option("since: expected an ISO 8601 time", "x", ""),
        dtype("until: expected a datetime, a date, or one of them as ISO 8601", -1, [3]),
        option("until: expected an ISO 8601 time", "x", ""),
        dtype("tags: expected a sequence of str", "x", -1),
        dtype("tags: expected a str", [3]),
    ],
    "*.list *.search Browse.* MemorySync.count": [
        dtype("metadata: expected a mapping of key to value", "x", -1),
    ],
    "*.list MemorySync.pin MemorySync.count": [dtype("pinned: expected True or False", "x", -1)],
    "*.list_facts": [
        option("object: expected 1 to 512 bytes, not blank, without NUL", ""),
        option("predicate: expected 1 to 512 bytes, not blank, without NUL", ""),
        option("subject: expected 1 to 512 bytes, not blank, without NUL", ""),
    ],
    "*.open *.save Index.build_in_parts held open_source plot_study promote pull push": [
        dtype("path: expected a path (str or os.PathLike)", -1, None),
    ],
    "*.open *.save plot_study": [option("path: expected a path", "")],
    "*.open BatchRecall": [
        option("memory: expected one of ('mmap', 'ram')", "x", -1, "gpu"),
        option("pin: expected parts of ['plane', 'terms', 'documents'", "x", -1, ["plane", 3]),
        option("verify: expected one of ('full', 'structure')", "x", -1, "none", 1),
    ],
    "*MemorySync.recall_scored MemorySync.recall Notes.search VectorStore.search_hybrid "
    "ahm_recall default_recall_scored": [
        option("query: expected valid Unicode", LONE),
    ],
    "*MemorySync.recall_facts *MemorySync.search": [
        dtype("text: expected a str", -1, 3),
        option("text: expected valid Unicode", LONE),
    ],
    "*.remember *.supersede *.update": [
        dtype("pinned: expected a valid boolean", None, [3]),
        option("pinned: expected a valid boolean, unable to interpret input", "x", -1),
        option("source: expected 1 to 512 bytes, not blank, without NUL", ""),
    ],
    "*.remember *.update Episode": [dtype("source: expected a str", -1, 3)],
    "*.remember *.update MemorySync.link": [
        option("visibility: expected a valid string, unable to parse raw data as a unicode", LONE),
    ],
    "*.remember *.update Notes.save": [
        dtype("tags: expected a list of strings", "x", -1),
        dtype("tags[0]: expected a valid string", [3]),
    ],
    "*.remember *MemorySync.update": [dtype("metadata: expected a valid dictionary", "x", -1)],
    "*.search": [
        option("around: expected an int in [0, 100]", "x", -1),
        dtype("candidates: expected ids, or a mapping of ids to scores", "x", -1),
        dtype("candidates: expected a str", [3]),
        dtype("diversity: expected a number in [0, 1]", "x", [3]),
        option("diversity: expected a number in [0, 1]", -1, 3),
        dtype("include_ended: expected True or False", "x", -1),
        dtype("min_confidence: expected a number in [0, 1]", "x", [3]),
        option("min_confidence: expected a number in [0, 1]", -1, 3),
        dtype('min_score: expected a finite number, hr.Above(number), or {"bm25": numbe', "x", [3]),
        option('min_score: expected "bm25" or "cosine"', {"x": 1}),
        dtype("reranker: expected function(query, texts) -> scores", "x", -1),
        dtype("token_budget: expected an int", "x", [3]),
        dtype("touch: expected True or False", "x", -1),
        dtype("weights: expected a mapping of recency, importance, relevance to numbers", "x", -1),
        option("weights: expected recency, importance, relevance", {"x": 1}),
    ],
    "*.search BatchRecall BatchRecall.at InProcessSessions.* Index.* Request Session.after "
    "ShardedIndex.recall_one": [
        dtype("now: expected a datetime", [3], object),
    ],
    "*.search VectorStore.search_hybrid": [
        dtype("vector: expected a row of numbers", "x", object),
        option("vector: expected one row of numbers", -1, 3),
    ],
    "*MemorySync.remember MemorySync.supersede MemorySync.update": [
        dtype("input: expected a valid string", 3),
        option("importance: expected less than or equal to 10", 11),
        option("importance: expected a valid number", "high"),
        option("visibility: expected 'private' or 'global'", "all"),
        dtype("tags[1]: expected a valid string", ["plan", 3]),
        option("pinned: expected a valid boolean", "maybe"),
        option("occurred_at: expected a valid datetime", "soon"),
        dtype("created_at: expected a valid datetime", object()),
        option("created_at: expected that of occurred_at", NOW, occurred_at=NOW.replace(month=2)),
        dtype("metadata: expected JSON", {"a": {"b": object()}}),
        option("metadata: expected JSON of at most 64 levels", {"a": LOOP}),
        option("metadata: expected JSON, got NaN or", {"a": INF}),
        dtype("metadata: expected a valid dictionary", 5),
        option("kind: expected 1 to 512 bytes", ""),
    ],
    "MemorySync.supersede": [
        option("new_id: expected 1 to 512 bytes, not blank, without NUL", ""),
        dtype("new_id: expected a str", 3),
    ],
    "*MemorySync.update": [
        option("text: expected no other field beside valid_to", -1, "x", of="valid_to"),
    ],
    "*.update": [
        dtype("text: expected a valid string", -1, 3),
        option("text: expected valid Unicode", LONE),
    ],
    "ablate": [
        option("measures: expected a name, or a sequence of names", -1, None, NAN),
        dtype("settings: expected a sequence of Setting", -1, "x", None, NAN),
        option("settings: expected one or more settings with different names", [], [PLAIN, PLAIN]),
    ],
    "ablate score_run": [
        option("measures: expected nDCG@k, R@k, any@k, all@k, RR@k, AP or P@k", "x", LONE),
    ],
    "Above": [
        option("Above: expected a finite number", INF, of="value"),
        dtype("Above: expected a finite number", None, of="value"),
    ],
    "AgentMemorySync.remember": [
        option("id: expected valid Unicode", LONE),
        dtype("text: expected a valid string", -1, None, NAN, [3]),
        option("text: expected valid Unicode", LONE),
    ],
    "AgentMemorySync.remember AgentMemorySync.search MemorySync.update": [
        option("kind: expected valid Unicode", LONE),
    ],
    "AgentMemorySync.remember AgentMemorySync.search MemorySync.update ahm_recall": [
        option("session_id: expected valid Unicode", LONE),
    ],
    "AgentMemorySync.remember MemorySync.update": [
        option("created_at: expected a valid datetime, NaN values not permitted", NAN),
        option("created_at: expected a valid string, unable to parse raw data as", LONE),
        option("importance: expected greater than or equal to 0", -1),
        option("importance: expected a finite number", NAN),
        option("importance: expected a valid string, unable to parse raw data as", LONE),
        option("occurred_at: expected a valid datetime, NaN values not permitted", NAN),
        option("occurred_at: expected a valid string, unable to parse raw data a", LONE),
        option("pinned: expected a valid string, unable to parse raw data as a u", LONE),
        option("source: expected valid Unicode", LONE),
    ],
    "ahm_recall": [dtype("memory: expected a Memory", -1, "x", None, NAN)],
    "ahm_recall hm_recall": [
        scope("org: expected a name: an agent has an org and a workspa", "x", LONE, "", of="agent"),
        dtype("force_regex: expected True or False", "x", -1),
        option("max_results: expected an int", "x", None),
        option("query: expected words (hypergraph)", ""),
    ],
    "All": [
        option("All: expected at least one query", Several(), of="queries"),
        option("All: expected at least one part that", Several([hr.Not("a")]), of="queries"),
        dtype("All: expected a str, hr.Phrase", 5, b"a", hr.Filter(id=1), of="queries"),
        dtype("All: expected a str, hr.Phrase, hr.Prefix, hr.Fu", -1, None, NAN, [3], of="queries"),
    ],
    "Analyzer": [
        option("name: expected a str", 7, -1, None, NAN, [3]),
        option("name: expected one of word, unicode, unicode61", "unicode62", "snowball", "Word"),
        option("name: expected snowball: and one of arabic, ", "snowball:klingon"),
        option("name: expected unicode: and one of arabic, ", "unicode:klingon"),
        option("stopwords: expected None, 'english'", b"a", 3, [1], ["a", None], "german", "x", -1),
        option("stopwords: expected words that this analyzer keeps", ["ok", "don't"], ["ok", ""]),
        option("stopwords: expected words", ["two words"], ["a-1"], ["中国人"], name="unicode"),
        option("token_function: expected hyrecall.TokenFunction", len, "x", -1),
        option("name: expected one of word, unicode, unicode61, porter, unicode:", "x", LONE, ""),
    ],
    "Analyzer.explain": [
        option("role: expected 'document' or 'query'", "x", ""),
        dtype("texts: expected str or bytes", -1, None, NAN, [3], of="text"),
    ],
    "Analyzer.from_callable TokenFunction": [
        option("name: expected a non-empty str", 1, -1, None, NAN, [3]),
        option("version: expected a non-empty str", "", -1, 3),
        option("function: expected a callable", 3, "x", -1),
    ],
    "Analyzer.from_dict": [
        option("stored: expected kind", {}, None, [], {"kind": []}, "x", -1),
        option("stored: expected the fields", {"kind": "preset"}, {"kind": "tokenizer"}),
        option("stored: expected the fields", {"kind": "callable"}),
        option("stored: expected", {**hr.Analyzer("word").to_dict(), "token_function": 3}),
        option("function: expected None (this analyzer has no callable)", "x", -1),
    ],
    "Analyzer.from_tokenizer": [
        option("tokenizer: expected a path", "{}", "{", "no/such.json", Path("no/such.json")),
        dtype("tokenizer: expected a path, a JSON str or a tokenizers.Tokenizer", -1, 3),
        option("tokenizer: expected a path, a JSON str or a tokenizers.Tokenizer", "x", LONE),
    ],
    "Any": [
        option("Any: expected at least one query", Several(), of="queries"),
        option("Any: expected at least one part that", Several([hr.Not("a")]), of="queries"),
        dtype("Any: expected a str, hr.Phrase", 5, b"a", hr.Filter(id=1), of="queries"),
        dtype("Any: expected a str, hr.Phrase, hr.Prefix, hr.Fu", -1, None, NAN, [3], of="queries"),
    ],
    "Around": [
        dtype("neighbours: expected a sequence of weights", 0.3, "x", -1),
        option("neighbours: expected at most", (0.1,) * 9),
        option("neighbours[0]: expected a number in", (-1,)),
        dtype("length: expected a number in [0, 1e6]", "x", None),
        option("length: expected a number in [0, 1e6]", -1, NAN),
        dtype("thread: expected a number in [0, 1e6]", "x", None),
        option("thread: expected a number in [0, 1e6]", -1, NAN),
    ],
    "BatchRecall": [
        dtype("arms: expected plain data that another process can read (no function, no g", object),
        dtype("bm25: expected plain data that another process can read (no function, no g", object),
        dtype("columns: expected plain data that another process can read (no function, n", object),
        option("equals: expected a column, or a column for each arm", -1, [3]),
        shape("filter: expected 0 entries, one per query", [3]),
        dtype("filter: expected plain data that another process can read (no function, no", object),
        dtype("fusion: expected plain data that another process can read (no function, no", object),
        option("index: expected a sequence of at least one path, or a path", -1, None),
        option("key: expected the name of a column", -1, None),
        dtype("min_fused: expected plain data that another process can read (no function,", object),
        dtype("min_score: expected plain data that another process can read (no function,", object),
        dtype("normalize: expected plain data that another process can read (no function,", object),
        option("on_error: expected one of ('raise', 'column')", "x", -1),
        option("scope: expected a column, several, or a Scope", -1, object),
        scope("scope: expected a column for each of (user), or a Scope", None),
        dtype("shaping: expected plain data that another process can read (no function, n", object),
        option("text: expected a column, or a column for each arm", -1, [3]),
        option("vectors: expected a column, or a column for each arm", -1, [3]),
    ],
    "BatchRecall [IS]*ndex.*": [
        dtype("arms: expected Regex, Newest, Listed, EdgeLexical or Tags of hr.arms", "x", -1),
    ],
    "BatchRecall [IS]*ndex.recall [IS]*ndex.recall_one": [
        option("bm25: expected an hr.BM25 or {arm: hr.BM25}", "x", -1),
    ],
    "BatchRecall DocumentIndex.recall [IS]*ndex.*": [
        dtype("recipe: expected an hr.Recipe, or a list of them", "x", -1),
    ],
    "BatchRecall DocumentIndex.recall": [
        option("text: expected text= or vectors=, or both", None),
        option("min_confidence: expected a number in [0, 1]", -1, NAN),
        dtype("min_confidence: expected a number in [0, 1]", "x", [3]),
    ],
    "BatchRecall DocumentIndex.recall EdgeLexical Index.* Recipe Recipe.replace "
    "ShardedIndex.recall_one": [
        option("depth: expected an int in [1, 2^31)", -1),
    ],
    "BatchRecall DocumentIndex.recall Index.* ShardedIndex.recall_one": [
        option("depth: expected an int >= 1", "x", None),
        option("fusion: expected hr.RRF, hr.WeightedSum, hr.Max or hr.DBSF", "x", -1),
        option("min_fused: expected a fusion to act after (with one arm, min_score)", "x", -1),
        dtype("min_score['text']: expected a finite number or hr.Above(number)", "x", [3]),
        option("normalize: expected a bool", "x", -1),
        option("offset: expected an int in [0, 2^31)", -1),
    ],
    "BatchRecall DocumentIndex.recall Index.* ShardedIndex.recall_one run_setting": [
        option("limit: expected an int in [0, 2^31)", -1),
    ],
    "BatchRecall DocumentIndex.recall Recipe Recipe.replace Request [IS]*ndex.*": [
        option("shaping: expected a sequence of stages (Feedback, Around, Prior, Provena", "x", -1),
    ],
    "BatchRecall DocumentIndex.recall ShardedIndex.*": [
        dtype("recipe[0]: expected an hr.Recipe", [3]),
    ],
    "BatchRecall Index.* ShardedIndex.recall_one": [
        option("columns: expected a column, or a sequence of columns, of ['id', 'user'", "x", -1),
    ],
    "BatchRecall.for_cpus": [dtype("n: expected a float", "x", None, [3], LONE)],
    "BatchRecall.schema_of": [dtype("queries: expected a Schema", -1, "x", None, NAN)],
    "Between": [
        option("Between: expected two ends, start and end", [1, 2], (1, 2), 1, of="start"),
        option("Between: expected two ends, start and end (None:", -1, "x", None, NAN, of="start"),
    ],
    "BM25": [
        dtype("b: expected a number in [0, 1], or two", "x", None, True),
        option("b: expected a number in [0, 1], or two", -1, 3, 1.5, NAN, (0.5,)),
        option("b: expected two numbers in [0, 1]", (0.5, 2)),
        option("delta: expected None (lucene has none)", "x", -1),
        option("delta: expected None (okapi has none)", 1.0, variant='okapi'),
        option("delta: expected a number in [0, 1000]", -1, variant='bm25l'),
        dtype("delta: expected a number in [0, 1000]", '1', variant='bm25+'),
        dtype("k1: expected a number in [0, 1000]", "x", [3], '1'),
        option("k1: expected a number in [0, 1000]", -1, NAN, -0.1),
        option("variant: expected one of ('lucene', 'okapi', 'fts5', 'robertson', 'atire", "x", -1),
    ],
    "Boost": [
        dtype("Boost: expected a str, hr.Phrase", 5, b"a", hr.Filter(id=1), of="query"),
        option("factor: expected a number in [2^-20, 2^20]", 2**21, 10**400, query="a"),
        option("factor: expected a number in [2^-20, 2^20]", "x", -1),
        option("factor: expected a number in [2^-20, 2^20]", 0, -1, NAN, '2', query='a'),
        dtype("Boost: expected a str, hr.Phrase, hr.Prefix, hr.Fu", -1, None, NAN, [3], of="query"),
    ],
    "Browse.*": [
        option("limit: expected an int in [0, 2147483647]", "x", -1),
        dtype("pattern: expected a str", -1, 3),
        option("pattern: expected 1 to 512 characters", "", "a" * 600),
        option("pattern: expected valid Unicode", LONE),
    ],
    "Browse.append Browse.cat Browse.classify Browse.find Browse.grep Browse.ls Browse.mv "
    "Browse.rm Browse.write": [
        dtype("path: expected a str", -1, 3),
    ],
    "Browse.append Browse.classify Browse.find Browse.grep Browse.ls Browse.mv Browse.rm "
    "Browse.write": [
        option("path: expected valid Unicode", LONE),
    ],
    "Browse.cat": [option("path: expected a file", "", "/memories")],
    "Browse.grep": [option("pattern: expected a regular expression", "(", regex=True)],
    "Browse.ls": [option("path: expected at most 8192 characters", "/" * 9_000)],
    "Browse.cp": [
        dtype("path: expected a str", -1, None, NAN, [3], of="to"),
        option("path: expected valid Unicode", LONE, of="to"),
    ],
    "Budget": [
        dtype("estimate: expected a callable", "x", -1),
        option("tokens: expected an int in [-2147483648, 2^31)", "x", [3]),
    ],
    "Budget Fill Prior Provenance Recency RerankBy SharedTags Tables TieBreak": [
        dtype("column: expected the name of a column", -1, 3),
    ],
    "build_shards": [
        dtype("bm25: expected an hr.BM25", "x", -1),
        dtype("path: expected a path (str or os.PathLike)", -1, None, NAN, [3], of="source"),
        option("source: expected a .parquet file, or a folder with some", "x"),
        option("path: expected a path", LONE, "", of="source"),
    ],
    "build_shards rebalance": [
        option("shards: expected an int in [1, 4096]", -1, "x", NAN, [3]),
        option("shards: expected shards= or shard_rows=", None),
    ],
    "build_shards recall_dataset": [
        dtype("path: expected a path (str or os.PathLike)", -1, None, NAN, [3], of="output"),
        option("path: expected a path", LONE, "", of="output"),
    ],
    "compare": [dtype("measures: expected a name, or a sequence of names", -1)],
    "compare difference_table": [
        dtype("after: expected a Scores", -1, "x", None, NAN),
        dtype("before: expected a Scores", -1, "x", None, NAN),
    ],
    "Composite": [
        option("importance: expected a number in [0, 1e6]", -1, NAN),
        dtype("importance: expected a number in [0, 1e6]", "x", None, [3], LONE),
        dtype("rating: expected the name of a column", -1, None, NAN, [3]),
        option("recency: expected a number in [0, 1e6]", -1, NAN),
        dtype("recency: expected a number in [0, 1e6]", "x", None, [3], LONE),
        option("relevance: expected a number in [0, 1e6]", -1, NAN),
        dtype("relevance: expected a number in [0, 1e6]", "x", None, [3], LONE),
        option("scale: expected a number in [1e-06, 1e6]", -1, NAN),
        dtype("scale: expected a number in [1e-06, 1e6]", "x", None, [3], LONE),
        dtype("time: expected the name of a column", -1, 3),
    ],
    "Composite Provenance": [
        dtype("default: expected a number in [0, 1e6]", "x", None),
        option("default: expected a number in [0, 1e6]", -1, NAN),
    ],
    "Context": [
        option("n: expected an int in [1, 1000]", 1001, graph='graph'),
        option("top: expected an int in [1, 2^31)", "x", -1),
    ],
    "Context Graph.neighbours SharedTags": [option("n: expected an int in [1, 1000]", "x", -1)],
    "create_app": [
        dtype("options: expected a ServiceOptions", -1, "x", NAN, [3]),
        dtype("served: expected a Memory, what Memory.open(path) returns, an", -1, "x", None, NAN),
    ],
    "Dataset": [
        dtype("corpus: expected a Table", -1, "x", None, NAN),
        dtype("queries: expected a Table", -1, "x", None, NAN),
    ],
    "Dataset Recipe Recipe.replace Setting Setting.but read_setting score_run": [
        dtype("name: expected a str", None),
    ],
    "Dataset score_run": [
        dtype("classes: expected a mapping to str", -1, "x", NAN, [3]),
        dtype("judgements: expected a Mapping", -1, "x", None, NAN),
    ],
    "Dataset.count_by": [
        option("column: expected one of ['id', ", -1, "x", None, NAN),
    ],
    "Dataset.split": [option("split: expected 'even' or 'odd'", -1, "x", None, NAN, of="part")],
    "DBSF": [
        dtype("complete: expected a bool", 1),
        option("weights['v']: expected a number in [0, 1e6]", {'v': -1}),
    ],
    "DBSF Max RRF WeightedSum": [option("weights: expected a mapping {arm: weight}", "x", -1)],
    "Dedup": [
        option("keep: expected keep= and prefer= together", "x", -1),
        dtype("prefer: expected a tuple of values", 'xy', threshold=0.9, keep='a'),
        option("scale: expected one of ('raw', 'unit')", "x", -1),
        dtype("threshold: expected a number in [-1, 1]", "x", None),
        option("threshold: expected a number in [-1, 1]", 3, NAN),
    ],
    "Dedup MMR Rerank": [dtype("vector: expected the name of a vector arm", -1, 3)],
    "Dedup TieBreak": [dtype("prefer: expected a tuple of values", "x", -1)],
    "default_recall_scored": [
        option("recall: expected one of its options (query, kind", -1, "x", None, of="options"),
    ],
    "Dense": [
        dtype("min_score: expected a finite number or hr.Above(number)", 'x'),
        option("min_score: expected a finite number or hr.Above(number)", NAN),
    ],
    "Dense Lexical": [
        dtype("arms: expected a tuple of names", "x", -1),
        dtype("min_score: expected a finite number or hr.Above(number)", "x", [3]),
        option("min_score: expected a finite number or hr.Above(number)", NAN),
        option("scale: expected one of ('minmax', 'none', 'best', 'clip', 'unit')", "x", -1),
        dtype("weight: expected a number in [0, 1e6]", "x", None),
        option("weight: expected a number in [0, 1e6]", -1, NAN),
    ],
    "grid with_each without_each": [
        dtype("base: expected a Setting", -1, "x", None, NAN),
    ],
    "difference_table": [
        option("measure: expected two runs over the same queries, with", "x", ""),
        dtype("queries: expected a Table", -1, "x", NAN, [3]),
    ],
    "DocumentIndex": [
        dtype("cell_columns: expected a name, or a sequence of names", -1, None, NAN, [3]),
        option("dim: expected an int >= 2, or None", -1, "x", NAN, [3], 1),
        option("attributes: expected no name of the index's own columns", {"text": str}),
        option("attributes: expected no name of a cell column", {"a": str}, cell_columns="a"),
    ],
    "DocumentIndex into_index": [
        dtype("attributes: expected a mapping of name to type", -1, "x", NAN, [3]),
        dtype("attributes['x']: expected str, int, float, bool, dat", {"x": 1}, {"x": dict}),
    ],
    "DocumentIndex.*": [
        scope("cell: expected one cell: a non-empty str for (cell)", -1, None, NAN, [3]),
        scope("scope: expected a str or None for cell", -1),
    ],
    "DocumentIndex.* [IS]*ndex.recall": [
        scope("scope: expected a scope: a cell, hr.Scope([...]), or a list with one entry p", None),
    ],
    "DocumentIndex.* Graph.delete Graph.delete_incident Graph.distances Graph.neighbours "
    "Graph.topical Index.count Index.get Index.recall Index.recall_one ShardedIndex.*": [
        scope("scope: expected a cell (str, int, bool or tuple) or hr.Scope", object, NAN),
    ],
    "DocumentIndex.* held open_source plot_study promote pull push": [
        option("path: expected a path of valid Unicode", LONE),
    ],
    "DocumentIndex.count DocumentIndex.find DocumentIndex.recall": [
        option("scope: expected one scope (several cells are hr.Scope([...]))", [3]),
    ],
    "DocumentIndex.delete": [
        dtype("keys: expected a sequence of str keys", -1, "x", NAN, [3], of="ids"),
        option("ids: expected ids, a filter, or everything=True for the whole ce", None),
    ],
    "DocumentIndex.get": [
        dtype("keys: expected a sequence of str keys", -1, "x", None, NAN, of="ids"),
        scope("scope[0]: expected a str or None for cell", [3]),
    ],
    "DocumentIndex.open Graph.open [IS]*ndex.open": [
        dtype("analyzer: expected an hr.Analyzer or {arm: hr.Analyzer}", "x", -1),
    ],
    "DocumentIndex.open Graph.open Index.open": [
        option("analyzer: expected arms of ['text']", {"x": 1}),
    ],
    "DocumentIndex.recall": [
        option("text: expected arms of ['text']", {"x": 1}),
        option("vectors: expected arms of ['vector']", {"x": 1}, of="vector"),
    ],
    "DocumentIndex.recall [IS]*ndex.*": [
        shape("vectors: expected shape (n_queries, 3)", -1, NAN, of="vector"),
        dtype("vectors: expected a NumPy, torch, DLPack or Arrow arra", "x", LONE, "", of="vector"),
        shape("vectors: expected 3 values in every query", [3], of="vector"),
    ],
    "DocumentIndex.recall [IS]*ndex.recall_one": [
        dtype("text[0]: expected a str, hr.Phrase, hr.Prefix, hr.Fuzzy, hr.All, hr.Any", -1, 3),
    ],
    "DocumentIndex.recall Graph.neighbours [IS]*ndex.recall_one": [
        option("text[0]: expected valid Unicode", LONE),
    ],
    "DocumentIndex.recall Index.* ShardedIndex.recall_one": [
        option("min_score: expected arms of ['text']", {"x": 1}),
    ],
    "DocumentIndex.recall Index.recall ShardedIndex.*": [
        option("offset: expected an int in [0, 2^31)", -1),
    ],
    "DocumentIndex.recall ShardedIndex.recall_one": [
        option("min_score['text']: expected a finite number or hr.Above(number)", NAN),
    ],
    "DocumentIndex.update": [dtype("metadata: expected a mapping", -1, "x", None, NAN)],
    "DocumentIndex.write": [
        dtype("documents: expected Documents", -1, None, NAN),
        dtype("documents[0]: expected a Document", "x", [3], LONE, {"x": 1}),
        dtype(
            "documents[1].metadata['kind']: expected int64",
            *(second(metadata={"kind": kind}) for kind in ("x", True, 1.5, 2**63)),
        ),
        dtype(
            "documents[1].metadata['x'][0]['y']: expected a JSON value",
            second(metadata={"x": [{"y": {1}}]}),
        ),
        dtype("documents[1].metadata: expected names that are str", second(metadata={1: 2})),
        dtype("documents[1].metadata: expected a mapping", second(metadata=[])),
        dtype("documents[1].id: expected a str or None", second(id=1)),
        dtype("documents[1].text: expected a str or None", second(text=b"x")),
        shape("documents[1].vector: expected 3 values", second(vector=[1, 2])),
        shape("documents[1].vector: expected at least 2 values", second(vector=[1])),
        dtype("documents[1].vector: expected numbers", second(vector=["x", 1, 1])),
        option("documents[1].vector: expected finite float32", second(vector=[1e300, 1, 1])),
        option("on_duplicate: expected one of ('overwrite', 'skip', 'fail')", -1, "x", None, NAN),
    ],
    "Edge Episode Fact MemorySync.* ahm_recall hm_recall learn_from_feedback": [
        dtype("user_id: expected a str", -1, 3),
    ],
    "Edge Episode Fact MemorySync.browse MemorySync.end_fact MemorySync.export "
    "MemorySync.feedback MemorySync.forget MemorySync.get MemorySync.get_policy "
    "MemorySync.history MemorySync.link MemorySync.links MemorySync.list "
    "MemorySync.list_facts MemorySync.list_feedback MemorySync.pin MemorySync.recall_facts "
    "MemorySync.reembed MemorySync.remember MemorySync.search MemorySync.set_policy "
    "MemorySync.supersede MemorySync.unlink MemorySync.update ahm_recall hm_recall "
    "into_store learn_from_feedback": [
        dtype("org: expected a str", -1, [3]),
        dtype("workspace: expected a str", -1, [3]),
    ],
    "Edge MemorySync.link": [dtype("relationship: expected a str", -1, 3)],
    "EdgeLexical Listed Newest Regex Tags": [
        option("name: expected a name for the arm", -1, None, NAN, [3]),
    ],
    "embed_dataset": [dtype("embedder: expected an Embedder", -1, "x", None, NAN)],
    "EmbedBy": [
        dtype("columns: expected names of columns", 3, [3], -1, None),
        option("timeout: expected seconds in (0, 3600]", 0, -1, NAN),
        dtype("timeout: expected seconds in (0, 3600]", "x", None),
    ],
    "EmbedBy MemorySync.*": [
        dtype('embedder: expected an embedder, "static", "minilm", "off", a URL or None', -1, [3]),
        option('embedder: expected "static", "minilm", "off" or the URL of an endpoint', "x", LONE),
    ],
    "Fact.is_valid_at": [dtype("time: expected a datetime", -1, "x", None, NAN)],
    "Feedback": [
        option("rows: expected an int in [1, 100]", 0, 101, "x", -1),
        option("terms: expected an int in [0, 100]", 2.5, "x", -1),
        option("lexical: expected a number in [2^-20, 10]", 0, 11, -1, NAN),
        option("Feedback: expected dense or terms above 0", 0, of="dense"),
        dtype("dense: expected a number in [0, 100]", "x", None),
        option("dense: expected a number in [0, 100]", -1, NAN),
        dtype("lexical: expected a number in [2^-20, 10]", "x", None),
    ],
    "Fill": [
        dtype("column: expected the name of a column", None),
        option("when: expected one of ('one_arm', 'no_match', 'always')", "x", -1),
    ],
    "Filter": [
        option("filter: expected column=value", {"n": 1}, 3, -1, "x", None, NAN, of="given"),
        option("colour: expected a value", None, [1, None], hr.NoneOf(None), of="predicates"),
        option("colour: expected a value", pa.array([1, None]), of="predicates"),
        option("colour: expected a range (start, end), or a list", (1, 2, 3), of="predicates"),
        option("colour: expected a str, bool, int, float", *UNANSWERABLE, of="predicates"),
    ],
    "Filter.expression": [
        option("expression: expected a pyarrow.compute.Expression", "x", -1, None, KIND_0),
    ],
    "follow": [
        option("every: expected seconds in [0, 86400]", -1, NAN),
        dtype("every: expected seconds in [0, 86400]", "x", None, [3], LONE),
        dtype("stop: expected a threading.Event", -1, "x", NAN, [3]),
    ],
    "Fuzzy": [
        dtype("Fuzzy: expected a str", None, 3, ["a"], of="text"),
        option("edits: expected 1 or 2", 0, 3, True, 1.0, "x", None),
    ],
    "Gate": [
        dtype("min_score: expected a finite number", "x", None),
        option("min_score: expected a finite number", NAN),
    ],
    "Graph.*": [
        option("hot: expected keys that the index can hold", LONE),
        dtype("nodes: expected an hr.Index", "x", -1),
        dtype("schema: expected an hr.GraphSchema", "x", -1),
    ],
    "Graph.* GraphSchema.with_participants": [
        dtype("table: expected an Arrow table (anything with __arrow_c_stream__)", "x", -1),
        option("table: expected one column 'participants'", []),
    ],
    "Graph.* SessionSignals": [option("hops: expected an int in [0, 16]", "x", -1)],
    "Graph.delete Graph.delete_incident Graph.distances Graph.neighbours Graph.topical "
    "Index.count Index.get Index.recall Index.recall_one ShardedIndex.*": [
        scope("scope: expected a str or None for user", -1, 3),
    ],
    "Graph.delete Index.*": [dtype("keys: expected a sequence of str keys", "x", -1)],
    "Graph.delete_incident": [dtype("keys: expected str keys", [3])],
    "Graph.delete_incident Graph.flat_keys Graph.neighbours": [
        option("keys: expected keys that the index can hold", LONE),
    ],
    "Graph.neighbours": [
        option("n: expected an int in [1, 1000]", 0),
        shape("text: expected 1 queries as keys has", ["a", "b"], ""),
        shape("exclude: expected 1 queries as keys has", [], ""),
        option("exclude: expected keys that the index can hold", LONE),
    ],
    "Graph.topical": [
        option("hot: expected finite scores >= 0", [{"k0": -1.0}], [{"k0": NAN}]),
        shape("among: expected 1 queries", [], ""),
        option("among: expected keys that the index can hold", LONE),
    ],
    "GraphSchema": [
        option("participants: expected a list column, or a tuple of two columns", ("a",), -1, 3),
        option("attributes: expected valid Unicode", LONE),
        option("stored: expected valid Unicode", LONE),
        option("text: expected a column name or a sequence of them", -1, None, NAN),
        option("columns: expected a column name", [3], "", of="text"),
        option("columns: expected valid Unicode", LONE, of="text"),
    ],
    "GraphSchema Schema": [
        option("attributes: expected a column name", [3], ""),
        option("cell: expected a column name", -1, 3, [3], ""),
        option("key: expected a column name", -1, 3),
        option("key: expected valid Unicode", LONE),
        option("stored: expected a column name", [3], ""),
    ],
    "GraphSchema.with_participants": [dtype("kind: expected a DataType", -1, "x", None, NAN)],
    "grid": [
        dtype("colour: expected a mapping of label to value", -1, "x", None, NAN, of="options"),
    ],
    "HashEmbedder.embed VectorStore.add": [dtype("texts: expected a sequence of str", "x", LONE)],
    "HashEmbedder MemorySync.*": [option("dim: expected an int from 1 to 65536", "x", -1)],
    "Hit.arm_rank Hit.arm_score Hits.*": [
        option("arm: expected an arm of ['text', 'embedding']", "x", -1),
    ],
    "EpisodeMatch.snippet Hit.snippet": [
        option("width: expected an int >= 1", 0, -1),
        dtype("before: expected a str", -1, None),
        dtype("after: expected a str", -1, None),
        dtype("escape: expected a bool", "x", None),
    ],
    "Hit.highlights Hit.snippet": [
        dtype("column: expected a str", -1, 3),
        option("column: expected a stored column of a text arm of ['text']", "x", "id", "kind"),
    ],
    "Hits.only": [dtype("asked: expected a bool for each query", "x", [3])],
    "Graph.participants": [dtype("column: expected an Array", "x", -1)],
    "Hits.column": [
        option("columns: expected columns of ['id', 'user', 'kind'", -1, "x", None, NAN, of="name"),
    ],
    "Hits.plot": [
        dtype("index: expected the number of a query, or a slice", "x", None, NAN, [3], of="query"),
    ],
    "HttpEmbedder": [
        option("timeout: expected seconds from 0.001 to 3600", 0, -1, NAN),
        option("batch: expected an int of at least 1", 0, "x", -1),
        option("max_bytes: expected an int of at least 1", None, "x", -1),
        dtype("key: expected a str, or None", -1, [3]),
        option("key: expected printable ASCII without a space", LONE),
        dtype("model: expected a str", -1, None),
        option("retries: expected an int of at least 0", "x", -1),
        dtype("timeout: expected seconds from 0.001 to 3600", "x", None),
        dtype("url: expected a URL (str)", -1, None),
        option("url: expected the URL of an endpoint, like https://host/v1", "x"),
    ],
    "Index.*": [
        option("graphs: expected graphs that are named ([])", {"x": 1}),
        option("embed: expected arms of ['embedding']", {"x": 1}),
        option("recipe: expected an hr.Recipe, or one per query", []),
        dtype("recipe: expected an hr.Recipe, or a list of them", (PLAINLY,), "loom"),
        option("fusion: expected none beside recipe=", hr.RRF(), recipe=PLAINLY),
        option("fusion: expected none beside recipe=", hr.RRF(), recipe=[PLAINLY]),
        option("shaping: expected none beside recipe=", hr.Gate(0), recipe=PLAINLY),
        option("min_score: expected none beside recipe=", 0.5, recipe=PLAINLY),
        option("surrounding: expected an int in [0, 100]", -1, 101, 1.5, "2", True, None),
        option("surrounding: expected a schema with thread=", 3),
        dtype("table: expected an Arrow table (pyarrow, polars, pandas, duckdb: anything", "x", -1),
    ],
    "Index.* MemorySync.import_ MemorySync.reembed MemorySync.remember_batch build_shards "
    "embed_dataset into_index into_store pull push rebalance recall_dataset": [
        dtype("progress: expected a callable (done, total), or None", "x", -1),
    ],
    "Index.* merge": [dtype("request: expected a Request", "x", -1)],
    "Index.add": [
        option("first_seq: expected at least 6 (the next)", 3),
        shape("vectors['embedding']: expected shape (6, 3)", *map(added, SHAPES), table=ADDED),
        dtype("vectors['embedding']: expected float16, bfloat16", *map(added, ODD), table=ADDED),
        dtype("vectors['embedding']: expected an array without", added(MASKED), table=ADDED),
        option(
            "vectors['embedding']: expected finite values",
            added(np.full((6, 3), INF, "f")), table=ADDED,
        ),
        option(
            "vectors['embedding']: expected values that fit",
            added(np.full((6, 3), 1e300)), table=ADDED,
        ),
        option(
            "embedding: expected a norm in [2^-60, 2^60]", added(TINY), of="vectors", table=ADDED
        ),
    ],
    "Index.add Index.build Index.replace Index.update Index.upsert": [
        dtype("progress: expected a callable", 3, "yes"),
        option("vectors: expected names of dense arms ('embedding')", {"x": 1}),
    ],
    "Index.build": [
        dtype("schema: expected an hr.Schema", {"key": "id"}),
        dtype("table: expected an Arrow", [1, 2], None, pa.array([1, 2]), "a.csv"),
        option("user: expected one column of the table", {"id": [1]}, of="table"),
        dtype("analyzer: expected an hr.Analyzer", "", {}, 0, False, (), 'word'),
        dtype("bm25: expected an hr.BM25", "", {}, 0, False, (), 'okapi'),
        option("first_seq: expected an int in [0, 2^62)", 2**62, -1),
        option("device: expected 'cpu', 'cuda:N' or 'auto'", 'gpu', 0),
        option("threads: expected an int in [1, 1024], or None", 0, True),
    ],
    "Index.build_in_parts": [
        dtype("bm25: expected an hr.BM25", "x", -1),
        dtype("batches: expected an Arrow stream, or an iterable of tables or record bat", "x", -1),
        option("batches: expected at least one batch", []),
        dtype("batches[1]: expected a table or record batch", [documents(), 3]),
        dtype("join_progress: expected a callable (done, total), or None", "x", -1),
        option("total_rows: expected an int of at least 0", "x", -1),
    ],
    "Index.build_in_parts build_shards": [dtype("resume: expected True or False", "x", -1, 1)],
    "Index.build_in_parts ServiceOptions": [dtype("join: expected True or False", "x", -1, 1)],
    "Index.candidates": [dtype("statistics: expected a Statistics", "x", -1)],
    "Index.count": [
        dtype("text[0]: expected a str, hr.Phrase, hr.Prefix, hr.Fuzzy, hr.All, hr.Any", -1, 3),
        option("filter: expected one filter", [KIND_0]),
        option("scope: expected one scope (several cells are hr.Scop", ['ana'], pd.Series(['ana'])),
    ],
    "Index.count Index.delete Index.replace": [option("filter: expected one filter", [3])],
    "Index.delete": [
        option("everything: expected False with keys or a filter", True, keys=['k0']),
        option("everything: expected False with keys or a filter", True, filter=KIND_0),
        dtype("everything: expected True or False", 1),
        option("filter: expected at least one condition, or everything", hr.Filter() & hr.Filter()),
        option("colour: expected an attribute column (kind)", hr.Filter(colour='red'), of="filter"),
        dtype("keys: expected a sequence of str keys", 'k1', b'k1', ['k1', 1], [b'k1']),
        option("keys: expected keys, a filter, or everything=True for the whole scope", None),
        conflict("keys: expected no null key", ['k1', None]),
        option("keys: expected keys, a filter, or everything=True for the whol", None, filter=None),
        shape("scope: expected 1 entries, one per key", ['ana', 'bob'], keys=['k1']),
        scope("scope: expected a scope: a cell, hr.Scope([...]), or a list wit", None, keys=['k1']),
        option("scope: expected one scope (several cells are hr.Scope([", ['ana'], everything=True),
    ],
    "Index.replace": [
        option("filter: expected a filter with a condition", None, hr.Filter()),
        option("colour: expected an attribute column (kind)", hr.Filter(colour='red'), of="filter"),
        option("scope: expected one scope (several cells are hr.Scope([", ['ana']),
        scope("scope: expected a scope: a cell, hr.Scope([...]), or a list wit", None),
    ],
    "Index.update": [
        absent("id: expected keys of documents, got 'k9'", [{"id": "k9", "user": "ana", "kind": 1}],
               of="table"),
        option("table: expected a column to change", [{"id": "k0", "user": "ana"}], of="table"),
        scope("user: expected the cell in every row", [{"id": "k0", "kind": 1}], of="table"),
    ],
    "Index.get": [
        option("columns: expected a column, or a sequence of", 'textt', keys=['k0']),
        dtype("keys: expected a sequence of str keys", 'k0'),
        shape("scope: expected 1 entries, one per key", ['ana', 'bob'], keys=['k0']),
    ],
    "Index.recall Index.recall_one ShardedIndex.*": [
        shape("filter: expected 1 entries, one per query", []),
    ],
    "Indexes": [dtype("device: expected a str", -1, None, NAN, [3])],
    "Indexes ablate embed_dataset learn learn_confidence run_setting tune": [
        dtype("dataset: expected a Dataset", -1, "x", None, NAN),
    ],
    "Indexes learn_from_feedback": [dtype("threads: expected an int", "x", NAN, [3], LONE)],
    "Indexes.get run_setting setting_code": [
        dtype("setting: expected a Setting", -1, "x", None, NAN),
    ],
    "InProcessSessions.*": [dtype("name: expected a SessionName", -1, "x", None, NAN)],
    "InProcessSessions.record": [dtype("ids: expected a sequence of str", -1, "x", None, NAN)],
    "into_index into_store": [
        dtype("source: expected a Source, from open_source() in a with block", "x", -1),
        dtype("user: expected a str", -1, [3]),
        option("user: expected valid Unicode", LONE),
    ],
    "into_store": [
        dtype("time_from: expected a str", -1, [3]),
        option("time_from: expected valid Unicode", LONE),
        dtype("vector_model: expected a str", -1, [3]),
        option("vector_model: expected valid Unicode", LONE),
    ],
    "[IS]*ndex.*": [
        dtype("candidates: expected {arm: a list with one entry per query}", "x", -1),
        option("candidates: expected arms of [] (arms.Listed)", {"x": 1}),
        option("first_seq: expected an int in [0, 2^62)", "x", -1),
        option("group: expected 'thread', or an attribute column without lists of", "x", -1),
        dtype("query_keys: expected a sequence of str or of int keys, one per query", "x", -1),
        shape("query_keys: expected 1 keys, one per query", []),
        option("session: expected SessionSignals among the stages", "x", -1),
        option("vectors: expected arms of ['embedding']", {"x": 1}, of="vector"),
    ],
    "[IS]*ndex.* build_shards": [dtype("schema: expected an hr.Schema", "x", -1)],
    "[IS]*ndex.recall": [
        option("bm25: expected None where no text arm runs", hr.BM25(), vectors=ONE, text=None),
        option("bm25: expected an hr.BM25 or {arm: hr.BM25}", 'okapi'),
        option("bm25: expected arms of ['text']", {'title': hr.BM25()}),
        option("columns: expected a column, or a sequence of", 'price', ('text', 'price')),
        option("depth: expected an int in [1, 2^31)", 0),
        option("depth: expected an int >= 1", False),
        option("filter: expected an hr.Filter, a pyarrow.compute.Expression or None", 'kind'),
        shape("filter: expected 1 entries, one per query", [None, None]),
        option("fusion: expected hr.RRF, hr.WeightedSum, hr.Max or hr.DBSF", 'rrf', vectors=ONE),
        option("weights: expected arms of ['tex", hr.RRF({'title': 1.0}), of="fusion", vectors=ONE),
        option("weights: expected no weight for", hr.WeightedSum({'embedding': 1.0}), of="fusion"),
        option("limit: expected an int in [0, 2^31)", -1, 2 ** 31),
        option("limit: expected an int >= 0", True, 1.0, '1', None),
        option("limit: expected <= 100 (depth)", 500, vectors=ONE),
        option("limit: expected <= 5 (depth)", 6, vectors=ONE, depth=5),
        option("min_fused: expected a fusion to act after (with one arm, min_score)", 0.5),
        dtype("min_fused: expected a finite number or hr.Above(number)", 'x', vectors=ONE),
        option("min_score: expected arms", {'text': 1}, vectors=ONE, fusion=EMBEDDING),
        option("min_score: expected {arm: floor} for arms of ['text', 'embeddin", 0.5, vectors=ONE),
        option("min_score: expected arms of ['text']", {'embedding': 0.5}),
        option("min_score['text']: expected a finite number or hr.Above(number)", {'text': NAN}),
        dtype("min_score['text']: expected a finite number or hr.Above(number)", True),
        option("normalize: expected a bool", 1, vectors=ONE),
        dtype("now: expected a datetime", 12.5),
        option("offset + limit: expected <= 100 (depth)", 91, vectors=ONE, limit=10),
        shape("scope: expected 1 entries, one per query", ['ana', 'bob'], []),
        scope("scope[0]: expected a cell (str, int, bool or tuple) or h", [None], [['ana', 'bob']]),
        scope("scope: expected a cell (str, int, bool or tuple) or hr.Scope", {'ana'}),
        scope("scope[1]: expected a str or None for user", ['ana', 7], text=['tea', 'tea']),
        option("text: expected a list with one entry per query", "x", -1, 'tea', b'tea'),
        option("text['text']: expected a list with one entry per query", {'text': 'tea'}),
        dtype("text[1]: expected a str, hr.Phrase, hr.Prefix, hr.Fuzzy, hr.All, hr.A", ['tea', 5]),
        option("text: expected arms of ['text']", {'title': ['tea']}),
        dtype("vectors: expected a NumPy, torch, DLPack or Arrow array", "x", -1),
        shape("vectors['embedding']: expected 1 queries as text['text'] has", ""),
        option("vectors: expected arms of ['embedding']", {'near': ONE}, text=None),
        shape("vectors['embedding']: expected 2 queries as text['text'", ONE, text=['tea', 'milk']),
    ],
    "[IS]*ndex.recall [IS]*ndex.recall_one": [
        option("bm25: expected arms of ['text']", {"x": 1}),
        option("text: expected text= or vectors=, or both", {}),
        option("sort: expected attribute columns without lists of ['kind']", "text", ["kind", "x"]),
        option("sort: expected attribute columns without lists of ['kind']", "-kind", "kind:desc"),
        option("sort: expected a column, (column, ", 3, ("kind", "up"), {"x": 1}, [3]),
        option("sort: expected each column once", ["kind", ("kind", "desc")]),
        option("fusion: expected None where columns order the rows", hr.RRF(), sort="kind"),
        option("min_confidence: expected a number in [0, 1]", -0.1, 1.5, NAN),
        dtype("min_confidence: expected a number in [0, 1]", "x", [3]),
        option("facets: expected attribute columns of ['kind']", "text", ["kind", "x"], [3]),
        option("facets: expected a column, hr.Buckets, or a list of those", 3, {"x": 1}),
        option("per_group: expected an int in [1, 100], or None", 0, 101, 1.5, group="kind"),
        option("per_group: expected None without group=", 3),
        option("surrounding: expected 0 beside group='kind'", 3, group="kind"),
        option("facets: expected each column once", ["kind", hr.Buckets("kind", [0, 1])]),
        option("kind: expected an int or float", hr.Buckets("kind", ["a", "b"]), of="facets"),
    ],
    "Buckets": [
        option("column: expected the name of an attribute column", 3, None),
        option("edges: expected two edges or more, rising", [1], [2, 1], "ab", 3, [NAN, 1]),
    ],
    "[IS]*ndex.recall_one": [
        option("scope: expected one scope (several cells are hr.Scope([...]))", ['ana']),
        shape("vectors: expected 3 values in every query", None, of="text", vector=[1.0]),
    ],
    "is_pattern": [dtype("text: expected a str", -1, None, NAN, [3])],
    "learn_confidence": [
        dtype("base: expected a Setting", -1, "x", NAN, [3]),
        option("base: expected a setting with one recipe", read_setting("rrf")),
        dtype("foreign: expected a sequence of Dataset", 3, "x", ["x"], None),
        dtype("model: expected a str", 3, NAN, [3]),
    ],
    "learn": [
        option("weights: expected fused, agreement, ARM_score, ARM_rank,", {"x": 1}, of="features"),
        dtype("base: expected a Setting", -1, "x", NAN, [3]),
        option("measures: expected nDCG@k, R@k, any@k, all@k, RR@k, AP or P@k", "x"),
    ],
    "load_dataset": [
        dtype("path: expected a path (str or os.PathLike)", -1, None, NAN, [3]),
        option("path: expected a path", LONE, ""),
        option("role: expected none with a set of tables", -1, "x", NAN, [3]),
        option("unit: expected none with a set of tables", -1, "x", NAN, [3]),
        option("abstention: expected none with a set of tables", True, of="abstention"),
    ],
    "Lexical": [
        dtype("arms: expected a tuple of names", 5),
        option("max_terms: expected an int in [1, 2^31)", "x", -1),
        option("mode: expected one of ('any', 'all', 'and_prefix')", "x", -1),
        dtype("phrases: expected a bool", "x", -1, 'no'),
        dtype("stopwords: expected a tuple of words", "x", -1, 'the', (1,), 3),
    ],
    "Linear": [
        option("weights: expected 1 to 64", "", {"x" * at + "_score": 1 for at in range(1, 66)}),
        option("weights: expected fused, agreement, ARM_score", {"luck": 1}),
        dtype("weights: expected the names of features", {1: 1.0}),
        dtype("weights['fused']: expected a number in", {"fused": "x"}),
        option("weights['fused']: expected a number in", {"fused": NAN}),
        option("weights['recency(at, soon)']: expected a duration", {"recency(at, soon)": 1}),
    ],
    "Coefficients": [
        dtype("query: expected a mapping of values", "x", -1, None),
        option("query: expected 'base', and some of", {}, {"words": 1}, {"base": 1, "words": 1}),
        dtype("query['base']: expected a number in", {"base": "x"}),
        option("query['names']: expected a number in", {"base": 0, "names": NAN}),
        option("query: expected 'cosine' or 'names', or hit 'words'", {"base": 1, "lead": 1}),
        dtype("hit: expected a mapping of values", "x", -1, None),
        option("hit: expected 'base', and some of", {}, {"words": 1}, {"base": 1, "lead": 1}),
        option("hit['query']: expected a number in", {"base": 0, "query": 1e9}),
    ],
    "Linear Provenance": [dtype("weights: expected a mapping of values", "x", -1)],
    "Matches.explain": [
        dtype("index: expected the number of a at, or a slice", "x", None, NAN, [3], of="at"),
    ],
    "Max": [dtype("complete: expected a bool", 1)],
    "Max WeightedSum": [
        option("normalize: expected one of ('minmax', 'none', 'best', 'clip', 'unit') or", "x", -1),
    ],
    "MemorySync.*": [
        dtype("agent: expected a str", -1, 3),
        dtype("analyzer: expected an hr.Analyzer or the name of a preset", -1, 3),
        dtype("clock: expected a function that returns a datetime", "x", -1),
        dtype("recall_timeout: expected seconds in [0, 86400]", "x", [3]),
        option("recall_timeout: expected seconds in [0, 86400]", -1, NAN),
        dtype("sessions: expected an object with session and record", "x", -1),
        dtype("warm: expected True or False", "x", -1),
        dtype("write_timeout: expected seconds in [0, 86400]", "x", [3]),
        option("write_timeout: expected seconds in [0, 86400]", -1, NAN),
    ],
    "*MemorySync.*": [
        dtype("created_at: expected a valid datetime", None, [3]),
        option("created_at: expected a valid datetime or date, input is too short", "x", ""),
        dtype("importance: expected a valid number", [3], object),
        option("importance: expected a valid number, unable to parse string as a number", "x", ""),
        dtype("input: expected a valid string", -1, 3),
        option("input: expected valid Unicode", LONE),
        option("kind: expected 1 to 512 bytes, not blank, without NUL", ""),
        dtype("normalize: expected True or False", "x", -1),
        dtype("occurred_at: expected a valid datetime", None, [3]),
        option("occurred_at: expected a valid datetime or date, input is too short", "x", ""),
        dtype("time_range: expected (first, last)", "x", -1),
        option("visibility: expected 'private' or 'global'", "x", -1),
    ],
    "*MemorySync.* ahm_recall hm_recall": [
        option("session_id: expected 1 to 512 bytes, not blank, without NUL", ""),
    ],
    "MemorySync.* ahm_recall hm_recall into_store learn_from_feedback": [
        option("org: expected valid Unicode", LONE),
        option("workspace: expected valid Unicode", LONE),
    ],
    "MemorySync.* ahm_recall hm_recall learn_from_feedback": [
        option("user_id: expected valid Unicode", LONE),
    ],
    "*MemorySync.* BatchRecall DocumentIndex.* Index.* Notes.* ShardedIndex.recall_one": [
        option("limit: expected an int >= 0", NAN),
    ],
    "*MemorySync.* BatchRecall DocumentIndex.recall Index.* ShardedIndex.recall_one": [
        option("offset: expected an int >= 0", "x", None),
    ],
    "*MemorySync.* Browse.* DocumentIndex.* Index.*": [
        option("filter: expected an hr.Filter, a pyarrow.compute.Expression or None", "x", -1),
    ],
    "*MemorySync.* DocumentIndex.recall ShardedIndex.*": [
        dtype("recipe: expected an hr.Recipe", "x", -1),
    ],
    "*MemorySync.[!fu]* Edge Episode Fact Participant *MemorySync.update *MemorySync.unlink "
    "AgentMemorySync.forget": [dtype("id: expected a str", -1, 3)],
    "*MemorySync.* Episode": [dtype("kind: expected a str", -1, 3)],
    "*MemorySync.* Episode ahm_recall hm_recall": [dtype("session_id: expected a str", -1, 3)],
    "*MemorySync.* Notes.*": [dtype("reason: expected a str", -1, 3)],
    "*MemorySync.* Notes.supersede": [
        option("reason: expected 1 to 512 bytes, not blank, without NUL", ""),
    ],
    "*MemorySync.* RRF VectorStore.search_hybrid": [
        dtype("alpha: expected a number in [0, 1]", "x", [3]),
        option("alpha: expected a number in [0, 1]", -1, 3),
    ],
    "*MemorySync.* Notes.search VectorStore.search_hybrid ahm_recall default_recall_scored "
    "hm_recall": [
        dtype("query: expected a str", -1, 3),
    ],
    "MemorySync.remember MemorySync.supersede": [
        dtype("text: expected a str or an Episode", -1, 3),
    ],
    "MemorySync.agent": [
        option("agent: expected valid Unicode", LONE),
        scope("org: expected a name: an agent has an org and a workspace", -1, 3, "", " ", None),
        scope("workspace: expected a name: an agent has an org and a workspace", -1, 3, "", None),
    ],
    "MemorySync.doctor": [dtype("full: expected True or False", "x", -1)],
    "MemorySync.export": [
        dtype("file: expected a path, or a text file to write to", -1, 3, b"x", object(), [1, 2]),
        dtype("file: expected a path, or a text file to write to", io.BytesIO(b"{}\n")),
        dtype("history: expected True or False", "x", -1),
    ],
    "MemorySync.forget Notes.supersede": [option("reason: expected valid Unicode", LONE)],
    "MemorySync.get_policy MemorySync.set_policy": [
        option("agent: expected 1 to 512 bytes, not blank, without NUL", ""),
    ],
    "MemorySync.import_": [
        dtype("file: expected a path, or a text file or its lines", -1, 3, b"x", object(), [1, 2]),
        dtype("file: expected a path, or a text file or its lines", io.BytesIO(b"{}\n" * 9)),
        option("file: expected lines of an export", {"x": 1}),
        option("system: expected 'hyrecall' or 'l0'", "x", -1),
    ],
    "MemorySync.link": [
        dtype("metadata: expected a valid dictionary", -1, "x", NAN, [3]),
        dtype("metadata: expected JSON", {"a": object()}),
        dtype("description: expected a valid string", -1, 3),
        option("description: expected valid Unicode", LONE),
        dtype("participants: expected a sequence of ids or Participants", "x", -1),
        dtype("participants[0]: expected a str", [3]),
        option("relationship: expected 1 to 512 bytes, not blank, without NUL", ""),
    ],
    "MemorySync.open": [
        dtype("owner_timeout: expected seconds in [0, 86400]", "x", None),
        option("owner_timeout: expected seconds in [0, 86400]", -1, NAN),
        dtype("read_only: expected True or False", "x", -1),
        dtype("shared: expected True or False", "x", -1),
        option("snapshot_every: expected an int >= 1", "x", -1),
        dtype("wait: expected seconds in [0, 86400]", "x", None),
        option("wait: expected seconds in [0, 86400]", -1, NAN),
    ],
    "MemorySync.reembed": [dtype("force: expected True or False", "x", -1)],
    "MemorySync.remember": [
        shape("vectors: expected shape (1, 4)", -1, NAN, [3], of="vector"),
        dtype("vectors: expected rows of numbers", "x", LONE, "", {"x": 1}, of="vector"),
    ],
    "MemorySync.remember_batch": [
        dtype("episodes: expected Episodes", "x", -1, b"x", {"tea": 1}, None, Episode()),
        dtype("vectors: expected rows of numbers", "x", object),
        shape("vectors: expected shape (1, 4)", -1, 3),
    ],
    "MemorySync.remember_fact": [
        dtype("fact: expected a Fact", "x", -1),
        dtype("object: expected a str", Fact.model_construct(object=5), of="fact"),
    ],
    "MemorySync.search": [
        option("partitions: expected none beside user_id=, org= or workspace=", "x", -1),
    ],
    "MemorySync.set_policy": [
        option("policy: expected 'isolated' | 'shared' | 'group'", "x", -1),
        dtype("policy_group: expected a str", -1, 3),
        option("policy_group: expected 1 to 512 bytes, not blank, without NUL", ""),
    ],
    "MemorySync.wait_until_ready": [
        option("timeout: expected seconds in [0, 86400]", -1, NAN),
        dtype("timeout: expected seconds in [0, 86400]", "x", None, [3], LONE),
    ],
    "merge": [
        dtype("parts: expected parts, as Index.candidates returns them", -1, "x", NAN, [3]),
        option("parts: expected the part of at least one shard", None, ""),
    ],
    "MMR": [
        option("relevance: expected one of ('max', 'minmax', 'raw')", "x", -1),
        dtype("relevance_weight: expected a number in [0, 1]", "x", None),
        option("relevance_weight: expected a number in [0, 1]", -1, 3),
    ],
    "Not": [
        dtype("Not: expected a str, hr.Phrase", 5, b"a", None, NAN, [3], hr.Not("a"), of="query"),
        option("Not: expected a query without hr.Boost", hr.Any("a", hr.Boost("b", 2)), of="query"),
    ],
    "Notes": [
        option("scopes: expected a sequence of scopes, or EVERYONE", "x", -1),
        dtype("scopes: expected a str", [3]),
    ],
    "Notes hm_recall into_store learn_from_feedback": [
        dtype("memory: expected a MemorySync", "x", -1),
    ],
    "Notes.*": [
        dtype("scope: expected a str", -1, 3),
        option("text: expected valid Unicode", LONE, of="value"),
    ],
    "Notes.delete": [
        dtype("key: expected a str", -1, 3),
        option("key: expected 1 to 512 bytes, not blank, without NUL", ""),
    ],
    "Notes.delete Notes.get Notes.save Notes.supersede": [
        option("scope: expected 1 to 512 bytes, not blank, without NUL", ""),
    ],
    "Notes.expand": [dtype("hit: expected a NoteHit", -1, "x", None, NAN)],
    "Notes.get Notes.save Notes.supersede": [
        dtype("id: expected a str", -1, None, NAN, [3], of="key"),
        option("id: expected valid Unicode", LONE, of="key"),
        option("id: expected 1 to 512 bytes, not blank, without NUL", "", of="key"),
    ],
    "Notes.list Notes.search": [option("scope: expected valid Unicode", LONE)],
    "Notes.save": [dtype("text: expected a valid string", None, NAN, [3], {"x": 1}, of="value")],
    "Notes.supersede": [
        dtype("id: expected a str", -1, None, NAN, [3], of="new_key"),
        option("id: expected valid Unicode", LONE, of="new_key"),
        option("id: expected 1 to 512 bytes, not blank, without NUL", "", of="new_key"),
        dtype("text: expected a valid string", -1, None, NAN, [3], of="value"),
    ],
    "open_source": [
        option("collection: expected none for mem0", "x", -1),
        option("id_field: expected none for mem0", "x", -1),
        option("system: expected one of chroma, lancedb, qdrant, mem0, langchain", "x", -1),
        option("text_field: expected none for mem0", "x", -1),
        option("vector_field: expected none for mem0", "x", -1),
    ],
    "Participant": [dtype("role: expected a str", -1, 3)],
    "Phase": [
        option("first: expected an int in [0, 2^31)", "x", -1),
        dtype("general: expected a number in [0, 1]", "x", None),
        option("general: expected a number in [0, 1]", -1, 3),
        dtype("name: expected a str", None, first=0, general=1, topical=0, session=0),
        dtype("session: expected a number in [0, 1]", "x", None),
        option("session: expected a number in [0, 1]", -1, 3),
        dtype("topical: expected a number in [0, 1]", "x", None),
        option("topical: expected a number in [0, 1]", -1, 3),
    ],
    "parse": [dtype("text: expected a str", 5, None, b"a", ["a"], of="text")],
    "Phrase": [
        option("slop: expected an int in [0, 1000]", "x", -1),
        option("slop: expected an int in [0, 1000]", -1, 1001, True, 1.0, text='a b'),
        dtype("Phrase: expected a str", ['a'], of="text"),
        dtype("prefix_last: expected a bool", "x", -1, None, 1),
    ],
    "Placement": [
        option("columns: expected a mapping, or its pairs", -1, "x", None, NAN),
        option("columns['x']: expected one of ['large_string', 'int64', 'bool']", {"x": 1}),
        option("slots: expected 4096 numbers of shards", "x", -1),
        option("split: expected a mapping, or its pairs", -1, "x", None, NAN),
        option("split['x']: expected 256 numbers of shards", {"x": 1}),
    ],
    "Placement.encode Placement.shards_of": [
        scope("cell: expected a str or None for user", -1, [3]),
    ],
    "Placement.from_dict": [option("data: expected the data of a placement", "x", -1)],
    "Placement.shards_of_bytes": [dtype("cell: expected a bytes", -1, "x", None, NAN)],
    "Prefix": [dtype("Prefix: expected a str", None, of="text")],
    "Prior": [
        dtype("values: expected a mapping of values", 7, "x", -1),
        option("values: expected 1 to 4096 values", dict.fromkeys(range(4097), 0.5), ""),
        dtype("values['a']: expected a number in", {"a": "low"}),
        option("values['a']: expected a number in", {"a": NAN}, {"a": 2e6}),
    ],
    "Provenance": [dtype("weights: expected a mapping of values", 'xy', column='a')],
    "prune": [
        option("keep: expected an int >= 1", "x", -1),
        dtype("older_than: expected a timedelta", "x", -1),
    ],
    "prune pull push": [
        dtype("url: expected a URL (str) or a store of obstore", -1, None),
        option("url: expected a URL such as file:///srv/notes or s3://bucket/notes", "x", LONE),
    ],
    "read_setting": [
        option("setting: expected one of bm25, dense, rrf, minmax, conv", "x", LONE, "", of="name"),
    ],
    "recall_dataset": [
        option("queries: expected a sequence of at least one path, or a path", -1, None, NAN),
        dtype("recall: expected a BatchRecall", -1, "x", None, NAN),
        option("rows: expected an int in [1, 2^30]", -1, "x", None, NAN),
    ],
    "Recency": [
        dtype("by: expected the name of a column", -1, 3),
        option("by: expected by= and half_lives= together", "x", LONE),
        dtype("by: expected the name of a column", 3, column='a', half_lives={'x': 1}),
        dtype("exponent: expected a number in [0, 100]", "x", None),
        option("exponent: expected a number in [0, 100]", -1, NAN),
        dtype("half_lives: expected a mapping of values", "x", -1),
    ],
    "Recipe": [option("arms: expected at least one arm in arms or more", "")],
    "Recipe Recipe.replace": [
        dtype("arms: expected a tuple of Lexical and Dense", "x", -1),
        dtype("budget_mmr: expected a MMR, or None", "x", -1),
        dtype("exact: expected a bool", -1, 3),
        option("exact: expected True, False or 'words'", "x", LONE),
        dtype("fill: expected a Fill, or None", "x", -1),
        dtype("fuse_one_arm: expected a bool", "x", -1),
        dtype("fusion: expected a fusion", "x", -1),
        dtype("min_fused: expected a finite number or hr.Above(number)", "x", [3]),
        option("min_fused: expected a finite number or hr.Above(number)", NAN),
        dtype("more: expected a tuple of Regex, EdgeLexical, Tags, Newest and Listed", "x", -1),
        dtype("normalize: expected a bool", "x", -1),
        option("on_empty: expected one of ('newest', 'empty', 'error')", "x", -1),
        dtype("on_no_match: expected a tuple of Regex, EdgeLexical, Tags, Newest and Lis", "x", -1),
        option("semantic: expected one of ('default', 'opt-in')", "x", -1),
        dtype("tables: expected a Tables, or None", "x", -1),
        dtype("tie_break: expected a tuple of TieBreak", "x", -1),
        dtype("with_threads: expected a WithThreads, or None", "x", -1),
        dtype("confidence: expected a Coefficients, or None", "x", -1, {"base": 1}),
    ],
    "Recipe Recipe.replace Index.*": [
        dtype("expansion: expected hr.Context or hr.SharedTags", "x", -1),
    ],
    "Recipe Recipe.replace setting_code": [dtype("analyzer: expected a str", -1, 3)],
    "Recipe.bind": [
        dtype("graphs: expected {name: hr.Graph}", [3]),
        option("graphs: expected {'graph': hr.Graph}, which EdgeLexical names", None, {"x": 1}),
    ],
    "Recipe.bind Index.*": [dtype("graphs: expected {name: hr.Graph}", "x", -1)],
    "Recipe.from_json": [dtype("recipe: expected JSON as a str", None, of="text")],
    "Recipe.replace": [
        dtype("analyzer: expected a str", 5),
        dtype("arms: expected a tuple of Lexical and Dense", 5),
        option("scale: expected 'minmax'", SCALES, of="arms", fusion=BALANCED),
        dtype("fill: expected a Fill, or None", 'at'),
        dtype("min_fused: expected a finite number or hr.Above(number)", 'x'),
        dtype("more: expected a tuple of Regex, EdgeLexical, Tags, Newest and Listed", 'regex'),
        dtype("normalize: expected a bool", 'no'),
        dtype("tables: expected a Tables, or None", ('a',)),
        dtype("tie_break: expected a tuple of TieBreak", 'id', ('id',)),
    ],
    "Regex": [
        option("columns: expected at least one column", (), []),
        option("pattern: expected a pattern that is not blank", " ", -1, 3),
        option("on_bad: expected 'error' or 'literal'", "ignore", "x", -1),
        dtype("columns: expected column names and arms.Edges", -1, 3),
        option("ignore_case: expected a bool", "x", -1),
        option("only_patterns: expected a bool", "x", -1),
    ],
    "related": [
        dtype("column: expected a column of strings", "kind"),
        option("column: expected an attribute column of ['kind', 'tags']", "x"),
        dtype("column: expected a str", -1),
        dtype("columns: expected a sequence of str", -1, "x", None, NAN),
        dtype("hits: expected a Hits", -1, "x", None, NAN),
        dtype("n: expected an int", "x", None, NAN, [3]),
    ],
    "Rerank RerankBy": [option("window: expected an int in [1, 2^31)", "x", -1)],
    "RerankBy": [
        dtype("function: expected a callable", "x", -1),
        option("timeout: expected a duration above 0: seconds, a timedelta, or a number", "x", -1),
        dtype("timeout: expected a duration above 0: seconds, a timedelta, or a number", None, [3]),
    ],
    "RRF": [
        option("alpha: expected a number in [0, 1]", 1.01),
        option("alpha: expected weights or alpha, not both", 0.5, weights={'v': 1}),
        option("alpha_mode: expected 'weights', or with alpha= 'votes'", "x", -1),
        dtype("rank_constant: expected a number in [0, 1e6]", "x", None),
        option("rank_constant: expected a number in [0, 1e6]", -1, NAN),
        option("weights: expected a mapping {arm: weight}", ['text'], {}),
        option("weights['v']: expected a number in [0, 1e6]", {'v': -1}, {'v': INF}),
    ],
    "Schema": [
        option("key: expected a column name", ""),
        option("cell: expected cell columns, or None for a table with one audience", ()),
        option("cell: expected a column name", ("org", None)),
        option("cell: expected each column once", ("org", "org")),
        option("attributes: expected each column once", ("a", "a")),
        option("attributes: expected a column name or a sequence of them", {"a": 1}, -1, 3),
        option("stored: expected each column once", ("a", "a")),
        option("cluster: expected a column name", ("at",), -1, 3),
        option("schema: expected at least one text or vector arm", None, (), of="text"),
        option("text: expected an arm name", {"": "a"}, {3: "a"}, ""),
        option("text: expected a column name or hr.Text for arm 'a'", {"a": 3}, {"a": ("x", "y")}),
        option("text: expected each arm once", ("a", "a")),
        option("text: expected a name for an arm of several columns", (hr.Text("a", "b"), "c")),
        option("text: expected column names, hr.Text or a mapping of arms", hr.Vector("a"), -1, 3),
        option("vector: expected column names, hr.Vector or a mapping of arm", hr.Text("a"), -1, 3),
        option("vector: expected a column name or hr.Vector for arm 'a'", {"a": hr.Text("a")}),
        option("vector: expected names that no text arm has", "text"),
        option("key: expected no name of a result column", "query", "rank", "text_rank"),
        option("key: expected no name of a result column", "score", "origin"),
        *(
            option(f"{role}: expected no name of a result column", *OF_RESULTS, vector="e")
            for role in ("cell", "attributes", "cluster", "stored")
        ),
        option("cluster: expected valid Unicode", LONE),
        option("place: expected thread= beside it", "x", -1),
        option("speaker: expected a column name", -1, 3),
        option("speaker: expected valid Unicode", LONE),
        option("stored: expected a column name or a sequence of them", -1, 3),
        option("thread: expected a column name", -1, 3),
        option("thread: expected valid Unicode", LONE),
        option("vector: expected an arm name", ""),
    ],
    "Schema.from_dict": [
        option("schema: expected a mapping with exactly ['attribut", -1, "x", None, NAN, of="data"),
        option("schema: expected a mapping with exactly", WRITTEN | {"surplus": 1}, of="data"),
        option("key: expected a column name", WRITTEN | {"key": None}, of="data"),
        option("cell: expected cell columns, or None", WRITTEN | {"cell": []}, of="data"),
        option(
            "schema: expected text as {arm: [column]} and vector as {arm: {column, dtype}}",
            WRITTEN | {"text": ["t"]}, WRITTEN | {"text": {"b": 3}},
            WRITTEN | {"vector": {"e": {"columns": "e"}}}, WRITTEN | {"vector": {"e": "e"}},
            of="data",
        ),
    ],
    "Scope": [scope("scope: expected an iterable of cells", -1, "x", None, NAN, of="cells")],
    "score_run": [dtype("run: expected a mapping to Sequence", -1, "x", None, NAN)],
    "ServiceOptions": [
        dtype("allowed_hosts: expected a tuple of str", -1, "x", None, NAN, (1,)),
        option("allowed_hosts: expected hosts by name", ("*.example.org",)),
        dtype("allowed_origins: expected a tuple of str", -1, "x", None, NAN),
        option("allowed_origins: expected origins by name", ("*",)),
        dtype("host: expected a str", -1, None, NAN, [3], ""),
        option("port: expected >= 0 and finite", -1),
        option("port: expected <= 65535", 65_536),
        dtype("port: expected an int", "x", None, NAN, [3], True),
        *(option(f"{one}: expected >= 0.001 and finite", -1, NAN) for one in SECONDS),
        *(dtype(f"{one}: expected a number", "x", None, [3], LONE) for one in SECONDS),
        *(option(f"{one}: expected >= 1 and finite", -1, 0) for one in MOST),
        *(dtype(f"{one}: expected an int", "x", None, NAN, [3], 2.5) for one in MOST),
        option("max_waiting: expected >= 0 and finite", -1),
        dtype("max_waiting: expected an int", "x", None, NAN, [3]),
    ],
    "Session": [
        dtype("accessed: expected a mapping of key to datetime", "x", -1, ['a']),
        dtype("accessed['x']: expected a datetime", {"x": 1}),
        dtype("accessed: expected keys that are all str or all in", {'a': NOW, 1: NOW}, {1.5: NOW}),
        option("n_recalls: expected an int >= 0", "x", -1),
    ],
    "Session.after": [
        dtype("keys: expected a sequence of keys", "x", -1, "abc"),
        dtype("keys: expected keys that are all str or all int", [1, "a"]),
        dtype("now: expected a datetime", "x"),
    ],
    "SessionSignals": [
        option("graph: expected a graph, or phases with topical=0", None),
        dtype("min_hot: expected a number in [0, 1]", "x", None),
        option("min_hot: expected a number in [0, 1]", -1, 3),
        option("n_hot: expected an int in [0, 2^31)", "x", -1),
        dtype("phases: expected a sequence of Phase", "x", -1),
        option("phases: expected phases with increasing first, from 0", ""),
    ],
    "SessionSignals.phase_of": [dtype("n_recalls: expected an int", "x", None, NAN, [3])],
    "Setting": [
        option("arms: expected some of ('text', 'vectors')", (), ("words",), ("text", "embedding")),
        *(option("options: expected no option that", {one: None}) for one in OF_SETS),
        dtype("analyzer: expected an Analyzer", -1, "x", None, NAN),
        option("arms: expected some of ('text', 'vectors')", "x", None),
        dtype("options: expected a mapping to Any", -1, "x", None, NAN),
        dtype("place: expected a str", -1, NAN, [3], {"x": 1}),
        dtype("thread: expected a str", -1, NAN, [3], {"x": 1}),
    ],
    "Setting grid": [
        option("options: expected one of its options (filter, limit, offset, dep", {"x": 1}),
    ],
    "ShardedIndex": [option("shards: expected at least one", None, "")],
    "ShardedIndex.*": [
        option("surrounding: expected an int in [0, 100]", -1, 101, 1.5, "2", True, None),
        option("surrounding: expected a schema with thread=", 3),
        dtype("expansion: expected hr.Context or hr.SharedTags", "x", -1),
        option("graphs: expected graphs that are named ([])", {"x": 1}),
        dtype("graphs: expected {name: hr.Graph}", "x", -1),
    ],
    "ShardedIndex.build": [
        option("tables: expected a sequence of tables, one per shard", -1, None),
    ],
    "ShardedIndex.open": [
        option("embed: expected arms of ['embedding']", {"x": 1}),
        option("paths: expected a sequence of at least one path, or a path", -1, None),
    ],
    "Shards.read into_index rebalance": [
        dtype("path: expected a path (str or os.PathLike)", -1, None, NAN, [3], of="folder"),
        option("path: expected a path", LONE, "", of="folder"),
    ],
    "SharedTags": [
        option("hops: expected an int in [0, 1]", "x", -1),
        option("hops: expected an int in [0, 1]", 2, column='tags'),
        option("n: expected an int in [1, 1000]", 1001, column='tags'),
    ],
    "Statistics.sum": [option("parts: expected the statistics of at least one shard", None)],
    "Study.best difference_table learn learn_from_feedback tune": [
        dtype("measure: expected a str", -1, None, NAN, [3]),
    ],
    "Study.best learn tune": [
        option("measures: expected nDCG@k, R@k, any@k, all@k, RR@k", "x", LONE, "", of="measure"),
    ],
    "Tables": [
        dtype("column: expected the name of a column", 3, names=('a',)),
        dtype("names: expected a tuple of names", "x", -1),
        option("names: expected one or more distinct names other than 'other'", []),
        dtype("names: expected a tuple of names", 'ab', column='t'),
        option("names: expected one or more distinct names other", (), ('a', 'other'), column='t'),
    ],
    "Tags": [
        option("depth: expected an int in [0, 5]", 6, "x", -1),
        option("analyzer: expected one of", "snowball:english", "x", -1),
        option("partial: expected a bool", "x", -1),
    ],
    "Text": [
        option("columns: expected at least one text column", Several()),
        option("columns: expected each column once", Several(("a", "a"))),
        option("columns: expected names of columns", ["title", "text"]),
        option("columns: expected a column name", -1, 3),
        option("columns: expected valid Unicode", LONE),
        dtype("weights: expected a mapping {column: weight}", -1, "x", ["a"], columns="a"),
        option("weights: expected columns of the arm, 'a'", {"b": 2}, {"a": 2, 3: 1}, columns="a"),
        *(
            kind("weights['a']: expected a whole number in [1, 100]", *bad, columns="a")
            for kind, bad in (
                (dtype, ({"a": 1.5}, {"a": True}, {"a": None})), (option, ({"a": 0}, {"a": 101})),
            )
        ),
    ],
    "TieBreak": [
        dtype("column: expected the name of a column", 3),
        dtype("descending: expected a bool", "x", -1),
        dtype("descending: expected a bool", 'no', column='a'),
        dtype("prefer: expected a tuple of values", 'xy', column='a'),
    ],
    "tune": [dtype("analyzer: expected an Analyzer", -1, "x", NAN, [3])],
    "MaxSim": [
        option("column: expected a column name", "", -1, 3),
        option("dtype: expected one of 'float32', 'float16', 'bfloat16', or None", "int8", "x", -1),
        option("column: expected valid Unicode", LONE),
    ],
    "Sparse": [
        option("column: expected a column name", "", -1, 3),
        option("dtype: expected one of 'float32', 'float16', 'bfloat16', or None", "int8", "x", -1),
        option("dtype: expected 'float32', 'float16' or None", "bfloat16"),
        option("column: expected valid Unicode", LONE),
    ],
    "Vector": [
        option("column: expected a column name", "", -1, 3),
        option("dtype: expected one of 'float32', 'float16', 'bfloat16', or None", "int8", "x", -1),
        option("column: expected valid Unicode", LONE),
    ],
    "VectorStore.add": [
        dtype("text: expected a valid string", [5], of="texts"),
        shape("ids: expected 1, one per text", ""),
        shape("metadatas: expected 1, one per text", ""),
    ],
    "VectorStore.search_hybrid": [
        dtype("filter: expected a mapping of metadata", "x", -1),
        option("k: expected an int >= 0", "x", None),
    ],
    "WeightedSum": [
        dtype("balance: expected a number in [0, 2]", "x", [3]),
        option("balance: expected a number in [0, 2]", -1, 3),
        option("normalize: expected one of ('minmax', 'none', 'best', 'clip', 'unit') or {a", 'l2'),
    ],
    "with_each without_each": [dtype("option: expected a str", -1, None, NAN, [3])],
    "WithThreads": [
        dtype("around: expected an hr.Around", "x", -1),
        dtype("bm25: expected an hr.BM25, or None", "x", -1),
    ],
    "Index.recall": [
        dtype("recipe[1]: expected an hr.Recipe", [PLAINLY, "x"], [PLAINLY, None], text=["a"] * 2),
        shape("recipe: expected 3 entries, one per query", *MISCOUNTED, text=["a"] * 3),
        shape("recipe: expected 0 entries, one per query", [PLAINLY], text=[]),
        shape("vectors: expected shape (n_queries, 3)", *SHAPES, text=None),
        dtype("vectors: expected float16, bfloat16, float32 or float64 values", *ODD, text=None),
        dtype("vectors: expected an array without a mask", MASKED, text=None),
        option("vectors: expected finite values", np.full((6, 3), INF, "f"), text=None),
        option("vectors: expected values that fit float32", np.full((6, 3), 1e300), text=None),
        option("vectors: expected a norm in [2^-60, 2^60]", TINY, text=None),
        option("arms: expected names", arms.Newest("kind", name="text"), [HINTS] * 2),
        option("candidates: expected arms of", {"hints": [["k0"]]}),
        dtype("candidates: expected {arm: a list", [["k0"]], arms=HINTS),
        dtype("candidates['hints']: expected a list", {"hints": "k0"}, arms=HINTS),
        dtype("candidates['hints'][0]: expected a sequence of keys", {"hints": ["k0"]}, arms=HINTS),
        dtype("candidates['hints']: expected str keys", {"hints": [[1]]}, arms=HINTS),
        option("candidates['hints'][0]: expected scores", {"hints": [{"k0": NAN}]}, arms=HINTS),
        option("candidates['hints'][0]: expected scores", {"hints": [{"k0": 1e39}]}, arms=HINTS),
        shape("candidates['hints']: expected 2", {"hints": [[]]}, text=["a", "b"], arms=HINTS),
        option("text: expected text= or vectors=, or both", HINTS, of="arms", text=None),
        option("newest.column: expected", arms.Newest("nope"), arms.Newest("text"), of="arms"),
        dtype("tags.column: expected a column of strings", arms.Tags("kind"), of="arms"),
        option("regex.columns: expected stored text columns", arms.Regex("nope"), of="arms"),
        dtype("regex.columns: expected text columns", arms.Regex("kind"), of="arms"),
        option("graphs: expected", arms.EdgeLexical("g"), arms.Regex(arms.Edges("g")), of="arms"),
        option("weights: expected", hr.RRF({"hints": 1}), of="fusion"),
        dtype("candidates: expected {arm: a list with one entry per query}", ["a"]),
        dtype("tie_break: expected values of int64 to prefer, as in its column", TIES, of="recipe"),
        option("text: expected a list with one entry per query", hr.Phrase("tea"), np.array("tea")),
        option("offset: expected an int in [0, 2^31)", 2**40),
        option("min_score['text']: expected a finite number or hr.Above(number)", 10**400),
        option("columns: expected a column, or a sequence of columns, of ['id', 'user'", None),
        option("vectors: expected finite values", np.array([[1, NAN, 1]]), text=None),
        option("vectors: expected a norm in [2^-60, 2^60]", np.array([[1, 1e30, 1]]), text=None),
        shape("vectors: expected shape", [1.0] * 3, np.array(1.0), np.empty(0), text=None),
        shape("vectors: expected 3 values in every query", *OF_OTHER_LENGTHS, text=None),
        shape("vectors: expected a flat row of numbers", [[[1.0], [1.0, 2.0], [1.0]]], text=None),
        dtype("vectors: expected a row of numbers", [["a"] * 3], [[True] * 3], text=None),
        dtype("vectors: expected a row of numbers", [[1.0] * 3, [1.0, None, 1.0]], text=None),
        dtype(
            "vectors: expected float16, float32 or float64 values",
            pa.array([[True] * 3]), pa.array([[1] * 3], pa.list_(pa.uint16())), text=None,
        ),
        dtype(
            "vectors: expected a fixed_size_list or list column of floats",
            pa.array([1.0]), pa.table({"v": ADDED["kind"]}), pd.DataFrame({"v": [1.0]}), text=None,
        ),
        dtype("vectors: expected a NumPy, torch, DLPack or Arrow array", "tea", 7, text=None),
        dtype("vectors: expected a NumPy, torch, DLPack or Arrow", ["a"], [{}], 3.5, text=None),
        option("group: expected 'thread', or an attribute column without lists of", 1, "session"),
        dtype("query_keys: expected a sequence of str or of int keys, one per query", "abc"),
        dtype("query_keys[0]: expected a sequence of str or of int keys", [None], [True], [1.5]),
        dtype("query_keys[1]: expected a sequence of str or of int", ["a", 2], text=["tea"] * 2),
        option("query_keys: expected a sequence of str or of int keys", [2**63], [LONE]),
    ],
    "Index.recall_one": [
        option("text[0]: expected at least one part that matches, got only hr.Not", hr.Not("a")),
        dtype("text[0]: expected a str, hr.Phrase, hr.Prefix, hr.Fuzzy, hr.All, hr.Any", ["tea"]),
    ],
    "HashEmbedder": [
        option("dim: expected an int from 1 to 65536", 0, 1.5, True, "8", None, 100_000),
    ],
    "*MemorySync.search": [
        option("weights['recency']: expected a number", {"recency": -1}, {"recency": NAN}),
        dtype("weights['recency']: expected a number in [0, 1e6]", {"recency": "3"}),
        dtype("weights: expected a mapping of recency", [1, 2, 3]),
        dtype("token_budget: expected an int", 1.5, True, "500"),
        dtype("candidates['m0']: expected a finite number", {"m0": "high"}),
        option("candidates['m0']: expected a finite number", {"m0": INF}),
        option("candidates: expected 1 to 512 bytes", [""]),
        option("around: expected an int in [0, 100]", 101, 1.5, "2", None),
        option("min_score['bm25']: expected a number", {"bm25": None}),
        dtype("min_score['bm25']: expected a finite number", {"bm25": "high"}),
        option("min_score['cosine']: expected a finite number", {"cosine": NAN}),
        option("min_score['cosine']: expected none", {"cosine": 0.3}, alpha=0.0),
        option("min_score['bm25']: expected none", {"bm25": 1.0}, alpha=1.0),
        dtype("metadata: expected a mapping of key to value", [("a", 1)], {1: 2}),
    ],
    "MemorySync.in_memory": [
        option("analyzer: expected one of word, unicode, ", "unicode62"),
        option("analyzer: expected unicode: and one of arabic, ", "unicode:klingon"),
        dtype("analyzer: expected an hr.Analyzer or the name of a preset", 7),
    ],
    "Index.open Index.save": [dtype("path: expected a path (str or os.PathLike)", 5, b"x", ["x"])],
    "EdgeLexical": [option("depth: expected an int in [1, 2^31)", 0)],
    "Graph.distances": [
        option("hops: expected an int in [0, 16]", 17, True),
        dtype("hot: expected str keys", [[1]]),
        shape("scope: expected 1 entries", ["u", "v"]),
    ],
    "read sync": [
        dtype("path: expected a path (str or os.PathLike)", -1, None, [3], of="folder"),
        option("folder: expected a folder of documents", "/dev/null", "/no/such/folder"),
        dtype("progress: expected a callable (done, total), or None", "x", -1),
    ],
    "read": [
        dtype("patterns: expected paths with * and **", 3, [3], None),
        option("patterns: expected paths with * and **", [], "", "/x", "../*.md", "a/./b"),
        option("chunk_tokens: expected an int in [1, 1000000]", 0, 1.5, True, "8", None),
        option("overlap: expected an int in [0, 256) (chunk_tokens)", -1, 256, 1.5, "8"),
    ],
    "chunks": [
        dtype("text: expected a str", 3, None, ["tea"]),
        option("tokens: expected an int in [1, 1000000]", 0, 1.5, True, "8", None),
        option("overlap: expected an int in [0, 8) (tokens)", -1, 8, tokens=8),
        dtype("markdown: expected True or False", "x", 1, None),
    ],
    "build": [
        dtype("chunks: expected what hyrecall.folders.read returned", "x", documents(), None),
        option('embedder: expected "static"', "x", of="embed"),
        dtype("analyzer: expected an hr.Analyzer", "x", -1),
        dtype("bm25: expected an hr.BM25", "x", -1),
        option("device: expected 'cpu', 'cuda:N' or 'auto'", "x", -1),
        option("threads: expected an int in [1, 1024], or None", "x", -1),
        dtype("progress: expected a callable (done, total), or None", "x", -1),
    ],
    "sync": [
        dtype("index: expected an hr.Index", "x", None),
        option("index: expected an index of a folder", TABLE_INDEX),
    ],
    "plot_study": [option("plot: expected a name that ends in .svg or .png", "x", of="path")],
}  # fmt: skip
EXCEPTIONS: dict[str, str] = {  # reason: callables, each with its arguments or with all
    "a value that the package makes: it keeps what it is given": (
        "Agent; Calibration; Chunk; Comparison; DatasetHits; Degradation; Dropped; DroppedRow; "
        "EpisodeMatch; Explanation; Facts; FolderRead; FoundDocument; Held; Learnt; "
        "LearntConfidence; LeftOut; MatchParts; Matches; Migrated; "
        "NearRow; Neighbour; Note; NoteHit; NoteHits; Part; Pruned; Pulled; "
        "Pushed; QueryFeedback; ReadPolicyFault; Reading; Record; Related; Remembered; Run; "
        "Scores; ShardEntry; Shards; Source; StageDrops; StageTrace; Statistics; Study; Synced; "
        "AgentEntry; SessionEntry; ThreadRow; Token; Trace; Tuned; UserEntry; Version"
    ),
    "made and called by the package alone": (
        "AgentMemory; AgentMemorySync; Browse; Caller; Degradation.of_damage; "
        "Degradation.of_fault; Graph.edge_scope; "
        "FusedLists*; Stage.*; StageCall*; StagePlan*; "
        "Graph.flat_keys argument; Hits.cached; "
        "Hits.part_of; Matches.with_reasons; Memory; MemorySync; "
        "Request.read; Shards.from_bytes content path; StageTrace.plus; "
        "Trace.of_query; merge degraded; warn_if_degraded"
    ),
    "a protocol, or a call that another store answers": (
        "AutoExtract*; Embedder.embed; Lazy*; RecallOnly*; SessionTracker.*"
    ),
    "needs a server or an extra; the tests of that module refuse": (
        "Chroma*; CrossEncoder*; HttpEmbedder.embed; HttpEmbedder.embed_within; IndexReplica*; "
        "MiniLM*; Postgres*; Redis*; ShardedIndex.on_ray; StaticEmbedder.embed; create_server; "
        "http_app; recall_app; run; run_stdio"
    ),
    "any value is right, or its truth counts": (
        "AllOf values; Between end; Browse.grep regex; Context graph; Document; DocumentIndex "
        "keep_vectors; DocumentIndex.save overwrite; Dropped.first most; EdgeLexical graph; Edges "
        "graph; Graph.save overwrite; Hit.evidence arm; HttpEmbedder context; "
        "InProcessSessions most; Index.reload discard_changes; Index.save overwrite; Max.scale_of "
        "arm; Memory.open accept_loss; MemorySync.open accept_loss; NoneOf values; Partition; "
        "WeightedSum.scale_of arm; pull discard_changes; push overwrite; recall_dataset on_ray; "
        "setting_code has_cells"
    ),
    "read only later, by a call that refuses it": (
        "BatchRecall.map batches; DocumentIndex.value; Memory.in_memory threads; Memory.open "
        "threads progress; MemorySync.in_memory threads; MemorySync.open threads progress; Newest "
        "column; Request; Scope.matching parts; ServiceOptions tokens; Setting attributes "
        "more_arms; Setting.but; Tags column; Text analyzer bm25; VectorStore embedder; follow url "
        "path progress; load_dataset qrels; tune measures"
    ),
    "pydantic refuses it, with its own error": "Edge; Episode; Fact",
    "Browse refuses every change": (
        "Browse.append text; Browse.cp path; Browse.mv to; Browse.write text"
    ),
    "a reply of an embedder: EmbedError tells of it": "VectorStore.add vectors",
    "what another library takes": (
        "Hits.plot ax; default_recall_scored memory score; recall_dataset resume concurrency "
        "num_cpus num_gpus"
    ),
}
