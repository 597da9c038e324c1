"""State machines: random programs for an index and for a store, checked after each step."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from hyrecall.errors import HyrecallError


def run(
    machine: type[RuleBasedStateMachine], *, programs: int, steps: int, shrinks: bool = True
) -> None:
    """Run the same random programs each time; a failing one is shrunk and printed."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=programs,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            database=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, *([Phase.shrink] if shrinks else [])),
        ),
    )


def finds(machine: type[RuleBasedStateMachine], *, programs: int, steps: int) -> None:
    """Check that a machine finds the fault that is planted now."""
    with pytest.raises((AssertionError, HyrecallError, pytest.fail.Exception)):
        run(machine, programs=programs, steps=steps, shrinks=False)
