"""A recall over shards: one request, summed statistics, candidates, and their merge.

Annotations of an index refer to these types as ``parts.Request``, so that they can be evaluated,
and a program whose index has no shards imports none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hyrecall.base.starting import lazily

if TYPE_CHECKING:
    from hyrecall.parts.messages import Part as Part
    from hyrecall.parts.messages import Request as Request
    from hyrecall.parts.messages import Statistics as Statistics
else:
    __getattr__ = lazily(__name__, {"messages": ("Part", "Request", "Statistics")})
