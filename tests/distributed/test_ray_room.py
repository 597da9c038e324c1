"""What Ray actors may reserve in a cluster: told before they start, since Ray queues for ever."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hyrecall as hr
from seams import default_gpus, read_reserved, room

UNITS = 10_000  # in which Ray counts


def nodes(*sizes: tuple[float, float]) -> list[dict[str, float]]:
    return [{"CPU": cpus, "GPU": gpus} for cpus, gpus in sizes]


def fit_by_hand(sizes: list[tuple[float, float]], n: int, wanted: tuple[float, float]) -> bool:
    """Whether actors fit, placed one after another, each with its GPUs named."""
    cpus, gpus = (round(one * UNITS) for one in wanted)
    left = [(round(own * UNITS), [UNITS] * int(cards)) for own, cards in sizes]
    for _ in range(n):
        for at, (free, cards) in enumerate(left):
            if free < cpus:
                continue
            still, taken = gpus, list(cards)
            for card in range(len(cards)):
                part = min(still, UNITS)
                if still and taken[card] >= part:
                    taken[card] -= part
                    still -= part
            if not still:
                left[at] = (free - cpus, taken)
                break
        else:
            return False
    return True


SIZES = st.tuples(st.sampled_from([0, 1, 1.5, 2, 4, 7]), st.sampled_from([0, 1, 2, 5]))
WANTED = st.tuples(
    st.sampled_from([0, 0.1, 0.5, 0.75, 1, 2, 3.5]), st.sampled_from([0, 0.25, 0.4, 1, 2, 3])
)


@settings(max_examples=200, deadline=None)
@given(st.lists(SIZES, min_size=1, max_size=3), st.integers(1, 9), WANTED)
def test_actors_have_room_where_they_can_all_be_placed(
    sizes: list[tuple[float, float]], n: int, wanted: tuple[float, float]
) -> None:
    assert (room(nodes(*sizes), *wanted) >= n) is fit_by_hand(sizes, n, wanted)


def test_a_planted_sum_over_nodes_is_seen() -> None:
    """An actor lies on one node: what two nodes have left together is no room for it."""
    sizes = [(1.5, 0.0), (1.5, 0.0)]
    assert sum(cpus for cpus, _ in sizes) // 1 == 3
    assert not fit_by_hand(sizes, 3, (1, 0))
    assert room(nodes(*sizes), 1, 0) == 2


def test_gpus_by_default() -> None:
    for device, n, sizes, want in [
        ("cpu", 1, [(4, 4)], 0),
        ("auto", 2, [(4, 2)], 1),
        ("auto", 3, [(4, 2)], 0),
        ("auto", 2, [(4, 0), (0, 2)], 0),  # the GPUs lie where there is no core
        ("auto", 2, [(1, 1), (1, 1)], 1),
        ("cuda:0", 3, [(4, 0)], 1),
        ("cuda", 3, [(4, 8)], 1),
    ]:
        assert default_gpus(nodes(*sizes), n, device, 1) == want, (device, n, sizes)


def test_what_cannot_be_reserved_is_refused() -> None:
    assert read_reserved(0, 0) == (0, 0)
    assert read_reserved(2.5, 3) == (2.5, 3)
    wrong: list[tuple[object, object, str]] = [
        *((one, 0, "num_cpus") for one in (-1, float("nan"), "1", None)),
        *((1, one, "num_gpus") for one in (-0.5, 1.5, float("inf"), True)),
    ]
    for num_cpus, num_gpus, argument in wrong:
        with pytest.raises((hr.OptionError, hr.DTypeError)) as fault:
            read_reserved(num_cpus, num_gpus)
        assert fault.value.argument == argument
