"""What a reply keeps of its call: enough to explain hits, and rows that were dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from hyrecall import _core
from hyrecall.recall.plan import Plan
from hyrecall.segments.segments import State

if TYPE_CHECKING:
    from hyrecall.hits.dropped import Dropped
    from hyrecall.hits.explanation import Explanation
    from hyrecall.hits.reply import Reply
    from hyrecall.hits.second_look import SecondLook
    from hyrecall.recall.callables import CallableResults

__all__ = ["RecallSource"]


class RecallSource(NamedTuple):
    """What a reply keeps of its call."""

    # The plan with what its arms found, the snapshot, what callables of its stages returned
    # if there
    # are stages, and what rows added to queries.

    plan: Plan
    state: State
    results: CallableResults | None
    looks: Mapping[int, SecondLook]

    @property
    def request(self) -> _core.BatchRequest:
        """The native request, with the index's own arms."""
        return self.plan.request

    def evidence(self, arm: str, query: int, segment: int, row: int) -> Any:
        """Return what speaks for a document in an arm of ``arms=``; None if nothing does."""
        found = self.plan.listed.get(arm)
        return None if found is None else found.evidence_of(query, segment, row)

    def explain(self, reply: Reply, query: int, at: int) -> Explanation:
        """Recompute the score of a hit, which is the reply's number ``at``."""
        from hyrecall.recall.explain import explain
        from hyrecall.recall.explain_stages import Recalled

        with self.state.reading():
            made = explain(Recalled(self.plan, self.state, reply), query, at)
        return replace(made, feedback=self.looks.get(query))

    def explain_dropped(self, reply: Reply, query: int, most: int) -> Dropped:
        """Run the stages of a query again and say what each dropped."""
        from hyrecall.recall.explain_dropped import explain_dropped

        with self.state.reading():
            return explain_dropped(self.plan, self.state, self.results, reply, query, most)
