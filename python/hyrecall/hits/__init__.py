"""Results of a recall: hits, scores and explanations, as objects and tables.

Annotations of hits name the types below as ``hits.Explanation``, so that they can be evaluated, and
a program that explains nothing imports none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hyrecall.base.starting import lazily

if TYPE_CHECKING:
    from hyrecall.hits.around import NearRow as NearRow
    from hyrecall.hits.around import Neighbour as Neighbour
    from hyrecall.hits.around import Related as Related
    from hyrecall.hits.around import ThreadRow as ThreadRow
    from hyrecall.hits.dropped import Dropped as Dropped
    from hyrecall.hits.explain_text import Explanation as Explanation
    from hyrecall.stages.feedback import SecondLook as SecondLook
else:
    __getattr__ = lazily(
        __name__,
        {
            "around": ("NearRow", "Neighbour", "Related", "ThreadRow"),
            "dropped": ("Dropped",),
            "explain_text": ("Explanation",),
            "hyrecall.stages.feedback": ("SecondLook",),
        },
    )
