"""The shards of a sharded index: how saved indexes are opened, found and asked, and their loss."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from operator import is_
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from hyrecall.ask.scope import ANY, CellTypes, Scope, ScopePattern, scope_entries
from hyrecall.base.arguments import convert_field, python_scalar
from hyrecall.base.runtime import choose_threads
from hyrecall.distributed.shards_file import PlacedShards, Placement, SavedFolders
from hyrecall.errors import (
    CorruptIndexError,
    HyrecallError,
    OptionError,
    ScopeError,
    ShardLostError,
    error,
)
from hyrecall.index import Index
from hyrecall.parts.merging import check_shards
from hyrecall.parts.messages import Part, Request, Statistics, hash_of
from hyrecall.segments.manifest import MANIFEST, SHARDS
from hyrecall.segments.opening import OpenOptions, read_pin
from hyrecall.segments.segments import IndexFacts, State
from hyrecall.text.analyzer import Analyzer

# ---- What a sharded index asks ----


class Shard(Protocol):
    """The methods that a sharded index calls on each shard."""

    # ``statistics`` and ``candidates`` raise ShardLostError if the shard cannot be asked,
    # CorruptIndexError if its files are damaged, and the index's own errors. A shard with
    # ``begin(method, *arguments)`` is sent its question before the answers of others are awaited,
    # and may be asked "alone", which counts and searches in one trip.

    @property
    def name(self) -> str:
        """The name in ``degraded``."""

    def statistics(self, request: Request) -> Statistics:
        """Return the shard's counts for BM25."""

    def candidates(self, request: Request, statistics: Statistics) -> Part:
        """Return each arm's best documents of the shard."""

    def close(self) -> None:
        """Close the shard."""


class LocalShard:
    """A shard in this process; its index is closed with it."""

    def __init__(self, name: str, index: Index) -> None:
        self.name = name
        self.index = index

    @property
    def facts(self) -> IndexFacts:
        """The facts that all shards of the index share."""
        return self.index._facts

    def statistics(self, request: Request) -> Statistics:
        """Return the shard's counts for BM25."""
        return self.index.statistics(request)

    def candidates(self, request: Request, statistics: Statistics) -> Part:
        """Return each arm's best documents of the shard."""
        return self.index.candidates(request, statistics)

    def close(self) -> None:
        """Close the index."""
        self.index.close()


Fault: TypeAlias = ShardLostError | CorruptIndexError
"""Why a shard has no answer; the reply then comes from the other shards."""


def ask(
    shards: Iterable[Shard], lost: dict[str, Fault], method: str, *given: Any
) -> list[tuple[Shard, Any]]:
    """Ask shards, and return their answers; ``lost`` gets those that have none."""
    waiting: list[tuple[Shard, Callable[[], Any]]] = []
    for one in shards:
        begin = getattr(one, "begin", None)
        answer = partial(getattr(one, method), *given) if begin is None else begin(method, *given)
        waiting.append((one, answer))
    out = []
    for one, answer in waiting:
        try:
            out.append((one, answer()))
        except (ShardLostError, CorruptIndexError) as fault:
            lost[one.name] = fault
    if not out:
        raise _all_lost(list(lost.values()))
    return out


def told_of(name: str, fault: Fault) -> str:
    """Return what ``degraded`` says of a lost shard."""
    return f"{name}: its documents are missing ({_why(fault)})"


def _all_lost(faults: Sequence[Fault]) -> Fault:
    """Return the error of a call that no shard answers: CorruptIndexError if all are damaged."""
    if all(isinstance(one, CorruptIndexError) for one in faults):
        return faults[0]
    got = "; ".join(map(_why, faults))
    return error(ShardLostError, "shards", "an answer of at least one", got)


def _why(fault: Fault) -> str:
    return f"its files are damaged: {fault}" if isinstance(fault, CorruptIndexError) else str(fault)


# ---- Which shards may hold documents of a query's scope ----


class ShardRouter:
    """Finds the shards of a placement that a batch of queries needs."""

    def __init__(self, placement: Placement, types: CellTypes) -> None:
        self._placement = placement
        self._types = types
        self._all = frozenset(range(placement.n_shards))

    def needed(self, scope: object) -> list[frozenset[int]] | frozenset[int] | None:
        """Return the shards of each query, or those of every query; None: an invalid scope."""
        try:
            scope = scope_entries(self._types, scope)
            if not isinstance(scope, list):
                return self._shards(scope)
            known: dict[object, frozenset[int]] = {}
            return [self._known(one, known) for one in scope]
        except (HyrecallError, TypeError):
            return None

    def _known(self, scope: object, known: dict[object, frozenset[int]]) -> frozenset[int]:
        if not isinstance(scope, str | int | Scope):
            return self._shards(scope)
        key = type(scope), scope  # 1 and True are the same dict key
        found = known.get(key)
        if found is None:
            found = known[key] = self._shards(scope)
        return found

    def _shards(self, scope: object) -> frozenset[int]:
        """Return the shards that may hold documents of a scope."""
        placement = self._placement
        if not self._types:
            if scope is not None:
                raise error(ScopeError, "scope", "no scope", repr(scope))
            return frozenset(placement.shards_of(()))
        if isinstance(scope, ScopePattern):
            named = dict(scope.parts)
            if set(named) != set(self._types):
                raise error(ScopeError, "scope", "every cell column named", sorted(named))
            if any(value is ANY for value in named.values()):
                return self._all
            return frozenset(placement.shards_of(tuple(named[name] for name in self._types)))
        if isinstance(scope, Scope):
            return frozenset(one for cell in scope.cells for one in placement.shards_of(cell))
        scope = python_scalar(scope)
        if scope is None or isinstance(scope, list):
            raise error(ScopeError, "scope", "a scope", repr(scope))
        return frozenset(placement.shards_of(scope))


# ---- Opens saved indexes as shards of one ----


@dataclass(frozen=True)
class ShardOpening:
    """Options of :meth:`hyrecall.Index.open` that hold for each shard, with the same names."""

    device: str = "auto"
    threads: int | None = None
    memory: str = "mmap"
    verify: str | None = None
    pin: Sequence[str] | str = ()

    def __post_init__(self) -> None:
        """Check the options, except the device, which may be that of another machine."""
        convert_field(self, "pin", lambda _, pin: read_pin(pin))
        OpenOptions(memory=self.memory, verify=self.verify, pin=read_pin(self.pin))
        choose_threads(self.threads)

    def open(
        self, path: str | Path, analyzer: Analyzer | Mapping[str, Analyzer] | None = None
    ) -> Index:
        """Open a saved index in this process."""
        return Index.open(path, analyzer=analyzer, embed={}, **self.options)

    @property
    def options(self) -> dict[str, Any]:
        """The options by name, as :meth:`hyrecall.Index.open` takes them."""
        return asdict(self)

    @property
    def once_checked(self) -> ShardOpening:
        """The options for a version whose checksums were compared before: ``"structure"``."""
        return replace(self, verify="structure")


@dataclass(frozen=True)
class SavedShard:
    """A version of a saved index: its folder, the checksum of its MANIFEST, and its name."""

    folder: Path
    seal: str
    name: str


Maker = Callable[[Sequence[SavedShard], IndexFacts], list[Any]]
"""Makes the shards of saved indexes that other processes open."""


def joined_state(states: Sequence[State]) -> State:
    """Return the documents of several shards as one state."""
    segments = [segment for one in states for segment in one.segments]
    views = [view for one in states for view in one.views]
    return State.of(segments, views, max(one.next_seq for one in states))


def damaged_shard(
    indexes: Mapping[str, Index], fault: CorruptIndexError, ask: Callable[[Index], object]
) -> str:
    """Return the name of the shard whose files made a call of all fail."""
    folder = Path(str(fault.argument)).absolute().parent
    for name, index in indexes.items():
        if index._lineage.home == folder:
            return name
    for name, index in indexes.items():  # the error names no file
        try:
            ask(index)
        except CorruptIndexError:
            return name
        except HyrecallError:
            continue
    raise fault


@dataclass(frozen=True, eq=False)
class OpenShards:
    """Shards that answer together; a recall goes on with the one with which it began."""

    shards: tuple[Shard, ...]
    saved: tuple[SavedShard, ...] = ()
    placed: PlacedShards | None = None
    router: ShardRouter | None = None
    last_joined: list[tuple[list[State], Index]] = field(
        default_factory=list, init=False, repr=False
    )

    @property
    def indexes(self) -> dict[str, Index] | None:
        """The shards by name if all are in this process, on the CPU; None: they are asked apart."""
        found = {one.name: one.index for one in self.shards if type(one) is LocalShard}
        is_apart = len(found) < len(self.shards) or any(i.device != "cpu" for i in found.values())
        return None if is_apart else found

    def joined(self, indexes: Iterable[Index], index_of: Callable[[State], Index]) -> Index | None:
        """Return the documents of some shards, as they are now, as one index; None: they differ."""
        indexes = list(indexes)
        states = [one._state for one in indexes]
        for known, index in self.last_joined:
            if len(known) == len(states) and all(map(is_, known, states)):
                return index
        if len({hash_of(one._facts) for one in indexes}) > 1:
            return None
        made = index_of(joined_state(states))
        self.last_joined[:] = [(states, made), *self.last_joined[:1]]
        return made

    @property
    def facts(self) -> IndexFacts:
        """The facts that all shards share."""
        for one in self.shards:
            facts = getattr(one, "facts", None)
            if isinstance(facts, IndexFacts):
                return facts
        raise error(OptionError, "shards", "one that this package opened", "others")

    @property
    def versions(self) -> list[tuple[Path, str]]:
        """The folder and the seal of each shard."""
        return [(one.folder, one.seal) for one in self.saved]


def open_generation(
    found: SavedFolders,
    before: OpenShards | None,
    *,
    opening: ShardOpening,
    analyzer: Analyzer | Mapping[str, Analyzer] | None = None,
    make: Maker | None = None,
) -> OpenShards:
    """Open saved indexes and check that they are the shards of one; some may be open before."""
    # With ``make``, other processes open them; here they are only checked.
    kept: dict[tuple[Path, str], Any] = {}
    if before is not None:
        kept = dict(zip(before.versions, before.shards, strict=True))
    here = opening
    if make is not None:
        how = "full" if opening.verify == "full" else "structure"
        here = ShardOpening("cpu", opening.threads, verify=how)
    with ExitStack() as opened:  # closes what does not stay open
        indexes: list[Index] = []
        for folder, seal in zip(found.folders, found.seals, strict=True):
            known = kept.get((folder.absolute(), seal))
            if isinstance(known, LocalShard):
                indexes.append(known.index)
                continue
            own = here if known is None else here.once_checked
            indexes.append(own.open(folder, analyzer))
            opened.callback(indexes[-1].close)
        _check(found, indexes)
        saved = _saved(found.folders, indexes)
        facts = indexes[0]._facts
        shards: list[Any] = [kept.get((one.folder, one.seal)) for one in saved]
        fresh = [at for at, known in enumerate(shards) if known is None]
        made: list[Any] = [LocalShard(saved[at].name, indexes[at]) for at in fresh]
        if make is None:
            opened.pop_all()
        elif fresh:
            made = make([saved[at] for at in fresh], facts)
        for at, one in zip(fresh, made, strict=True):
            shards[at] = one
    router = None
    if found.placed is not None:
        router = ShardRouter(found.placed.shards.placement, facts.cell_types)
    return OpenShards(tuple(shards), tuple(saved), found.placed, router)


def _check(found: SavedFolders, indexes: Sequence[Index]) -> None:
    """Check that opened indexes are the shards of one, and those that ``shards.json`` names."""
    opened = [(one._facts, one._state) for one in indexes]
    if found.placed is None:
        names = map(str, found.folders)
        check_shards([(name, *one) for name, one in zip(names, opened, strict=True)])
        return
    for folder, seal, index in zip(found.folders, found.seals, indexes, strict=True):
        if index._lineage.seals != (seal,):  # it was saved since
            wish = f"the version {seal} that {SHARDS} names"
            got = ", ".join(index._lineage.seals)
            raise error(CorruptIndexError, str(folder / MANIFEST), wish, got)
    found.placed.check(opened)


def _saved(folders: Sequence[Path], indexes: Sequence[Index]) -> list[SavedShard]:
    """Describe opened indexes; their names are those of the folders, or paths if these repeat."""
    names = [one.absolute().name for one in folders]
    if len(set(names)) < len(names):
        names = [str(one) for one in folders]
    return [
        SavedShard(
            folder.absolute(), index._lineage.seals[0], name
        )  # the program may change its folder
        for folder, index, name in zip(folders, indexes, names, strict=True)
    ]
