"""The progress of a batch run, written as JSON beside its hits and read to resume the run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

__all__ = ["State"]

_FORMAT = 3


@dataclass
class State:
    """The progress of a run; data after these positions in its files is ignored."""

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
        """Read the state of an earlier run; None if there is none of this version's format."""
        try:
            read = json.loads(path.read_bytes())
            state = State(**read)
            if not isinstance(state.job, dict):
                return None
            if datetime.fromisoformat(state.began).tzinfo is None:
                return None
        except (OSError, ValueError, TypeError):
            return None
        return state if state.format == _FORMAT else None

    def to_json(self) -> bytes:
        """Return the state as the content of its file."""
        return json.dumps(asdict(self), indent=1).encode()

    def difference(self, job: dict[str, Any]) -> tuple[str, Any, Any] | None:
        """Return name and both values of the first difference from another job, or None."""
        for name in self.job | job:
            if self.job.get(name) != job.get(name):
                return name, self.job.get(name), job.get(name)
        return None
