"""Answers ``hyrecall recall`` from a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyrecall.ask.filters import Filter
from hyrecall.base.text_tables import Column, Line, Row, clean, cut
from hyrecall.base.times import read_moment
from hyrecall.cli.memory_options import (
    now_ready,
    opened,
    read_store_filter,
    tell_reasons,
)
from hyrecall.cli.settings import read_settings
from hyrecall.cli.show import (
    print_dropped,
    print_explanation,
    print_json,
    print_table,
    say,
    screen_width,
)
from hyrecall.cli.snippets import Snippets
from hyrecall.errors import OptionError, WriterBusyError, error
from hyrecall.hits.hit_tables import EXACT
from hyrecall.text.analyzer import Analyzer

if TYPE_CHECKING:
    from hyrecall.memory import Episode, Matches, MemorySync
    from hyrecall.memory.recall.recipe_options import Floors

__all__ = ["Asked", "recall_from_store"]


@dataclass(frozen=True)
class Asked:
    """The options of a recall from a store, as given on the command line."""

    query: str
    folder: Path | None
    user: str | None
    org: str | None
    workspace: str | None
    kind: str | None
    since: str | None
    until: str | None
    tags: list[str] | None
    session: str | None
    alpha: float | None
    recipe: str | None
    limit: int
    offset: int
    agent: str | None
    conversation: str | None
    weights: str | None
    token_budget: int | None
    around: int
    filters: list[str] | None
    min_score: Floors
    touch: bool
    include_ended: bool
    normalize: bool
    force_regex: bool


def recall_from_store(asked: Asked, *, as_json: bool, explain: bool) -> None:
    """Answer a query and show the matches."""
    begin, end = read_moment("--since", asked.since), read_moment("--until", asked.until)
    options: dict[str, Any] = {
        "kind": asked.kind, "tags": asked.tags, "alpha": asked.alpha, "limit": asked.limit,
        "offset": asked.offset, "touch": asked.touch, "normalize": asked.normalize,
        "session_id": asked.conversation, "weights": _weights(asked.weights),
        "token_budget": asked.token_budget, "around": asked.around,
        "include_ended": asked.include_ended,
        "time_range": None if begin is None and end is None else (begin, end),
        "filter": _filter(asked), "min_score": asked.min_score,
    }  # fmt: skip
    with _opened(asked) as memory:
        ready, analyzer = now_ready(memory), memory._store.layout.analyzer
        if asked.agent is None:
            matches = ready.search(
                asked.query, user_id=asked.user, org=asked.org, workspace=asked.workspace, **options
            )
        else:
            place: dict[str, Any] = {"org": asked.org, "workspace": asked.workspace}
            matches = ready.agent(asked.agent, **place).search(asked.query, **options)
    tell_reasons(matches.reasons)
    if as_json:
        print_json(_as_dict(asked.query, matches, explain=explain))
    elif matches:
        _print(asked, matches, analyzer, explain=explain)
    else:
        say("note: no memories")


def _filter(asked: Asked) -> Filter | None:
    given = read_store_filter(asked.filters)
    if asked.session is None:
        return given
    of_session = Filter(session_id=asked.session)
    return of_session if given is None else given & of_session


@contextmanager
def _opened(asked: Asked) -> Iterator[MemorySync]:
    """Open the store, for writing if the recall records accesses or a conversation."""
    given: dict[str, Any] = {"recipe": _recipe(asked), "settings": read_settings()}
    with ExitStack() as held:
        writes = asked.touch or asked.conversation is not None
        try:
            memory = held.enter_context(opened(asked.folder, read_only=not writes, **given))
        except WriterBusyError:
            if asked.touch:
                raise
            say("note: another process is writing the store: the conversation is not recorded")
            memory = held.enter_context(opened(asked.folder, read_only=True, **given))
        yield memory


def _recipe(asked: Asked) -> str | None:
    if asked.agent is not None and asked.user is not None:
        raise error(OptionError, "--agent", "an agent, or --user", "both")
    if not asked.force_regex:
        return asked.recipe
    if asked.recipe not in (None, "hypergraph", "hypergraph_regex"):
        wish = "--recipe hypergraph with it, or no --recipe"
        raise error(OptionError, "--force-regex", wish, asked.recipe)
    return "hypergraph_regex"


def _weights(given: str | None) -> dict[str, float] | None:
    """Read ``recency=3,relevance=2``."""
    if given is None:
        return None
    out: dict[str, float] = {}
    for part in given.split(","):
        name, _, number = part.partition("=")
        try:
            out[name.strip()] = float(number)
        except ValueError:
            wish = "NAME=NUMBER,... of recency, importance, relevance"
            raise error(OptionError, "--weights", wish, repr(part)) from None
    return out


def _as_dict(query: str, matches: Matches, *, explain: bool) -> dict[str, Any]:
    scope, phase = matches.scope, matches.phase
    shown = [match.model_dump(mode="json") for match in matches]
    if explain:
        for one, match in zip(shown, matches, strict=True):
            one["explain"] = None if matches._ranked is None else asdict(match.explain())
    is_explained = explain and matches._ranked is not None
    dropped = {"dropped": matches.explain_dropped().to_list()} if is_explained else {}
    return {
        "query": query,
        "matches": shown,
        "origins": list(matches.origins),
        "related": [one.model_dump(mode="json") for one in matches.related],
        "context": [[one.model_dump(mode="json") for one in near] for near in matches.context],
        "around": [[one.model_dump(mode="json") for one in near] for near in matches.around],
        "edges": [one.model_dump(mode="json") for one in matches.edges],
        "phase": None if phase is None else asdict(phase),
        "tiers": matches.tiers,
        "lexical_mode": matches.lexical_mode,
        "degraded": matches.degraded,
        "reasons": [str(reason) for reason in matches.reasons],
        "scope": None if scope is None else asdict(scope),
        **dropped,
    }


_COLUMNS = (
    Column("rank", "right"), Column("id", style="key"), Column("score", "right"),
    Column("BM25", "right"), Column("cosine", "right"),
)  # fmt: skip


def _print(asked: Asked, matches: Matches, analyzer: Analyzer, *, explain: bool) -> None:
    """Write the matches to stdout, each with its time and text beneath its row."""
    is_ranked = matches._ranked is not None
    snippets = Snippets(None if asked.force_regex else asked.query, analyzer)
    rows = []
    for rank, match in enumerate(matches, 1):
        score = "fill" if match.is_fill else f"{match.score:.6f}"
        parts = [_part(one) for one in (match.bm25_score, match.vector_score)]
        cells = [str(asked.offset + rank), clean(match.episode.id), score, *parts]
        when = match.episode.occurred_at.isoformat(" ", "minutes")[:16]
        if match.valid_to is not None:
            when += f" until {match.valid_to.isoformat(' ', 'minutes')[:16]}"
        begin = Line(f"{when}  ", ((0, len(when), "faint"),))
        text = snippets.show(match.episode.text).after(begin)
        near = [_of_session(one) for one in (matches.around[rank - 1] if matches.around else ())]
        rows.append(Row(cells, [text.after(EXACT) if match.is_exact else text, *near]))
    print_table(_COLUMNS, rows)
    if explain and not is_ranked:
        say("note: --explain: the memories were found without an index, so no score is explained")
    elif explain:
        for rank, match in enumerate(matches, asked.offset + 1):
            print_explanation(rank, match.episode.id, match.explain())
        print_dropped(matches.explain_dropped())


def _of_session(one: Episode) -> Line:
    """Show a memory that stands around a match, without its id: ``--json`` has it."""
    when = one.occurred_at.isoformat(" ", "minutes")[:16]
    shown = cut(f"{when}    {clean(one.text)}", screen_width() - 10)
    return Line(shown, ((0, len(shown), "faint"),))


def _part(score: float | None) -> str:
    return "-" if score is None else f"{score:.4f}"
