"""What the laws are checked on: the engine, or an oracle with a planted bug that stands in its
place.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from oracle.documents import Call, Key, Reply, Row, Scope, Shape
from oracle.life import Life
from oracle.recall import Oracle
from oracle.scope import Predicate


class Subject(Protocol):
    """An index under test."""

    def add(self, rows: Sequence[Row]) -> None: ...
    def upsert(self, rows: Sequence[Row]) -> None: ...
    def delete(self, keys: Sequence[Key], scopes: Sequence[Scope]) -> int: ...
    def delete_where(self, cells: Scope, predicate: Predicate | None) -> int: ...
    def update(self, rows: Sequence[Row], names: Collection[str]) -> None: ...
    def replace(self, rows: Sequence[Row], cells: Scope, predicate: Predicate) -> int: ...
    def compact(self) -> None: ...
    def reopen(self) -> "Subject": ...
    def recall(self, call: Call) -> list[Reply]: ...
    def recall_bytes(self, call: Call) -> bytes: ...


Make = Callable[[Shape, Sequence[Row]], Subject]


class OracleSubject:
    """An oracle (a true one, or one with a planted bug) that lives the life of an index."""

    def __init__(
        self,
        shape: Shape,
        rows: Sequence[Row],
        *,
        oracle: type[Oracle] = Oracle,
        life: type[Life] = Life,
    ) -> None:
        self.shape, self.oracle, self.life = shape, oracle, life(rows)

    def add(self, rows: Sequence[Row]) -> None:
        self.life.add(rows)

    def upsert(self, rows: Sequence[Row]) -> None:
        self.life.upsert(rows)

    def delete(self, keys: Sequence[Key], scopes: Sequence[Scope]) -> int:
        return self.life.delete(keys, scopes)

    def delete_where(self, cells: Scope, predicate: Predicate | None) -> int:
        return self.life.delete_where(cells, predicate)

    def update(self, rows: Sequence[Row], names: Collection[str]) -> None:
        self.life.update(rows, names)

    def replace(self, rows: Sequence[Row], cells: Scope, predicate: Predicate) -> int:
        return self.life.replace(rows, cells, predicate)

    def compact(self) -> None:
        pass

    def reopen(self) -> "OracleSubject":
        return self

    def recall(self, call: Call) -> list[Reply]:
        oracle = self.oracle(self.shape, self.life.rows)
        return [oracle.recall(call, query) for query in range(len(call.scopes))]

    def recall_bytes(self, call: Call) -> bytes:
        return repr(self.recall(call)).encode()


def planted(oracle: type[Oracle] = Oracle, life: type[Life] = Life) -> Make:
    """A maker of oracles, with a planted bug or without, to stand in the engine's place."""
    return lambda shape, rows: OracleSubject(shape, rows, oracle=oracle, life=life)
