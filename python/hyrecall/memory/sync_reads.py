"""How :class:`hyrecall.memory.MemorySync` reads what is named, not searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hyrecall.ask.filter_expression import FilterLike
from hyrecall.base.keywords import check_keywords
from hyrecall.memory.data.types import Episode, Visibility
from hyrecall.memory.reads import Edges, Episodes, Reads, User, Versions
from hyrecall.memory.recall.audience import read_partition

__all__ = ["SyncReads"]


@check_keywords
class SyncReads:
    """Reads on behalf of the user that each call names; how, says :class:`MemorySync`."""

    _reads: Reads

    def get(
        self,
        id: str,  # noqa: A002
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
        visibility: Visibility | None = None,
    ) -> Episode | None:
        """Return an episode by its id; None if the user has none of it, whoever else has.

        Parameters
        ----------
        id : str
        user_id, org, workspace : str, optional
            Whose.
        visibility : {"private", "global"}, optional
            Default: either, the private one where there are both.

        Returns
        -------
        Episode or None
            A fact too, as the episode it is recalled as.

        Raises
        ------
        OptionError, DTypeError, StoreError
            As every call.
        """
        return self._reads.get(id, read_partition(org, workspace, user_id), visibility)

    def history(
        self,
        id: str,  # noqa: A002
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
    ) -> Versions:
        """Return every version of a memory, oldest first; none of one that is not there.

        Parameters
        ----------
        id : str
        user_id, org, workspace : str, optional
            Whose.

        Returns
        -------
        list of Version
            From 1 on; the last one counts. Empty for one that was erased.

        Raises
        ------
        OptionError, DTypeError, StoreError
            As every call.

        Examples
        --------
        >>> from hyrecall.memory import MemorySync
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     tea = memory.remember("Tea at four").id
        ...     kept = memory.update(tea, output="Tea at five", reason="moved")
        ...     [(one.episode.output, one.reason) for one in memory.history(tea)]
        [('Tea at four', None), ('Tea at five', 'moved')]
        """
        return self._reads.history(id, read_partition(org, workspace, user_id))

    def list(
        self,
        *,
        user_id: User = None,
        org: str | None = None,
        workspace: str | None = None,
        kind: str | None = None,
        tags: Sequence[str] | None = None,
        pinned: bool | None = None,
        filter: FilterLike | None = None,  # noqa: A002
        metadata: Mapping[str, object] | None = None,
        limit: int = 200,
        offset: int = 0,
    ) -> Episodes:
        """Return episodes, newest first; of equal times the one written last.

        Parameters
        ----------
        user_id : str or None or EVERYONE
            Whose. ``EVERYONE``, all users of the org and workspace, is for those who keep the
            store.
        org, workspace : str, optional
        kind : str, optional
            Default: any, facts ("fact") too.
        tags : sequence of str, optional
            One of them is enough.
        pinned : bool, optional
            Only pinned ones, or only others.
        filter, metadata : optional
            As in :meth:`search`.
        limit, offset : int, default 200, 0
            Each in [0, 2^31).

        Returns
        -------
        list of Episode
            At most ``limit``, after the first ``offset``.

        Raises
        ------
        OptionError, DTypeError, StoreError
            As every call.

        Notes
        -----
        No index is asked: the database looks at every live memory of the user. With a filter, the
        columns that it names are read of the newest until there are enough.

        Examples
        --------
        >>> from hyrecall.memory import MemorySync
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     for year in (2023, 2024, 2025):
        ...         kept = memory.remember(f"Plan {year}", metadata={"year": year})
        ...     [one.output for one in memory.list(metadata={"year": (2024, None)})]
        ['Plan 2025', 'Plan 2024']
        """
        by = self._reads.partition(org, workspace, user_id)
        return self._reads.newest(
            by, kind=kind, tags=tags, pinned=pinned, filter=filter, metadata=metadata,
            limit=limit, offset=offset,
        )  # fmt: skip

    def links(
        self,
        id: str,  # noqa: A002
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
    ) -> Edges:
        """Return the edges in which a memory takes part, in the order they were put there.

        Parameters
        ----------
        id : str
            Of the memory.
        user_id, org, workspace : str, optional
            Whose.

        Returns
        -------
        list of Edge

        Raises
        ------
        OptionError, DTypeError, StoreError
            As every call.
        """
        return self._reads.links(id, read_partition(org, workspace, user_id))
