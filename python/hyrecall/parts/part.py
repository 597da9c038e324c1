"""The result of one shard for a request: its candidates, and the rows that the merge reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from hyrecall.base.arguments import check_keywords
from hyrecall.base.runtime import choose_threads
from hyrecall.errors import OptionError, error
from hyrecall.parts.counts import Kinds, are_ends, check_arrays
from hyrecall.parts.frames import pack, pack_table, reading, unpack, unpack_table
from hyrecall.segments.segments import IndexFacts
from hyrecall.table.schema import Schema, Text
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

if TYPE_CHECKING:
    from hyrecall.segments.segments import State


KIND = "hyrecall part"

Array = npt.NDArray[Any]

_KINDS: Kinds = {
    "doc_ends": np.int64, "seq": np.int64, "scores": np.float32, "list_ends": np.int64,
    "listed": np.uint32, "found": np.int64, "hidden": np.uint8, "near": np.uint32,
    "threads": np.float32, "lengths": np.uint32, "length_shares": np.float64,
    "priors": np.float64, "doc": np.uint32,
}  # fmt: skip


class Vectors(NamedTuple):
    """Vectors of the rows of a part, as stored in the index."""

    dtype: str
    dim: int
    rows: npt.NDArray[np.uint8]  # (n_rows, bytes of a vector)
    inverse_norms: npt.NDArray[np.float32]  # 0: no vector


class RunPart(NamedTuple):
    """The candidates of one run of the call."""

    n_arms: int
    n_exact: int
    arrays: Mapping[str, Array]

    def check(self) -> None:
        """Refuse arrays that do not fit together; they may come from another process."""
        arrays = self.arrays
        check_arrays("parts", arrays, _KINDS)
        n_docs, n_lists = len(arrays["seq"]), (len(arrays["doc_ends"]) - 1) * self.n_arms
        fits = self.n_arms > 0 and 0 <= self.n_exact <= self.n_arms
        fits &= are_ends(arrays["doc_ends"], len(arrays["doc_ends"]) - 1, n_docs)
        fits &= are_ends(arrays["list_ends"], n_lists, len(arrays["listed"]))
        fits &= len(arrays["scores"]) == n_docs * self.n_arms and len(arrays["doc"]) == n_docs
        if "holds" in arrays:
            check_arrays("parts", arrays, {"holds": np.uint32})
            fits &= len(arrays["holds"]) == n_docs
        if "refused" in arrays:
            check_arrays("parts", arrays, {"refused": np.uint8})
            refused, n_queries = arrays["refused"], len(arrays["doc_ends"]) - 1
            fits &= n_queries > 0 and len(refused) % n_queries == 0
            fits &= bool(refused.max(initial=0) <= 3)
        if fits:
            sizes = np.repeat(np.diff(arrays["doc_ends"]), self.n_arms)
            fits = bool((arrays["listed"] < np.repeat(sizes, np.diff(arrays["list_ends"]))).all())
        if not fits:
            raise error(OptionError, "parts", "arrays that fit each other", "others")


@check_keywords
@dataclass(frozen=True, eq=False, repr=False)
class Part:
    """The result of one shard for a request; :meth:`hyrecall.Index.candidates` returns it.

    For each candidate it has the insertion number, the score in every arm, the key, the cell and
    the attributes, the columns that the request asks for or that a stage reads, and vectors only
    if a stage compares them.

    Attributes
    ----------
    request : str
        The ``id`` of the request.
    index : str
        A hash of the schema, analyzers and types of the index.
    version : str
        The state of the shard that was searched.
    device : str
        The device that searched.
    n_rows : int
        The number of its rows.
    """

    request: str
    index: str
    version: str
    versions: tuple[str, ...]  # of the statistics
    device: str
    sees_threads: npt.NDArray[np.bool_]
    facts: IndexFacts
    runs: Mapping[str, RunPart]
    rows: pa.Table
    seqs: npt.NDArray[np.int64]
    has_text: Mapping[str, npt.NDArray[np.bool_]]
    vectors: Mapping[str, Vectors]

    @property
    def n_rows(self) -> int:
        """The number of rows of the part."""
        return len(self.seqs)

    def to_bytes(self) -> bytes:
        """Return the part as bytes for another process: Arrow and JSON, with a checksum."""
        arrays: dict[str, Array | bytes] = {
            "rows": pack_table(self.rows),
            "kinds": _plain_of(self.facts).kinds,
            "seqs": self.seqs,
            "sees_threads": self.sees_threads.view(np.uint8),
        }
        runs = []
        for at, (name, run) in enumerate(self.runs.items()):
            runs.append([name, run.n_arms, run.n_exact, sorted(run.arrays)])
            arrays |= {f"{at}.{part}": run.arrays[part] for part in run.arrays}
        vectors = []
        for at, (arm, own) in enumerate(self.vectors.items()):
            vectors.append([arm, own.dtype, own.dim])
            arrays[f"vectors.{at}"] = own.rows.tobytes()
            arrays[f"norms.{at}"] = own.inverse_norms
        texts = list(self.has_text)
        arrays |= {f"text.{at}": self.has_text[arm].view(np.uint8) for at, arm in enumerate(texts)}
        header = {
            "request": self.request, "index": self.index, "version": self.version,
            "versions": list(self.versions), "device": self.device,
            "facts": _plain_of(self.facts).data,
            "runs": runs, "vectors": vectors, "texts": texts,
        }  # fmt: skip
        return pack(KIND, header, arrays)

    @classmethod
    def from_bytes(cls, data: bytes, *, facts: IndexFacts | None = None) -> Part:
        """Make a part from the bytes of :meth:`to_bytes`.

        Parameters
        ----------
        data : bytes
        facts : IndexFacts, optional
            The facts of an open shard. Needed if an analyzer of the index is a callable.

        Raises
        ------
        OptionError
            The bytes are not a part, of another version, or damaged; an analyzer is a callable
            and ``facts`` is missing.
        DTypeError
            Not bytes.
        """
        header, arrays = unpack(KIND, data)
        with reading("the bytes of a part"):
            rows = unpack_table(arrays["rows"])
            known = facts if facts is not None else _facts(header["facts"], arrays["kinds"])
            runs = {
                str(name): RunPart(int(n), int(e), {part: arrays[f"{at}.{part}"] for part in parts})
                for at, (name, n, e, parts) in enumerate(header["runs"])
            }
            for run in runs.values():
                run.check()
            n_rows = rows.num_rows
            kinds: dict[str, Any] = {"seqs": np.int64, "sees_threads": np.uint8}
            kinds |= {f"norms.{at}": np.float32 for at in range(len(header["vectors"]))}
            kinds |= {f"text.{at}": np.uint8 for at in range(len(header["texts"]))}
            check_arrays("data", arrays, kinds)
            if not len(arrays["sees_threads"]) or (arrays["sees_threads"] > 1).any():
                raise ValueError("not bools")
            if hash_of(known) != header["index"]:
                raise error(OptionError, "data", "a part of the index that it names", "another")
            vectors = {
                str(arm): Vectors(
                    str(dtype), int(dim),
                    np.frombuffer(arrays[f"vectors.{at}"], np.uint8).reshape(n_rows, -1)
                    if n_rows else np.zeros((0, 1), np.uint8),
                    arrays[f"norms.{at}"],
                )
                for at, (arm, dtype, dim) in enumerate(header["vectors"])
            }  # fmt: skip
            has_text = {
                str(arm): arrays[f"text.{at}"].view(np.bool_)
                for at, arm in enumerate(header["texts"])
            }
            return cls(
                str(header["request"]), str(header["index"]), str(header["version"]),
                tuple(map(str, header["versions"])), str(header["device"]),
                arrays["sees_threads"].view(np.bool_), known, runs, rows, arrays["seqs"],
                has_text, vectors,
            )  # fmt: skip

    def __repr__(self) -> str:
        return f"Part({self.n_rows} rows)"


def version_of(state: State, seals: Sequence[str]) -> str:
    """Name a state of an index: each change except :meth:`hyrecall.Index.compact` makes a new
    name.
    """
    # ``seals`` are those of the saved version: a folder may get another index of the same size. The
    # name is a hash, since the number of documents would reveal something about all cells.
    told = [*seals, state.next_seq, state.n_docs]
    return xxhash.xxh3_128_hexdigest(json.dumps(told).encode())


class _Plain(NamedTuple):
    """The settings of an index as plain data; every answer of a shard has them."""

    hash: str
    data: Mapping[str, Any]
    kinds: bytes


_plain: WeakKeyDictionary[IndexFacts, _Plain] = WeakKeyDictionary()


def _plain_of(facts: IndexFacts) -> _Plain:
    found = _plain.get(facts)
    if found is None:
        found = _Plain(_hash(facts), _data(facts), pack_table(_nothing_of(facts)))
        _plain[facts] = found
    return found


def hash_of(facts: IndexFacts) -> str:
    """Return a hash of the facts that the shards of an index share."""
    return _plain_of(facts).hash


def _hash(facts: IndexFacts) -> str:
    told = {
        "schema": facts.schema.to_dict(),
        "analyzers": {arm: one.hash for arm, one in facts.analyzers.items()},
        "bm25": {arm: one.to_dict() for arm, one in facts.bm25.items()},
        "named": _named(facts),
        "dims": dict(facts.dims),
        "types": {name: str(kind) for name, kind in facts.row_types.items()},
    }
    return xxhash.xxh3_128_hexdigest(json.dumps(told, sort_keys=True).encode())


def _named(facts: IndexFacts) -> list[str]:
    """Name the arms with BM25 constants in the schema, which a default fusion does not change."""
    return [arm for arm, text in facts.schema.text_arms.items() if text.bm25 is not None]


def _data(facts: IndexFacts) -> dict[str, Any]:
    return {
        "schema": facts.schema.to_dict(),
        "analyzers": {arm: one.to_dict() for arm, one in facts.analyzers.items()},
        "bm25": {arm: one.to_dict() for arm, one in facts.bm25.items()},
        "named": _named(facts),
        "dims": dict(facts.dims),
    }


def _nothing_of(facts: IndexFacts) -> pa.Table:
    """Return an empty table that has the row columns of an index."""
    return pa.table({name: pa.array([], kind) for name, kind in facts.row_types.items()})


def _facts(data: Mapping[str, Any], kinds: bytes) -> IndexFacts:
    analyzers = {arm: Analyzer.from_dict(one) for arm, one in data["analyzers"].items()}
    bm25 = {arm: BM25(**one) for arm, one in data["bm25"].items()}
    schema = Schema.from_dict(data["schema"])
    texts = {
        arm: Text(*text.columns, bm25=bm25[arm] if arm in data["named"] else None)
        for arm, text in schema.text_arms.items()
    }
    schema = replace(schema, text=texts)
    types = {field.name: field.type for field in unpack_table(kinds).schema}
    return IndexFacts(schema, analyzers, bm25, dict(data["dims"]), types, choose_threads(None))
