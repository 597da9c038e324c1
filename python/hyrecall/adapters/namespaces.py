"""Hierarchical namespaces as users of a store: which there are in a scope, and under a prefix.

``("users", "ann")`` is the user ``"users.ann"``. Labels contain no period, so no two namespaces are
the same user. Each namespace is also listed under each of its prefixes, in a cell that no namespace
can be because its name begins with a period: ``"."``, ``".users"`` and ``".users.ann"``. So what
lies under a prefix is found without a look at any other namespace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypedDict

from hyrecall.adapters.memories import ALL
from hyrecall.errors import DTypeError, KeyConflictError, OptionError, ScopeError, error
from hyrecall.memory import EVERYONE, Episode, MemorySync, Partition
from hyrecall.memory.data.fields import check_id

__all__ = ["Namespace", "Namespaces", "user_of"]

Namespace = tuple[str, ...]

_KIND = "namespace"
_MOST_BYTES = 511  # of a user, less the period before the name of a prefix


class _User(TypedDict):
    user_id: str
    org: str | None
    workspace: str | None


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
    """The namespaces of a store that lie in a scope, in one org and workspace.

    Attributes
    ----------
    memory : MemorySync
    scope : tuple of str or EVERYONE
        The first labels of every namespace.
    org, workspace : str or None
    """

    memory: MemorySync
    scope: Namespace | Enum
    org: str | None = None
    workspace: str | None = None

    def __post_init__(self) -> None:
        """Check the store and the scope."""
        if not isinstance(self.memory, MemorySync):
            raise error(DTypeError, "memory", "a MemorySync", type(self.memory).__name__)
        if self.scope is not EVERYONE and not (isinstance(self.scope, tuple) and self.scope):
            wish = "a namespace such as ('users',), or hyrecall.memory.EVERYONE for any"
            raise error(ScopeError, "scope", wish, repr(self.scope))
        user_of(self.root, "scope")

    @property
    def root(self) -> Namespace:
        """The labels that every namespace begins with."""
        return self.scope if isinstance(self.scope, tuple) else ()

    def check(self, namespace: Namespace, name: str, *, is_prefix: bool = False) -> None:
        """Refuse an invalid namespace, or one outside the scope."""
        user = user_of(namespace, name)
        if not is_prefix:
            if not user:
                raise error(OptionError, name, "one label or more", repr(namespace))
            check_id(name, user)
        if (n_bytes := len(user.encode(errors="surrogatepass"))) > _MOST_BYTES:
            wish = f"at most {_MOST_BYTES} bytes, with a period between labels"
            raise error(OptionError, name, wish, f"{n_bytes} bytes")
        if tuple(namespace[: len(self.root)]) != self.root:
            raise error(ScopeError, name, f"one in the scope {self.root}", repr(namespace))

    def user(self, namespace: Namespace) -> _User:
        """Return whose the items of a namespace are, as options of a call."""
        return {"user_id": user_of(namespace), "org": self.org, "workspace": self.workspace}

    def partition(self, namespace: Namespace) -> Partition:
        """Return where the items of a namespace are, for a search of several."""
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
            user_id=user, org=self.org, workspace=self.workspace, kind=_KIND, limit=ALL
        )
        return sorted(tuple(one.id.split(".")) for one in listed)
