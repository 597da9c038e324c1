"""What crosses to a client beside rows: errors, explanations, callables, conversations."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

import hyrecall as hr
from hyrecall.embed import HashEmbedder
from hyrecall.memory import Episode, Fact, MemorySync
from hyrecall.recipes import hypergraph
from memory.stores import HOUR, NOON, Clock

DIM = 8
ANN = {"user_id": "ann"}
TEXTS = ("oak and ash", "ash and elm", "elm trees in a row", "a row of yew", "tea at four")


def filled(folder: Path) -> MemorySync:
    memory = MemorySync.open(
        folder, recipe=hypergraph, embedder=HashEmbedder(DIM), clock=Clock(), warm=False,
        recall_timeout=30.0, write_timeout=30.0,
    )  # fmt: skip
    for at, text in enumerate(TEXTS):
        memory.remember(
            Episode(
                id=f"e{at}", text=text, user_id="ann", tags=("tree",) if at < 4 else (),
                occurred_at=NOON - at * HOUR, metadata={"at": at}, importance=float(at),
                session_id="walk" if at < 3 else None,
            )
        )  # fmt: skip
    memory.link(["e0", "e1"], "beside", id="edge", **ANN)
    memory.remember_fact(
        Fact(id="f", user_id="ann", subject="ann", predicate="likes", object="tea", valid_from=NOON)
    )
    return memory


def explained(memory: MemorySync) -> Any:
    return memory.search("ash", **ANN).explain(0)


def reranked(memory: MemorySync) -> Any:
    return memory.search(
        "ash", reranker=lambda query, texts: [float(len(one)) for one in texts], **ANN
    )


def badly_reranked(memory: MemorySync) -> Any:
    class OwnError(Exception):
        pass

    def fails(query: str, texts: list[str]) -> list[float]:
        raise OwnError(query)

    return memory.search("ash", reranker=fails, **ANN)


def estimated(memory: MemorySync) -> Any:
    budget = hr.Budget(4, estimate=lambda texts: [len(one.split()) for one in texts])
    recipe = hypergraph.replace(shaping=(*hypergraph.shaping, budget))
    return memory.search("ash elm", recipe=recipe, **ANN)


def imported(memory: MemorySync) -> Any:
    file, told = io.StringIO(), []
    memory.export(file, **ANN, history=True)
    text = file.getvalue().replace('"e0"', '"n0"') + "no line\n"
    done = memory.import_(io.StringIO(text), progress=lambda *at: told.append(at))
    return done, told


def reembedded(memory: MemorySync) -> Any:
    told: list[Any] = []
    return memory.reembed(force=True, progress=lambda *at: told.append(at)), told


def conversation(memory: MemorySync) -> Any:
    return [memory.search("ash", session_id="talk", **ANN) for _ in range(4)]


def doctored(memory: MemorySync) -> Any:
    report = memory.doctor(full=True)
    told = [one for one in report.checks if one.name not in ("index", "embedder", "owner")]
    return told, report.counts, [one.name for one in report.checks]


def exported(memory: MemorySync) -> Any:
    return memory.export(**ANN, history=True)


def warned(memory: MemorySync) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = memory.search("ash")
    return found, [(one.category.__name__, str(one.message)) for one in caught]


def wrong_size(memory: MemorySync) -> Any:
    return memory.search("ash", vector=np.ones(DIM + 1, np.float32), **ANN)


# Those that change nothing come first; each later one finds what those before it left.
CALLS: dict[str, Callable[[MemorySync], Any]] = {
    "OptionError of an id": lambda m: m.remember("again", id="", **ANN),
    "KeyConflict": lambda m: m.remember("again", id="e0", **ANN),
    "NotFoundError": lambda m: m.update("nobody", text="x", **ANN),
    "OptionError of a filter": lambda m: m.search("ash", filter=hr.Filter(colour="red"), **ANN),
    "DTypeError of a filter": lambda m: m.search("ash", filter=hr.Filter(importance="red"), **ANN),
    "OptionError of a depth": lambda m: m.search("ash", limit=10**6, **ANN),
    "ShapeError": lambda m: m.remember("x", vector=np.ones(DIM + 1), **ANN),
    "ScopeError": lambda m: m.agent("", org="acme", workspace="lab").remember("x"),
    "IndexError": lambda m: m.search("ash", **ANN).explain(99),
    "feedback, NotFoundError": lambda m: m.feedback(used=["nobody"], query="q", **ANN),
    "end_fact of nobody, an Error": lambda m: m.end_fact("f", user_id="bob"),
    "a vector of another length": wrong_size,
    "a warning": warned,
    "search": lambda m: m.search("ash elm", **ANN),
    "search around": lambda m: m.search("oak", limit=1, around=2, **ANN),
    "search with everything": lambda m: m.search(
        "ash elm", limit=2, offset=1, filter=hr.Filter(**{"metadata.at": (0, 3)}), tags=["tree"],
        since=NOON - 9 * HOUR, alpha=0.7, diversity=0.3, normalize=True, touch=True,
        candidates={"e3": 2.0}, around=1, now=NOON + HOUR, **ANN,
    ),
    "search by learnt weights": lambda m: m.search(
        "ash elm",
        recipe=hypergraph.replace(shaping=(hr.Linear({"fused": 1.0, "kind=note": -0.5}),)),
        **ANN,
    ),
    "search with a prior": lambda m: m.search(
        "ash elm", recipe=hypergraph.replace(shaping=(hr.Prior("kind", {"note": -0.5}),)), **ANN
    ),
    "recall_scored": lambda m: m.recall_scored("ash", **ANN),
    "explain": explained,
    "explain_dropped": lambda m: m.search("ash", limit=1, **ANN).explain_dropped(),
    "reranker": reranked,
    "reranker that fails": badly_reranked,
    "estimate of tokens": estimated,
    "wait_until_ready": lambda m: m.wait_until_ready(30),
    "conversation": conversation,
    "import_": imported,
    "reembed": reembedded,
    "remember with a vector": lambda m: m.remember(
        "x", id="v", vector=np.ones(DIM), occurred_at=NOON, **ANN
    ),
    "doctor": doctored,
    "snapshot": lambda m: m.snapshot(),
}  # fmt: skip


def plain(value: Any) -> Any:
    """What can be compared: without times that were measured, and ids that were drawn."""
    if isinstance(value, list) and hasattr(value, "_found"):  # Matches
        found = {
            name: plain(getattr(value, name))
            for name in ("reasons", "lexical_mode", "now", "origins", "trace", "related", "context",
                         "around", "edges", "phase", "tiers", "scopes", "faults")
        }  # fmt: skip
        return [plain(list(value)), found]
    if isinstance(value, BaseModel):
        return (type(value).__name__, plain(value.model_dump()))
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, {
            one.name: plain(getattr(value, one.name))
            for one in fields(value)
            if one.name != "milliseconds"
        }
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def outcome(call: Callable[[Any], Any], of: Any) -> Any:
    try:
        return "reply", plain(call(of))
    except Exception as fault:
        told = {name: one for name, one in vars(fault).items() if not name.startswith("_")}
        return type(fault), str(fault), told


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[MemorySync, MemorySync]]:
    """An owner of one store, and a client of another one that has the same content."""
    with filled(tmp_path / "a") as owner, filled(tmp_path / "b") as other:
        client = MemorySync.open(
            tmp_path / "b", recipe=hypergraph, embedder=HashEmbedder(DIM), clock=Clock(),
            warm=False, recall_timeout=30.0, write_timeout=30.0,
        )  # fmt: skip
        assert other._store.owner_state() is not None
        with client:
            yield owner, client


def test_a_client_answers_as_the_owner(both: tuple[MemorySync, MemorySync]) -> None:
    for name, call in CALLS.items():
        expected, got = (outcome(call, one) for one in both)
        assert got == expected, name
        is_refused = "Error" in name or "Conflict" in name
        assert (expected[0] == "reply") != is_refused, (name, expected)
    after = [outcome(exported, one) for one in both]
    assert after[0] == after[1]
