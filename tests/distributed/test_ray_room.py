"""What Ray actors may reserve in a cluster: told before they start, since Ray queues for ever."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hyrecall as hr
from seams import (
    UNITS,
    RayNode,
    Reserved,
    check_room,
    default_gpus,
    most_actors,
    ray_cluster,
    read_reserved,
)


def nodes(*sizes: tuple[float, float]) -> list[RayNode]:
    return [RayNode(round(cpus * UNITS), round(gpus * UNITS)) for cpus, gpus in sizes]


def fit_by_hand(given: list[RayNode], n: int, reserved: Reserved) -> bool:
    """Whether actors fit, placed one after another, each with its GPUs named."""
    cpus, gpus = (round(one * UNITS) for one in reserved)
    left = [(one.cpus, [UNITS] * (one.gpus // UNITS)) for one in given]
    for _ in range(n):
        for at, (free, cards) in enumerate(left):
            if free < cpus:
                continue
            wanted, taken = gpus, list(cards)
            for card in range(len(cards)):
                part = min(wanted, UNITS)
                if wanted and taken[card] >= part:
                    taken[card] -= part
                    wanted -= part
            if not wanted:
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
def test_actors_are_refused_where_they_cannot_all_be_placed(
    sizes: list[tuple[float, float]], n: int, wanted: tuple[float, float]
) -> None:
    given, reserved = nodes(*sizes), Reserved(*wanted)
    assert (most_actors(given, reserved) >= n) is fit_by_hand(given, n, reserved)
    if fit_by_hand(given, n, reserved):
        check_room(given, n, reserved)
        return
    with pytest.raises(hr.OptionError) as fault:
        check_room(given, n, reserved)
    name = str(fault.value.argument)
    most = float(str(fault.value).split("at most ")[1].split(" ")[0])
    assert most < getattr(reserved, name)
    # What the message allows fits, where the other number is no reason too, and more does not.
    other = "num_gpus" if name == "num_cpus" else "num_cpus"
    if not fit_by_hand(given, n, reserved._replace(**{name: 0})):
        reserved = reserved._replace(**{other: 0})
    if name == "num_gpus":
        reserved = reserved._replace(num_cpus=0)
    assert fit_by_hand(given, n, reserved._replace(**{name: most}))
    if name == "num_cpus":
        assert not fit_by_hand(given, n, reserved._replace(num_cpus=most + 1 / UNITS))


@pytest.mark.parametrize(
    ("sizes", "n", "wanted", "told"),
    [
        ([(2, 0)], 3, (1, 0), "num_cpus: expected at most 0.6666 for each of 3 actors (the cluster "
         "has 2), got 1"),
        ([(0, 0)], 1, (1, 0), "num_cpus: expected at most 0 for the actor (the cluster has 0)"),
        ([(1.5, 0), (1.5, 0)], 3, (1, 0), "num_cpus: expected at most 0.75 for each of 3 actors "
         "(the cluster has 3 on 2 nodes), got 1"),
        ([(8, 2)], 3, (1, 1), "num_gpus: expected at most 0.5 for each of 3 actors (the cluster "
         "has 2), got 1"),
        ([(8, 0)], 3, (1, 1), "num_gpus: expected at most 0 for each of 3 actors (the cluster has "
         "0), got 1"),
        ([(8, 5)], 2, (1, 3), "num_gpus: expected at most 2 for each of 2 actors (the cluster has "
         "5), got 3"),
        ([(8, 0), (1, 8)], 4, (1, 1), "num_cpus: expected at most 0.25 for each of 4 actors beside "
         "num_gpus=1 (the cluster has 9 on 2 nodes), got 1"),
    ],
)  # fmt: skip
def test_the_refusal_says_what_would_fit(
    sizes: list[tuple[float, float]], n: int, wanted: tuple[float, float], told: str
) -> None:
    with pytest.raises(hr.OptionError) as fault:
        check_room(nodes(*sizes), n, Reserved(*wanted))
    assert str(fault.value).startswith(told)
    assert "start_timeout= waits for a cluster that grows" in str(fault.value)


def test_a_planted_sum_over_nodes_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """An actor lies on one node: what two nodes have left together is no room for it."""
    given, reserved = nodes((1.5, 0), (1.5, 0)), Reserved(1, 0)

    def summed(given: list[RayNode], reserved: Reserved) -> int:
        return int(sum(one.cpus for one in given) // (reserved.num_cpus * UNITS))

    monkeypatch.setattr(ray_cluster, "most_actors", summed)
    check_room(given, 3, reserved)
    assert not fit_by_hand(given, 3, reserved)


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
