"""From the arms of a call to candidates in its native request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from hyrecall import _core
from hyrecall.arms.batch import Batch, Candidates
from hyrecall.arms.edges import EdgeLexical
from hyrecall.arms.listed import Listed, Newest
from hyrecall.arms.regex import Regex
from hyrecall.arms.tags import Tags
from hyrecall.errors import DTypeError, OptionError, ShapeError, error

if TYPE_CHECKING:
    from hyrecall.plan import IndexFacts

__all__ = ["Arm", "add_arms", "read_arms", "runs", "text_readers"]

Arm: TypeAlias = Regex | Newest | Listed | EdgeLexical | Tags

Arms: TypeAlias = "dict[str, Arm]"

_READERS = (EdgeLexical, Tags, Regex)


def read_arms(facts: IndexFacts, given: object, candidates: object) -> Arms:
    """Take ``arms=``: each by its name, which nothing else of a result has."""
    if candidates is None and (given is None or (isinstance(given, tuple) and not given)):
        return {}
    if given is None:
        given = ()
    arms = given if isinstance(given, Sequence) else (given,)
    out: Arms = {}
    for arm in arms:
        if not isinstance(arm, Arm):
            wish = "Regex, Newest, Listed, EdgeLexical or Tags of hr.arms"
            raise error(DTypeError, "arms", wish, repr(arm))
        if arm.name in facts.arms or arm.name in out:
            raise error(OptionError, "arms", "names that no other arm has", repr(arm.name))
        for column in (f"{arm.name}_score", f"{arm.name}_rank"):
            if column in facts.schema.row_columns:
                wish = "names whose result columns no column of the index has"
                raise error(OptionError, "arms", wish, f"{arm.name!r} ({column})")
        out[arm.name] = arm
    named = [arm.name for arm in out.values() if isinstance(arm, Listed)]
    if candidates is not None and not isinstance(candidates, Mapping):
        wish = "{arm: a list with one entry per query}"
        raise error(DTypeError, "candidates", wish, type(candidates).__name__)
    for name, lists in (candidates or {}).items():
        if name not in named:
            raise error(OptionError, "candidates", f"arms of {named} (arms.Listed)", repr(name))
        if isinstance(lists, str | Mapping) or not isinstance(lists, Sequence):
            argument, got = f"candidates[{name!r}]", type(lists).__name__
            raise error(DTypeError, argument, "a list with one entry per query", got)
    return out


def text_readers(arms: Arms) -> tuple[str, ...]:
    """Name the arms that read the queries' texts."""
    return tuple(
        name
        for name, arm in arms.items()
        if isinstance(arm, _READERS) and getattr(arm, "pattern", None) is None
    )


def runs(arm: Arm, texts: Mapping[str, object], candidates: Mapping[str, object] | None) -> bool:
    """Whether a call gives an arm what it needs."""
    if isinstance(arm, Listed):
        return arm.name in (candidates or {})
    return arm.name in texts or not text_readers({arm.name: arm})


def add_arms(
    request: _core.Request,
    batch: Batch,
    arms: Sequence[Arm],
    texts: Mapping[str, Sequence[object]],
    candidates: Mapping[str, Sequence[object]] | None,
    floors: Mapping[str, tuple[float, bool] | None],
) -> dict[str, Candidates]:
    """Find each arm's candidates and put them into the request, in this order."""
    out = {}
    for arm in arms:
        found = out[arm.name] = _find(arm, batch, texts.get(arm.name), (candidates or {}))
        if len(found.offsets) != batch.n_queries + 1:
            raise error(ShapeError, arm.name, f"{batch.n_queries} queries", len(found.offsets) - 1)
        request.add_listed(
            arm.name, found.offsets, found.segment, found.row, found.score, floors.get(arm.name)
        )
    return out


def _find(arm: Arm, batch: Batch, texts: Any, candidates: Mapping[str, Any]) -> Candidates:
    match arm:
        case Listed():
            return arm.candidates(batch, candidates[arm.name])
        case Newest():
            return arm.candidates(batch)
        case Regex() | EdgeLexical() | Tags():
            return arm.candidates(batch, texts)
