"""How long the laws run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """How many cases a law is tried on; chosen by ``--laws``."""

    full: bool

    def cases(self, *, quick: int, full: int) -> int:
        """The number for this run."""
        return full if self.full else quick
