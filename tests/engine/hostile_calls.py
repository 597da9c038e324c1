"""Calls everything that the native module's stubs name, with arguments that nobody should pass.

``python hostile_calls.py SEED CALLS FILE``: FILE always names the call under way, so that a crash
says which one it was. CALLS calls are really made. Ends with 1 where a call raised what is neither
of hyrecall nor TypeError, or where a target was never called.
"""

from __future__ import annotations

import ast
import random
import resource
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import hyrecall as hr
from hyrecall import _core
from seams import attribute_column

STUBS = Path(hr.__file__).parent / "_core"
N_ROWS = 300
ATTRIBUTES = ("year", "tags", "near")
# What is never called, and why.
LEFT_OUT = {
    "_ArrowArray.__arrow_c_array__": "a Protocol of the stubs: the module has no such class",
    **{
        f"device.DeviceTensor.{name}": "only a CUDA device makes a DeviceTensor"
        for name in ("__dlpack__", "__dlpack_device__", "__len__", "dtype.fget", "shape.fget")
    },
    "Gate.stream.fget": "only a CUDA device makes a Gate",
    "Guest.n_rows.fget": "only a tensor on a CUDA device makes a Guest",
}
# MemoryError: a number may ask for more memory than there is. The native entries are private, so
# their checks of ranges and lengths raise InternalError (a HyrecallError), not OptionError: the
# package never passes such values. LexicalColumn.doc_length(2**31) and
# SegmentView.without([2**31]) are two of them.
ALLOWED = (_core.HyrecallError, TypeError, MemoryError)

Pool = dict[str, list[Any]]


@dataclass(frozen=True)
class Target:
    """A callable of the stubs."""

    name: str
    owner: str | None  # the class of its first argument
    parameters: tuple[tuple[str, str, bool], ...]  # (name, annotation, keyword only)

    def find(self) -> Callable[..., Any]:
        """Look it up in the native module."""
        found: Any = _core
        for part in self.name.split("."):
            found = getattr(found, part)
        return found


def stub_targets() -> Iterator[Target]:
    """Read every function, constructor, method and property of the stubs."""
    for path in sorted(STUBS.glob("*.pyi")):
        prefix = "" if path.stem == "__init__" else f"{path.stem}."
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                yield _target(prefix + node.name, None, node, skip=0)
            elif isinstance(node, ast.ClassDef):
                yield from _methods(prefix, node)


def _methods(prefix: str, node: ast.ClassDef) -> Iterator[Target]:
    for item in node.body:
        if not isinstance(item, ast.FunctionDef):
            continue
        marks = {ast.unparse(mark) for mark in item.decorator_list}
        name = f"{prefix}{node.name}"
        if item.name == "__init__":
            yield _target(name, None, item, skip=1)
        elif "staticmethod" in marks:
            yield _target(f"{name}.{item.name}", None, item, skip=0)
        elif "property" in marks:
            yield Target(f"{name}.{item.name}.fget", node.name, ())
        else:
            yield _target(f"{name}.{item.name}", node.name, item, skip=1)


def _target(name: str, owner: str | None, node: ast.FunctionDef, skip: int) -> Target:
    def noted(given: list[ast.arg], *, keyword: bool) -> list[tuple[str, str, bool]]:
        return [(a.arg, ast.unparse(a.annotation) if a.annotation else "", keyword) for a in given]

    plain = noted([*node.args.posonlyargs, *node.args.args][skip:], keyword=False)
    return Target(name, owner, (*plain, *noted(node.args.kwonlyargs, keyword=True)))


class Unplain:
    """What no call expects."""

    def __repr__(self) -> str:
        return "Unplain()"


def numbers(rng: random.Random) -> Any:
    few = [0, 1, 2, -1, 3, 7, N_ROWS, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64]
    return rng.choice([*few, 1.5, -0.0, float("nan"), float("inf"), -1e300, True])


def arrays(rng: random.Random) -> Any:
    """An array of some type, length and layout; half of them are nearly what is asked for."""
    n = rng.choice([0, 1, 2, N_ROWS - 1, N_ROWS, N_ROWS + 1, 7])
    kinds = ["u1", "u2", "u4", "i8", "f4", "f8", "bool", "i4", "U3", "O"]
    kind = rng.choice(kinds)
    values: Any = np.zeros(n, kind)
    if values.dtype.kind in "uif" and n > 0:
        top = rng.choice([1, 4, N_ROWS, 2**31, 2**32 - 1])
        limit = np.iinfo(values.dtype).max if values.dtype.kind in "ui" else top
        values[:] = [rng.randrange(min(top, int(limit)) + 1) for _ in range(n)]
        if rng.random() < 0.5 and kind in ("u4", "i8"):
            values[:] = np.arange(n)
        if values.dtype.kind == "f" and rng.random() < 0.3:
            values[rng.randrange(n)] = rng.choice([np.nan, np.inf, -np.inf, 1e-40])
        if values.dtype.kind == "i" and rng.random() < 0.3:
            values[rng.randrange(n)] = rng.choice([-1, -(2**31)])
    shape = rng.random()
    if shape < 0.1:
        return values[::2]
    if shape < 0.2:
        return values.reshape(-1, 1)
    if shape < 0.3:
        return np.zeros((n, rng.choice([0, 1, 4, 5, 16, 17])), values.dtype)
    if shape < 0.35:
        return np.asfortranarray(np.zeros((n, 3), values.dtype))
    if shape < 0.4:
        return np.zeros((), values.dtype)
    return values


def offsets(rng: random.Random) -> Any:
    """Offsets of the lists of three queries, right or wrong, or any array."""
    ends = [[0, 2, 2, 3], [0, 0, 0, 0], [0, 2, 1, 3], [0, 1, 2, 2**40], [-1, 0, 1, 3]]
    return np.array(rng.choice(ends)) if rng.random() < 0.7 else arrays(rng)


def arrow(rng: random.Random) -> Any:
    n = rng.choice([0, 1, 3, N_ROWS - 1, N_ROWS, N_ROWS + 1])
    return rng.choice(
        [
            pa.array([f"u{i % 3}" for i in range(n)], pa.large_string()),
            pa.array(range(n), pa.int64()),
            pa.array([i % 2 == 0 for i in range(n)], pa.bool_()),
            pa.array([None] * n, pa.int64()),
            pa.array(["a"] * n, pa.string()),
            pa.array([[1]] * n, pa.list_(pa.int64())),
            pa.array(range(n + 5), pa.int64()).slice(5),
            pa.nulls(n),
        ]
    )


def texts(rng: random.Random) -> Any:
    names = ["float32", "float16", "bfloat16", "document", "query", "unicode", "rrf", "max",
             "lucene"]  # fmt: skip
    odd = ["", "tea", "\ud800", "\0", "x" * 5000, "minmax", "raw", "weighted_sum", "/nowhere",
           "log"]  # fmt: skip
    return rng.choice([*names, *odd, b"tea", b"\xff\xfe"])


def same(*given: Any) -> Any:
    return given[0]


def hostile(rng: random.Random, pool: Pool, depth: int = 0) -> Any:
    """Any value at all."""
    make = rng.choice([numbers, numbers, arrays, arrays, arrow, texts, None, None, None])
    if make is not None:
        return make(rng)
    if depth < 3 and rng.random() < 0.4:
        made = [hostile(rng, pool, depth + 1) for _ in range(rng.randrange(4))]
        return rng.choice([made, tuple(made)])
    if rng.random() < 0.5:
        return rng.choice(pool[rng.choice(sorted(pool))])
    return rng.choice([None, Unplain(), {}, same, object])


def part_arrays(rng: random.Random, pool: Pool) -> Any:
    """The arrays of statistics or candidates, of which some are spoilt or gone."""
    out = dict(rng.choice([*pool["Statistics"], *pool["Candidates"]]).arrays())
    for name in rng.sample(sorted(out), rng.randrange(3)):
        array = np.array(out[name])
        if len(array) and rng.random() < 0.6:
            values = [0, 1, 2, 2**31, -1] if array.dtype.kind != "u" else [0, 1, 200]
            array[rng.randrange(len(array))] = rng.choice(values)
        out[name] = rng.choice([array, array[:-1], arrays(rng)])
    if rng.random() < 0.1:
        del out[rng.choice(sorted(out))]
    return out


def plausible(rng: random.Random, pool: Pool, annotation: str) -> Any:
    """A value of about the type that a stub asks for."""
    for name, held in pool.items():
        if annotation.endswith(name) or annotation.startswith(f"{name} |"):
            return rng.choice(held)
        if f"Sequence[{name}]" in annotation:
            return [rng.choice([*held, None]) for _ in range(rng.randrange(4))]
    if "Sequence[" in annotation or annotation.startswith("list["):
        inner = annotation[annotation.index("[") + 1 : -1]
        return [plausible(rng, pool, inner) for _ in range(rng.randrange(4))]
    made: dict[str, Callable[[], Any]] = {
        "_Arrays": lambda: part_arrays(rng, pool),
        "_ArrowArray": lambda: arrow(rng),
        "NDArray": lambda: arrays(rng),
        "_Rows": lambda: arrays(rng),
        "_Bytes": lambda: arrays(rng),
        "_Floats": lambda: arrays(rng),
        "_Ints": lambda: arrays(rng),
        "_Offsets": lambda: offsets(rng),
        "_Bm25": lambda: (texts(rng), 1.2, 0.75, numbers(rng)),
        "_Floor": lambda: rng.choice([None, (0.5, True), (float("nan"), False)]),
        "Callable": lambda: same,
        "str": lambda: texts(rng),
        "int": lambda: numbers(rng),
        "float": lambda: numbers(rng),
        "bool": lambda: rng.random() < 0.5,
    }
    for name, make in made.items():
        if name in annotation:
            return make()
    return hostile(rng, pool)


def objects() -> Pool:
    """Real objects of every class that can be had here."""
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            "id": range(N_ROWS),
            "user": [f"u{i // 100}" for i in range(N_ROWS)],
            "text": [f"w{i % 7} w{i % 5} tea" if i % 9 else None for i in range(N_ROWS)],
            "year": [i % 30 for i in range(N_ROWS)],
            "tags": [[f"t{i % 4}", f"t{i % 3}"] for i in range(N_ROWS)],
            "near": [[i, (i + 1) % N_ROWS] for i in range(N_ROWS)],
        }
    )
    pool: Pool = {}
    for dim in (5, 17):
        schema = hr.Schema(
            key="id",
            cell="user",
            text="text",
            vector="v",
            attributes=ATTRIBUTES,
        )
        vectors = {"v": rng.standard_normal((N_ROWS, dim), np.float32)}
        index = hr.Index.build(table, schema, vectors=vectors, device="cpu", threads=2)
        index.delete([1, 2, 3], scope=["u0"] * 3)
        collect(pool, index, table, dim)
    return pool


def collect(pool: Pool, index: hr.Index, table: pa.Table, dim: int) -> None:
    def add(*made: Any) -> None:
        for one in made:
            pool.setdefault(type(one).__name__, []).append(one)

    state: Any = index._state
    segment = state.segments[0]
    add(state.snapshot, *state.views, segment.core)
    add(*segment.lexical.values(), *segment.dense.values())
    add(attribute_column(table["year"].combine_chunks()))
    add(attribute_column(table["tags"].cast(pa.large_list(pa.large_string())).combine_chunks()))
    analyzer = _core.Analyzer("unicode")
    program = _core.FilterProgram.codes_between(0, 3, 20)
    cells = [pa.array([f"u{i // 100}" for i in range(N_ROWS)], pa.large_string())]
    add(analyzer, program, _core.CellDirectory(cells, N_ROWS))
    scopes = _core.Scopes(["string"], hr.Scope, lambda scope, argument: [])
    scopes.add_each(["u0", "u1", ("u2",)])
    column = _core.rows.Column(pa.array(range(N_ROWS)))
    first = np.zeros(2, np.uint32)
    add(scopes, column, _core.rows.gather([column], first, first))
    add(_core.arithmetic.RoundToNearest())
    for is_fused in (True, False):
        request = _core.BatchRequest(
            scopes=scopes,
            filters=[program],
            filter_of=np.array([0, 2**32 - 1, 0], np.uint32),
            depth=10,
            limit=5,
            offset=0,
            threads=2,
        )
        if is_fused:
            bm25 = ("lucene", 1.2, 0.75, 0.0, 0.75)
            words = ["tea w1", None, _core.queries.TextQuery.phrase("w1 w1", 3)]
            add(words[2])
            request.add_lexical(0, "text", bm25, analyzer, words, same, None)
            queries = np.ones((3, dim), np.float32)
            request.add_dense(0, "v", queries, np.zeros(0, np.uint8), None)
            request.set_fusion(
                kind="rrf",
                weights=[1.0, 1.0],
                rank_constant=60.0,
                scales=["none", "none"],
                complete=True,
                balance=None,
                min_fused=None,
                normalize=False,
            )
            frozen = _core.FrozenRequest(
                like=request, host_postings=None, kinds=["string"], scope_type=hr.Scope,
                dims=[dim], blank=True, exact=True,
            )  # fmt: skip
            asked = ("tea w1", queries[0], "u0", program, True)
            add(frozen, frozen.ask(state.snapshot, *asked))
            execution = _core.Execution(state.snapshot, request)
            statistics = execution.statistics()
            add(execution, statistics, execution.candidates(statistics))
            matches = _core.Matches(state.snapshot, request)
            add(matches, matches.rows(0))
        add(request, _core.arms.Audience(state.snapshot, request))
        adjacency = _core.arms.Adjacency(
            state.snapshot, request, ATTRIBUTES.index("near"), state.snapshot, request
        )
        some = pa.array(["k1", "k2"], pa.large_string())
        add(adjacency, _core.arms.Neighbours(adjacency, np.array([0, 1, 1, 2]), some))
    with open(__file__, "rb") as file:
        mapped = _core.files.MappedFile(__file__, file.fileno(), 1000)
    add(mapped, _core.files.MappedFiles([mapped]))
    add(_core.files.BlockChecks("file", bytes(1000), [0, 0], 500, [1]))
    offsets = np.array([0, 2, 2, 3])
    add(
        _core.shaping.FusedLists(
            offsets, np.ones(3), np.zeros(3, np.uint32), np.arange(3, 6, dtype="u4")
        )
    )


def arguments(target: Target, rng: random.Random, pool: Pool) -> tuple[list[Any], dict[str, Any]]:
    positional: list[Any] = []
    named: dict[str, Any] = {}
    if target.owner is not None:
        positional.append(rng.choice(pool[target.owner]))
    for name, annotation, is_keyword in target.parameters:
        is_near = rng.random() < 0.7
        value = plausible(rng, pool, annotation) if is_near else hostile(rng, pool)
        if is_keyword:
            named[name] = value
        else:
            positional.append(value)
    return positional, named


def can_be_called(target: Target, pool: Pool) -> bool:
    """Say whether there is an object for its first argument."""
    return target.owner is None or target.owner in pool


def main(seed: int, n_calls: int, told: Path) -> int:
    """Make the calls; give how many raised what they may not, or were never made."""
    rng = random.Random(seed)
    pool = objects()
    targets = [t for t in stub_targets() if t.name not in LEFT_OUT]
    outcomes: Counter[str] = Counter()
    called: set[str] = set()
    n_wrong = 0
    with told.open("w") as file:
        for target in islice(cycle(t for t in targets if can_be_called(t, pool)), n_calls):
            positional, named = arguments(target, rng, pool)
            called.add(target.name)
            file.seek(0)
            file.truncate()
            file.write(f"{target.name}(*{positional!r:.800}, **{named!r:.800})")
            file.flush()
            try:
                with warnings.catch_warnings(action="ignore"):  # NumPy's, of values that it casts
                    target.find()(*positional, **named)
                outcomes["answered"] += 1
            except ALLOWED as error:
                outcomes[type(error).__name__] += 1
            except Exception:
                n_wrong += 1
                file.seek(0)
                print(f"{target.name}(*{positional!r:.300}, **{named!r:.300})", file=sys.stderr)
                traceback.print_exc(limit=1)
    never = sorted({target.name for target in targets} - called)
    if never:
        print(f"never called: {', '.join(never)}", file=sys.stderr)
    print(f"{n_calls} calls of {len(called)} targets:", dict(outcomes))
    return n_wrong + len(never)


if __name__ == "__main__":
    if "libasan" not in Path("/proc/self/maps").read_text():  # its shadow memory is terabytes
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])) > 0)
