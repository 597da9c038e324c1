"""The embedders of an index: vectors of its documents when they are added, of queries at a recall.

An embedder that fails at a build or an add is an error. At a recall the queries have no vector
then, and the reply says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.ask.queries import check_texts, first_words
from hyrecall.ask.recipe import Dense, Recipe
from hyrecall.ask.request import CallOptions, Search
from hyrecall.ask.scope import read_scopes
from hyrecall.ask.scoring import DBSF, RRF, Max, WeightedSum
from hyrecall.base.forks import Birth
from hyrecall.embed.choose import LOCAL, EmbedBy, Embeds
from hyrecall.embed.guard import Guard, Off, embed_texts
from hyrecall.embed.protocol import Embedder, EmbedError, NoVectors
from hyrecall.errors import IndexMismatchError, MissingExtraError, OptionError, error
from hyrecall.hits.trace import NOTHING_TOLD, BatchNotes
from hyrecall.segments.segments import EmbeddedArm, IndexFacts, State
from hyrecall.segments.updating import MadeVectors
from hyrecall.table.arrow_values import join_texts
from hyrecall.table.columns import read_texts
from hyrecall.table.schema import Schema


class Embedders:
    """The embedders of the arms that have one."""

    def __init__(
        self,
        by: Mapping[str, EmbedBy],
        columns: Mapping[str, Sequence[str]],
        dims: Mapping[str, int] | None = None,
    ) -> None:
        """Make a guard for each arm; nothing is called yet."""
        self._by = dict(by)
        self._columns = {arm: tuple(columns[arm]) for arm in by}
        self._guards = self._make_guards(dims or {})

    def _make_guards(self, dims: Mapping[str, int]) -> dict[str, Guard]:
        self._birth = Birth()
        return {
            arm: Guard(one.chosen, dim=dims.get(arm), usual=one.timeout, closes=one.is_named)
            for arm, one in self._by.items()
        }

    def _guard(self, arm: str) -> Guard:
        """Return the guard of an arm; a forked process has none of its parent's threads."""
        if not self._birth.is_here:
            dims = {name: one.dim for name, one in self._guards.items() if one.dim is not None}
            self._guards = self._make_guards(dims)
        return self._guards[arm]

    @property
    def embedded(self) -> dict[str, EmbeddedArm]:
        """The model and the columns of each arm whose embedder is not switched off."""
        models = {arm: one.model for arm, one in self._guards.items()}
        return {
            arm: EmbeddedArm(model, self._columns[arm])
            for arm, model in models.items()
            if model is not None
        }

    def settle(self, dims: Mapping[str, int]) -> None:
        """Expect vectors of the index's lengths from now on."""
        for arm, guard in self._guards.items():
            if guard.dim not in (None, dims[arm]):
                wish = f"an embedder of {dims[arm]} numbers, as the vectors have"
                raise error(OptionError, f"embed[{arm!r}]", wish, guard.dim)
        if any(guard.dim is None for guard in self._guards.values()):
            self._guards = self._make_guards(dims)

    def warm(self) -> None:
        """Start to load the models."""
        for arm in self._by:
            self._guard(arm).start_warming()

    def of_documents(
        self,
        table: object,
        schema: Schema,
        vectors: Mapping[str, object] | None,
        types: Mapping[str, pa.DataType] | None = None,
    ) -> tuple[object, Mapping[str, object] | None]:
        """Return a table, and its vectors with those of the arms for which it has none."""
        if not self._by:
            return table, vectors
        given = {} if vectors is None else vectors
        read, texts = read_texts(table, schema, given, self._columns, types)
        made: dict[str, object] = {}
        for arm, columns in texts.items():
            made[arm] = self._rows(arm, join_texts(columns).to_pylist(), schema)
        return read, {**given, **made}

    def _rows(self, arm: str, texts: list[str | None], schema: Schema) -> npt.NDArray[Any]:
        guard = self._guard(arm)
        rows = embed_texts(guard, texts)
        if guard.dim is None:
            wish = "an embedder that says its dim, or a table with a text"
            raise error(OptionError, f"embed[{arm!r}]", wish, f"dim=None of {guard.model!r}")
        dtype = schema.vector_arms[arm].dtype
        return rows.astype(np.float16) if dtype == "float16" else rows

    def of_changed(self, schema: Schema) -> dict[str, MadeVectors]:
        """Return how the vectors of each arm are made of texts that an update changes."""
        return {
            arm: MadeVectors(columns, partial(self._rows, arm, schema=schema))
            for arm, columns in self._columns.items()
        }

    def of_queries(
        self,
        facts: IndexFacts,
        state: State | None,
        request: Search,
        recipe: object,
        options: CallOptions,
        *,
        seconds: float | None = None,
    ) -> tuple[Search, BatchNotes]:
        """Return a request with vectors of its texts, where it has none and an arm reads them."""
        # Without a state the scope is not checked. `seconds` replaces the embedders' own limits.
        if request.vectors is not None or not (self._by or facts.embedded):
            return request, NOTHING_TOLD
        texts = first_words(facts.text_arms, request.text)
        if texts is None or not _reads_vectors(recipe):
            return request, NOTHING_TOLD
        check_texts(texts)
        if state is not None:
            read_scopes(facts.cell_types, state.snapshot, request.scope, len(texts))
        vectors: dict[str, object] = {}
        degraded: list[str] = []
        about: dict[str, dict[int, str]] = {}
        unread = _unread(facts, recipe, options)
        for arm in dict.fromkeys((*self._by, *facts.embedded)):
            # As if each query had none: whatever else a call says of the arm holds.
            vectors[arm] = np.zeros((len(texts), facts.dims[arm]), np.float32)
            if arm in unread:
                continue
            by = self._by.get(arm)
            if by is None:
                model = facts.embedded[arm].model
                told = f"its vectors are of {model!r}, which is not to be had here without embed="
                degraded.append(f"{arm} did not run: {told}")
                continue
            refused: dict[int, NoVectors] = {}
            guard, limit = self._guard(arm), by.timeout if seconds is None else seconds
            try:
                vectors[arm] = embed_texts(guard, texts, seconds=limit, refused=refused)
            except EmbedError as failed:
                degraded.append(f"{arm} did not run: {_told(failed)}")
            for at, fault in refused.items():
                alone = f"{arm} did not run: {_told(fault)}"
                degraded.append(alone if len(texts) == 1 else f"{arm}[{at}]{alone[len(arm) :]}")
                about[degraded[-1]] = {at: alone}
        has_readers = bool(facts.text_arms) or recipe is not None or bool(options.more)
        asked = request._replace(text=request.text if has_readers else None, vectors=vectors)
        return asked, BatchNotes(tuple(degraded), (), about)

    def wait_until_loaded(self, seconds: float) -> None:
        """Wait until the models are loaded, for callers that have the time."""
        for arm in self._by:
            self._guard(arm).wait_until_loaded(seconds)

    def close(self) -> None:
        """Refuse further calls; embedders that were given as objects stay open."""
        for guard in self._guards.values():
            guard.close()


def unembedded(
    facts: IndexFacts, request: Search, recipe: object, options: CallOptions
) -> dict[str, str]:
    """Return the arms that a request by text asks, but whose vectors an embedder makes."""
    if _texts_alone(facts, request, recipe) is None:
        return {}
    unread = _unread(facts, recipe, options)
    return {arm: one.model for arm, one in facts.embedded.items() if arm not in unread}


def with_missing_vectors(
    facts: IndexFacts, request: Search, recipe: object, options: CallOptions
) -> Search:
    """Return a request by text alone as if no query had a vector, where an embedder makes them."""
    texts = _texts_alone(facts, request, recipe)
    if texts is None:
        return request
    none = {arm: np.zeros((len(texts), facts.dims[arm]), np.float32) for arm in facts.embedded}
    return request._replace(vectors=none or None)


def _texts_alone(facts: IndexFacts, request: Search, recipe: object) -> list[str | None] | None:
    """Return the queries' words if a dense arm is asked and the request has no vectors."""
    if request.vectors is not None or not _reads_vectors(recipe):
        return None
    return first_words(facts.text_arms, request.text)


def _told(failed: EmbedError | NoVectors) -> str:
    told = NoVectors(failed.fault, failed.detail, failed.said).told
    return f"{failed.fault} ({told})" if told else str(failed.fault)


def _reads_vectors(recipe: object) -> bool:
    """Return whether a call without a recipe, or one of its recipes, asks a dense arm."""
    recipes = recipe if isinstance(recipe, list) else [recipe]
    return any(
        not isinstance(one, Recipe) or any(isinstance(arm, Dense) for arm in one.arms)
        for one in recipes
    )


def _unread(facts: IndexFacts, recipe: object, options: CallOptions) -> set[str]:
    """Return the arms that the call's fusion leaves out, if nothing else can read their vectors."""
    fusion = options.fusion
    has_other_readers = recipe is not None or options.more or options.shaping
    if has_other_readers or not isinstance(fusion, RRF | WeightedSum | Max | DBSF):
        return set()
    weights = dict(fusion.weights or ())
    if isinstance(fusion, RRF) and fusion.alpha is not None:
        weights = dict(zip(facts.arms, fusion.shares, strict=False))  # two, or it is refused later
    return {arm for arm, weight in weights.items() if weight == 0}


# ---- embed= ----


def embedders_at_build(given: Embeds, schema: Schema) -> Embedders:
    """Read ``embed=`` of a build."""
    by = _by_arm(given, tuple(schema.one_vector_arms))
    columns = {arm: one.text_columns or schema.first_texts for arm, one in by.items()}
    for arm, names in columns.items():
        _check_columns(arm, names)
    return Embedders(by, columns)


def embedders_at_open(given: Embeds, facts: IndexFacts) -> Embedders:
    """Read ``embed=`` of an opening, and check it against what the files say."""
    # Without it, arms whose vectors are of a local model get that one, if it is installed.
    by = _recorded(facts) if given is None else _by_arm(given, _candidates(given, facts))
    columns = {}
    for arm, one in by.items():
        stored = facts.embedded.get(arm)
        default = facts.schema.first_texts if stored is None else stored.columns
        columns[arm] = one.text_columns or default
        _check_columns(arm, columns[arm])
        if not isinstance(one.chosen, Off):
            _check(arm, one.chosen, columns[arm], facts)
    made = Embedders(by, columns, facts.dims)
    made.warm()
    return made


def _recorded(facts: IndexFacts) -> dict[str, EmbedBy]:
    """Return the local embedders that files name, as far as they can be had."""
    found = {}
    for arm, stored in facts.embedded.items():
        for name in LOCAL:
            try:
                one = EmbedBy(name, columns=stored.columns)
            except MissingExtraError:
                continue
            # Off: an environment variable switches every embedder off, and the reply names it.
            if isinstance(one.chosen, Off) or one.chosen.model == stored.model:
                found[arm] = one
                break
    return found


def _by_arm(given: object, arms: Sequence[str]) -> dict[str, EmbedBy]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        for arm in given:
            if arm not in arms:
                raise error(OptionError, "embed", f"arms of {list(arms)}", repr(arm))
        return {arm: _read(one) for arm, one in given.items()}
    if len(arms) != 1:
        wish = f"{{arm: embedder}} for arms of {list(arms)}" if arms else "None (no vector arm)"
        raise error(OptionError, "embed", wish, type(given).__name__)
    return {arms[0]: _read(given)}


def _read(given: Any) -> EmbedBy:
    return given if isinstance(given, EmbedBy) else EmbedBy(given)


def _candidates(given: object, facts: IndexFacts) -> tuple[str, ...]:
    """Return the arms that an embedder may be for: a single one is for those that files name."""
    arms = tuple(facts.schema.one_vector_arms)
    if isinstance(given, Mapping) or given is None or len(arms) == 1:
        return arms
    if facts.embedded:
        return tuple(facts.embedded)
    dim = getattr(_read(given).chosen, "dim", None)
    return tuple(arm for arm in arms if dim is None or facts.dims[arm] == dim)


def _check_columns(arm: str, names: Sequence[str]) -> None:
    if not names:
        wish = "the columns to embed (the schema has no text arm)"
        raise error(OptionError, f"embed[{arm!r}]", wish, "none", "EmbedBy(embedder, columns=)")


def _check(arm: str, embedder: Embedder, columns: tuple[str, ...], facts: IndexFacts) -> None:
    stored, dim = facts.embedded.get(arm), facts.dims[arm]
    found = EmbeddedArm(embedder.model, columns)
    has_other_dim = embedder.dim is not None and embedder.dim != dim
    if has_other_dim or (stored is not None and found != stored):
        wish = f"vectors of {dim} numbers"
        if stored is not None:
            wish = f"the embedder {stored.model!r} of {', '.join(stored.columns)}, {wish}"
        got = f"{found.model!r} of {', '.join(columns)}, {embedder.dim} numbers"
        raise error(IndexMismatchError, f"embed[{arm!r}]", wish, got)
