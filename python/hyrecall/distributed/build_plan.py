"""The arguments of a build of shards, as files that workers and a resumed build read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import xxhash

from hyrecall.base import disk
from hyrecall.distributed.shards_file import Placement
from hyrecall.distributed.source_files import SourceFile, Unit
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.table.schema import Schema, Text
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

ASKED = "asked.json"
LAID = "placement.json"
WORKERS = "WORKERS"
"""A locked file that every worker inherits: a resumed build waits until no worker is left."""


@dataclass(frozen=True, eq=False)
class BuildPlan:
    """The arguments of a build."""

    files: Sequence[SourceFile]
    units: Sequence[Unit]
    schema: Schema
    analyzer: Analyzer | None
    bm25: BM25 | None
    n_shards: int
    memory: int
    threads: int

    @property
    def rows(self) -> int:
        """Rows of the source."""
        return sum(one.rows for one in self.files)

    def check(self) -> None:
        """Refuse analyzers with callables, which cannot be sent to workers."""
        if not isinstance(self.bm25, BM25 | None):
            raise error(DTypeError, "bm25", "an hr.BM25", repr(self.bm25))
        of_arms = (text.analyzer for text in self.schema.text_arms.values())
        for one in (self.analyzer, *of_arms):
            if one is not None and not isinstance(one, Analyzer):
                raise error(DTypeError, "analyzer", "an hr.Analyzer", repr(one))
            if one is not None and one.has_callable:
                wish = "an analyzer without a callable, which cannot be sent to a worker"
                raise error(OptionError, "analyzer", wish, repr(one))

    def _asked(self) -> dict[str, Any]:
        texts = {
            arm: [_plain(text.analyzer), _plain(text.bm25)]
            for arm, text in self.schema.text_arms.items()
        }
        data = {
            "files": [asdict(one) for one in self.files],
            "units": [one.to_dict() for one in self.units],
            "schema": self.schema.to_dict(), "texts": texts,
            "analyzer": _plain(self.analyzer), "bm25": _plain(self.bm25),
            "n_shards": self.n_shards,
        }  # fmt: skip
        return dict(json.loads(json.dumps(data)))  # the same types as read from a file

    def write(self, work: Path) -> None:
        """Write the plan to a folder, where workers read it."""
        data = {**self._asked(), "memory": self.memory, "threads": self.threads}
        _write(work, ASKED, data)

    @property
    def digest(self) -> str:
        """The hash of the arguments, without memory and threads."""
        return xxhash.xxh3_128_hexdigest(json.dumps(self._asked(), sort_keys=True).encode())

    def check_same(self, work: Path) -> None:
        """Refuse to resume a build that had other arguments."""
        found = _read(work, ASKED)
        asked = self._asked()
        other = [name for name, value in asked.items() if found.get(name) != value]
        if other:
            raise _others("unfinished", f" ({', '.join(other)})", work.parent)

    def check_done(self, folder: Path, digest: str) -> None:
        """Refuse the result of a complete build that had other arguments."""
        if digest != self.digest:
            raise _others("complete", "", folder)

    @classmethod
    def read(cls, work: Path) -> BuildPlan:
        """Read the plan of a folder."""
        data = _read(work, ASKED)
        plain = Schema.from_dict(data["schema"])
        texts = {}
        for arm, text in plain.text_arms.items():
            analyzer, bm25 = data["texts"][arm]
            texts[arm] = Text(*text.columns, analyzer=_analyzer(analyzer), bm25=_bm25(bm25))
        return cls(
            [SourceFile(**one) for one in data["files"]],
            [Unit(**one) for one in data["units"]],
            replace(plain, text=texts),
            _analyzer(data["analyzer"]),
            _bm25(data["bm25"]),
            data["n_shards"],
            data["memory"],
            data["threads"],
        )


@dataclass(frozen=True)
class Laid:
    """The placement of cells on shards, and how many rows each shard gets."""

    placement: Placement
    rows: tuple[int, ...]
    dims: Mapping[str, int]

    def write(self, work: Path) -> None:
        """Write this to a folder."""
        data = {"placement": self.placement.to_dict(), "rows": list(self.rows)}
        _write(work, LAID, {**data, "dims": dict(self.dims)})

    @classmethod
    def read(cls, work: Path) -> Laid | None:
        """Read this from a folder; None: the rows are not counted yet."""
        if not (work / LAID).exists():
            return None
        data = _read(work, LAID)
        return cls(Placement.from_dict(data["placement"]), tuple(data["rows"]), data["dims"])


def _others(state: str, which: str, folder: Path) -> OptionError:
    wish = f"the source, schema and options that the {state} build began with"
    remedy = f"remove {folder} and build again, or build into another folder"
    return error(OptionError, "resume", wish, f"others{which}", remedy)


def _plain(option: Analyzer | BM25 | None) -> Any:
    return None if option is None else option.to_dict()


def _analyzer(data: Mapping[str, Any] | None) -> Analyzer | None:
    return None if data is None else Analyzer.from_dict(data)


def _bm25(data: Mapping[str, Any] | None) -> BM25 | None:
    return None if data is None else BM25(**data)


def _write(work: Path, name: str, data: Mapping[str, Any]) -> None:
    disk.prepare(work, name, json.dumps(data).encode())
    disk.commit(work, name)


def _read(work: Path, name: str) -> dict[str, Any]:
    return dict(json.loads(disk.read_bytes(work / name)))
