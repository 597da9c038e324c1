"""Texts, queries and engines of a lexical benchmark, and the check of their answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pytest_benchmark.fixture import BenchmarkFixture

from bench import THREADS, corpus, ours, reference, rivals_lexical, rivals_lucene, rivals_pisa
from bench.targets import ONE_THREAD
from bench.turns import OURS, Turns

Run = Callable[[], ours.Reply]


@dataclass
class LexicalCase:
    """Texts, queries, the reference over them, and the engines asked so far."""

    texts: corpus.Texts
    words: list[list[int]]
    bm25: reference.Bm25
    engines: dict[tuple[str, int], Any] = field(default_factory=dict)  # made when first asked

    def engine(self, who: str, threads: int) -> Any:
        """Return our index, or a rival's (one for any number of threads)."""
        at = (who, threads if who == OURS else THREADS)
        if at not in self.engines:
            self.engines[at] = self._made(who, at[1])
        return self.engines[at]

    def _made(self, who: str, threads: int) -> Any:
        match who:
            case "bm25s":
                return rivals_lexical.bm25s_index(self.texts)
            case "tantivy":
                return rivals_lexical.tantivy_index(self.texts.strings.to_pylist(), threads)
            case "PISA":
                return rivals_pisa.PisaIndex(self.texts.strings.to_pylist())
            case "Lucene":
                return rivals_lucene.LuceneIndex(self.texts.strings.to_pylist())
            case _:
                return ours.build(self.texts.n_docs, texts=self.texts.strings, threads=threads)

    @property
    def queries(self) -> list[str]:
        """The queries as strings."""
        return [corpus.spell(query) for query in self.words]

    def runner(self, who: str, threads: int, k: int) -> Run:
        """Return what answers all queries in one call."""
        queries = self.queries
        if who in (OURS, ONE_THREAD):
            index = self.engine(OURS, threads if who == OURS else 1)
            return lambda: ours.arrays(index.recall(text=queries, limit=k, depth=k), k)
        engine = self.engine(who, threads)
        match who:
            case "bm25s":
                search = rivals_lexical.bm25s_searcher(engine, threads)
            case "tantivy":
                search = rivals_lexical.tantivy_searcher(engine, threads)
            case _:
                search = engine.searcher(queries, k, threads)
        return lambda: search(queries, k)

    def measure(
        self, who: str, threads: int, k: int, benchmark: BenchmarkFixture, turns: Turns
    ) -> None:
        """Time one call with all queries, and hold a sample of its answers to the reference."""
        at = reference.sample(len(self.words))
        rounds = who in ("tantivy", "Lucene")
        lengths = rivals_lexical.rounded_lengths(self.bm25.lengths) if rounds else None
        idf = rivals_pisa.idf if who == "PISA" else reference.lucene_idf
        answer = self.bm25.rank([self.words[i] for i in at], k, lengths=lengths, idf=idf)
        run = self.runner(who, threads, k)
        benchmark.extra_info.update(
            docs=self.texts.n_docs,
            queries=len(self.words),
            k=k,
            threads=threads,
            postings=self.bm25.n_postings(self.words),
        )
        if who == OURS:
            benchmark.extra_info["bytes"] = ours.nbytes(self.engine(who, threads))
        ids, scores = (part[at] for part in turns.measure(benchmark, who, run))
        if who == "tantivy":
            ids = rivals_lexical.tantivy_rows(self.engine(who, threads), ids)
        reference.check(answer, ids, scores, relative=True)
