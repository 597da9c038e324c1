"""The refusals of the public API: callables, what the message starts with, and wrong values.

A row holds for each callable of its block that has the argument, which is the word before the colon
or ``of``. Other keywords stand beside the wrong value in the call. "[IS]*ndex" is Index and
ShardedIndex, not DocumentIndex.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pandas as pd

import hyrecall as hr
from hyrecall.errors import (
    DTypeError,
    HyrecallError,
    KeyConflictError,
    NotFoundError,
    OptionError,
    ScopeError,
    ShapeError,
)
from hyrecall.recipe import Dense, Lexical
from small_index import ONE

NAN, INF, LONE = float("nan"), float("inf"), "\ud800"
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


absent, conflict, dtype = map(rows_with, (NotFoundError, KeyConflictError, DTypeError))
option, scope, shape = map(rows_with, (OptionError, ScopeError, ShapeError))

ROWS: dict[str, list[Row]] = {
    "Analyzer.from_callable TokenFunction": [
        option("function: expected a callable", "x", -1),
        option("version: expected a non-empty str", -1, 3),
    ],
    "Analyzer.from_dict": [
        option("stored: expected kind 'preset', 'callable' or 'tokenizer'", "x", -1),
        option("function: expected None (this analyzer has no callable)", "x", -1),
    ],
    "Analyzer.from_tokenizer": [
        dtype("tokenizer: expected a path, a JSON str or a tokenizers.Tokenizer", -1, 3),
        option("tokenizer: expected a path, a JSON str or a tokenizers.Tokenizer", "x", LONE),
    ],
    "Analyzer.explain": [option("role: expected 'document' or 'query'", "x", "")],
    "Analyzer": [
        option("stopwords: expected None, 'english' or a list of str", "x", -1),
        option("token_function: expected hyrecall.TokenFunction", "x", -1),
    ],
    "Around": [
        dtype("neighbours: expected a sequence of weights", "x", -1),
        dtype("thread: expected a number in [0, 1e6]", "x", None),
        option("thread: expected a number in [0, 1e6]", -1, NAN),
        dtype("length: expected a number in [0, 1e6]", "x", None),
        option("length: expected a number in [0, 1e6]", -1, NAN),
    ],
    "BM25": [
        option("variant: expected one of ('lucene', 'okapi', 'fts5', 'robertson', 'atire", "x", -1),
        dtype("k1: expected a number in [0, 1000]", "x", [3], '1'),
        option("k1: expected a number in [0, 1000]", -1, NAN, -0.1),
        dtype("b: expected a number in [0, 1], or two", "x", None, True),
        option("b: expected a number in [0, 1], or two", -1, 3, 1.5, NAN, (0.5,)),
        option("delta: expected None (lucene has none)", "x", -1),
        option("b: expected two numbers in [0, 1]", (0.5, 2)),
        option("delta: expected None (okapi has none)", 1.0, variant='okapi'),
        option("delta: expected a number in [0, 1000]", -1, variant='bm25l'),
        dtype("delta: expected a number in [0, 1000]", '1', variant='bm25+'),
    ],
    "Boost": [
        option("factor: expected a number in [2^-20, 2^20]", "x", -1),
        option("factor: expected a number in [2^-20, 2^20]", 0, -1, NAN, '2', query='a'),
    ],
    "Budget": [
        option("tokens: expected an int in [-2147483648, 2^31)", "x", [3]),
        dtype("estimate: expected a callable", "x", -1),
    ],
    "Budget Fill Prior Provenance Recency RerankBy SharedTags Tables TieBreak": [
        dtype("column: expected the name of a column", -1, 3),
    ],
    "Composite": [dtype("time: expected the name of a column", -1, 3)],
    "Context": [
        option("top: expected an int in [1, 2^31)", "x", -1),
        option("n: expected an int in [1, 1000]", 1001, graph='graph'),
    ],
    "Context Graph.neighbours SharedTags": [option("n: expected an int in [1, 1000]", "x", -1)],
    "DBSF Max RRF WeightedSum": [option("weights: expected a mapping {arm: weight}", "x", -1)],
    "*": [
        dtype("complete: expected a bool", "x", -1),
        dtype("prefer: expected a tuple of values", "x", -1),
        option("hot: expected keys that the index can hold", LONE),
        option("embed: expected arms of ['embedding']", {"x": 1}),
        dtype("rank_constant: expected a number in [0, 1e6]", "x", None),
        option("rank_constant: expected a number in [0, 1e6]", -1, NAN),
        dtype("more: expected a tuple of Regex, EdgeLexical, Tags, Newest and Listed", "x", -1),
        dtype("on_no_match: expected a tuple of Regex, EdgeLexical, Tags, Newest and Lis", "x", -1),
        dtype("fill: expected a Fill, or None", "x", -1),
        dtype("tie_break: expected a tuple of TieBreak", "x", -1),
        option("on_empty: expected one of ('newest', 'empty', 'error')", "x", -1),
        dtype("fuse_one_arm: expected a bool", "x", -1),
        option("semantic: expected one of ('default', 'opt-in')", "x", -1),
        dtype("budget_mmr: expected a MMR, or None", "x", -1),
        dtype("with_threads: expected a WithThreads, or None", "x", -1),
        option("window: expected an int in [1, 2^31)", "x", -1),
        dtype("weight: expected a number in [0, 1e6]", "x", None),
        option("weight: expected a number in [0, 1e6]", -1, NAN),
        dtype("subject: expected a str", -1, 3),
        dtype("predicate: expected a str", -1, 3),
        dtype("object: expected a str", -1, 3),
        dtype("valid_at: expected a datetime", "x", -1),
        dtype("relationship: expected a str", -1, 3),
        dtype("recall_timeout: expected seconds in [0, 86400]", "x", [3]),
        option("recall_timeout: expected seconds in [0, 86400]", -1, NAN),
        dtype("write_timeout: expected seconds in [0, 86400]", "x", [3]),
        option("write_timeout: expected seconds in [0, 86400]", -1, NAN),
        dtype("sessions: expected an object with session and record", "x", -1),
        dtype("warm: expected True or False", "x", -1),
        option("max_results: expected an int", "x", None),
        dtype("force_regex: expected True or False", "x", -1),
    ],
    "Dedup": [
        dtype("threshold: expected a number in [-1, 1]", "x", None),
        option("threshold: expected a number in [-1, 1]", 3, NAN),
        option("scale: expected one of ('raw', 'unit')", "x", -1),
        option("keep: expected keep= and prefer= together", "x", -1),
        dtype("prefer: expected a tuple of values", 'xy', threshold=0.9, keep='a'),
    ],
    "Dedup MMR Rerank": [dtype("vector: expected the name of a vector arm", -1, 3)],
    "*MemorySync.* Edge Episode Fact ahm_recall hm_recall": [
        dtype("user_id: expected a str", -1, 3),
    ],
    "MemorySync.*o* Edge Episode Fact MemorySync.end_fact MemorySync.feedback "
    "MemorySync.get MemorySync.link MemorySync.links MemorySync.list MemorySync.list_facts "
    "MemorySync.list_feedback MemorySync.pin MemorySync.recall_facts MemorySync.reembed "
    "MemorySync.remember MemorySync.search MemorySync.supersede MemorySync.unlink "
    "MemorySync.update ahm_recall hm_recall into_store": [
        dtype("org: expected a str", -1, [3]),
        dtype("workspace: expected a str", -1, [3]),
    ],
    "MemorySync.* AgentMemorySync.end_fact AgentMemorySync.forget AgentMemorySync.get "
    "AgentMemorySync.history AgentMemorySync.links AgentMemorySync.update Edge Episode Fact "
    "Participant": [
        dtype("id: expected a str", -1, 3),
    ],
    "AgentMemorySync.update Episode *MemorySync.list MemorySync.recall "
    "*MemorySync.recall_scored MemorySync.remember MemorySync.search": [
        dtype("kind: expected a str", -1, 3),
    ],
    "AgentMemorySync.update Episode MemorySync.remember": [dtype("source: expected a str", -1, 3)],
    "AgentMemorySync.update Episode MemorySync.forget MemorySync.remember MemorySync.search "
    "hm_recall": [
        dtype("session_id: expected a str", -1, 3),
    ],
    "Feedback": [
        option("rows: expected an int in [1, 100]", "x", -1),
        dtype("dense: expected a number in [0, 100]", "x", None),
        option("dense: expected a number in [0, 100]", -1, NAN),
        option("terms: expected an int in [0, 100]", "x", -1),
        dtype("lexical: expected a number in [2^-20, 10]", "x", None),
        option("lexical: expected a number in [2^-20, 10]", -1, NAN),
    ],
    "Filter.expression": [option("expression: expected a pyarrow.compute.Expression", "x", -1)],
    "Gate": [
        dtype("min_score: expected a finite number", "x", None),
        option("min_score: expected a finite number", NAN),
    ],
    "Graph.* GraphSchema.with_participants": [
        dtype("table: expected an Arrow table (anything with __arrow_c_stream__)", "x", -1),
        option("table: expected one column 'participants'", []),
    ],
    "Graph.build": [dtype("schema: expected an hr.GraphSchema", "x", -1)],
    "Graph.*": [dtype("nodes: expected an hr.Index or a ShardedIndex", "x", -1)],
    "Graph.build Index.build Index.build_in_parts ShardedIndex.build": [
        dtype("analyzer: expected an hr.Analyzer", "x", -1),
    ],
    "Graph.build Index.build Lexical ShardedIndex.build": [
        dtype("bm25: expected an hr.BM25", "x", -1),
    ],
    "Index.* BatchRecall Graph.build ShardedIndex.build ShardedIndex.open": [
        option("threads: expected an int in [1, 1024], or None", "x", -1),
    ],
    "Index.* Graph.* MemorySync.open held open_source promote pull push": [
        dtype("path: expected a path (str or os.PathLike)", -1, None),
    ],
    "Graph.* Index.open Index.save MemorySync.open": [option("path: expected a path", "")],
    "Index.* Graph.delete": [dtype("keys: expected a sequence of str keys", "x", -1)],
    "Graph.delete Index.delete": [
        option("keys: expected keys, a filter, or everything=True for the whole scope", None),
    ],
    "Graph.delete Graph.delete_incident Graph.distances Graph.neighbours Graph.topical "
    "Index.count Index.get [IS]*ndex.recall [IS]*ndex.recall_one": [
        scope("scope: expected a cell (str, int, bool or tuple) or hr.Scope", object, NAN),
        scope("scope: expected a str or None for user", -1, 3),
    ],
    "Graph.delete_incident Graph.flat_keys Graph.neighbours": [
        option("keys: expected keys that the index can hold", LONE),
    ],
    "Graph.delete_incident": [dtype("keys: expected str keys", [3])],
    "Graph.* SessionSignals": [option("hops: expected an int in [0, 16]", "x", -1)],
    "Graph.neighbours": [
        shape("text: expected 1 queries as keys has", ""),
        shape("exclude: expected 1 queries as keys has", ""),
        option("exclude: expected keys that the index can hold", LONE),
    ],
    "Graph.neighbours [IS]*ndex.recall_one": [option("text[0]: expected valid Unicode", LONE)],
    "Graph.topical": [
        shape("among: expected 1 queries, as in hot", ""),
        option("among: expected keys that the index can hold", LONE),
    ],
    "GraphSchema Schema": [
        option("key: expected a column name", -1, 3),
        option("key: expected valid Unicode", LONE),
        option("cell: expected a column name or a sequence of them", -1, 3),
        option("cell: expected a column name", [3], ""),
        option("attributes: expected a column name", [3], ""),
        option("stored: expected a column name", [3], ""),
    ],
    "GraphSchema": [
        option("participants: expected a list column, or a tuple of two columns", -1, 3),
        option("attributes: expected valid Unicode", LONE),
        option("stored: expected valid Unicode", LONE),
    ],
    "Hits.* Hit.arm_rank Hit.arm_score": [
        option("arm: expected an arm of ['text', 'embedding']", "x", -1),
    ],
    "*MemorySync.* Index.* Hits.* BatchRecall ShardedIndex.build ShardedIndex.open": [
        option("device: expected 'cpu', 'cuda:N' or 'auto'", "x", -1),
    ],
    "Index.*": [
        dtype("table: expected an Arrow table (pyarrow, polars, pandas, duckdb: anything", "x", -1),
        dtype("request: expected a Request", "x", -1),
        option("min_score: expected arms of ['text']", {"x": 1}),
        dtype("candidates: expected {arm: a list with one entry per query}", "x", -1),
        option("candidates: expected arms of [] (arms.Listed)", {"x": 1}),
        option("session: expected SessionSignals among the stages", "x", -1),
        option("graphs: expected graphs that are named ([])", {"x": 1}),
        option("recipe: expected an hr.Recipe, or one per query", []),
        option("group: expected 'thread', or None", "x", -1),
    ],
    "Index.* ShardedIndex.build": [
        dtype("schema: expected an hr.Schema", "x", -1),
        option("first_seq: expected an int in [0, 2^62)", "x", -1),
    ],
    "Index.add Index.build Index.upsert ShardedIndex.build": [
        option("vectors: expected a mapping {arm: array}", "x", [3]),
    ],
    "Index.add Index.build Index.upsert": [
        option("vectors: expected names of dense arms ('embedding')", {"x": 1}),
    ],
    "Index.* MemorySync.import_ MemorySync.reembed into_index into_store pull push": [
        dtype("progress: expected a callable (done, total), or None", "x", -1),
    ],
    "Index.build_in_parts": [
        dtype("batches: expected an Arrow stream, or an iterable of tables or record bat", "x", -1),
        option("batches: expected at least one batch", []),
        option("memory_limit: expected an int of at least 268435456 bytes", "x", -1),
        dtype("resume: expected True or False", "x", -1),
        dtype("join: expected True or False", "x", -1),
        option("total_rows: expected an int of at least 0", "x", -1),
        dtype("join_progress: expected a callable (done, total), or None", "x", -1),
    ],
    "Index.open ShardedIndex.open": [
        dtype("analyzer: expected an hr.Analyzer or {arm: hr.Analyzer}", "x", -1),
    ],
    "Index.open": [option("analyzer: expected arms of ['text']", {"x": 1})],
    "BatchRecall Index.open ShardedIndex.open": [
        option("memory: expected one of ('mmap', 'ram')", "x", -1),
        option("verify: expected one of ('full', 'structure')", "x", -1),
    ],
    "*.open BatchRecall": [
        option("pin: expected parts of ['plane', 'terms', 'documents', 'rows', 'vectors'", "x", -1),
    ],
    "Index.add": [option("first_seq: expected at least 6 (the next)", 3)],
    "Index.candidates": [dtype("statistics: expected a Statistics", "x", -1)],
    "MemorySync.* Index.* Browse.* AgentMemorySync.list": [
        option("filter: expected an hr.Filter, a pyarrow.compute.Expression or None", "x", -1),
    ],
    "Index.count Index.delete": [option("filter: expected one filter", [3])],
    "Index.delete MemorySync.forget": [dtype("everything: expected True or False", "x", -1)],
    "Index.* BatchRecall": [
        option("columns: expected a sequence of columns of ['id', 'user', 'kind', 'text'", "x", -1),
        option("offset: expected an int in [0, 2^31)", -1),
        option("depth: expected an int >= 1", "x", None),
        option("fusion: expected hr.RRF, hr.WeightedSum, hr.Max or hr.DBSF", "x", -1),
        dtype("min_score['text']: expected a finite number or hr.Above(number)", "x", [3]),
        option("min_fused: expected a fusion to act after (with one arm, min_score)", "x", -1),
        option("normalize: expected a bool", "x", -1),
        dtype("arms: expected Regex, Newest, Listed, EdgeLexical or Tags of hr.arms", "x", -1),
        dtype("recipe: expected an hr.Recipe, or a list of them", "x", -1),
    ],
    "[IS]*ndex.recall": [
        option("text: expected a list with one entry per query", "x", -1, 'tea', b'tea'),
        dtype("vectors: expected a NumPy, torch, DLPack or Arrow array", "x", -1),
        shape("vectors['embedding']: expected 1 queries as text['text'] has", ""),
        dtype("query_keys: expected a sequence of str or of int keys, one per query", "x", -1),
        shape("query_keys: expected 1 keys, one per query", []),
        option("text: expected text= or vectors=, or both", None),
        option("text['text']: expected a list with one entry per query", {'text': 'tea'}),
        dtype("text[1]: expected a str, hr.Phrase, hr.Prefix, hr.All, hr.Any or hr.Bo", ['tea', 5]),
        option("text: expected arms of ['text']", {'title': ['tea']}),
        option("vectors: expected arms of ['embedding']", {'near': ONE}, text=None),
        shape("vectors['embedding']: expected 2 queries as text['text'", ONE, text=['tea', 'milk']),
        scope("scope: expected a scope: a cell, hr.Scope([...]), or a list with one entry p", None),
        shape("scope: expected 1 entries, one per query", ['ana', 'bob'], []),
        scope("scope[0]: expected a cell (str, int, bool or tuple) or h", [None], [['ana', 'bob']]),
        scope("scope: expected a cell (str, int, bool or tuple) or hr.Scope", {'ana'}),
        scope("scope[1]: expected a str or None for user", ['ana', 7], text=['tea', 'tea']),
        option("filter: expected an hr.Filter, a pyarrow.compute.Expression or None", 'kind'),
        shape("filter: expected 1 entries, one per query", [None, None]),
        option("limit: expected an int in [0, 2^31)", -1, 2 ** 31),
        option("limit: expected an int >= 0", True, 1.0, '1', None),
        option("offset: expected an int in [0, 2^31)", -1),
        option("depth: expected an int in [1, 2^31)", 0),
        option("depth: expected an int >= 1", False),
        option("limit: expected <= 100 (depth)", 500, vectors=ONE),
        option("offset + limit: expected <= 100 (depth)", 91, vectors=ONE, limit=10),
        option("limit: expected <= 5 (depth)", 6, vectors=ONE, depth=5),
        option("fusion: expected hr.RRF, hr.WeightedSum, hr.Max or hr.DBSF", 'rrf', vectors=ONE),
        option("weights: expected arms of ['tex", hr.RRF({'title': 1.0}), of='fusion', vectors=ONE),
        option("weights: expected no weight for", hr.WeightedSum({'embedding': 1.0}), of='fusion'),
        option("min_score: expected arms", {'text': 1}, vectors=ONE, fusion=EMBEDDING),
        option("min_score: expected {arm: floor} for arms of ['text', 'embeddin", 0.5, vectors=ONE),
        option("min_score: expected arms of ['text']", {'embedding': 0.5}),
        option("min_score['text']: expected a finite number or hr.Above(number)", {'text': NAN}),
        dtype("min_score['text']: expected a finite number or hr.Above(number)", True),
        option("min_fused: expected a fusion to act after (with one arm, min_score)", 0.5),
        dtype("min_fused: expected a finite number or hr.Above(number)", 'x', vectors=ONE),
        option("bm25: expected None where no text arm runs", hr.BM25(), vectors=ONE, text=None),
        option("bm25: expected an hr.BM25 or {arm: hr.BM25}", 'okapi'),
        option("bm25: expected arms of ['text']", {'title': hr.BM25()}),
        option("normalize: expected a bool", 1, vectors=ONE),
        option("columns: expected a sequence of columns of ['id', 'use", 'text', ('text', 'price')),
        dtype("now: expected a datetime", 12.5),
    ],
    "BatchRecall [IS]*ndex.recall": [option("text: expected text= or vectors=, or both", None)],
    "[IS]*ndex.recall [IS]*ndex.recall_one": [
        shape("filter: expected 1 entries, one per query", []),
        option("bm25: expected arms of ['text']", {"x": 1}),
    ],
    "MemorySync.* Index.* Notes.* AgentMemorySync.list AgentMemorySync.list_facts "
    "AgentMemorySync.recall_facts AgentMemorySync.recall_scored BatchRecall run_setting": [
        option("limit: expected an int >= 0", NAN),
    ],
    "Index.* BatchRecall run_setting": [option("limit: expected an int in [0, 2^31)", -1)],
    "MemorySync.* Index.* AgentMemorySync.list AgentMemorySync.list_facts BatchRecall": [
        option("offset: expected an int >= 0", "x", None),
    ],
    "Index.* Recipe* BatchRecall EdgeLexical": [option("depth: expected an int in [1, 2^31)", -1)],
    "BatchRecall [IS]*ndex.recall [IS]*ndex.recall_one": [
        option("bm25: expected an hr.BM25 or {arm: hr.BM25}", "x", -1),
    ],
    "Index.* Recipe* BatchRecall Request": [
        option("shaping: expected a sequence of stages (Feedback, Around, Prior, Provena", "x", -1),
    ],
    "Index.* Recipe*": [dtype("expansion: expected hr.Context or hr.SharedTags", "x", -1)],
    "Index.* Recipe.bind": [dtype("graphs: expected {name: hr.Graph}", "x", -1)],
    "Index.* BatchRecall BatchRecall.at MemorySync.search Request Session.after": [
        dtype("now: expected a datetime", [3], object),
    ],
    "[IS]*ndex.recall_one": [
        dtype("text[0]: expected a str, hr.Phrase, hr.Prefix, hr.All, hr.Any or hr.Boost", -1, 3),
        option("text: expected text= or vectors=, or both", None),
        option("scope: expected one scope (several cells are hr.Scope([...]))", ['ana']),
        shape("vectors: expected 3 values in every query", None, of='text', vector=[1.0]),
    ],
    "Linear Provenance": [dtype("weights: expected a mapping of values", "x", -1)],
    "Linear": [option("weights: expected 1 to 64 features", "")],
    "MMR": [
        dtype("relevance_weight: expected a number in [0, 1]", "x", None),
        option("relevance_weight: expected a number in [0, 1]", -1, 3),
        option("relevance: expected one of ('max', 'minmax', 'raw')", "x", -1),
    ],
    "Max WeightedSum": [
        option("normalize: expected one of ('minmax', 'none', 'best', 'clip', 'unit') or", "x", -1),
    ],
    "Phase": [
        option("first: expected an int in [0, 2^31)", "x", -1),
        dtype("general: expected a number in [0, 1]", "x", None),
        option("general: expected a number in [0, 1]", -1, 3),
        dtype("topical: expected a number in [0, 1]", "x", None),
        option("topical: expected a number in [0, 1]", -1, 3),
        dtype("session: expected a number in [0, 1]", "x", None),
        option("session: expected a number in [0, 1]", -1, 3),
        dtype("name: expected a str", None, first=0, general=1, topical=0, session=0),
    ],
    "Phrase": [
        option("slop: expected an int in [0, 1000]", "x", -1),
        dtype("Phrase: expected a str", ['a'], of='text'),
        option("slop: expected an int in [0, 1000]", -1, 1001, True, 1.0, text='a b'),
    ],
    "Prior": [
        dtype("values: expected a mapping of values", "x", -1),
        option("values: expected 1 to 4096 values", ""),
    ],
    "Provenance": [
        dtype("default: expected a number in [0, 1e6]", "x", None),
        option("default: expected a number in [0, 1e6]", -1, NAN),
        dtype("weights: expected a mapping of values", 'xy', column='a'),
    ],
    "Matches.explain_dropped QueryHits.explain_dropped": [
        option("most: expected an int >= 0", "x", -1),
    ],
    "MemorySync.* AgentMemorySync.recall_scored RRF VectorStore.search_hybrid": [
        dtype("alpha: expected a number in [0, 1]", "x", [3]),
        option("alpha: expected a number in [0, 1]", -1, 3),
    ],
    "RRF": [
        option("alpha_mode: expected 'weights', or with alpha= 'votes'", "x", -1),
        option("weights: expected a mapping {arm: weight}", ['text'], {}),
        option("weights['v']: expected a number in [0, 1e6]", {'v': -1}, {'v': INF}),
        option("rank_constant: expected a number in [0, 1e6]", -1),
        option("alpha: expected a number in [0, 1]", 1.01),
        option("alpha: expected weights or alpha, not both", 0.5, weights={'v': 1}),
    ],
    "Recency SessionSignals": [
        option("half_life: expected a duration above 0: seconds, a timedelta, or a numbe", "x", -1),
        dtype("half_life: expected a duration above 0: seconds, a timedelta, or a numb", None, [3]),
    ],
    "Recency": [
        dtype("by: expected the name of a column", -1, 3),
        option("by: expected by= and half_lives= together", "x", LONE),
        dtype("half_lives: expected a mapping of values", "x", -1),
        dtype("exponent: expected a number in [0, 100]", "x", None),
        option("exponent: expected a number in [0, 100]", -1, NAN),
        dtype("by: expected the name of a column", 3, column='a', half_lives={'x': 1}),
    ],
    "Recipe.bind": [
        option("graphs: expected {'graph': hr.Graph}, which EdgeLexical names", None, {"x": 1}),
    ],
    "Recipe*": [
        dtype("arms: expected a tuple of Lexical and Dense", "x", -1),
        dtype("fusion: expected a fusion", "x", -1),
        dtype("normalize: expected a bool", "x", -1),
        dtype("min_fused: expected a finite number or hr.Above(number)", "x", [3]),
        option("min_fused: expected a finite number or hr.Above(number)", NAN),
        dtype("analyzer: expected a str", -1, 3),
        dtype("tables: expected a Tables, or None", "x", -1),
        dtype("exact: expected a bool", -1, 3),
        option("exact: expected True, False or 'words'", "x", LONE),
    ],
    "Recipe": [option("arms: expected at least one arm in arms or more", "")],
    "RerankBy": [
        dtype("function: expected a callable", "x", -1),
        option("timeout: expected a duration above 0: seconds, a timedelta, or a number", "x", -1),
        dtype("timeout: expected a duration above 0: seconds, a timedelta, or a number", None, [3]),
    ],
    "Schema": [
        option("text: expected column names, hr.Text or a mapping of arms", -1, 3),
        option("text: expected an arm name", ""),
        option("vector: expected column names, hr.Vector or a mapping of arms", -1, 3),
        option("vector: expected an arm name", ""),
        option("attributes: expected a column name or a sequence of them", -1, 3),
        option("cluster: expected a column name", -1, 3),
        option("cluster: expected valid Unicode", LONE),
        option("stored: expected a column name or a sequence of them", -1, 3),
        option("thread: expected a column name", -1, 3),
        option("thread: expected valid Unicode", LONE),
        option("place: expected thread= beside it", "x", -1),
        option("speaker: expected a column name", -1, 3),
        option("speaker: expected valid Unicode", LONE),
    ],
    "Session.after": [dtype("keys: expected a sequence of keys", "x", -1)],
    "Session": [
        dtype("accessed: expected a mapping of key to datetime", "x", -1, ['a']),
        dtype("accessed['x']: expected a datetime", {"x": 1}),
        option("n_recalls: expected an int >= 0", "x", -1),
        dtype("accessed: expected keys that are all str or all in", {'a': NOW, 1: NOW}, {1.5: NOW}),
    ],
    "SessionSignals": [
        option("graph: expected a graph, or phases with topical=0", None),
        option("n_hot: expected an int in [0, 2^31)", "x", -1),
        dtype("min_hot: expected a number in [0, 1]", "x", None),
        option("min_hot: expected a number in [0, 1]", -1, 3),
        dtype("phases: expected a sequence of Phase", "x", -1),
        option("phases: expected phases with increasing first, from 0", ""),
    ],
    "SharedTags": [
        option("hops: expected an int in [0, 1]", "x", -1),
        option("hops: expected an int in [0, 1]", 2, column='tags'),
        option("n: expected an int in [1, 1000]", 1001, column='tags'),
    ],
    "Text": [
        option("columns: expected a column name", -1, 3),
        option("columns: expected valid Unicode", LONE),
    ],
    "Vector": [
        option("column: expected a column name", -1, 3),
        option("column: expected valid Unicode", LONE),
        option("dtype: expected one of 'float32', 'float16', 'bfloat16', or None", "x", -1),
    ],
    "WeightedSum": [
        dtype("balance: expected a number in [0, 2]", "x", [3]),
        option("balance: expected a number in [0, 2]", -1, 3),
        option("normalize: expected one of ('minmax', 'none', 'best', 'clip', 'unit') or {a", 'l2'),
    ],
    "Regex": [
        dtype("columns: expected column names and arms.Edges", -1, 3),
        option("columns: expected at least one column", []),
        option("ignore_case: expected a bool", "x", -1),
        option("on_bad: expected 'error' or 'literal'", "x", -1),
        option("pattern: expected a pattern that is not blank", -1, 3),
        option("only_patterns: expected a bool", "x", -1),
    ],
    "Tags": [
        option("depth: expected an int in [0, 5]", "x", -1),
        option("partial: expected a bool", "x", -1),
        option("analyzer: expected one of ('unicode', 'word', 'unicode61', 'porter')", "x", -1),
    ],
    "related": [option("column: expected an attribute column of ['kind']", "x", -1)],
    "Dense Lexical": [
        dtype("arms: expected a tuple of names", "x", -1),
        dtype("min_score: expected a finite number or hr.Above(number)", "x", [3]),
        option("min_score: expected a finite number or hr.Above(number)", NAN),
        option("scale: expected one of ('minmax', 'none', 'best', 'clip', 'unit')", "x", -1),
    ],
    "Fill": [
        option("when: expected one of ('one_arm', 'no_match', 'always')", "x", -1),
        dtype("column: expected the name of a column", None),
    ],
    "Lexical": [
        option("mode: expected one of ('any', 'all', 'and_prefix')", "x", -1),
        dtype("phrases: expected a bool", "x", -1, 'no'),
        option("max_terms: expected an int in [1, 2^31)", "x", -1),
        dtype("stopwords: expected a tuple of words", "x", -1, 'the', (1,), 3),
        dtype("arms: expected a tuple of names", 5),
    ],
    "Tables": [
        dtype("names: expected a tuple of names", "x", -1),
        option("names: expected one or more distinct names other than 'other'", []),
        dtype("column: expected the name of a column", 3, names=('a',)),
        dtype("names: expected a tuple of names", 'ab', column='t'),
        option("names: expected one or more distinct names other", (), ('a', 'other'), column='t'),
    ],
    "TieBreak": [
        dtype("descending: expected a bool", "x", -1),
        dtype("column: expected the name of a column", 3),
        dtype("descending: expected a bool", 'no', column='a'),
        dtype("prefer: expected a tuple of values", 'xy', column='a'),
    ],
    "WithThreads": [
        dtype("around: expected an hr.Around", "x", -1),
        dtype("bm25: expected an hr.BM25, or None", "x", -1),
    ],
    "*MemorySync.end_fact MemorySync.pin MemorySync.supersede MemorySync.update": [
        absent("id: expected a memory that is there", "x"),
    ],
    "*MemorySync.*": [
        dtype("at: expected a datetime", "x", -1),
        dtype("used: expected a sequence of ids", "x", -1),
        dtype("used[0]: expected a str", [3]),
        option("subject: expected 1 to 512 bytes, not blank, without NUL", ""),
        option("predicate: expected 1 to 512 bytes, not blank, without NUL", ""),
        option("object: expected 1 to 512 bytes, not blank, without NUL", ""),
        dtype("analyzer: expected an hr.Analyzer or the name of a preset", -1, 3),
        dtype("clock: expected a function that returns a datetime", "x", -1),
        dtype("agent: expected a str", -1, 3),
        dtype("episode: expected an Episode or a str", -1, 3),
    ],
    "AgentMemorySync.* MemorySync.end_fact MemorySync.supersede MemorySync.unlink "
    "MemorySync.update": [
        dtype("reason: expected a str", -1, 3),
        option("reason: expected 1 to 512 bytes, not blank, without NUL", ""),
    ],
    "MemorySync.* AgentMemorySync.feedback AgentMemorySync.recall_facts "
    "AgentMemorySync.recall_scored VectorStore.search_hybrid default_recall_scored "
    "hm_recall": [
        dtype("query: expected a str", -1, 3),
    ],
    "*MemorySync.feedback": [
        option("query: expected 1 to 65,536 bytes, not blank, without NUL", ""),
    ],
    "MemorySync.*o* AgentMemorySync.forget AgentMemorySync.history AgentMemorySync.update "
    "*MemorySync.get MemorySync.link *MemorySync.links MemorySync.remember "
    "MemorySync.unlink": [
        option("id: expected 1 to 512 bytes, not blank, without NUL", ""),
    ],
    "AgentMemorySync.* MemorySync.get MemorySync.link MemorySync.remember": [
        option("visibility: expected 'private' or 'global'", "x", -1),
    ],
    "AgentMemorySync.update *MemorySync.list MemorySync.recall *MemorySync.recall_scored "
    "MemorySync.remember MemorySync.search": [
        option("kind: expected 1 to 512 bytes, not blank, without NUL", ""),
    ],
    "*MemorySync.list MemorySync.search": [
        dtype("tags: expected a sequence of str", "x", -1),
        dtype("tags: expected a str", [3]),
    ],
    "*MemorySync.list MemorySync.pin": [dtype("pinned: expected True or False", "x", -1)],
    "Browse.* *MemorySync.list MemorySync.search": [
        dtype("metadata: expected a mapping of key to value", "x", -1),
    ],
    "MemorySync.recall *MemorySync.recall_facts *MemorySync.recall_scored MemorySync.search "
    "Notes.search VectorStore.search_hybrid default_recall_scored": [
        option("query: expected valid Unicode", LONE),
    ],
    "MemorySync.* AgentMemorySync.recall_scored": [
        dtype("time_range: expected (first, last)", "x", -1),
        dtype("normalize: expected True or False", "x", -1),
    ],
    "AgentMemorySync.update MemorySync.link *MemorySync.remember": [
        option("visibility: expected a valid string, unable to parse raw data as a unicode", LONE),
    ],
    "AgentMemorySync.update *MemorySync.remember MemorySync.remember_batch "
    "MemorySync.remember_fact MemorySync.search MemorySync.supersede": [
        dtype("embed_timeout: expected seconds in [0, 3600]", "x", [3]),
        option("embed_timeout: expected seconds in [0, 3600]", -1, NAN),
    ],
    "AgentMemorySync.update MemorySync.remember": [
        dtype("input: expected a valid string", -1, 3),
        option("input: expected valid Unicode", LONE),
        option("source: expected 1 to 512 bytes, not blank, without NUL", ""),
        dtype("occurred_at: expected a valid datetime", None, [3]),
        option("occurred_at: expected a valid datetime or date, input is too short", "x", ""),
        dtype("created_at: expected a valid datetime", None, [3]),
        option("created_at: expected a valid datetime or date, input is too short", "x", ""),
        dtype("importance: expected a valid number", [3], object),
        option("importance: expected a valid number, unable to parse string as a number", "x", ""),
        dtype("pinned: expected a valid boolean", None, [3]),
        option("pinned: expected a valid boolean, unable to interpret input", "x", -1),
        dtype("metadata: expected a valid dictionary", "x", -1),
    ],
    "AgentMemorySync.update MemorySync.forget MemorySync.remember MemorySync.search "
    "hm_recall": [
        option("session_id: expected 1 to 512 bytes, not blank, without NUL", ""),
    ],
    "AgentMemorySync.update MemorySync.remember Notes.save": [
        dtype("tags: expected a list of strings", "x", -1),
        dtype("tags[0]: expected a valid string", [3]),
    ],
    "AgentMemorySync.update": [
        dtype("output: expected a valid string", -1, 3),
        option("output: expected valid Unicode", LONE),
    ],
    "Browse.append Browse.cat Browse.classify Browse.find Browse.grep Browse.ls Browse.mv "
    "Browse.rm Browse.write": [
        dtype("path: expected a str", -1, 3),
    ],
    "Browse.append Browse.classify Browse.find Browse.grep Browse.ls Browse.mv Browse.rm "
    "Browse.write": [
        option("path: expected valid Unicode", LONE),
    ],
    "Browse.cat": [option("path: expected a file", "")],
    "Browse.*": [
        dtype("pattern: expected a str", -1, 3),
        option("pattern: expected 1 to 512 characters", ""),
        option("limit: expected an int in [0, 2147483647]", "x", -1),
    ],
    "MemorySync.*": [dtype("recipe: expected an hr.Recipe", "x", -1)],
    "*MemorySync.* EmbedBy": [
        dtype('embedder: expected an embedder, "static", "minilm", "off", a URL or None', -1, [3]),
        option('embedder: expected "static", "minilm", "off" or the URL of an endpoint', "x", LONE),
    ],
    "*MemorySync.* HashEmbedder": [option("dim: expected an int from 1 to 65536", "x", -1)],
    "MemorySync.open": [
        dtype("read_only: expected True or False", "x", -1),
        dtype("shared: expected True or False", "x", -1),
        dtype("wait: expected seconds in [0, 86400]", "x", None),
        option("wait: expected seconds in [0, 86400]", -1, NAN),
        dtype("owner_timeout: expected seconds in [0, 86400]", "x", None),
        option("owner_timeout: expected seconds in [0, 86400]", -1, NAN),
        option("snapshot_every: expected an int >= 1", "x", -1),
    ],
    "MemorySync.agent": [
        option("agent: expected valid Unicode", LONE),
        scope("org: expected a name: an agent has an org and a workspace", -1, 3),
        scope("workspace: expected a name: an agent has an org and a workspace", -1, 3),
    ],
    "*MemorySync.* ahm_recall hm_recall into_store": [
        option("org: expected valid Unicode", LONE),
        option("workspace: expected valid Unicode", LONE),
    ],
    "*MemorySync.* ahm_recall hm_recall": [option("user_id: expected valid Unicode", LONE)],
    "MemorySync.doctor": [dtype("full: expected True or False", "x", -1)],
    "MemorySync.export": [
        dtype("file: expected a path, or a text file to write to", -1, 3),
        dtype("history: expected True or False", "x", -1),
    ],
    "MemorySync.forget": [dtype("before: expected a datetime", "x", -1)],
    "MemorySync.*o*": [option("agent: expected 1 to 512 bytes, not blank, without NUL", "")],
    "MemorySync.import_": [
        dtype("file: expected a path, or a text file or its lines", -1, 3),
        option("file: expected lines of an export", {"x": 1}),
        option("source: expected 'hyrecall' or 'l0'", "x", -1),
    ],
    "MemorySync.link": [
        dtype("nodes: expected a sequence of ids or Participants", "x", -1),
        dtype("nodes[0]: expected a str", [3]),
        option("relationship: expected 1 to 512 bytes, not blank, without NUL", ""),
        dtype("description: expected a valid string", -1, 3),
        option("description: expected valid Unicode", LONE),
    ],
    "MemorySync.reembed": [dtype("force: expected True or False", "x", -1)],
    "MemorySync.remember_batch": [
        dtype("episodes: expected Episodes", "x", -1),
        dtype("vectors: expected rows of numbers", "x", object),
        shape("vectors: expected shape (1, 4)", -1, 3),
    ],
    "MemorySync.remember_fact": [dtype("fact: expected a Fact", "x", -1)],
    "*MemorySync.search": [
        option("partitions: expected none beside user_id=, org= or workspace=", "x", -1),
        dtype("reranker: expected function(query, texts) -> scores", "x", -1),
        dtype("diversity: expected a number in [0, 1]", "x", [3]),
        option("diversity: expected a number in [0, 1]", -1, 3),
        dtype('min_score: expected a finite number, hr.Above(number), or {"bm25": numbe', "x", [3]),
        option('min_score: expected "bm25" or "cosine"', {"x": 1}),
        dtype("weights: expected a mapping of recency, importance, relevance to numbers", "x", -1),
        option("weights: expected recency, importance, relevance", {"x": 1}),
        dtype("token_budget: expected an int", "x", [3]),
        dtype("candidates: expected ids, or a mapping of ids to scores", "x", -1),
        dtype("candidates: expected a str", [3]),
        option("around: expected an int in [0, 100]", "x", -1),
        dtype("touch: expected True or False", "x", -1),
        dtype("include_ended: expected True or False", "x", -1),
    ],
    "MemorySync.search VectorStore.search_hybrid": [
        dtype("vector: expected a row of numbers", "x", object),
        option("vector: expected one row of numbers", -1, 3),
    ],
    "MemorySync.set_policy": [
        option("policy: expected 'isolated' | 'shared' | 'group'", "x", -1),
        dtype("policy_group: expected a str", -1, 3),
        option("policy_group: expected 1 to 512 bytes, not blank, without NUL", ""),
    ],
    "Notes.delete": [
        dtype("key: expected a str", -1, 3),
        option("key: expected 1 to 512 bytes, not blank, without NUL", ""),
    ],
    "Notes.*": [dtype("scope: expected a str", -1, 3)],
    "Notes.delete Notes.get Notes.save Notes.supersede": [
        option("scope: expected 1 to 512 bytes, not blank, without NUL", ""),
    ],
    "Notes.list Notes.search": [option("scope: expected valid Unicode", LONE)],
    "Notes": [
        option("scopes: expected a sequence of scopes, or EVERYONE", "x", -1),
        dtype("scopes: expected a str", [3]),
    ],
    "Participant": [dtype("role: expected a str", -1, 3)],
    "HashEmbedder.embed VectorStore.add": [dtype("texts: expected a sequence of str", "x", LONE)],
    "VectorStore.add": [
        shape("metadatas: expected 1, one per text", ""),
        shape("ids: expected 1, one per text", ""),
    ],
    "VectorStore.search_hybrid": [
        option("k: expected an int >= 0", "x", None),
        dtype("filter: expected a mapping of metadata", "x", -1),
    ],
    "hm_recall": [option("query: expected words (hypergraph)", "")],
    "EmbedBy": [
        dtype("columns: expected names of columns", -1, None),
        dtype("timeout: expected seconds in (0, 3600]", "x", None),
        option("timeout: expected seconds in (0, 3600]", -1, NAN),
    ],
    "Guard.for_many": [option("failures: expected an int of at least 1", "x", -1)],
    "Guard": [dtype("embedder: expected an object with model, dim and embed(texts)", "x", -1)],
    "HttpEmbedder": [
        dtype("url: expected a URL (str)", -1, None),
        option("url: expected the URL of an endpoint, like https://host/v1", "x"),
        dtype("model: expected a str", -1, None),
        dtype("key: expected a str, or None", -1, [3]),
        option("key: expected printable ASCII without a space", LONE),
        dtype("timeout: expected seconds from 0.001 to 3600", "x", None),
        option("timeout: expected seconds from 0.001 to 3600", -1, NAN),
        option("batch: expected an int of at least 1", "x", -1),
        option("retries: expected an int of at least 0", "x", -1),
        option("max_bytes: expected an int of at least 1", "x", -1),
    ],
    "from_async": [
        dtype("function: expected an async function", "x", -1),
        option("model: expected a name", -1, None),
    ],
    "Setting": [option("arms: expected some of ('text', 'vectors')", "x", None)],
    "score_run": [option("measures: expected nDCG@k, R@k, Success@k, RR@k, AP or P@k", "x", LONE)],
    "weight_grid": [option("weights['text']: expected a number in [0, 1e6]", [3])],
    "held open_source promote pull push": [option("path: expected a path of valid Unicode", LONE)],
    "prune pull push": [
        dtype("url: expected a URL (str) or a store of obstore", -1, None),
        option("url: expected a URL such as file:///srv/notes or s3://bucket/notes", "x", LONE),
    ],
    "prune": [
        option("keep: expected an int >= 1", "x", -1),
        dtype("older_than: expected a timedelta", "x", -1),
    ],
    "into_index into_store": [
        dtype("source: expected a Source, from open_source() in a with block", "x", -1),
        dtype("user: expected a str", -1, [3]),
        option("user: expected valid Unicode", LONE),
    ],
    "into_store": [
        dtype("memory: expected a MemorySync", "x", -1),
        dtype("time_from: expected a str", -1, [3]),
        option("time_from: expected valid Unicode", LONE),
        dtype("vector_model: expected a str", -1, [3]),
        option("vector_model: expected valid Unicode", LONE),
    ],
    "open_source": [
        option("system: expected one of chroma, lancedb, qdrant, mem0, langchain", "x", -1),
        option("collection: expected none for mem0", "x", -1),
        option("id_field: expected none for mem0", "x", -1),
        option("text_field: expected none for mem0", "x", -1),
        option("vector_field: expected none for mem0", "x", -1),
    ],
    "BatchRecall": [
        option("index: expected a sequence of at least one path, or a path", -1, None),
        option("key: expected the name of a column", -1, None),
        option("text: expected a column, or a column for each arm", -1, [3]),
        option("vectors: expected a column, or a column for each arm", -1, [3]),
        option("scope: expected a column, several, or a Scope", -1, object),
        scope("scope: expected a column for each of (user), or a Scope", None),
        option("equals: expected a column, or a column for each arm", -1, [3]),
        option("on_error: expected one of ('raise', 'column')", "x", -1),
        shape("filter: expected 0 entries, one per query", [3]),
        dtype("filter: expected plain data that another process can read (no function, no", object),
        dtype("fusion: expected plain data that another process can read (no function, no", object),
        dtype("min_score: expected plain data that another process can read (no function,", object),
        dtype("min_fused: expected plain data that another process can read (no function,", object),
        dtype("bm25: expected plain data that another process can read (no function, no g", object),
        dtype("normalize: expected plain data that another process can read (no function,", object),
        dtype("arms: expected plain data that another process can read (no function, no g", object),
        dtype("shaping: expected plain data that another process can read (no function, n", object),
        dtype("recipe[0]: expected an hr.Recipe", [3]),
        dtype("columns: expected plain data that another process can read (no function, n", object),
    ],
    "Part.from_bytes Request.from_bytes Statistics.from_bytes": [
        dtype("data: expected bytes", "x", -1),
    ],
    "Placement.from_dict": [option("data: expected the data of a placement", "x", -1)],
    "Placement.encode Placement.shards_of": [
        scope("cell: expected a str or None for user", -1, [3]),
    ],
    "Placement": [option("slots: expected 4096 numbers of shards", "x", -1)],
    "ShardedIndex.build": [
        option("tables: expected a sequence of tables, one per shard", -1, None),
    ],
    "ShardedIndex.open": [
        option("paths: expected a sequence of at least one path, or a path", -1, None),
        option("replicas: expected an int in [1, 64]", "x", -1),
        dtype("timeout: expected seconds above 0 and up to 1000000, or None", "x", [3]),
        option("timeout: expected seconds above 0 and up to 1000000, or None", -1, NAN),
        dtype("hedge: expected seconds from 0 to 1000000, or None", "x", [3]),
        option("hedge: expected seconds from 0 to 1000000, or None", -1, NAN),
    ],
    "Statistics.sum": [option("parts: expected the statistics of at least one shard", None)],
    "Index.build": [
        option("device: expected 'cpu', 'cuda:N' or 'auto'", 'gpu', 0),
        option("threads: expected an int in [1, 1024], or None", 0, True),
        option("first_seq: expected an int in [0, 2^62)", -1),
        dtype("analyzer: expected an hr.Analyzer", 'word'),
        dtype("bm25: expected an hr.BM25", 'okapi'),
    ],
    "Index.delete": [
        dtype("keys: expected a sequence of str keys", 'k1', b'k1', ['k1', 1], [b'k1']),
        option("keys: expected keys, a filter, or everything=True for the whole scope", None),
        conflict("keys: expected no null key", ['k1', None]),
        shape("scope: expected 1 entries, one per key", ['ana', 'bob'], keys=['k1']),
        scope("scope: expected a scope: a cell, hr.Scope([...]), or a list wit", None, keys=['k1']),
        option("keys: expected keys, a filter, or everything=True for the whol", None, filter=None),
        option("filter: expected at least one condition, or everything", hr.Filter() & hr.Filter()),
        option("everything: expected False with keys or a filter", True, keys=['k0']),
        option("everything: expected False with keys or a filter", True, filter=KIND_0),
        dtype("everything: expected True or False", 1),
        option("scope: expected one scope (several cells are hr.Scope([", ['ana'], everything=True),
        option("colour: expected an attribute column (kind)", hr.Filter(colour='red'), of='filter'),
    ],
    "Index.get": [
        dtype("keys: expected a sequence of str keys", 'k0'),
        shape("scope: expected 1 entries, one per key", ['ana', 'bob'], keys=['k0']),
        option("columns: expected a sequence of columns of ['id', 'user', 'k", 'text', keys=['k0']),
    ],
    "Index.count": [
        option("scope: expected one scope (several cells are hr.Scop", ['ana'], pd.Series(['ana'])),
        option("filter: expected one filter", [KIND_0]),
    ],
    "Max": [dtype("complete: expected a bool", 1)],
    "DBSF": [
        dtype("complete: expected a bool", 1),
        option("weights['v']: expected a number in [0, 1e6]", {'v': -1}),
    ],
    "Above": [
        option("Above: expected a finite number", INF, of='value'),
        dtype("Above: expected a finite number", None, of='value'),
    ],
    "Prefix": [dtype("Prefix: expected a str", None, of='text')],
    "Dense": [
        dtype("min_score: expected a finite number or hr.Above(number)", 'x'),
        option("min_score: expected a finite number or hr.Above(number)", NAN),
    ],
    "Recipe.replace": [
        dtype("tables: expected a Tables, or None", ('a',)),
        dtype("name: expected a str", None),
        dtype("normalize: expected a bool", 'no'),
        dtype("fill: expected a Fill, or None", 'at'),
        dtype("analyzer: expected a str", 5),
        dtype("tie_break: expected a tuple of TieBreak", 'id', ('id',)),
        dtype("arms: expected a tuple of Lexical and Dense", 5),
        dtype("more: expected a tuple of Regex, EdgeLexical, Tags, Newest and Listed", 'regex'),
        dtype("min_fused: expected a finite number or hr.Above(number)", 'x'),
        option("scale: expected 'minmax'", SCALES, of='arms', fusion=BALANCED),
    ],
    "Recipe.from_json": [dtype("recipe: expected JSON as a str", None, of='text')],
    "Index.recall Index.recall_one": [
        option("surrounding: expected an int in [0, 100]", -1, 101, 1.5, "2", True, None),
        option("surrounding: expected a schema with thread=", 3),
    ],
    "ShardedIndex.recall ShardedIndex.recall_one": [
        option("surrounding: expected 0 in a recall over shards", 3),
    ],
}  # fmt: skip
EXCEPTIONS: dict[str, str] = {  # reason: callables, each with its arguments or with all
    "a value that the package makes: it keeps what it is given": (
        "Agent; Check; Comparison; DatasetHits; Degradation; Dropped; DroppedRow; EpisodeMatch; "
        "Explanation; Facts; FoundDocument; Held; Learnt; LeftOut; MatchParts; Matches; Migrated; "
        "NearRow; Neighbour; NoVectors; Note; NoteHit; NoteHits; Off; Part; Pruned; Pulled; "
        "Pushed; QueryFeedback; ReadPolicyFault; Reading; Record; Related; Remembered; Run; "
        "Scores; ShardEntry; Shards; Source; StageDrops; StageTrace; Statistics; Study; "
        "ThreadRow; Token; Trace; Tuned; Version"
    ),
    "made and called by the package alone": (
        "AgentMemory; AgentMemorySync; Browse; Degradation.of_damage; Degradation.of_fault; "
        "EmbedError.of; EmbedError.of_reply; Graph.edge_scope; Graph.participants; Hits.cached; "
        "Hits.only; Hits.part_of; Matches.with_reasons; Memory; MemorySync; Request.of_queries; "
        "Request.read; StageTrace.plus; warn_if_degraded"
    ),
    "a protocol, or a call that another store answers": (
        "AutoExtract*; Embedder.embed; Lazy*; RecallOnly*; SessionTracker.*"
    ),
    "needs a server or an extra; the tests of that module refuse": (
        "Chroma*; CrossEncoder*; HttpEmbedder.embed; HttpEmbedder.embed_within; IndexReplica*; "
        "MiniLM*; Postgres*; Redis*; ShardedIndex.on_ray; StaticEmbedder.embed; create_server; "
        "http_app; recall_app; run; run_stdio"
    ),
    "not tried by a row yet": (
        "AgentMemory.remember text input kind source session_id occurred_at created_at importance "
        "pinned tags metadata id; AgentMemory.search query kind limit offset time_range tags "
        "filter metadata alpha recipe vector session_id normalize embed_timeout now; "
        "AgentMemory.update valid_to; AgentMemorySync.remember text input kind source session_id "
        "occurred_at created_at importance pinned tags metadata id; AgentMemorySync.search query "
        "kind limit offset time_range tags filter metadata alpha recipe vector session_id "
        "normalize embed_timeout now; AgentMemorySync.update valid_to; All; AllOf; Analyzer name; "
        "Analyzer.explain text; Analyzer.from_callable name; Any; BatchRecall.for_cpus; "
        "BatchRecall.map; BatchRecall.schema_of; Between; Boost query; Browse.append text; "
        "Browse.cp; Browse.grep regex; Browse.mv to; Browse.write text; Caller; Composite "
        "half_life rating recency importance relevance scale default; Context graph; Dataset; "
        "Dataset.split; Document; DocumentIndex; DocumentIndex.cell; DocumentIndex.count; "
        "DocumentIndex.delete; DocumentIndex.find; DocumentIndex.get; DocumentIndex.open; "
        "DocumentIndex.recall; DocumentIndex.save; DocumentIndex.update; DocumentIndex.value; "
        "DocumentIndex.write; Dropped.first; Edge visibility participants description metadata; "
        "EdgeLexical graph name; Edges; Episode visibility input output occurred_at created_at "
        "stored_at importance pinned tags metadata; Fact visibility valid_from valid_to single "
        "metadata; Fact.is_valid_at; Filter; Graph.flat_keys argument; Graph.open schema "
        "analyzer; Graph.save overwrite; GraphSchema text; GraphSchema.with_participants kind; "
        "Guard dim workers breaker usual closes clock; Guard.embed; Guard.embed_each; "
        "Guard.learn_from; Guard.wait_until_loaded; Hit.evidence; Hits.column; Hits.plot; "
        "HttpEmbedder context; InProcessSessions; InProcessSessions.record; "
        "InProcessSessions.session; Index.arecall_one vector; Index.build_in_parts bm25; "
        "Index.recall_one vector; Index.reload; Index.save overwrite; Indexes; Indexes.get; "
        "Listed; Matches.explain; Max.scale_of; Memory.forget reason erase; Memory.in_memory "
        "threads; Memory.link data; Memory.open accept_loss threads progress; Memory.remember "
        "vector; Memory.remember_batch progress; Memory.update embed_timeout input kind source "
        "session_id occurred_at created_at importance pinned tags metadata output valid_to "
        "visibility; Memory.wait_until_ready; MemorySync.forget reason erase; "
        "MemorySync.in_memory threads; MemorySync.link data; MemorySync.open accept_loss threads "
        "progress; MemorySync.remember vector; MemorySync.remember_batch progress; "
        "MemorySync.update embed_timeout input kind source session_id occurred_at created_at "
        "importance pinned tags metadata output valid_to visibility; MemorySync.wait_until_ready; "
        "Newest; NoneOf; Notes memory; Notes.delete reason; Notes.expand; Notes.get key; "
        "Notes.save key value; Notes.supersede key new_key value reason; Part.from_bytes facts; "
        "Partition; Placement columns split; Placement.shards_of_bytes; Recipe name; Regex name; "
        "Request text vectors scope filter limit offset depth fusion min_score min_fused bm25 "
        "normalize arms candidates session recipe group columns query_keys; Schema.from_dict; "
        "Scope; Scope.matching; ServiceOptions; SessionSignals.phase_of; Setting name options "
        "analyzer attributes thread place; Setting.but; ShardedIndex; ShardedIndex.arecall arms "
        "candidates shaping session expansion graphs recipe group; ShardedIndex.arecall_one "
        "vector limit offset depth fusion min_score min_fused normalize arms candidates shaping "
        "session expansion graphs recipe group columns now; ShardedIndex.open processes; "
        "ShardedIndex.recall arms candidates shaping session expansion graphs recipe group; "
        "ShardedIndex.recall_one vector limit offset depth fusion min_score min_fused normalize "
        "arms candidates shaping session expansion graphs recipe group columns now; "
        "Shards.from_bytes; Shards.read; Study.best; Tags column name; Text analyzer bm25; "
        "TokenFunction name; Trace.of_query; VectorStore; VectorStore.add vectors; "
        "WeightedSum.scale_of; ablate; ahm_recall memory query session_id agent; alpha_grid "
        "alphas base; bootstrap_interval; build_shards; check; check_vectors; choose_embedder; "
        "compare; create_app; default_recall_scored memory score options; depth_grid; "
        "difference_table; embed_dataset; fit_weights; follow; from_async dim; grid; hm_recall "
        "memory agent; into_index folder user_from attributes; into_store user_from; is_pattern; "
        "learn; learn_from_feedback; learnt_text; learnt_to_dict; load_dataset; merge; "
        "plot_study; pull discard_changes; push overwrite; randomisation_p; rank_constant_grid; "
        "read_baseline; read_measure; read_setting; rebalance; recall_dataset; related hits n "
        "columns; run_setting indexes dataset setting; score_run run judgements classes name; "
        "score_setting; setting_code; student_p; study_text; study_to_dict; tune; tuned_text; "
        "tuned_to_dict; weight_grid kind base; with_each; without_each; write_baseline"
    ),
}
