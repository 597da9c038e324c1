"""How long the laws run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """How many cases a law is tried on; chosen by ``--laws`` and ``--laws-share``."""

    share: float  # of the way from few cases (0) to many (1)

    @property
    def full(self) -> bool:
        """Whether this is a long run, at least in part."""
        return self.share > 0

    def cases(self, *, quick: int, full: int) -> int:
        """Return the number for this run."""
        return round(quick + self.share * (full - quick))
