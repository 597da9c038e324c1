"""Tells a framework's user that a reply is degraded, where the framework's types cannot say it."""

from __future__ import annotations

from collections.abc import Iterable

from hyrecall.base.threads import warn_caller

__all__ = ["DegradedWarning", "warn_if_degraded"]


class DegradedWarning(UserWarning):
    """A reply of an adapter holds less than it could; the message has the reasons.

    The replies of frameworks have no place for what ``Matches.degraded`` and ``Hits.degraded`` say,
    so the adapters warn. ``warnings.simplefilter("error", DegradedWarning)`` makes it an error.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always", DegradedWarning)
    ...     warn_if_degraded(["embed_timeout"])
    >>> str(told[0].message)
    'degraded: embed_timeout'
    """


def warn_if_degraded(reasons: Iterable[object]) -> None:
    """Warn if there are reasons why a reply is degraded; Python shows each text once by default.

    Parameters
    ----------
    reasons : iterable
        ``reasons`` of matches, or ``trace.degraded`` of hits.

    Warns
    -----
    DegradedWarning
    """
    if told := ", ".join(map(str, reasons)):
        warn_caller(f"degraded: {told}", DegradedWarning)
