"""The lines of an export: JSON objects, each with one version, edge, agent or piece of feedback.

Whatever names a memory (id, user, partition, visibility) stands beside its content, since a
tombstone has no content.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from hyrecall.errors import OptionError, error
from hyrecall.memory.data.fields import Label, Name, Time, User
from hyrecall.memory.data.types import Edge, Episode, Fact, Status, Visibility
from hyrecall.memory.sql.cells import Cell
from hyrecall.memory.sql.codec import decode_vector

__all__ = ["FORMAT", "AgentLine", "FeedbackLine", "Line", "VersionLine"]

FORMAT = 2
"""Of the lines; a file of a higher one is refused."""

_STRICT = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
_IDENTITY = {"id", "user_id", "org", "workspace", "visibility"}
_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Number = Annotated[int, Field(ge=1, lt=2**63)]
_MOST = 2**52  # of a number that comes in: it has room to grow, and stays exact in JSON


class VersionLine(BaseModel):
    """One version of a memory; ``content`` or ``fact`` is there unless it was deleted."""

    model_config = _STRICT

    id: Name
    user_id: User = None
    org: User = None
    workspace: User = None
    visibility: Visibility = "private"
    table: Label = None
    version: _Number = 1
    status: Status = "live"
    reason: str | None = None
    successor: Label = None
    recorded_at: Time
    content: dict[str, Any] | None = None
    fact: dict[str, Any] | None = None
    embedding: str | None = None
    embedding_model: Name | None = None
    pinned: bool = False
    access_count: _Count = 0
    last_accessed: Time | None = None

    @property
    def cell(self) -> Cell:
        """The cell it lies in."""
        return Cell(self.org, self.workspace, self.user_id, self.visibility, self.table)

    def read_episode(self) -> Episode | None:
        """Check and return the content."""
        if self.content is None:
            return None
        return Episode.model_validate(self._whole(self.content))

    def read_fact(self) -> Fact | None:
        """Check and return the fact."""
        if self.fact is None:
            return None
        return Fact.model_validate(self._whole(self.fact))

    def check_counts(self) -> None:
        """Refuse a version or a count of accesses that leaves no room to grow."""
        for name, value in (("version", self.version), ("access_count", self.access_count)):
            if value > _MOST:
                raise error(OptionError, name, f"at most {_MOST}", value)

    def read_embedding(self) -> tuple[bytes, str] | tuple[None, None]:
        """Check the vector and return its columns."""
        if self.embedding is None or self.embedding_model is None:
            if self.embedding is not self.embedding_model:
                raise error(OptionError, "embedding", "a vector and its model", "one of them")
            return None, None
        try:
            blob = base64.b64decode(self.embedding, validate=True)
        except (binascii.Error, ValueError):
            raise error(OptionError, "embedding", "base64", "something else") from None
        decode_vector(blob)
        return blob, self.embedding_model

    def _whole(self, content: dict[str, Any]) -> dict[str, Any]:
        twice = sorted(_IDENTITY & set(content))
        if twice:
            raise error(OptionError, "content", "no identity: it stands beside it", twice[0])
        return {**content, **self.cell.identity(), "id": self.id}

    @staticmethod
    def content_of(kept: Episode | Fact) -> dict[str, JsonValue]:
        """Return the content of a line: without identity and pin."""
        unsaid = {"created_at", "stored_at", "pinned"}
        if isinstance(kept, Fact) and kept.single:
            unsaid.add("single")
        return kept.model_dump(mode="json", exclude={*_IDENTITY, *unsaid})


class AgentLine(BaseModel):
    """The read policy of an agent."""

    model_config = _STRICT

    org: User = None
    workspace: User = None
    agent: Name
    policy: str
    policy_group: Label = None


class FeedbackLine(BaseModel):
    """A memory that helped a user with a query; ``owner`` is the user whose memory it is."""

    model_config = _STRICT

    user_id: User = None
    org: User = None
    workspace: User = None
    query: str
    at: Time
    id: Name
    owner: User = None
    visibility: Visibility = "private"
    table: Label = None

    @property
    def cell(self) -> Cell:
        """The cell of the memory."""
        return Cell(self.org, self.workspace, self.owner, self.visibility, self.table)


class Line(BaseModel):
    """One line: exactly one of its fields is there."""

    model_config = _STRICT

    format: _Number | None = None
    version: VersionLine | None = None
    edge: Edge | None = None
    agent: AgentLine | None = None
    feedback: FeedbackLine | None = None

    @property
    def name(self) -> str:
        """What an error calls it."""
        if self.version is not None:
            return self.version.id
        if self.edge is not None:
            return self.edge.id
        if self.feedback is not None:
            return self.feedback.id
        return "" if self.agent is None else self.agent.agent
