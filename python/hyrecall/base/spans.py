"""OpenTelemetry spans of recalls, in programs that use OpenTelemetry; elsewhere nothing happens.

A span holds counts, names of arms and stages, and times. It holds no text, no vector, and no id.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, Protocol

RECALL, MEMORY_RECALL = "hyrecall.recall", "hyrecall.memory.recall"
"""The names of an index's recall and of a store's, whose child the index's is."""

_NAME = "hyrecall"


class SpanLike(Protocol):
    """The methods of an OpenTelemetry span that are used here."""

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Set numbers and words."""

    def add_event(
        self, name: str, attributes: Mapping[str, Any] | None = None, timestamp: int | None = None
    ) -> None:
        """Add a step."""


class _TraceLike(Protocol):
    """The fields of :class:`hyrecall.hits.trace.Trace` that a span shows."""

    @property
    def device(self) -> str: ...
    @property
    def n_queries(self) -> int: ...
    @property
    def arms(self) -> tuple[str, ...]: ...
    @property
    def depth(self) -> int: ...
    @property
    def milliseconds(self) -> dict[str, float]: ...
    @property
    def degraded(self) -> tuple[str, ...]: ...
    @property
    def stages(self) -> tuple[Any, ...]: ...


_NO_SPAN: Final = nullcontext()


def span(
    name: str, attributes: Mapping[str, Any] | None = None
) -> AbstractContextManager[SpanLike | None]:
    """Open a span around a block; gives None where OpenTelemetry is not in use or not recording."""
    # A program that records spans has imported ``opentelemetry.trace`` before its first recall, so
    # it is not imported here, and other programs pay one look-up.
    api: Any = sys.modules.get("opentelemetry.trace")
    return _NO_SPAN if api is None else _span(api, name, attributes)


@contextmanager
def _span(api: Any, name: str, attributes: Mapping[str, Any] | None) -> Iterator[SpanLike | None]:
    # record_exception would write the message of an error, which may quote a text.
    tracer = api.get_tracer(_NAME)
    with tracer.start_as_current_span(
        name, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as made:
        try:
            yield made if made.is_recording() else None
        except Exception as fault:
            made.set_attribute("error.type", type(fault).__name__)
            made.set_status(api.StatusCode.ERROR)
            raise


def record_trace(made: SpanLike | None, trace: _TraceLike | None, began: int) -> None:
    """Write how a batch was answered to its span, its steps as events."""
    if made is None or trace is None:
        return
    made.set_attributes(
        {
            "hyrecall.device": trace.device,
            "hyrecall.queries": trace.n_queries,
            "hyrecall.arms": trace.arms,
            "hyrecall.depth": trace.depth,
            "hyrecall.degraded": bool(trace.degraded),
        }
    )
    at = began
    for step, milliseconds in trace.milliseconds.items():
        at = min(at + int(milliseconds * 1e6), time.time_ns())
        made.add_event(f"hyrecall.{step}", {"hyrecall.milliseconds": milliseconds}, at)
    for stage in trace.stages:
        facts = {
            "hyrecall.in": stage.n_in,
            "hyrecall.out": stage.n_out,
            "hyrecall.milliseconds": stage.milliseconds,
        }
        made.add_event(f"hyrecall.stage.{stage.stage}", facts, at)
