"""The check of docstrings sees what is lacking, and what is made up."""

import dataclasses
from collections.abc import Callable

import pytest

from docs.docstrings import faults


class Planted:
    """Say less, more or something else than is so."""

    def whole(self, n: int, *rest: str, **options: str) -> int:
        """Return a number.

        Parameters
        ----------
        n : int
        *rest, **options
            Further ones.

        Returns
        -------
        int

        Raises
        ------
        OptionError
            There is none.
        """
        raise ValueError(n)

    def twin(self, n: int) -> int:
        """Return a number, as :meth:`whole`."""
        return self.whole(n)

    def lacking(self, n: int) -> int:
        """Return a number."""
        return n

    def inventing(self, n: int) -> None:
        """Take a number.

        Parameters
        ----------
        n, m : int
        """

    def raising(self) -> None:
        """Raise without a word."""
        raise ValueError

    def erring(self) -> None:
        """Raise.

        Raises
        ------
        NoSuchError
            Always.
        """

    def lost(self) -> None:
        """Refer, as :meth:`hyrecall.memory.Gone.search`."""

    def wider(self, n: int, m: int) -> int:
        """Return a number, as :meth:`whole`."""
        return n + m


@dataclasses.dataclass
class PlantedValue:
    """Hold a number.

    Attributes
    ----------
    m : int
    """

    n: int


@pytest.mark.parametrize(
    ("method", "found"),
    [
        (Planted.whole, []),
        (Planted.twin, []),
        (Planted.lacking, ["no n", "no Returns"]),
        (Planted.inventing, ["m is none"]),
        (Planted.raising, ["no Raises"]),
        (Planted.erring, ["Raises what is no error"]),
        (Planted.lost, ["refers to hyrecall.memory.Gone.search, which is not there"]),
        (Planted.wider, ["no m"]),
        (PlantedValue, ["no n"]),
    ],
)
def test_a_docstring_that_is_not_so_would_be_seen(
    method: Callable[..., object], found: list[str]
) -> None:
    name = method.__name__
    owner = method if isinstance(method, type) else Planted
    assert faults(name, method, owner) == [f"{name}: {one}" for one in found]


def test_every_public_method_of_a_class_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    from hyrecall.memory import Memory, MemorySync

    for kind in (MemorySync, Memory):
        monkeypatch.setattr(kind.search, "__doc__", "Search.")
        name = kind.__name__
        assert f"{name}.search: no tags" in faults(name, kind)
