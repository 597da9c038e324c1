"""The rows that each stage of a recall dropped, with the reason and its number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hyrecall.base.arguments import check_keywords
from hyrecall.base.text_tables import TextLine, clean, wrap


@check_keywords
@dataclass(frozen=True)
class Peer:
    """Another document of the same list."""

    key: Any
    cell: tuple[Any, ...]


@check_keywords
@dataclass(frozen=True)
class DroppedRow:
    """A document that a stage left out.

    Attributes
    ----------
    place : int
        Its place in the list that the stage got, from 1.
    key, cell : object, tuple
        Of the document.
    reason : {"floor", "duplicate", "budget", "surrounding", "group", "limit", "offset"}
        "floor": its score is too low. "duplicate": a document of its cluster stays instead.
        "budget": its tokens did not fit when it was its turn, or, with ``MMR``, before the last
        document was chosen. "surrounding": it is shown around a hit. "group": its group has a hit
        already. "limit": enough others came before it. "offset": it is on an earlier page. A
        stage of your own may have a word of its own; "dropped" if it tells nothing.
    value : float
        The number that decided: the score; of "duplicate" the cosine, in the scale of the stage;
        of "budget" its tokens. Of "limit" in ``MMR``, its value at the last choice.
    bound : float or None
        What that number was compared with: the floor; the threshold; the tokens that were left,
        below 0 if the first document took more than the budget; the score of the last document
        that stayed. None: nothing was compared.
    kept : Peer or None
        Of "duplicate" the document that stays; of "surrounding" and "group" the hit that it is
        shown with.
    via : Peer or None
        The document that ``value`` compares with, if it is not ``kept``: a cluster grows from
        member to member.
    """

    place: int
    key: Any
    cell: tuple[Any, ...]
    reason: str
    value: float
    bound: float | None
    kept: Peer | None = None
    via: Peer | None = None

    def __str__(self) -> str:
        """Say in one line why it was dropped."""
        return f"{self.place}  {clean(str(self.key))}: {self.why}"

    @property
    def why(self) -> str:
        """The reason in words, with its numbers."""
        return _REASONS.get(self.reason, _other)(self)


@check_keywords
@dataclass(frozen=True)
class StageDrops:
    """What a stage left out for one query.

    Attributes
    ----------
    stage : str
        The stage's class; "min_fused" for the floor of the fusion, which comes first; "group" or
        "surrounding", as the call asks, for rows that are shown with a hit; "min_confidence" for
        that floor, which leaves all rows or none; "limit" for the page that limit and offset cut,
        which comes last.
    n_in, n_out : int
        Entries of the query's list before and after.
    rows : tuple of DroppedRow
        The dropped rows by their place, as many as are described.
    """

    stage: str
    n_in: int
    n_out: int
    rows: tuple[DroppedRow, ...]

    @property
    def n_dropped(self) -> int:
        """How many rows it dropped."""
        return self.n_in - self.n_out

    @property
    def n_more(self) -> int:
        """How many of them are not described."""
        return self.n_dropped - len(self.rows)


@check_keywords
@dataclass(frozen=True)
class Dropped:
    """What the stages left out for one query, in the order they ran.

    Attributes
    ----------
    stages : tuple of StageDrops
        Rows are described from the first stage on, until there are as many as were asked for.

    Notes
    -----
    All rows are documents that the query may see. A document that no arm handed on, because of its
    depth or its ``min_score``, is in no list, so no stage drops it. Rows that fill a list are added
    after the stages.
    """

    stages: tuple[StageDrops, ...]

    @property
    def n_dropped(self) -> int:
        """How many rows were dropped."""
        return sum(one.n_dropped for one in self.stages)

    @property
    def n_more(self) -> int:
        """How many of them are not described."""
        return sum(one.n_more for one in self.stages)

    def first(self, most: int) -> Dropped:
        """Return the same with so many rows of each stage at most.

        Parameters
        ----------
        most : int
            At least 0.

        Returns
        -------
        Dropped
        """
        return Dropped(tuple(replace(one, rows=one.rows[:most]) for one in self.stages))

    def to_list(self) -> list[dict[str, Any]]:
        """Return a dict per stage with its counts and rows, as plain data.

        Returns
        -------
        list of dict
            ``stage``, ``n_in``, ``n_out``, ``n_dropped``, ``n_more``, ``rows``; a row has ``why``
            in words beside its attributes, and cells are lists.
        """
        return [
            {
                "stage": one.stage,
                "n_in": one.n_in,
                "n_out": one.n_out,
                "n_dropped": one.n_dropped,
                "n_more": one.n_more,
                "rows": [_row(row) for row in one.rows],
            }
            for one in self.stages
        ]

    def __str__(self) -> str:
        """Show each stage and its dropped rows, in lines of at most 80 characters."""
        return dropped_text(self, 80)


def dropped_text(dropped: Dropped, width: int) -> str:
    """Return a line for each stage that dropped rows, and one for each described row below it."""
    lines = []
    for one in dropped.stages:
        if not one.n_dropped:
            continue
        lines.append(f"{one.stage}: {one.n_dropped} of {one.n_in} dropped")
        for row in one.rows:
            first, *rest = wrap(TextLine(str(row)), width - 2, hang=2)
            lines += [f"  {line.text}" for line in (first, *rest)]
        if one.n_more:
            lines.append(f"  {one.n_more} more")
    return "\n".join(lines) if lines else "nothing was dropped"


def _row(row: DroppedRow) -> dict[str, Any]:
    return {
        **{name: getattr(row, name) for name in ("place", "key", "reason", "value", "bound")},
        "cell": list(row.cell),
        "kept": _peer(row.kept),
        "via": _peer(row.via),
        "why": row.why,
    }


def _peer(peer: Peer | None) -> dict[str, Any] | None:
    return None if peer is None else {"key": peer.key, "cell": list(peer.cell)}


def _floor(row: DroppedRow) -> str:
    return f"score {row.value:.6g}, floor {row.bound:.6g}"


def _duplicate(row: DroppedRow) -> str:
    assert row.kept is not None
    kept = clean(str(row.kept.key))
    to = "" if row.via is None else f" to {clean(str(row.via.key))}, of the same cluster,"
    return f"duplicate of {kept}, similarity {row.value:.6g}{to} above {row.bound:.6g}"


def _budget(row: DroppedRow) -> str:
    return f"{row.value:.0f} tokens, {row.bound:.0f} left in the budget"


def _surrounding(row: DroppedRow) -> str:
    assert row.kept is not None
    return f"shown around {clean(str(row.kept.key))}, score {row.value:.6g}"


def _group(row: DroppedRow) -> str:
    assert row.kept is not None
    return f"in the group of {clean(str(row.kept.key))}, score {row.value:.6g}"


def _limit(row: DroppedRow) -> str:
    last = "" if row.bound is None else f", the last that stayed has {row.bound:.6g}"
    return f"beyond the limit, score {row.value:.6g}{last}"


def _offset(row: DroppedRow) -> str:
    return f"on an earlier page, score {row.value:.6g}"


def _other(row: DroppedRow) -> str:
    bound = "" if row.bound is None else f", compared with {row.bound:.6g}"
    return f"{row.reason}, {row.value:.6g}{bound}"


_REASONS = {
    "floor": _floor,
    "duplicate": _duplicate,
    "budget": _budget,
    "surrounding": _surrounding,
    "group": _group,
    "limit": _limit,
    "offset": _offset,
}
