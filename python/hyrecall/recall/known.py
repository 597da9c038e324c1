"""Recalls whose options were read before: one call of the engine, and the rest when it is read."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sized
from dataclasses import fields
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hyrecall import _core
from hyrecall.ask.filter_program import known_program
from hyrecall.ask.scope import Scope, key_of
from hyrecall.base.times import call_time, microseconds
from hyrecall.hits.reply import Arrays, Reply, ReplyBase
from hyrecall.hits.trace import StageTrace, Trace
from hyrecall.recall.batch import DEVICE_QUERIES, SHAPED_QUERIES, RecallSource, trace_of
from hyrecall.recall.plan import Plan
from hyrecall.segments.segments import IndexFacts, State

if TYPE_CHECKING:
    from hyrecall.hits.around import AroundHits

MOST_KNOWN: Final = 64
"""Sets of options that an index remembers."""

_ATOMS: Final = (type(None), bool, int, float, str)
_new = object.__new__


class Frozen(NamedTuple):
    """The options of a call, read once, and what its replies have in common."""

    given: tuple[object, ...]  # the options; while they are held, no other object has their id()
    native: _core.FrozenRequest
    plan: Plan  # without anything that a call asked
    device: str
    shared: Mapping[str, Any]  # fields of a reply
    is_staged: bool  # stages run on what the engine found
    is_aged: bool  # the engine reads the time of the call


class PlainReply(Reply):
    """A reply by known options, whose arrays, trace and source are made when they are read."""

    _answer: _core.Answer
    _frozen: Frozen
    _began: float
    _state: State
    _scope: object

    @cached_property
    def arrays(self) -> Arrays:
        """The arrays of all hits."""
        arrays, plan = self._answer.arrays, self._frozen.plan
        arrays = arrays if plan.evidence is None else plan.evidence.with_columns(arrays)
        if not plan.stages:
            return arrays
        _, fused, seqs, addends = self._answer.linear
        addends = addends.reshape(len(seqs), len(getattr(plan.stages[0], "weights", ())))
        return {**arrays, "fused_score": fused, "tie_rank": seqs, "linear_addends": addends}

    @cached_property
    def trace(self) -> Trace:
        """How the batch was answered."""
        frozen, milliseconds = self._frozen, _milliseconds(self._answer, self._began)
        plan, stages = frozen.plan, tuple[StageTrace, ...]()
        if plan.stages or plan.grouping is not None:
            n, spent = self._answer.linear[0], self._answer.times[-1] * 1e3
            milliseconds["shaping"] = spent
            stages = tuple(StageTrace(one.name, n, n, spent, ()) for one in plan.stages)
        return trace_of(frozen.device, plan, self._answer, milliseconds, stages)

    @cached_property
    def around(self) -> AroundHits | None:
        """The best rows of the threads of hits that are grouped."""
        if self._frozen.plan.grouping is None:
            return None
        from hyrecall.recall.grouping import shown_threads

        facts, state, answer = self.facts, self._state, self._answer
        return shown_threads(facts, state, answer.members, self.arrays["offsets"])

    @cached_property
    def kept_source(self) -> RecallSource:
        """The call that the reply came from."""
        plan = _plan_of(self._frozen, self._answer, self._scope)
        return RecallSource(plan, self._state, None, {})

    # ``only()`` makes replies with arrays of their own.

    @property
    def state(self) -> State:
        """The snapshot that was searched."""
        state: State | None = vars(self).get("_state")
        return super().state if state is None else state

    @property
    def n_queries(self) -> int:
        """Queries of the batch."""
        answer: _core.Answer | None = vars(self).get("_answer")
        return self.trace.n_queries if answer is None else answer.n_queries

    @property
    def n_hits(self) -> int:
        """Hits of all queries together."""
        answer: _core.Answer | None = vars(self).get("_answer")
        return super().n_hits if answer is None else answer.n_hits

    def span(self, query: int) -> tuple[int, int]:
        """Return where the hits of a query begin and end."""
        answer: _core.Answer | None = vars(self).get("_answer")
        if answer is None or answer.n_queries != 1:
            return super().span(query)
        return 0, answer.n_hits


def _staged(
    found: Frozen,
    answer: _core.Answer,
    state: State,
    text: object,
    scope: object,
    now: datetime,
    began: float,
) -> Reply:
    """Run the stages of known options on what the engine has found."""
    from hyrecall.recall.reach import Reaches
    from hyrecall.recall.shaper import Shaper

    plan, facts, request = _plan_of(found, answer, scope), found.shared["facts"], answer.request
    texts: Any = [None] * answer.n_queries if text is None else text
    texts = texts if type(texts) is list else [texts]
    shaper = Shaper(facts, state, plan, now=now, reaches=Reaches({}, scope), texts=texts)
    merged = time.perf_counter()
    arrays = answer.arrays
    arrays = arrays if plan.evidence is None else plan.evidence.with_columns(arrays)
    arrays = shaper.run(arrays, _core.Execution(state.snapshot, request), request, 0)
    milliseconds = _milliseconds(answer, began) | {"shaping": (time.perf_counter() - merged) * 1e3}
    trace = trace_of(found.device, plan, answer, milliseconds, shaper.traces, shaper.about)
    source = RecallSource(plan, state, shaper.results, {})
    return Reply(**found.shared, now=now, trace=trace, arrays=arrays, kept_source=source)


def _plan_of(found: Frozen, answer: _core.Answer, scope: object) -> Plan:
    """Return the plan of a call by known options."""
    n = answer.n_queries
    return found.plan._replace(
        request=answer.request, n_queries=n, scope=scope, sessions=(None,) * n
    )


def _milliseconds(answer: _core.Answer, began: float) -> dict[str, float]:
    """Return how long each step of a call took."""
    planned, counted, fused, fusion, _ = answer.times
    return {
        "plan": (planned - began) * 1e3,
        "statistics": (counted - planned) * 1e3,
        "candidates": (fused - counted - fusion) * 1e3,
        "fusion": fusion * 1e3,
    }


def _is_long(text: object, vectors: object) -> bool:
    """Say whether stages run on a batch piece by piece."""
    queries = vectors if text is None else text
    return isinstance(queries, Sized) and len(queries) > SHAPED_QUERIES


class KnownOptions:
    """Remembers the options that an index was asked with, by the id() of each value."""

    # Only values that never change are known, and nothing of what was asked with them.

    def __init__(self) -> None:
        # By what a recipe asks first: whether the scope holds threads. None: it does not ask.
        self._known: dict[tuple[object, ...], dict[bool | None, Frozen]] = {}

    def ask(
        self,
        state: State | None,
        text: object,
        vectors: object,
        scope: object,
        given: tuple[object, ...],
        filter: object,  # noqa: A002
        now: datetime | None,
        *,
        one: bool,
    ) -> Reply | None:
        """Answer by options that are known; None: they are not, or the call asks for more."""
        # Whatever is out of the ordinary is left to the long way, which also words every error.
        began = time.perf_counter()
        forms = self._known.get((text is None, vectors is None, *map(id, given)))
        if forms is None or state is None or "opentelemetry.trace" in sys.modules:
            return None
        found = forms.get(None) or forms.get(_form(state, scope))
        if found is None or state.late_segments:  # texts are checked before they are first read
            return None
        programs: Any = None
        if filter is not None:
            programs = _programs(filter, found.shared["facts"].attribute_types)
        is_other = filter is not None and programs is None
        if is_other or (found.is_staged and not one and _is_long(text, vectors)):
            return None
        instant = 0
        if found.is_aged:
            now = call_time(now)
            instant = microseconds(now)
        own_scope = list(scope) if isinstance(scope, list) else scope
        files = state.files
        files.check()
        try:
            answer = found.native.ask(
                state.snapshot, text, vectors, own_scope, programs, one, instant
            )
            if answer is None:
                return None
            if found.is_staged:
                return _staged(found, answer, state, text, own_scope, call_time(now), began)
        finally:
            files.check_reads()
        reply = _new(PlainReply)
        vars(reply).update(
            found.shared, now=call_time(now), _values={}, _gathered={}, _answer=answer,
            _frozen=found, _began=began, _state=state, _scope=own_scope,
        )  # fmt: skip
        return reply

    def learn(
        self,
        device: str,
        text: object,
        vectors: object,
        scope: object,
        given: tuple[object, ...],
        recipe: Any,
        reply: ReplyBase,
    ) -> None:
        """Remember the options of a call that was answered the long way, if they are plain."""
        key = (text is None, vectors is None, *map(id, given))
        forms = self._known.get(key, {})
        if None in forms or type(reply) is not Reply or not _is_fixed(given):
            return
        source = reply.kept_source
        if type(source) is not RecallSource or not _is_plain(source.plan, reply, recipe):
            return
        # A longer batch runs in pieces, which have its fusion. What no arm reads is not checked.
        most = SHAPED_QUERIES if source.plan.is_shaped else DEVICE_QUERIES
        if reply.n_queries > most or not _is_read(source.plan, reply.facts, text, vectors):
            return
        form = None
        if recipe is not None and recipe.with_threads is not None and reply.facts.schema.thread:
            form = _form(source.state, scope)
            if form is None:
                return
        if len(self._known) >= MOST_KNOWN:
            self._known = {}
        self._known[key] = {**forms, form: _freeze(source.plan, reply, recipe, given, device)}


def _form(state: State, scope: object) -> bool | None:
    """Say whether scopes hold threads; None: it is not known, or they differ."""
    known = state.threaded_scopes
    if type(scope) is not list:
        return known.get(key_of(scope))
    if len(scope) == 1:
        return known.get(key_of(scope[0]))
    found = {known.get(key_of(one)) for one in scope}
    return found.pop() if len(found) == 1 else None


def _programs(
    given: object, types: Mapping[str, Any]
) -> _core.FilterProgram | list[_core.FilterProgram | None] | None:
    """Return the programs of filters; None: one of them is of another kind, or wrong."""
    if type(given) is not list:
        return known_program(given, types)
    given = list(given)  # another thread may change it
    made = [None if one is None else known_program(one, types) for one in given]
    right = all((one is None) == (other is None) for one, other in zip(given, made, strict=True))
    return made if right else None


def _is_plain(plan: Plan, reply: Reply, recipe: Any) -> bool:
    """Say whether the engine alone answers all calls with the options of a plan."""
    facts = reply.facts
    if (
        plan.fill is not None
        or (plan.grouping is not None and not _is_by_thread(plan))
        or plan.exact is not None
        or plan.feedback is not None
        or plan.searches is not None
        or plan.tables is not None
        or plan.selected is not None
        or plan.extra
        or plan.blank_queries
        or plan.graphs
        or any(plan.sessions)
        or (reply.around is not None and plan.grouping is None)
        or reply.phases is not None
        or reply.query_keys is not None
        or any(alone is not None for alone in plan.notes.values())
        or sum(arm in facts.vector_arms for arm in plan.bases) > 1
        or any(
            arm in facts.schema.vector_arms and arm not in facts.schema.one_vector_arms
            for arm in plan.bases
        )
    ):
        return False
    if recipe is None:
        return True
    if recipe.more or recipe.on_no_match or recipe.exact not in (False, True):
        return False
    return not any(
        getattr(arm, "mode", "any") != "any"
        or getattr(arm, "phrases", False)
        or getattr(arm, "stopwords", ())
        or getattr(arm, "max_terms", None) is not None
        for arm in recipe.arms
    )


def _is_by_thread(plan: Plan) -> bool:
    """Say whether all that happens to a fused list is that its threads have one hit each."""
    how = plan.grouping
    is_alone = not (plan.stages or plan.tie_break)
    is_by_thread = how is not None and how.is_grouped and how.column is None
    return is_alone and how is not None and is_by_thread and not how.n_around


def _is_read(plan: Plan, facts: IndexFacts, text: object, vectors: object) -> bool:
    """Say whether an arm reads all texts, and one all vectors; a mapping may name some arms."""
    if isinstance(text, Mapping) or isinstance(vectors, Mapping):
        return False
    has_dense = any(arm in facts.vector_arms for arm in plan.bases)
    return (text is None or plan.n_lexical > 0) and (vectors is None or has_dense)


def _is_fixed(value: object) -> bool:
    """Say whether a value can never become another one, with all that it holds."""
    if type(value) in _ATOMS:
        return True
    if type(value) is tuple:
        return all(map(_is_fixed, value))
    made = getattr(type(value), "__dataclass_params__", None)
    if made is None or not made.frozen or not type(value).__module__.startswith("hyrecall."):
        return False  # a subclass of a caller's may do as it likes
    return all(_is_fixed(getattr(value, one.name)) for one in fields(value))  # type: ignore[arg-type]


def _freeze(
    plan: Plan, reply: Reply, recipe: Any, given: tuple[object, ...], device: str
) -> Frozen:
    facts: IndexFacts = reply.facts
    linear, is_aged = None, False
    if plan.stages and plan.grouping is None and not plan.tie_break:
        from hyrecall.recall.shaper import stage_plan
        from hyrecall.stages.linear import native_rules, reads_age

        linear = native_rules(plan.stages, stage_plan(facts, plan), plan.evidence)
        is_aged = linear is not None and any(map(reads_age, plan.stages))
    is_paged = plan.grouping is not None or linear is not None
    n_listed = 0 if plan.grouping is None else plan.grouping.per_group
    native = _core.FrozenRequest(
        like=plan.request,
        host_postings=facts.host_postings,
        kinds=[str(kind) for kind in facts.cell_types.values()],
        scope_type=Scope,
        dims=[facts.dims[arm] for arm in plan.bases if arm in facts.vector_arms],
        blank=recipe is not None,
        exact=recipe is not None and bool(recipe.exact),
        group=(plan.offset, plan.limit, n_listed) if is_paged else None,
        linear=linear,
    )
    kept: Any = None
    shared = {
        "facts": facts, "arms": reply.arms, "columns": reply.columns, "query_keys": None,
        "ran": reply.ran, "bases": reply.bases, "fusion": reply.fusion,
        "normalize": reply.normalize, "phases": None,
    } | ({"around": None} if plan.grouping is None else {})  # fmt: skip
    own = plan._replace(request=kept, n_queries=0, scope=None, sessions=())
    return Frozen(given, native, own, device, shared, plan.is_shaped and not is_paged, is_aged)
