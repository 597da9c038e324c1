"""The stages of this package by name, imported when they are asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

HOMES = {
    "feedback": ("Feedback",),
    "evidence": ("Around", "Prior"),
    "provenance": ("Provenance",),
    "linear": ("Linear",),
    "rerank": ("Rerank", "RerankBy"),
    "dedup": ("Dedup",),
    "age": ("Recency", "Composite"),
    "session_signals": ("SessionSignals", "Phase"),
    "choice": ("Budget", "MMR"),
    "gate": ("Gate",),
}
"""By module, in the order in which they run; with Phase, which is a part of SessionSignals."""

STAGES = tuple(name for names in HOMES.values() for name in names if name != "Phase")
"""The names of the stages, in that order."""


def built_in() -> dict[str, Any]:
    """Return the stages of this package and their parts, by name."""
    return {name: kind_named(name) for names in HOMES.values() for name in names}


def kind_named(name: str) -> Any:
    """Return a stage of this package by its name; None: there is none."""
    home = next((home for home, names in HOMES.items() if name in names), None)
    return None if home is None else getattr(import_module(f"hyrecall.stages.{home}"), name)
