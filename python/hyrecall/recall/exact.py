"""Which queries are one identifier or quoted string, and which rows hold it, or every word."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from hyrecall import _core
from hyrecall.arm.arm import FoundDocs, from_entries
from hyrecall.ask.filter_program import read_filters
from hyrecall.ask.queries import All, Phrase, lower
from hyrecall.ask.request import Search
from hyrecall.ask.scope import read_scopes
from hyrecall.hits.reply import Arrays

if TYPE_CHECKING:
    from hyrecall.segments.segments import IndexFacts, State
    from hyrecall.text.bm25 import BM25


Whole: TypeAlias = str | All
"""What a row must hold: these words side by side, or each of them anywhere."""

ExactTexts = Mapping[str, Sequence[Whole | None]]
"""By arm, what a row must hold for each query of a batch; None: nothing."""

MOST_TOKENS = 4096  # of a phrase

_ONE_WORD_WITH_A_DIGIT = re.compile(r"\S*?\d\S*")
_HYPHENS = frozenset("-\u2010\u2011")


def exact_text(text: object) -> str | None:
    """Return the text that a row must hold whole to rank first for a query, or None."""
    # An identifier has no white space, a digit, and a letter or a hyphen. A quoted string stands in
    # double quotes as a whole, with none inside.
    if not isinstance(text, str):
        return None
    asked = text.strip()
    if asked[:1] == '"':
        inside = asked[1:-1].strip()
        is_quoted = len(asked) > 1 and asked[-1] == '"' and '"' not in inside
        return inside if is_quoted and inside else None
    if _ONE_WORD_WITH_A_DIGIT.fullmatch(asked) is None:
        return None
    return asked if any(one.isalpha() or one in _HYPHENS for one in asked) else None


def exact_texts(
    text: object,
    arms: Sequence[str],
    selected: npt.NDArray[np.bool_] | None = None,
    *,
    words: bool = False,
) -> ExactTexts:
    """Return what rows must hold for the selected queries, by arm that any has."""
    # ``words``: every word of a plain text that is neither an identifier nor quoted.
    out: dict[str, list[Whole | None]] = {}
    known: dict[int, list[Whole | None]] = {}  # one list may be for several arms
    for arm in arms:
        given = text.get(arm) if isinstance(text, Mapping) else text
        if not isinstance(given, Sequence) or isinstance(given, str):
            continue  # the plan says what is wrong with it
        if id(given) not in known:
            found = [exact_text(one) or _every_word(one, words) for one in given]
            if selected is not None:
                pairs = zip(found, selected, strict=False)
                found = [one if is_selected else None for one, is_selected in pairs]
            known[id(given)] = found
        if any(one is not None for one in known[id(given)]):
            out[arm] = known[id(given)]
    return out


def _every_word(text: object, words: bool) -> All | None:
    return All(text) if words and isinstance(text, str) and text.strip() else None


def _shown(text: Whole) -> str:
    return text if isinstance(text, str) else str(text.queries[0])


@dataclass(frozen=True, eq=False)
class Exact:
    """The queries of a batch that were taken as exact, and the rows that hold their text whole."""

    queries: npt.NDArray[np.int64]
    texts: ExactTexts
    depth: int
    lists: Mapping[str, FoundDocs]
    is_cut: npt.NDArray[np.bool_]
    matches: Callable[[int, int, int, int], bool]

    def add_to(self, request: _core.BatchRequest, first_query: int) -> None:
        """Add arms that bring the rows of a part's queries into its pools, behind all others."""
        for arm, found in self.lists.items():
            own = found.part(first_query, first_query + request.n_queries)
            request.add_listed(
                f"{arm} holds it", own.offsets, own.segment, own.row, own.score, None
            )

    def split(self, arrays: Arrays, n_arms: int, first_query: int) -> Arrays:
        """Take the arms of :meth:`add_to` out of a reply; ``exact`` marks the rows that hold it."""
        total = n_arms + len(self.lists)
        n_queries = len(arrays["offsets"]) - 1
        ranks = arrays["arm_ranks"].reshape(-1, total)
        scales = arrays["scales"].reshape(n_queries, 3 * total + 1)
        kept = (scales[:, : 2 * n_arms], scales[:, 2 * total : 2 * total + n_arms], scales[:, -1:])
        out = {
            **arrays,
            "arm_scores": arrays["arm_scores"].reshape(-1, total)[:, :n_arms].reshape(-1),
            "scales": np.concatenate(kept, axis=1).reshape(-1),
            "list_sizes": arrays["list_sizes"].reshape(-1, total)[:, :n_arms].reshape(-1),
        }
        query = np.repeat(np.arange(n_queries), np.diff(arrays["offsets"])) + first_query
        out["exact"] = np.asarray((ranks[:, n_arms:] > 0).any(axis=1))
        # One arm's list may be deeper, as the limit is, on which nothing of these rows may depend.
        places = ranks[:, :n_arms]
        if (out["list_sizes"] > self.depth).any():
            places = np.stack([_places(one, query) for one in places.T], axis=1)
        listed = ((places > 0) & (places <= self.depth)).any(axis=1)
        if self.is_cut.any():
            listed |= ~(ranks > 0).any(axis=1)  # rows that the stage Around has added
            cut = np.isin(query, self.queries[self.is_cut.any(axis=1)])
            for at in np.flatnonzero(cut & listed & ~out["exact"]):
                row = int(arrays["segment"][at]), int(arrays["row"][at])
                out["exact"][at] = bool(self.held(int(query[at]), *row))
        hides = out["exact"][:, np.newaxis] & (places > self.depth)
        out["arm_ranks"] = np.where(hides, 0, ranks[:, :n_arms]).reshape(-1)
        return out

    def held(self, query: int, segment: int, row: int) -> dict[str, str]:
        """Give, by arm, what a row that the query may see holds whole."""
        own = int(np.searchsorted(self.queries, query))
        if own == len(self.queries) or self.queries[own] != query:
            return {}
        return {
            arm: _shown(text)
            for at, (arm, texts) in enumerate(self.texts.items())
            if (text := texts[own]) is not None and self.matches(at, own, segment, row)
        }

    def counts(self, arrays: Arrays, first_query: int) -> dict[int, int]:
        """Count the rows that hold it in a part of the reply, for each query taken in it."""
        offsets = arrays["offsets"]
        own = self.queries[
            (self.queries >= first_query) & (self.queries < first_query + len(offsets) - 1)
        ]
        sums = np.concatenate([[0], np.cumsum(arrays["exact"])])
        at = own - first_query
        found = sums[offsets[at + 1]] - sums[offsets[at]]
        return dict(zip(own.tolist(), found.tolist(), strict=True))


def _places(ranks: npt.NDArray[np.int32], query: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the place of each entry in an arm's list, 0 if it is not in it."""
    # Equal scores share a rank; the entries that have it come in their order.
    order = np.lexsort((ranks, query))
    at = np.arange(len(order))
    keys = np.stack([query[order], ranks[order]])
    begins = np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0))[: len(order)]
    places = np.empty(len(order), np.int64)
    places[order] = ranks[order] + at - np.maximum.accumulate(np.where(begins, at, 0))
    return np.where(ranks > 0, places, 0)


def find_exact(
    facts: IndexFacts,
    state: State,
    request: Search,
    wanted: ExactTexts,
    bm25: Mapping[str, BM25],
    n_queries: int,
    depth: int,
) -> Exact | None:
    """Look up the rows that hold whole what a batch asks for, in its scopes and by its filters."""
    # An arm that does not run is not looked through. None: no query asks for such a thing.
    asked = asked_whole(facts, wanted, bm25)
    if asked is None:
        return None
    queries, texts = asked
    search = search_phrases(facts, state, request, texts, bm25, queries, depth)
    lists, is_cut = found_whole(search, texts, queries, n_queries, depth)
    has_any = any(len(one.row) for one in lists.values())
    return Exact(queries, texts, depth, lists if has_any else {}, is_cut, search.matches)


def asked_whole(
    facts: IndexFacts, wanted: ExactTexts | None, bm25: Mapping[str, BM25]
) -> tuple[npt.NDArray[np.int64], ExactTexts] | None:
    """Return which queries ask for a text as a whole, and the text of each by arm; None: none."""
    asked = {arm: texts for arm, texts in (wanted or {}).items() if arm in bm25}
    if not asked:
        return None
    by_arm = {arm: _of_terms(facts, arm, texts) for arm, texts in asked.items()}
    asks = [any(one is not None for one in texts) for texts in zip(*by_arm.values(), strict=True)]
    queries = np.flatnonzero(np.array(asks, np.bool_))
    if not len(queries):
        return None
    return queries, {arm: tuple(own[at] for at in queries) for arm, own in by_arm.items()}


def search_phrases(
    facts: IndexFacts,
    state: State,
    request: Search,
    texts: ExactTexts,
    bm25: Mapping[str, BM25],
    queries: npt.NDArray[np.int64],
    depth: int,
) -> PhraseSearch:
    """Begin the search for the texts of some queries as phrases."""
    phrases = _phrases(facts, state, request, texts, bm25, queries, depth)
    state.check_texts(phrases)
    return PhraseSearch(_core.Execution(state.snapshot, phrases), phrases)


class PhraseSearch(NamedTuple):
    """A search for phrases, whose statistics are counted."""

    execution: _core.Execution
    request: _core.BatchRequest

    @property
    def matches(self) -> Callable[[int, int, int, int], bool]:
        """See :class:`Exact`."""
        return self.execution.matches


def found_whole(
    search: PhraseSearch,
    texts: ExactTexts,
    queries: npt.NDArray[np.int64],
    n_queries: int,
    depth: int,
    statistics: _core.Statistics | None = None,
) -> tuple[dict[str, FoundDocs], npt.NDArray[np.bool_]]:
    """Return the rows that hold the texts, by arm, and where there may be more of them."""
    # ``statistics``: of all parts of an index; None: the search's own.
    counted = search.execution.statistics() if statistics is None else statistics
    found = _core.merge(search.request, [search.execution.candidates(counted)])
    ranks, scores = (found[name].reshape(-1, len(texts)) for name in ("arm_ranks", "arm_scores"))
    query = np.repeat(queries, np.diff(found["offsets"]))
    lists = {}
    for at, arm in enumerate(texts):
        own = ranks[:, at] > 0
        rows = (query[own], found["segment"][own], found["row"][own], scores[own, at])
        lists[arm] = from_entries(n_queries, *rows)
    return lists, found["list_sizes"].reshape(-1, len(texts)) >= depth


def _phrases(
    facts: IndexFacts,
    state: State,
    asked: Search,
    texts: ExactTexts,
    bm25: Mapping[str, BM25],
    queries: npt.NDArray[np.int64],
    depth: int,
) -> _core.BatchRequest:
    """Ask for the texts as phrases, on behalf of the queries that have them."""
    n, n_arms = len(queries), len(texts)
    filters, filter_of = read_filters(facts.attribute_types, _of(asked.filter, queries), n)
    request = _core.BatchRequest(
        scopes=read_scopes(facts.cell_types, state.snapshot, _of(asked.scope, queries), n),
        filters=filters,
        filter_of=filter_of,
        depth=depth,
        limit=depth * n_arms,
        offset=0,
        threads=facts.threads,
        host_postings=facts.host_postings,
    )
    for arm, own in texts.items():
        phrases = [Phrase(text) if isinstance(text, str) else text for text in own]
        column, analyzer = facts.text_arms.index(arm), facts.analyzers[arm].native
        request.add_lexical(column, arm, bm25[arm].numbers, analyzer, phrases, lower, None)
    request.set_fusion(
        kind="none" if n_arms == 1 else "rrf", weights=[1.0] * n_arms, rank_constant=60.0,
        scales=["none"] * n_arms, complete=True, balance=None, min_fused=None, normalize=False,
    )  # fmt: skip
    return request


def _of_terms(facts: IndexFacts, arm: str, texts: Sequence[Whole | None]) -> list[Whole | None]:
    """Leave out texts that make no phrase: of no term, or of too many."""
    asked = {at: _shown(text) for at, text in enumerate(texts) if text is not None}
    offsets = facts.analyzers[arm].native.analyze(list(asked.values()), "query")[1]
    sizes = dict(zip(asked, np.diff(offsets).tolist(), strict=True))
    return [text if 0 < sizes.get(at, 0) <= MOST_TOKENS else None for at, text in enumerate(texts)]


def _of(given: Any, queries: npt.NDArray[np.int64]) -> Any:
    """Return the entries of some queries, where there is one for each."""
    return [given[at] for at in queries] if isinstance(given, list) else given
