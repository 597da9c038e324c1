"""The options with which the saved index of each shard is opened, here or in another process."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hyrecall.base.arguments import convert_field
from hyrecall.base.runtime import choose_threads
from hyrecall.index import Index
from hyrecall.segments.opening import Opening, read_pin
from hyrecall.text.analyzer import Analyzer

__all__ = ["CheckedVersion", "ShardOpening"]


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
        Opening(memory=self.memory, verify=self.verify, pin=read_pin(self.pin))
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

    def to_json(self) -> str:
        """Return the options for the command line of another process."""
        return json.dumps(self.options)

    @classmethod
    def from_json(cls, text: str) -> ShardOpening:
        """Read the options that :meth:`to_json` wrote."""
        return cls(**json.loads(text))


class CheckedVersion:
    """The version of a folder that was opened last, with the checks that ``verify`` asks for."""

    # The processes of a shard share it: one that takes the place of another one does not compare
    # the same version with its checksums again.

    def __init__(self, seal: str | None = None) -> None:
        """Take the seal of a version that was checked."""
        self.seal = seal
