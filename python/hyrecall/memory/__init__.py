"""A durable store that recalls: episodes, facts and their graph in SQLite, searched by recipes."""

from hyrecall.errors import MissingExtraError, error

try:
    import apsw as _apsw  # noqa: F401
    import pydantic as _pydantic  # noqa: F401
except ImportError as fault:
    _wish = "the extra [memory] (pip install 'hyrecall[memory]')"
    raise error(MissingExtraError, "hyrecall.memory", _wish, f"no package {fault.name}") from None

from hyrecall.memory.agent_memory import Agent, AgentMemory, AgentMemorySync
from hyrecall.memory.census import AgentEntry, SessionEntry, UserEntry
from hyrecall.memory.changing import Remembered
from hyrecall.memory.data.matches import (
    Degradation,
    DegradedReason,
    Facts,
    Matches,
    Reading,
    ReadPolicyFault,
)
from hyrecall.memory.data.sessions import InProcessSessions, SessionTracker
from hyrecall.memory.data.types import (
    ANONYMOUS,
    Edge,
    Episode,
    EpisodeMatch,
    Fact,
    IsolationWarning,
    MatchParts,
    Participant,
    QueryFeedback,
    Version,
)
from hyrecall.memory.faces.browse import Browse
from hyrecall.memory.memory import Memory
from hyrecall.memory.recall.audience import EVERYONE, Partition
from hyrecall.memory.sql.codec import DamageWarning
from hyrecall.memory.sql.reading import ReadPolicy
from hyrecall.memory.store import AUTO
from hyrecall.memory.sync import MemorySync

__all__ = [
    "ANONYMOUS",
    "AUTO",
    "EVERYONE",
    "Agent",
    "AgentEntry",
    "AgentMemory",
    "AgentMemorySync",
    "Browse",
    "DamageWarning",
    "Degradation",
    "DegradedReason",
    "Edge",
    "Episode",
    "EpisodeMatch",
    "Fact",
    "Facts",
    "InProcessSessions",
    "IsolationWarning",
    "MatchParts",
    "Matches",
    "Memory",
    "MemorySync",
    "Participant",
    "Partition",
    "QueryFeedback",
    "ReadPolicy",
    "ReadPolicyFault",
    "Reading",
    "Remembered",
    "SessionEntry",
    "SessionTracker",
    "UserEntry",
    "Version",
]
