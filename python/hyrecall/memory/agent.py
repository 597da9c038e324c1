"""An agent as data, for examples: instructions, the name of a model, and its memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hyrecall.base.arguments import check_keywords


@check_keywords
@dataclass(frozen=True)
class Agent:
    """Holds what examples pass around; it calls no model and needs no key.

    Parameters
    ----------
    instructions : str
        What it is for.
    model : str, optional
        Name of the model that whoever runs it uses.
    memory : object, optional
        A :class:`hyrecall.memory.Memory`, or anything that keeps its contract.

    Examples
    --------
    >>> agent = Agent("You know our servers.", model="any", memory=None)
    >>> agent.model
    'any'
    """

    instructions: str
    model: str | None = None
    memory: Any = None
