"""``hyrecall recall`` and ``context``: answer one query from an index or a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from os.path import expanduser
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import typer

from hyrecall.ask.pages import Buckets
from hyrecall.ask.parsing import parse
from hyrecall.base.text_tables import Row, TextLine, clean, cut
from hyrecall.base.times import read_moment
from hyrecall.cli.declare import Whose
from hyrecall.cli.memory_options import now_ready, opened, read_store_filter, tell_reasons
from hyrecall.cli.options import (
    at_least,
    by_arm,
    kind_of_folder,
    names,
    number,
    read_scope,
    read_vector,
    recall_options,
    refuse,
)
from hyrecall.cli.quick import BUDGET, print_context, print_rows, stdin_text
from hyrecall.cli.settings import read_settings
from hyrecall.cli.show import (
    hits_to_dict,
    print_dropped,
    print_explanation,
    print_facet,
    print_hits,
    print_json,
    say,
    screen_width,
    shown_texts,
)
from hyrecall.embed import EmbedBy
from hyrecall.embed.guard import Off
from hyrecall.errors import OptionError, WriterBusyError, error
from hyrecall.hits.hit_tables import Snippets
from hyrecall.hits.reply import facets_data
from hyrecall.index import Index

if TYPE_CHECKING:
    from hyrecall.ask.queries import TextQuery
    from hyrecall.distributed import ShardedIndex
    from hyrecall.memory import Episode, Matches, MemorySync


# ---- Answers ``hyrecall recall`` from a store ----


def recall_from_store(
    folder: Path | None,
    text: str,
    form: str,
    *,
    user_id: str | None,
    org: str | None,
    workspace: str | None,
    agent: str | None,
    recipe: str | None,
    force_regex: bool = False,
    explain: bool = False,
    **options: Any,
) -> None:
    """Answer a query with options of ``search``, as ``table``, ``json`` or ``context``."""
    from hyrecall.memory import plain
    from hyrecall.memory.data.matches import doubt_of, is_answerable, known_confidence

    if agent is not None and user_id is not None:
        raise error(OptionError, "--agent", "an agent, or --user", "both")
    if force_regex and recipe not in (None, "hypergraph", "hypergraph_regex"):
        wish = "--recipe hypergraph with it, or no --recipe"
        raise error(OptionError, "--force-regex", wish, recipe)
    place: dict[str, Any] = {"org": org, "workspace": workspace}
    first = options.get("offset", 0) + 1
    writes = options.get("touch", False), options.get("session_id") is not None
    with _opened_store(folder, "hypergraph_regex" if force_regex else recipe, *writes) as memory:
        ready, analyzer = now_ready(memory), memory._store.layout.analyzer
        if agent is None:
            matches = ready.search(text, user_id=user_id, **place, **options)
        else:
            matches = ready.agent(agent, **place).search(text, **options)
        sure = known_confidence(matches) if form == "json" and explain else None
        doubt = doubt_of(matches) if form == "table" else None
    tell_reasons(matches.reasons)
    if form == "json":
        how_sure = {"confidence": sure, "answerable": is_answerable(sure)} if explain else {}
        print_json(_as_dict(text, matches, explain=explain) | how_sure)
    elif form == "context":
        print_context(plain.days(matches), options["token_budget"])
    else:
        rows = plain.rows(matches, Snippets(None if force_regex else text, analyzer), first=first)
        around = matches.around or ((),) * len(rows)
        print_rows(
            [
                Row(cells, [*(TextLine(*line) for line in below), *map(_of_session, near)])
                for (cells, below), near in zip(rows, around, strict=True)
            ]
        )
        if doubt is not None:
            say(f"note: {doubt}")
        if explain and rows:
            _explain(matches, first)


@contextmanager
def _opened_store(
    folder: Path | None, recipe: str | None, touches: bool, has_session: bool
) -> Iterator[MemorySync]:
    """Open the store, for writing if the recall records accesses or a conversation."""
    given: dict[str, Any] = {"recipe": recipe, "settings": read_settings()}
    with ExitStack() as held:
        is_read = not touches and not has_session
        try:
            memory = held.enter_context(opened(folder, read_only=is_read, **given))
        except WriterBusyError:
            if touches:
                raise
            say("note: another process is writing the store: the conversation is not recorded")
            memory = held.enter_context(opened(folder, read_only=True, **given))
        yield memory


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


def _as_dict(text: str, matches: Matches, *, explain: bool) -> dict[str, Any]:
    from hyrecall.memory import plain

    shown = plain.as_data(text, matches)
    if explain:
        is_ranked = matches._ranked is not None
        for one, match in zip(shown["items"], matches, strict=True):
            one["explanation"] = asdict(match.explain()) if is_ranked else None
        if is_ranked:
            shown["dropped"] = matches.explain_dropped().to_list()
    return shown


def _explain(matches: Matches, first: int) -> None:
    if matches._ranked is None:
        say("note: --explain: the memories were found without an index, so no score is explained")
        return
    for rank, match in enumerate(matches, first):
        print_explanation(rank, match.episode.id, match.explain())
    print_dropped(matches.explain_dropped())


def _of_session(one: Episode) -> TextLine:
    """Show a memory that stands around a match, without its id: ``--json`` has it."""
    when = one.occurred_at.isoformat(" ", "minutes")[:16]
    shown = cut(f"{when}    {clean(one.full_text)}", screen_width() - 10)
    return TextLine(shown, ((0, len(shown), "faint"),))


# ---- ``hyrecall context``: prints memories for a prompt, as the hook of a coding agent adds them


def context(
    *,
    query: str,
    budget: int = BUDGET,
    limit: int = 10,
    path: Path | None = None,
    agent: str | None = None,
    recipe: str | None = None,
    min_score: list[str] | None = None,
    min_confidence: float | None = None,
    **whose: Unpack[Whose],
) -> None:
    """Print the memories that fit a prompt, marked as data, in a number of tokens.

    Nothing is printed if nothing is found.

    Options
    query TEXT: The text to look for; - reads it from stdin.
    budget N: The most tokens to print.
    agent NAME: Only what this agent of --org may see.
    recipe NAME: How to rank, as of recall. [default: the setting recipe, or default]
    min_score [ARM=]SCORE: The lowest score: bm25=SCORE, cosine=SCORE, or SCORE for the fused score.
    min_confidence P: The lowest confidence of all that is found, in [0, 1]; below it nothing is
        printed.
    """
    at_least("--budget", budget, 1)
    recall_from_store(
        path, stdin_text() if query == "-" else query, "context", agent=agent, recipe=recipe,
        limit=limit, token_budget=budget, min_score=by_arm("--min-score", min_score, number),
        min_confidence=min_confidence, **whose,
    )  # fmt: skip


# ---- ``hyrecall recall``: answers one query from an index or a store, as a table or JSON ----

_SECONDS = 60.0  # for the query's vector: a command has no caller who waits for less


def recall(
    ctx: typer.Context,
    first: str | None = None,
    second: str | None = None,
    *,
    limit: int = 10,
    offset: int = 0,
    normalize: bool = False,
    as_json: bool = False,
    path: Path | None = None,
    kind: str | None = None,
    since: str | None = None,
    until: str | None = None,
    tags: list[str] | None = None,
    alpha: float | None = None,
    recipe: str | None = None,
    agent: str | None = None,
    session_id: str | None = None,
    weights: str | None = None,
    token_budget: int | None = None,
    around: int = 0,
    by_thread: bool = False,
    force_regex: bool = False,
    touch: bool = False,
    include_ended: bool = False,
    scope: list[str] | None = None,
    vector: list[str] | None = None,
    embed: bool = False,
    filters: list[str] | None = None,
    depth: int = 100,
    fusion: str | None = None,
    bm25: list[str] | None = None,
    min_score: list[str] | None = None,
    min_fused: float | None = None,
    min_confidence: float | None = None,
    parsed: bool = False,
    columns: list[str] | None = None,
    sort: list[str] | None = None,
    facets: list[str] | None = None,
    explain: bool = False,
    threads: int | None = None,
    **whose: Unpack[Whose],
) -> None:
    """Answer one query from an index, within its scope, or from the memories of a user.

    A DIR with a memory.db is a store, any other DIR is an index, or holds its shards. A single
    argument is DIR if there is an index or store at this path, otherwise TEXT.

    Arguments
    first DIR: Folder of an index, of its shards or of a store. [default: the store of --path]
    second TEXT: The text to look for, as plain words without any syntax, or with --parse. [required
        without --vector]
    Options
    as_json --json: Write one JSON object, with scores in full precision.
    recipe NAME: How to rank: $ALL_RECIPES. With an index it replaces --fusion, --bm25, --min-score,
        --min-fused and --normalize, and the hypergraph recipes are refused. [default: for a store
        the setting recipe, or default; for an index none]
    around N: Also show so many rows on either side of each in its thread or session.
    filters --filter JSON: Only documents with these attributes, or memories also with these keys of
        the metadata: {"kind": "note", "day": {"from": "2024-05-01"}, "lang": ["de", "fr"],
        "metadata.project": "x"}. Dates and times are ISO 8601; durations are not supported.
    min_score [ARM=]SCORE: The lowest score in an arm; of a store bm25=SCORE or cosine=SCORE, or
        SCORE for the fused score.
    min_confidence P: The lowest confidence of a reply, in [0, 1]; below it nothing is shown.
    explain: Show all parts of each score, and what each stage dropped.
    Options of a store
    kind KIND: Only memories of this kind.
    since TIME: Only memories from this time on, ISO 8601.
    until TIME: Only memories up to this time, included; a date alone is the whole day.
    alpha NUMBER: The weight of vectors, from 0 (only words) to 1 (only vectors). [default: that of
        the recipe]
    agent NAME: Only what this agent of --org may see.
    session_id ID: Rank memories higher that this conversation received before, if the recipe does
        that.
    weights NAME=N,...: Weights of recency, importance and relevance, for a recipe with a composite
        score. [default: those of the recipe]
    token_budget N: Only as many memories as fit N tokens.
    force_regex: Read the query as a regular expression (RE2).
    touch: Count the shown memories as accessed.
    include_ended: Also facts that have ended, each behind its successor, or not begun.
    path, user_id, org, workspace, tags
    Options of an index
    by_thread: Show one hit a thread, with its best other rows.
    vector [ARM=]JSON|@FILE: The vector to look for: [0.1, ...], @file.json or @file.npy; of a
        sparse arm ARM={"term": 0.5, ...}.
    parsed --parse: Read TEXT as a query: "a phrase", -not, +must, begi*, mosue~, OR, ( ). Behind --
        it may begin with -.
    columns COLUMN: Columns that --json adds; repeat the option or use commas for several. [default:
        the text columns]
    sort COLUMN[:desc]: Order all matching rows by columns; without TEXT and --vector those that
        pass the filter. Repeat the option or use commas for several. [default: by score]
    facets --facet COLUMN[=EDGE,...]: Count the matching rows by the values of a column, or by
        ranges from each edge to the next; an empty edge first or last is an open end.
    scope, embed, depth, fusion, bm25, min_fused, threads
    """
    if first is None:
        raise typer.BadParameter("expected DIR, TEXT or both")
    folder, text, is_store = _target(first, second, path)
    if is_store:
        refuse(ctx, "no such option for a store", "Options of an index")
        recall_from_store(
            folder, text or "", "json" if as_json else "table", agent=agent, recipe=recipe,
            force_regex=force_regex, explain=explain, kind=kind, tags=tags, alpha=alpha,
            since=read_moment("--since", since), until=read_moment("--until", until), limit=limit,
            offset=offset, session_id=session_id, weights=_weights(weights),
            token_budget=token_budget, around=around, filter=read_store_filter(filters),
            min_score=by_arm("--min-score", min_score, number), touch=touch,
            include_ended=include_ended, normalize=normalize, min_confidence=min_confidence,
            **whose,
        )  # fmt: skip
        return
    refuse(ctx, "no such option for an index", "Options of a store")
    assert folder is not None
    if columns is not None and not as_json:
        raise error(OptionError, "--columns", "--json with it (the table shows texts)", "no --json")
    index = _opened(folder, threads, _embedder(text, vector) if embed else None)
    options = recall_options(
        ctx, index._facts, limit=limit, offset=offset, depth=depth, fusion=fusion, bm25=bm25,
        filters=filters, min_score=min_score, min_fused=min_fused, normalize=normalize,
        recipe=recipe,
    )  # fmt: skip
    types = {name: index._facts.row_types[name] for name in index.schema.cell_columns}
    is_browsed = text is None and vector is None
    query = _parsed(text) if parsed else text
    asked = {} if is_browsed else _query(index, query, by_arm("--vector", vector, read_vector))
    added = list(shown_texts(index.schema)) if columns is None else names(columns)
    hits = index.recall(
        **asked,
        scope=read_scope(scope, types),
        columns=added,
        surrounding=around,
        group="thread" if by_thread else None,
        sort=None if sort is None else [_order(one) for one in names(sort)],
        facets=None if facets is None else [_facet(one) for one in facets],
        min_confidence=min_confidence,
        **options,
    )
    counts = sort is not None or facets is not None or is_browsed
    for note in (*hits.trace.degraded, *hits.trace.notes):
        say(f"note: {note}")
    if index.schema.thread is not None and recipe is None and hits.trace.depth:
        say("note: threads are not heard without a recipe (--recipe default hears them)")
    if as_json:
        rows = hits.to_list()[0]
        found = hits_to_dict(hits[0], rows, explain=explain)
        data: dict[str, Any] = {"text": text, "arms": list(hits.trace.arms), "hits": found}
        if counts:
            data |= {"total": hits[0].total, "facets": facets_data(hits[0].facets)}
        data |= {"degraded": list(hits.trace.degraded)} if hits.degraded else {}
        print_json(data | ({"dropped": hits[0].explain_dropped().to_list()} if explain else {}))
        return
    if counts:
        say(f"note: {hits[0].total} rows match")
    if len(hits[0]):
        print_hits(hits[0], text, explain=explain)
    else:
        say("note: no hits")
    for name, values in hits[0].facets.items():
        print_facet(name, values)


def _order(given: str) -> str | tuple[str, str]:
    """Read ``COLUMN`` or ``COLUMN:desc``."""
    name, _, way = given.rpartition(":")
    return (name, way) if name and way in ("asc", "desc") else given


def _facet(given: str) -> str | Buckets:
    """Read ``COLUMN`` or ``COLUMN=EDGE,EDGE,...``; edges are numbers, or times as ISO 8601."""
    name, is_ranged, edges = given.partition("=")
    if not is_ranged:
        return given
    return Buckets(name, [_edge(one.strip()) for one in edges.split(",")])


def _edge(given: str) -> int | float | str | None:
    for read in (int, float):
        try:
            return read(given)
        except ValueError:
            continue
    return given or None


def _target(
    first: str, second: str | None, path: Path | None
) -> tuple[Path | None, str | None, bool]:
    """Return the folder, the query, and whether the folder is a store."""
    if path is not None:
        if second is not None:
            raise typer.BadParameter("expected either DIR or --path")
        return path, first, True
    folder = Path(expanduser(first))  # a query may be "~" where nobody has a home
    is_store = (folder / "memory.db").exists()
    if second is None and not is_store and kind_of_folder(folder) == "store":
        return None, first, True
    return folder, second, is_store


def _embedder(text: str | None, vector: object) -> EmbedBy:
    if text is None or vector:
        got = "no text" if text is None else "--vector too"
        raise error(OptionError, "--embed", "a TEXT, and no --vector", got)
    return EmbedBy("static", timeout=_SECONDS)


def _opened(folder: Path, threads: int | None, by: EmbedBy | None) -> Index | ShardedIndex:
    """Open a saved index, or the shards of one."""
    try:
        if kind_of_folder(folder) == "shards":
            from hyrecall.distributed import ShardedIndex

            return ShardedIndex.open(folder, embed=by, threads=threads)
        return Index.open(folder, embed=by, threads=threads)
    except OptionError as fault:
        if by is None or not str(fault.argument).startswith("embed"):
            raise
        one = by.chosen
        assert not isinstance(one, Off)  # which fits any index
        wish = f"an index with one vector arm of {one.dim} dimensions by {one.model!r}"
        got = str(fault).partition("expected ")[2].partition(", got ")[0]
        raise error(OptionError, "--embed", wish, got) from None


def _parsed(text: str | None) -> TextQuery:
    if text is None:
        raise error(OptionError, "--parse", "TEXT with it", "no TEXT")
    return parse(text)


def _query(index: Index | ShardedIndex, text: TextQuery | None, vector: Any) -> dict[str, Any]:
    """Return the text and the vectors of the query, as a batch of one."""
    asked: dict[str, Any] = {}
    embeds = [] if index._embedders is None else list(index._embedders.embedded)
    is_missing = vector is None and not embeds and bool(index._facts.embedded)
    takes_text = is_missing or bool(index.schema.text_arms or embeds)
    if text is not None and takes_text:
        asked["text"] = [text]
    if text is not None and vector is None and embeds:
        assert index._embedders is not None
        index._embedders.wait_until_loaded(_SECONDS)
        models = index._facts.embedded
        told = ", ".join(f"{arm!r}: {models[arm].model} embeds the query" for arm in embeds)
        say(f"note: {told}")
    elif text is not None and is_missing:
        pass  # the reply says that the embedder is missing
    elif isinstance(vector, dict):
        asked["vectors"] = {arm: [one] for arm, one in vector.items()}
    elif vector is not None:
        asked["vectors"] = [vector]
    elif index.schema.vector_arms:
        arms = ", ".join(map(repr, index.schema.vector_arms))
        say(f"note: {arms}: no vector given (--vector or --embed), so only text arms run")
        asked["vectors"] = {}
    if text is not None and not takes_text:
        raise error(OptionError, "text", "none (the index has no text arm)", repr(text))
    return asked
