"""Subjects whose calls have a stage, groups or a recipe; a subject without an entry is plain."""

from __future__ import annotations

from dataclasses import replace

import hyrecall as hr
from laws.engine import EngineSubject, schema
from laws.registry import BY_NAME, PLAIN, Entry
from oracle.corpus import Draw
from oracle.documents import Call, Shape
from oracle.recall import Oracle


class AroundSubject(EngineSubject):
    """Every recall hears the rows around a hit in its thread."""

    entry = BY_NAME["Around"]


def threads_as_hits(draw: Draw, shape: Shape, call: Call) -> Call:
    """A call that groups: shards do not show what stands around a hit."""
    return replace(call, by_thread=True)


class ThreadsAsHits(AroundSubject):
    """Every recall groups its hits by threads."""

    entry = Entry("threads as hits", threads_as_hits, {})


class WithThreadsSubject(AroundSubject):
    """Every recall goes by a recipe with a form for threads."""

    entry = BY_NAME["threads"]


class ExactSubject(EngineSubject):
    """Every recall goes by a recipe that puts first what holds a query whole."""

    entry = BY_NAME["exact"]


def schema_of(subject: type[EngineSubject], shape: Shape) -> hr.Schema:
    """Return the schema of a subject's tables."""
    return schema(shape, threaded=issubclass(subject, AroundSubject))


def draw_said(subject: type[EngineSubject], draw: Draw, oracle: Oracle, n_queries: int) -> Call:
    """Draw a call of a subject."""
    entry: Entry = getattr(subject, "entry", PLAIN)
    return entry.call(draw, oracle, n_queries, others=0.0)
