"""A durable store that recalls: episodes, facts and their graph in SQLite, searched by recipes."""

from typing import TYPE_CHECKING

from hyrecall.base.starting import lazily
from hyrecall.errors import MissingExtraError, error

try:
    import apsw as _apsw  # noqa: F401
    import pydantic as _pydantic  # noqa: F401
except ImportError as fault:
    _wish = "the extra [memory] (pip install 'hyrecall[memory]')"
    raise error(MissingExtraError, "hyrecall.memory", _wish, f"no package {fault.name}") from None

# A name is imported when it is first asked for: a command that only reads needs a few.
if TYPE_CHECKING:
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

_LATER = {
    "agent_memory": ("Agent", "AgentMemory", "AgentMemorySync"),
    "census": ("AgentEntry", "SessionEntry", "UserEntry"),
    "changing": ("Remembered",),
    "data.matches": (
        "Degradation",
        "DegradedReason",
        "Facts",
        "Matches",
        "Reading",
        "ReadPolicyFault",
    ),
    "data.sessions": ("InProcessSessions", "SessionTracker"),
    "data.types": (
        "ANONYMOUS",
        "Edge",
        "Episode",
        "EpisodeMatch",
        "Fact",
        "IsolationWarning",
        "MatchParts",
        "Participant",
        "QueryFeedback",
        "Version",
    ),
    "faces.browse": ("Browse",),
    "memory": ("Memory",),
    "recall.audience": ("EVERYONE", "Partition"),
    "sql.codec": ("DamageWarning",),
    "sql.reading": ("ReadPolicy",),
    "store": ("AUTO",),
    "sync": ("MemorySync",),
}

if not TYPE_CHECKING:  # a type checker knows these names by the imports above, and no others
    __getattr__ = lazily(__name__, _LATER)


def __dir__() -> list[str]:
    """Return the public names, also those that are imported when they are asked for."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
