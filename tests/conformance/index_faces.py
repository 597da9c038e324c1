"""Faces of an index. Calls and replies are those of the oracle (tests/oracle), so that a scenario
compares every face with the definition, to the last bit.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest

import hyrecall as hr
from conformance.faces import Face, Refused, Row, lack, python_refusals
from conformance.store_doors import STATUSES, commands_described, invoked
from conformance.store_python import Shared
from hyrecall.distributed import ShardedIndex, merge
from laws.engine import (
    arguments,
    engine_filter,
    engine_scope,
    facets_of,
    page_of,
    replies,
    said_weights,
    schema,
    table,
)
from oracle import documents, fusion, scope, words
from oracle.documents import Call, Hit, Key, Reply, Scope, Shape

Rows = Sequence[documents.Row]


@dataclass(frozen=True, eq=False)  # so that replies of a world can be kept
class World:
    """The documents that an index is built from."""

    shape: Shape
    rows: tuple[documents.Row, ...]
    is_fixed: bool = False  # scenarios only read it: doors build it once


class Index(Face):
    """An index as a user holds it."""

    def __init__(self, world: World, folder: Path, shared: Shared, stack: ExitStack) -> None:
        self.shape, self.folder, self.shared = world.shape, folder, shared
        self.open(world, stack)

    def open(self, world: World, stack: ExitStack) -> None:
        raise NotImplementedError

    def recall(self, call: Call, **more: Any) -> list[Reply]:
        """Answer a batch; ``more`` is said as Python has it."""
        return self._do("recall", call, **more)

    def shown(self, call: Call, columns: list[str]) -> list[list[Row]]:
        """Return what the hits of each query hold in these columns."""
        return self._do("shown", call, columns)

    def explained(self, call: Call, **more: Any) -> list[list[tuple[float, float]]]:
        """Return the score of each hit, and what its explanation says of it."""
        return self._do("explained", call, **more)

    def marked(self, call: Call) -> list[list[tuple[list[list[int]], str]]]:
        """Return where the words of a query stand in the text of each hit, and its snippet."""
        return self._do("marked", call)

    def add(self, rows: Rows) -> None:
        self._do("add", rows)

    def upsert(self, rows: Rows) -> None:
        self._do("upsert", rows)

    def delete(self, keys: Sequence[Key], scopes: Sequence[Scope]) -> int:
        return self._do("delete", keys, scopes)

    def delete_where(self, cells: Scope, predicate: scope.Predicate | None) -> int:
        return self._do("delete_where", cells, predicate)

    def update(self, rows: Rows, names: Sequence[str]) -> None:
        self._do("update", rows, names)

    def replace(self, rows: Rows, cells: Scope, predicate: scope.Predicate) -> int:
        return self._do("replace", rows, cells, predicate)

    def compact(self) -> None:
        self._do("compact")

    def count(self, cells: Scope, predicate: scope.Predicate | None = None) -> int:
        return self._do("count", cells, predicate)

    def get(self, keys: Sequence[Key], cells: Scope, columns: list[str]) -> list[Row | None]:
        return self._do("get", keys, cells, columns)

    def save(self, path: Path) -> None:
        self._do("save", path)

    def renew(self, rows: Rows) -> None:
        """Let another program add rows and save them; take the new version up."""
        self._do("renew", rows)

    def merged(self, call: Call) -> list[Reply]:
        """Answer by statistics, candidates and merge, as a program that has parts does it."""
        return self._do("merged", call)


class Plain(Index):
    """``Index.build``."""

    name: ClassVar[str] = "Index"
    shown_class: ClassVar[type] = hr.Index
    device: ClassVar[str] = "cpu"
    needs: ClassVar[Mapping[str, str]] = {
        "shown": "recall", "explained": "recall", "marked": "recall", "delete_where": "delete",
        "merged": "candidates", "renew": "reload",
    }  # fmt: skip

    @classmethod
    def offers(cls, verb: str, option: str | None = None) -> bool:
        function = getattr(cls.shown_class, cls.needs.get(verb, verb), None)
        return function is not None and option in (None, *signature(function).parameters)

    def open(self, world: World, stack: ExitStack) -> None:
        self.index: Any = self.built(world)
        stack.callback(self.index.close)

    def built(self, world: World) -> hr.Index:
        analyzer = hr.Analyzer("word") if world.shape.lexical else None
        how, rows = schema(world.shape), table(world.shape, world.rows)
        with python_refusals():
            return hr.Index.build(rows, how, analyzer=analyzer, device=self.device, threads=1)

    def _hits(self, call: Call, **more: Any) -> hr.Hits:
        with python_refusals():
            return self.index.recall(**arguments(self.shape, call), **more)

    def _recall(self, call: Call, **more: Any) -> list[Reply]:
        hits = self._hits(call, **more)
        found = replies(self.shape, hits.to_arrow(), len(call.scopes))
        if call.page is None:
            return found
        return [
            with_counts(one, (of.total, facets_of(of))) for one, of in zip(found, hits, strict=True)
        ]

    def _shown(self, call: Call, columns: list[str]) -> list[list[Row]]:
        hits = self._hits(call, columns=columns)
        return [[{name: hit[name] for name in columns} for hit in one] for one in hits]

    def _explained(self, call: Call, **more: Any) -> list[list[tuple[float, float]]]:
        hits = self._hits(call, **more)
        return [[(hit.score, hit.explain().score) for hit in one] for one in hits]

    def _marked(self, call: Call) -> list[list[tuple[list[list[int]], str]]]:
        return [
            [([list(span) for span in hit.highlights("text")], hit.snippet()) for hit in one]
            for one in self._hits(call)
        ]

    def _add(self, rows: Rows) -> None:
        with python_refusals():
            self.index.add(table(self.shape, rows))

    def _upsert(self, rows: Rows) -> None:
        with python_refusals():
            self.index.upsert(table(self.shape, rows))

    def _delete(self, keys: Sequence[Key], scopes: Sequence[Scope]) -> int:
        with python_refusals():
            return self.index.delete(list(keys), scope=[engine_scope(one) for one in scopes])

    def _delete_where(self, cells: Scope, predicate: scope.Predicate | None) -> int:
        how = {"everything": True} if predicate is None else {"filter": engine_filter(predicate)}
        return self.index.delete(scope=engine_scope(cells), **how)

    def _update(self, rows: Rows, names: Sequence[str]) -> None:
        with python_refusals():
            self.index.update(table(self.shape, rows).select(["id", *self.shape.cell, *names]))

    def _replace(self, rows: Rows, cells: Scope, predicate: scope.Predicate) -> int:
        new, how = table(self.shape, rows), engine_filter(predicate)
        with python_refusals():
            return self.index.replace(new, scope=engine_scope(cells), filter=how)

    def _compact(self) -> None:
        self.index.compact()

    def _count(self, cells: Scope, predicate: scope.Predicate | None) -> int:
        how = None if predicate is None else engine_filter(predicate)
        return self.index.count(scope=engine_scope(cells), filter=how)

    def _get(self, keys: Sequence[Key], cells: Scope, columns: list[str]) -> list[Row | None]:
        found = self.index.get(list(keys), scope=engine_scope(cells), columns=columns).to_pylist()
        there = {one["key"]: {name: one[name] for name in columns} for one in found}
        return [there.get(key) for key in keys]

    def _save(self, path: Path) -> None:
        with python_refusals():
            self.index.save(path)

    def _renew(self, rows: Rows) -> None:
        self.index.save(self.folder / "renewed")
        self._add_by_another(self.folder / "renewed", rows)
        self.index.reload()

    def _add_by_another(self, path: Path, rows: Rows) -> None:
        with hr.Index.open(path, device="cpu") as other:
            other.add(table(self.shape, rows))
            other.save(path)

    def _merged(self, call: Call) -> list[Reply]:
        request = hr.distributed.Request(**arguments(self.shape, call))
        statistics = hr.distributed.Statistics.sum([self.index.statistics(request)])
        part = self.index.candidates(request, statistics)
        hits = merge(request, [part])
        return replies(self.shape, hits.to_arrow(), len(call.scopes))


class OnDevice(Plain):
    """An index on the emulated device; ``fixtures`` are what a test of it needs."""

    name = "cuda:0"
    device = "cuda:0"


class Mapped(Plain):
    """Saved, and opened with its files mapped."""

    name = "mmap"
    memory: ClassVar[str] = "mmap"

    def open(self, world: World, stack: ExitStack) -> None:
        path = self.folder / self.memory
        with self.built(world) as index:
            index.save(path)
        self.index = hr.Index.open(path, memory=self.memory, device="cpu", threads=1)
        stack.callback(self.index.close)


class InRam(Mapped):
    """Saved, and opened into memory."""

    name = "ram"
    memory = "ram"


CHANGES = ("add", "upsert", "update", "replace", "delete", "delete_where", "compact")
_NO_CHANGES = "change the index of a shard, and reload"


class OneShard(Plain):
    """``ShardedIndex`` in this process."""

    name = "1 shard"
    shown_class = ShardedIndex
    needs: ClassVar = {**Plain.needs, "renew": "save"}
    n_shards: ClassVar[int] = 1
    lacks: ClassVar = {
        **dict.fromkeys(CHANGES, _NO_CHANGES),
        **dict.fromkeys(("count", "get"), "ask the index of a shard"),
        "save": "build_shards saves them",
        "renew": "shards in folders are reloaded",
        "merged": "its recall is that",
    }

    def open(self, world: World, stack: ExitStack) -> None:
        n = -(-len(world.rows) // self.n_shards) or 1
        parts = [world.rows[first : first + n] for first in range(0, n * self.n_shards, n)]
        tables = [table(world.shape, rows) for rows in parts]
        self.index = self.sharded(tables, schema(world.shape))
        stack.callback(self.index.close)

    def sharded(self, tables: list[Any], how: hr.Schema) -> ShardedIndex:
        analyzer = hr.Analyzer("word") if how.text else None
        with python_refusals():
            return ShardedIndex.build(tables, how, analyzer=analyzer, device="cpu", threads=1)


class TwoShards(OneShard):
    """Two of them, saved and opened."""

    name = "2 shards"
    n_shards = 2
    needs: ClassVar = OneShard.needs | {"renew": "reload"}
    lacks: ClassVar = {verb: why for verb, why in OneShard.lacks.items() if verb != "renew"}

    def sharded(self, tables: list[Any], how: hr.Schema) -> ShardedIndex:
        analyzer, first = hr.Analyzer("word") if how.text else None, 0
        self.paths = [self.folder / f"shard {n}" for n in range(len(tables))]
        for path, own in zip(self.paths, tables, strict=True):
            with python_refusals():
                built = hr.Index.build(own, how, analyzer=analyzer, device="cpu", first_seq=first)
            with built:
                built.save(path)
            first += own.num_rows
        return ShardedIndex.open(self.paths, device="cpu", threads=1)

    def _renew(self, rows: Rows) -> None:
        self._add_by_another(self.paths[-1], rows)
        self.index.reload()


class FiveShards(TwoShards):
    """Five, some of them empty in small worlds."""

    name = "5 shards"
    n_shards = 5


# ---- doors ----


def plain_filter(predicate: scope.Predicate) -> Row:  # noqa: PLR0911 - a case each
    """Return a filter as JSON has it: columns to predicates, all of which hold."""
    match predicate:
        case scope.And(left, right):
            return plain_filter(left) | plain_filter(right)
        case scope.Equal(column, value):
            return {column: value}
        case scope.Range(column, low, high):
            return {column: {"from": _json(low), "to": _json(high)}}
        case scope.AnyOf(column, values):
            return {column: list(values)}
        case scope.NoneOf(column, values):
            return {column: {"not": list(values)}}
        case scope.AllOf(column, values):
            return {column: {"all": list(values)}}
        case scope.IsNull(column):
            return {column: None}
        case scope.NotNull(column):
            return {column: {"null": False}}
    lack("recall.filter of | and ~", "in Python")


def _json(value: object) -> object:
    if isinstance(value, hr.Buckets):
        return {"column": value.column, "edges": list(value.edges)}
    return value.isoformat() if isinstance(value, datetime) else value


def typed_text(query: words.Query) -> str:  # noqa: PLR0911 - a case each
    """Return a query as a person types it."""
    match query:
        case words.Words(text):
            return text
        case words.Phrase(text, 0, is_open):
            return f'"{text}{"*" * is_open}"'
        case words.Prefix(text):
            return f'"{text}*"' if " " in text else f"{text}*"
        case words.Fuzzy(text, edits) if " " not in text:
            return f"{text}~{edits}"
        case words.All(children) if all(isinstance(one, words.Words) for one in children):
            return " ".join(f"+{typed_text(one)}" for one in children)
        case words.Any(children):
            typed = [(isinstance(one, words.Not), typed_text(one)) for one in children]
            return " ".join(text if is_not else f"({text})" for is_not, text in typed)
        case words.Not(child):
            return f"-({typed_text(child)})"
    lack("recall.text with slop, boosts and fuzzy words in a row", "in Python")


def _said(shape: Shape, call: Call, query: int) -> tuple[dict[str, str], Row, Row | None]:
    """Return texts, vectors and filter of one query as JSON has them."""
    given = {arm: own[query] for arm, own in call.texts.items()}
    texts = {arm: None if one is None else typed_text(one) for arm, one in given.items()}
    vectors = {arm: given[query] for arm, given in call.vectors.items()}
    predicate = call.filter(query)
    return (
        {arm: text for arm, text in texts.items() if text is not None},
        {
            arm: said_weights(one) if arm in shape.sparse else one.tolist()
            for arm, one in vectors.items()
            if one is not None
        },
        None if predicate is None else plain_filter(predicate),
    )


def _is_typed(call: Call, query: int) -> bool:
    return any(not isinstance(own[query], words.Words | None) for own in call.texts.values())


def with_counts(reply: Reply, counted: tuple[Any, ...]) -> Reply:
    """Return hits with what a page counts."""
    return tuple(hit._replace(counted=counted) for hit in reply)


def told_counts(told: Row) -> tuple[Any, ...]:
    """Return the total and the facets of a reply in JSON."""
    facets = [
        (
            name,
            tuple(
                (one.get("value", (one.get("from"), one.get("to"))), one["count"]) for one in counts
            ),
        )
        for name, counts in told["facets"].items()
    ]
    return told["total"], tuple(facets)


class Saved(Index):
    """What the doors of an index share: it is only read."""

    lacks: ClassVar = {
        **dict.fromkeys(CHANGES, "save a new version"),
        **dict.fromkeys(("count", "get", "save", "merged"), "in Python"),
    }

    path: Path

    def _renew(self, rows: Rows) -> None:
        with hr.Index.open(self.path, device="cpu") as other:
            other.add(table(self.shape, rows))
            other.save(self.path)

    def _asked(self, call: Call) -> dict[str, Any]:
        """Return the options of a call that were said, as `lacks` names them."""
        told = {"fusion": call.fusion, "bm25": call.bm25, "min_fused": call.min_fused}
        return {name: value for name, value in told.items() if value is not None}

    def recall(self, call: Call, **more: Any) -> list[Reply]:
        for name in self._asked(call):
            if (asked := f"recall.{name}") in self.lacks:
                lack(asked, self.lacks[asked])
        return super().recall(call, **more)


class Served(Saved):
    """``POST /v1/recall/batch`` of ``hyrecall serve FOLDER``."""

    name: ClassVar[str] = "served"
    lacks: ClassVar = {
        **Saved.lacks,
        **{
            f"{verb}.{name}": "a recipe by name says how to rank"
            for name in (
                "fusion",
                "bm25",
                "min_fused",
                "shaping",
                "arms",
                "candidates",
                "expansion",
            )
            for verb in ("recall", "explained")
        },
    }

    @classmethod
    @cache
    def _described(cls) -> Any:
        from hyrecall.serve import create_app

        rows = table(Shape(), [])
        built = hr.Index.build(rows, schema(Shape()), analyzer=hr.Analyzer("word"))
        return create_app(built).openapi()

    @classmethod
    def offers(cls, verb: str, option: str | None = None) -> bool:
        described = cls._described()
        if verb not in ("recall", "shown", "explained", "marked", "renew"):
            return any(verb in path for path in described["paths"])
        fields = described["components"]["schemas"]["IndexQueryBody"]["properties"]
        return option in (None, *fields)

    def open(self, world: World, stack: ExitStack) -> None:
        pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
        from hyrecall.serve import create_app
        from serve_client import calling

        self.path = self.folder / "served"
        Plain(world, self.folder, self.shared, stack).save(self.path)
        app = create_app(hr.Index.open(self.path, device="cpu", threads=1))
        manager = self.shared.portal.wrap_async_context_manager(calling(app))
        self.client = stack.enter_context(manager)

    def _renew(self, rows: Rows) -> None:
        super()._renew(rows)
        first = rows[0]
        texts = {arm: (words.Words(first.texts[arm] or ""),) for arm in self.shape.lexical}
        call, until = Call((frozenset({first.cell}),), texts), time.monotonic() + 60
        while first.key not in [hit.key for hit in self._recall(call)[0]]:
            assert time.monotonic() < until, "the service keeps the old version"
            time.sleep(0.05)

    def _batch(self, call: Call, **more: Any) -> list[Any]:
        queries = []
        for query, cells in enumerate(call.scopes):
            texts, vectors, predicate = _said(self.shape, call, query)
            body: Row = {"limit": call.limit, "offset": call.offset, **more}
            body |= {"parse": True} if _is_typed(call, query) else {}
            told = {"text": texts, "vector": vectors, "filter": predicate, "depth": call.depth}
            told["min_score"] = _floors(call)
            if call.page is not None:
                given = page_of(call.page)
                facets = given.get("facets", [])
                told |= {
                    "total": True,
                    "sort": given.get("sort"),
                    "facets": list(map(_json, facets)),
                }
            body |= {name: value for name, value in told.items() if value not in (None, {})}
            if self.shape.cell:
                body["scope"] = {"any_of": [list(cell) for cell in sorted(cells, key=repr)]}
            queries.append(body)
        post = partial(self.client.post, "/v1/recall/batch", json={"queries": queries})
        reply = self.shared.portal.call(post)
        if reply.status_code >= 400:
            message = reply.json()["error"]["message"]
            raise Refused(STATUSES.get(reply.status_code, str(reply.status_code)), message)
        return list(reply.json()["replies"])

    def _recall(self, call: Call, **more: Any) -> list[Reply]:
        found = self._batch(call, **more)
        out: list[Reply] = [tuple(map(self._hit, one["hits"])) for one in found]
        if call.page is None:
            return out
        return [with_counts(one, told_counts(told)) for one, told in zip(out, found, strict=True)]

    def _hit(self, one: Any) -> Hit:
        scores, ranks = one["scores"], one["ranks"]
        return Hit(
            one["rank"], one["key"], tuple(one["cell"]), one["score"],
            tuple(scores.get(arm) for arm in self.shape.arms),
            tuple(ranks.get(arm) for arm in self.shape.arms),
        )  # fmt: skip

    def _shown(self, call: Call, columns: list[str]) -> list[list[Row]]:
        found = self._batch(call, columns=columns)
        return [[hit["columns"] for hit in one["hits"]] for one in found]

    def _explained(self, call: Call, **more: Any) -> list[list[tuple[float, float]]]:
        found = self._batch(call, explain=True, **more)
        return [
            [(hit["score"], hit["explanation"]["score"]) for hit in one["hits"]] for one in found
        ]

    def _marked(self, call: Call) -> list[list[tuple[list[list[int]], str]]]:
        found = self._batch(call, highlight=True, columns=["text"])
        return [
            [(hit["highlights"]["text"], hit["snippet"]) for hit in one["hits"]] for one in found
        ]


class CommandLine(Saved):
    """``hyrecall index``, then ``hyrecall recall`` for each query."""

    name: ClassVar[str] = "command line"
    lacks: ClassVar = {
        **Saved.lacks,
        "marked": "the table marks them on a terminal",
        **{
            f"{verb}.{name}": "in Python, or a recipe by name"
            for name in ("shaping", "arms", "candidates", "expansion")
            for verb in ("recall", "explained")
        },
    }

    @classmethod
    def offers(cls, verb: str, option: str | None = None) -> bool:
        if verb not in ("recall", "shown", "explained", "renew"):
            return "path" not in commands_described().get(verb, ["path"])  # of a store
        return option in (None, *commands_described()["recall"])

    def open(self, world: World, stack: ExitStack) -> None:
        pytest.importorskip("typer", reason="the extra [cli] is not installed")
        pytest.importorskip("rich", reason="the extra [cli] is not installed")
        file, self.path = self.folder / "rows.parquet", self.folder / "by command"
        pq.write_table(table(world.shape, world.rows), file)
        cells = ["--cell", ",".join(world.shape.cell)] if world.shape.cell else ["--no-cell"]
        given = ["index", file, "-o", self.path, "--key", "id", *cells, "--threads", 1]
        for arm, columns in world.shape.lexical.items():
            weighted = map("{}:{}".format, columns, world.shape.column_weights(arm))
            given += ["--text", f"{arm}={'+'.join(weighted)}"]
        for arm in world.shape.dense:
            form = [
                name
                for name, of in (("maxsim", world.shape.many), ("sparse", world.shape.sparse))
                if arm in of
            ]
            given += ["--vector", ":".join((arm, *form))]
        given += ["--attribute", "kind,number,price,at,tags", "--analyzer", "word"]
        self._run(*given)

    def _run(self, *words: object) -> Any:
        return invoked([str(one) for one in words], self.folder)

    def _whole(self, call: Call, query: int, *flags: object) -> Any:
        texts, vectors, predicate = _said(self.shape, call, query)
        if len(set(texts.values())) > 1 or set(texts) not in (set(), set(self.shape.lexical)):
            lack("recall.text of arms", "one text goes to all text arms")
        given: list[object] = [*dict.fromkeys(texts.values()), *flags]
        given += ["--parse"] if _is_typed(call, query) else []
        for arm, vector in vectors.items():
            given += ["--vector", f"{arm}={json.dumps(vector)}"]
        for cell in sorted(call.scopes[query], key=repr) if self.shape.cell else ():
            given += ["--scope", json.dumps(list(cell))]
        if self.shape.cell and not call.scopes[query]:
            lack("recall.scope without cells", "a command names a cell")
        told = {"limit": call.limit, "offset": call.offset, "depth": call.depth}
        told |= {"min-fused": call.min_fused, "fusion": call.fusion and _fusion(call.fusion)}
        if call.bm25 is not None:
            told["bm25"] = f"{call.bm25.variant}:{call.bm25.k1}:{call.bm25.b}"
        for name, value in told.items():
            given += [f"--{name}", value] if value is not None else []
        for arm, floor in _floors(call).items():
            given += ["--min-score", f"{arm}={floor!r}"]
        if predicate is not None:
            given += ["--filter", json.dumps(predicate)]
        given += _page_flags(call)
        return json.loads(self._run("recall", self.path, *given, "--json"))

    def _one(self, call: Call, query: int, *flags: object) -> Any:
        return self._whole(call, query, *flags)["hits"]

    def _recall(self, call: Call, **more: Any) -> list[Reply]:
        flags, out = list(_flags(more)), []
        for query in range(len(call.scopes)):
            told = self._whole(call, query, *flags)
            hits: Reply = tuple(map(self._hit, told["hits"]))
            out.append(hits if call.page is None else with_counts(hits, told_counts(told)))
        return out

    def _hit(self, one: Any) -> Hit:
        return Hit(
            one["rank"], one["key"], tuple(one[name] for name in self.shape.cell), one["score"],
            tuple(one.get(f"{arm}_score") for arm in self.shape.arms),
            tuple(one.get(f"{arm}_rank") for arm in self.shape.arms),
        )  # fmt: skip

    def _shown(self, call: Call, columns: list[str]) -> list[list[Row]]:
        flags = ("--columns", ",".join(columns))
        found = [self._one(call, query, *flags) for query in range(len(call.scopes))]
        return [[{name: one[name] for name in columns} for one in hits] for hits in found]

    def _explained(self, call: Call, **more: Any) -> list[list[tuple[float, float]]]:
        flags = ("--explain", *_flags(more))
        found = [self._one(call, query, *flags) for query in range(len(call.scopes))]
        return [[(one["score"], one["explanation"]["score"]) for one in hits] for hits in found]


def _page_flags(call: Call) -> Iterator[str]:
    """Return the columns that order a page, and what it counts, as flags."""
    if call.page is None:
        return
    for name, descends in call.page.sort or ():
        yield from ("--sort", f"{name}:desc" if descends else name)
    for name in call.page.facets:
        yield from ("--facet", name)
    if call.page.edges:
        edges = ["" if one is None else repr(one) for one in call.page.edges]
        yield from ("--facet", f"price={','.join(edges)}")


def _flags(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        yield f"--{name.replace('_', '-')}"
        if value is not True:
            yield str(value)


def _floors(call: Call) -> dict[str, float]:
    for floor in call.min_score.values():
        if isinstance(floor, documents.Above):
            lack("recall.min_score above", "an inclusive floor, or Python")
    return dict(call.min_score)


def _fusion(chosen: fusion.Fusion) -> str:
    """Return a fusion as ``--fusion`` has it."""
    weights = ",".join(f"{arm}={one}" for arm, one in (chosen.weights or {}).items())
    match chosen:
        case fusion.Rrf(alpha=alpha) if alpha is not None:
            return f"rrf:alpha={alpha}"
        case fusion.Rrf():
            return f"rrf:{weights or chosen.rank_constant}"
        case fusion.Dbsf():
            return "dbsf"
    assert isinstance(chosen, fusion.Weighted)
    name = "max" if chosen.largest else "sum"
    return f"{name}:{weights}" if weights else name


@cache
def reference(world: World) -> Plain:
    """Return the plain index of a world, which is only read."""
    return Plain(world, Path(), None, ExitStack())


FACES = (
    Plain, Mapped, InRam, OneShard, TwoShards, FiveShards, OnDevice, Served, CommandLine,
)  # fmt: skip
IN_PYTHON = {one.name for one in FACES if issubclass(one, Plain)}
