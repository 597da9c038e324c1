"""Reasons why a reply holds less than it could, one for each component that failed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hyrecall.embed.protocol import EmbedFault

__all__ = ["Degradation", "DegradedReason"]


class DegradedReason(StrEnum):
    """Why a reply holds less than it could; the value is the name in small letters."""

    EMBEDDINGS_OFF = "embeddings_off"
    EMBED_NOT_READY = "embed_not_ready"
    EMBED_TIMEOUT = "embed_timeout"
    EMBED_UNAVAILABLE = "embed_unavailable"
    EMBED_REFUSED = "embed_refused"
    EMBED_STALE = "embed_stale"
    INDEX_NOT_READY = "index_not_ready"
    INDEX_UNAVAILABLE = "index_unavailable"
    QUERY_TOO_LARGE = "query_too_large"
    SESSION_TRACKER = "session_tracker"
    RERANK = "rerank"
    DAMAGED_ROWS = "damaged_rows"


_OF_FAULT = {
    EmbedFault.OFF: DegradedReason.EMBEDDINGS_OFF,
    EmbedFault.NOT_READY: DegradedReason.EMBED_NOT_READY,
    EmbedFault.TIMEOUT: DegradedReason.EMBED_TIMEOUT,
    EmbedFault.REFUSED: DegradedReason.EMBED_REFUSED,
}


@dataclass(frozen=True)
class Degradation:
    """One reason and its detail, which never contains a stored text or a query.

    Attributes
    ----------
    reason : DegradedReason
    detail : str

    Examples
    --------
    >>> str(Degradation.of_fault(EmbedFault.CRASHED, "RuntimeError"))
    'embed_unavailable (crashed: RuntimeError)'
    """

    reason: DegradedReason
    detail: str = ""

    @classmethod
    def of_fault(cls, fault: EmbedFault, detail: str = "") -> Degradation:
        """Return the reason for an embedder's fault.

        Parameters
        ----------
        fault : EmbedFault
        detail : str, default ""

        Returns
        -------
        Degradation
        """
        reason = _OF_FAULT.get(fault)
        if reason is not None:
            return cls(reason, detail)
        told = f"{fault}: {detail}" if detail else str(fault)
        return cls(DegradedReason.EMBED_UNAVAILABLE, told)

    @classmethod
    def of_damage(cls, n_rows: int) -> tuple[Degradation, ...]:
        """Return the reason for a number of damaged rows that were left out; none for 0.

        Parameters
        ----------
        n_rows : int

        Returns
        -------
        tuple of Degradation
        """
        told = f"{n_rows} left out: doctor(full=True) names them"
        return (cls(DegradedReason.DAMAGED_ROWS, told),) if n_rows else ()

    def __str__(self) -> str:
        """Show the reason and its detail."""
        return f"{self.reason} ({self.detail})" if self.detail else str(self.reason)
