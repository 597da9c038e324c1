"""Hierarchical namespaces as users of a store: which there are, and which lie under a prefix.

``("users", "ann")`` is the user ``"users.ann"``. Labels contain no period, so no two namespaces are
the same user. Each namespace is also listed under each of its prefixes, in a cell that no namespace
can be because its name begins with a period: ``"."``, ``".users"`` and ``".users.ann"``. So what
lies under a prefix is found without a look at any other namespace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hyrecall.errors import DTypeError, KeyConflictError, OptionError, error
from hyrecall.memory import Episode, MemorySync, Partition

__all__ = ["Namespace", "Namespaces", "user_of"]

Namespace = tuple[str, ...]

_KIND = "namespace"
_ALL = 2**31 - 1


def user_of(namespace: Sequence[str], name: str = "namespace") -> str:
    """Return the user that a namespace is.

    Parameters
    ----------
    namespace : sequence of str
    name : str
        Of the argument, for errors.

    Raises
    ------
    DTypeError
        Not a sequence of str.
    OptionError
        A label that is empty, or has a period or a NUL.

    Examples
    --------
    >>> user_of(("users", "ann"))
    'users.ann'
    """
    if isinstance(namespace, str) or not isinstance(namespace, Sequence):
        raise error(DTypeError, name, "a tuple of labels", repr(namespace))
    for label in namespace:
        if not isinstance(label, str):
            raise error(DTypeError, name, "labels that are str", repr(label))
        if not label or "." in label or "\0" in label:
            wish = "labels that are not empty and have no period or NUL"
            raise error(OptionError, name, wish, repr(label))
    return ".".join(namespace)


@dataclass(frozen=True)
class Namespaces:
    """The namespaces of a store, in one org and workspace.

    Attributes
    ----------
    memory : MemorySync
    org, workspace : str or None
    """

    memory: MemorySync
    org: str | None = None
    workspace: str | None = None

    def partition(self, namespace: Namespace) -> Partition:
        """Return where the items of a namespace are."""
        return Partition(user_of(namespace), org=self.org, workspace=self.workspace)

    def add(self, namespace: Namespace) -> None:
        """List a namespace under each of its prefixes, unless it is listed."""
        user = user_of(namespace)
        if self.memory.get(user, user_id=".", org=self.org, workspace=self.workspace) is not None:
            return
        listed = (
            Episode(
                id=user,
                user_id=f".{'.'.join(namespace[:depth])}",
                org=self.org,
                workspace=self.workspace,
                kind=_KIND,
            )
            for depth in range(len(namespace) + 1)
        )
        try:
            self.memory.remember_batch(listed)
        except KeyConflictError:  # all or none are written: another thread has listed it meanwhile
            return

    def under(self, prefix: Namespace) -> list[Namespace]:
        """Return the namespaces that begin with a prefix, and that something was ever put into."""
        user = f".{user_of(prefix, 'namespace_prefix')}"
        listed = self.memory.list(
            user_id=user, org=self.org, workspace=self.workspace, kind=_KIND, limit=_ALL
        )
        return sorted(tuple(one.id.split(".")) for one in listed)
