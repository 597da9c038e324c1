"""Options of shaping stages, which reorder or cut the fused list.

Stages run in a fixed order: feedback, around, prior, linear or provenance, rerank, dedup, recency
or composite or session signals, budget and MMR, gate. Each stage starts from the order and the
scores of the stage before.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

from hyrecall.ask.shaping.age import Composite, Recency
from hyrecall.ask.shaping.around import Around
from hyrecall.ask.shaping.choice import MMR, Budget, Dedup
from hyrecall.ask.shaping.feedback import Feedback
from hyrecall.ask.shaping.linear import Linear
from hyrecall.ask.shaping.order import Gate, Provenance, Rerank, RerankBy
from hyrecall.ask.shaping.prior import Prior
from hyrecall.ask.shaping.signals import Phase, SessionSignals
from hyrecall.errors import OptionError, error

__all__ = [
    "MMR",
    "Around",
    "Budget",
    "Composite",
    "Dedup",
    "Feedback",
    "Gate",
    "Linear",
    "Phase",
    "Prior",
    "Provenance",
    "Recency",
    "Rerank",
    "RerankBy",
    "SessionSignals",
    "Stage",
    "check_stages",
]

Stage: TypeAlias = (
    Feedback
    | Around
    | Prior
    | Provenance
    | Linear
    | Rerank
    | RerankBy
    | Dedup
    | Recency
    | Composite
    | SessionSignals
    | Budget
    | MMR
    | Gate
)
_KINDS = (
    Feedback,
    Around,
    Prior,
    Provenance,
    Linear,
    Rerank,
    RerankBy,
    Dedup,
    Recency,
    Composite,
    SessionSignals,
    Budget,
    MMR,
    Gate,
)
_WISH = f"a sequence of stages ({', '.join(kind.__name__ for kind in _KINDS)})"
_ORDER = (
    "feedback, around, prior, provenance, linear, rerank, dedup, recency or composite or session "
    "signals, budget and MMR, gate"
)


def check_stages(shaping: object) -> tuple[Stage, ...]:
    """Check that stages are in their fixed order and none occurs twice; return a tuple."""
    if shaping is None or (isinstance(shaping, tuple) and not shaping):
        return ()
    if isinstance(shaping, _KINDS):
        return (shaping,)
    # Checks against an abstract class are slow, so the usual types come first.
    if isinstance(shaping, str | bytes) or not isinstance(shaping, tuple | list | Sequence):
        raise error(OptionError, "shaping", _WISH, repr(shaping))
    for stage in shaping:
        if not isinstance(stage, _KINDS):
            raise error(OptionError, "shaping", _WISH, repr(stage))
    for earlier, later in pairwise(shaping):
        pair = {type(earlier), type(later)} == {Budget, MMR}
        if earlier.phase > later.phase or (earlier.phase == later.phase and not pair):
            wish = f"at most one of each stage, in the order {_ORDER}"
            names = [type(stage).__name__ for stage in shaping]
            raise error(OptionError, "shaping", wish, names)
    return tuple(shaping)
