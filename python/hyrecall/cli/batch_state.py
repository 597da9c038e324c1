"""How far a batch run is: written as JSON beside its hits, read by the run that resumes it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

__all__ = ["State"]

_FORMAT = 2


@dataclass
class State:
    """How far a run is; everything after these places in its files does not count."""

    job: dict[str, Any]
    queries: int = 0
    refused: int = 0
    ends: list[int] = field(default_factory=list)  # of the segments
    rejects_bytes: int = 0
    schema: str | None = None  # of the hits, as Arrow's IPC in base64
    began: str = field(default_factory=lambda: datetime.now(UTC).isoformat())
    format: int = _FORMAT

    @staticmethod
    def read(path: Path) -> State | None:
        """Read the state of an earlier run; None where there is none that this version knows."""
        try:
            read = json.loads(path.read_bytes())
            state = State(**read)
        except (OSError, ValueError, TypeError):
            return None
        return state if state.format == _FORMAT else None

    def to_json(self) -> bytes:
        """Return the content of the file."""
        return json.dumps(asdict(self), indent=1).encode()

    def difference(self, job: dict[str, Any]) -> tuple[str, Any, Any] | None:
        """Return the first thing that a run asks differently from this one, or None."""
        for name in self.job | job:
            if self.job.get(name) != job.get(name):
                return name, self.job.get(name), job.get(name)
        return None
