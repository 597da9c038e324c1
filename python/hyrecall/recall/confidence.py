"""Computes how sure the reply to a query is, from the documents and statistics of its scope."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import fsum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hyrecall import _core
from hyrecall.base.arguments import number
from hyrecall.errors import OptionError, error
from hyrecall.hits.confidence import (
    MODELS,
    NOTHING_FOUND,
    OWN,
    Confidence,
    Judged,
    Model,
    confidence,
    family_of,
)
from hyrecall.hits.joined_reply import JoinedReply
from hyrecall.hits.reply import JUDGED, QUERY_ARRAYS, Reply, only_queries
from hyrecall.recall.matched import is_asked
from hyrecall.text.bm25 import BM25

if TYPE_CHECKING:
    from hyrecall.hits.reply import ReplyBase
    from hyrecall.recall.plan import Plan
    from hyrecall.segments.segments import State

CONSIDERED: Final = 20
"""Documents of each arm's list that are considered."""

LEADING: Final = 5
"""The best documents, which are not among those that the best one is compared with."""

MOST_NAMES: Final = 64
"""Names and numbers of a query that are looked up, its first ones."""

PIECE: Final = 256
"""Queries that are in the engine at a time."""

HOW: Final = BM25(k1=0.75, b=0.25).numbers
"""Constants of the words' share: those of the default recipe, whatever the call ranks by."""

_WORD = re.compile(r"\w[\w'’-]*")


def with_floor(reply: ReplyBase, given: object, *, is_sorted: bool) -> ReplyBase:
    """Return a reply whose queries have no hits where the confidence is below a floor."""
    floor = number("min_confidence", given, 0.0, 1.0, "a number in [0, 1]")
    if is_sorted:
        wish = "None where columns order the rows (sort=, or no text and no vectors)"
        raise error(OptionError, "min_confidence", wish, repr(given))
    if isinstance(reply, JoinedReply):
        parts = tuple(_above(part, floor) for part in reply.parts)
        return replace(reply, replies=parts, _values={})
    assert isinstance(reply, Reply)
    return _above(reply, floor)


def _above(reply: Reply, floor: float) -> Reply:
    judged = reply.all_judged()
    for query, one in enumerate(judged):
        if one.query is None and one.is_asked:
            wish, got = "a text, or a vector of a known embedder", f"query {query} with neither"
            raise error(OptionError, "min_confidence", wish, got, "pass embed= to the index")
    kept = np.array([one.query is None or one.query.value >= floor for one in judged], np.bool_)
    arrays = only_queries(reply.arrays, kept)
    for name in QUERY_ARRAYS:
        if name != "offsets" and name in arrays:
            arrays[name] = reply.arrays[name]
    left = [
        one if stays else replace(one, hits=()) for one, stays in zip(judged, kept, strict=True)
    ]
    return replace(
        reply,
        arrays=arrays,
        around=None if reply.around is None else reply.around.only(kept),
        min_confidence=floor,
        _gathered={},
        _values={JUDGED: left},
    )


def judge(
    plan: Plan,
    state: State,
    reply: Reply,
    begin: int,
    end: int,
    models: Mapping[str, str] | None = None,
) -> list[Judged]:
    """Return how sure the replies to the queries [begin, end) are."""
    # ``models`` are those of vector arms, where the index does not know them.
    named = {arm: one.model for arm, one in reply.facts.embedded.items()} | dict(models or {})
    made = []
    with _core.arithmetic.RoundToNearest():
        for first in range(begin, end, PIECE):
            last = min(first + PIECE, end)
            piece = _Piece(plan, state, reply, first, last, named)
            made += [piece.judged(query) for query in range(first, last)]
    return made


class _Words:
    """What one query asks one text arm, with the statistics of its scope."""

    def __init__(self, piece: _Piece, at: int, query: int) -> None:
        self._piece, self._at, self._query = piece, at, query
        asked = piece.execution.leaves(at, query)
        self.is_asked = asked is not None
        self._math = _core.arithmetic
        leaves = asked or []
        counted = piece.statistics.of(at, query) if leaves else (0, 0, 0, [])
        n_docs, total_length, _, doc_freqs = counted
        self._mean = self._math.mean_doc_length(n_docs, total_length)
        self.weights = [
            self._math.weight(HOW, self._math.idf(HOW[0], n_docs, doc_freq), multiplicity)
            for (_, multiplicity), doc_freq in zip(leaves, doc_freqs, strict=True)
        ]
        self.doc_freqs = {
            label: doc_freq for (label, _), doc_freq in zip(leaves, doc_freqs, strict=True)
        }
        self.whole = fsum(self.weights)

    def share(self, segment: int, row: int) -> float:
        """Return the share of the greatest BM25 possible that a document has."""
        piece, at = self._piece, self._at
        length = piece.column(at, segment).doc_length(row)
        if length is None or not piece.execution.matches(at, self._query, segment, row):
            return 0.0
        norm = self._math.length_norm(HOW, length, self._mean)
        freqs = piece.execution.leaf_freqs(at, self._query, segment, row)
        pairs = zip(self.weights, freqs, strict=True)
        impact = self._math.impact
        return (
            fsum(impact(HOW, w, 0.0, float(freq), norm) for w, freq in pairs if freq) / self.whole
        )

    def missing(self) -> dict[str, bool]:
        """Say of the query's names and numbers whether the scope lacks them."""
        asked = self._piece.request.text_query(self._at, self._query)
        analyzer = self._piece.reply.facts.analyzers[self._piece.plan.bases[self._at]]
        found: dict[str, bool] = {}
        for place, word in enumerate(_WORD.findall("" if asked is None else asked.text)):
            is_name = bool(place and word[0].isupper()) or any(map(str.isdigit, word))
            if is_name and word not in found and len(found) < MOST_NAMES:
                terms = [one.term for one in analyzer.explain(word, role="query")]
                if terms and all(term in self.doc_freqs for term in terms):
                    found[word] = not all(self.doc_freqs[term] for term in terms)
        return found


class _Chosen(NamedTuple):
    """The coefficients that judge one query, and the text and vector arms that they weigh."""

    name: str
    model: Model
    words: list[_Words]
    dense: list[int]


class _Piece:
    """Some queries of a call, searched again for the documents that their arms list."""

    def __init__(
        self,
        plan: Plan,
        state: State,
        reply: Reply,
        begin: int,
        end: int,
        models: Mapping[str, str],
    ) -> None:
        self.plan, self.reply, self._state, self._begin = plan, reply, state, begin
        self.request = plan.part(begin, end)
        # Neither ``limit`` nor ``depth`` says how many are considered.
        self.request.deepen(CONSIDERED)
        self.execution = _core.Execution(state.snapshot, self.request)
        self.statistics = self.execution.statistics()
        self._found = self.execution.candidates(self.statistics).arrays()
        self._n_arms = self.request.n_arms
        families = [
            _family(models, base) if plan.n_lexical <= at and arm not in plan.extra else None
            for at, (arm, base) in enumerate(zip(plan.arms, plan.bases, strict=True))
        ]
        self._family = next(filter(None, families), None)
        self._dense = [at for at, one in enumerate(families) if one and one == self._family]
        plain = reply.facts.schema.one_vector_arms
        arms = enumerate(zip(plan.arms, plan.bases, strict=True))
        self._vectors = [at for at, (arm, base) in arms if base in plain and arm not in plan.extra]

    def column(self, at: int, segment: int) -> Any:
        """Return the texts of a segment in a lexical arm."""
        return self._state.segments[segment].lexical[self.plan.bases[at]]

    def judged(self, query: int) -> Judged:
        """Return how sure the reply to a query of the batch is."""
        begin, end = self.reply.span(query)
        own = query - self._begin
        words = [_Words(self, at, own) for at in range(self.plan.n_lexical)]
        has_text = any(one.is_asked for one in words)
        words = [one for one in words if one.whole > 0]
        chosen = self._by_recipe(own, words, has_text=has_text)
        chosen = self._by_package(own, words) if chosen is None else chosen
        model, coefficients, words, dense = chosen
        has_asked = is_asked(self.plan, query)
        if not has_asked or not (has_text or dense):
            # A text that was refused is told in ``degraded``.
            texts = (self.request.text_query(at, own) for at in range(self.plan.n_lexical))
            is_given = has_asked and all(one is None for one in texts)
            return Judged(None, (None,) * (end - begin), is_given)
        found = {
            (segment, row): self._closeness(words, dense, segment, row, scores)
            for segment, row, scores in self._considered(own, words, dense)
        }
        if not found:
            nothing = Confidence(NOTHING_FOUND, model, 0.0, ())
            return Judged(nothing, (nothing,) * (end - begin))
        signals = _signals([*found.values()], has_words=bool(words)) | {"names": _names(words)}
        of_query = confidence(model, coefficients.query, signals)
        hits: list[Confidence | None] = []
        for at in range(begin, end):
            if self.reply.is_fill(at):
                hits.append(None)
                continue
            arrays = self.reply.arrays
            scores = arrays["arm_scores"].reshape(-1, len(self.reply.ran))[at]
            place = int(arrays["segment"][at]), int(arrays["row"][at])
            known = found.get(place)
            cosine, share = known or self._closeness(words, dense, *place, scores)
            behind = max(signals["best"] - cosine - share, 0.0)
            values = {"cosine": cosine, "words": share, "behind": behind, "query": of_query.logit}
            hits.append(confidence(model, coefficients.hit, values))
        return Judged(of_query, tuple(hits))

    def _by_recipe(self, own: int, words: list[_Words], *, has_text: bool) -> _Chosen | None:
        """Return the recipe's coefficients and what they weigh, if the query asks all of it."""
        given = self.plan.confidence
        if given is None or (given.reads_texts and not has_text):
            return None
        dense = [at for at in self._vectors if given.reads_vectors and self._has_vector(at, own)]
        if given.reads_vectors and not dense:
            return None
        weighed = Model(dict(given.query), dict(given.hit))
        return _Chosen(OWN, weighed, words if given.reads_texts else [], dense)

    def _by_package(self, own: int, words: list[_Words]) -> _Chosen:
        """Return the package's coefficients for what the query asks, and what they weigh."""
        dense = [at for at in self._dense if self._has_vector(at, own)]
        model = f"{self._family}{'' if words else ' alone'}" if dense else "words"
        return _Chosen(model, MODELS[model], words, dense)

    def _has_vector(self, at: int, own: int) -> bool:
        row = self.request.query_vector(at - self.plan.n_lexical, own)
        return bool(len(row)) and _core.arithmetic.inverse_norm(row) > 0

    def _considered(
        self, own: int, words: Sequence[_Words], dense: Sequence[int]
    ) -> list[tuple[int, int, Any]]:
        """Return the first documents of the lists of the arms: segment, row, scores by arm."""
        found, n_arms = self._found, self._n_arms
        first, docs = int(found["doc_ends"][own]), set[int]()
        for at in (*(one._at for one in words), *dense):
            begin, end = found["list_ends"][own * n_arms + at : own * n_arms + at + 2].tolist()
            docs.update(found["listed"][begin : min(end, begin + CONSIDERED)].tolist())
        scores = found["scores"].reshape(-1, n_arms)
        places = [first + doc for doc in sorted(docs)]
        return [(int(found["segment"][at]), int(found["row"][at]), scores[at]) for at in places]

    def _closeness(
        self, words: Sequence[_Words], dense: Sequence[int], segment: int, row: int, scores: Any
    ) -> tuple[float, float]:
        """Return the cosine of a document, at least 0, and its share of the query's words."""
        cosines = [float(scores[at]) for at in dense if np.isfinite(scores[at])]
        shares = [one.share(segment, row) for one in words]
        return max(0.0, *cosines, 0.0), max(0.0, *shares, 0.0)


def _family(models: Mapping[str, str], arm: str) -> str | None:
    return None if arm not in models else family_of(models[arm])


def _signals(found: Sequence[tuple[float, float]], *, has_words: bool) -> dict[str, float]:
    """Return the signals of a query from cosine and words' share of each document considered."""
    ranked = sorted((one[1] if has_words else one[0] for one in found), reverse=True)
    others = fsum(ranked[LEADING:CONSIDERED]) / (CONSIDERED - LEADING)
    return {
        "best": max(cosine + share for cosine, share in found),
        "cosine": max(cosine for cosine, _ in found),
        "lead": ranked[0] - others,
    }


def _names(words: Sequence[_Words]) -> float:
    """Return the share of the query's names and numbers that no document in scope holds."""
    missing: dict[str, bool] = {}
    for one in words:
        for word, is_missing in one.missing().items():
            missing[word] = missing.get(word, True) and is_missing
    return sum(missing.values()) / len(missing) if missing else 0.0
