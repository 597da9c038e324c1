"""Compare the simulation of many shards with queueing theory; test its commands.

Each check takes a class of cluster, so that the tests can also pass a class with a planted bug.
"""

from __future__ import annotations

import itertools
import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.scale.__main__ import COMMITTED, main
from bench.scale.figures import Figures
from bench.scale.plan import Options, Plan, Tenants
from bench.scale.simulator import (
    Cluster,
    Floats,
    Ints,
    OneMachine,
    Query,
    Result,
    Simulation,
    Warmth,
)

ONE = np.zeros(1, np.int64)
NO_WORK = (0.0, 0.0)


def arrivals(rate: float, n: int, seed: int) -> Floats:
    """Return the times of random arrivals."""
    return np.cumsum(np.random.default_rng(seed).exponential(1 / rate, n))


def single(
    sim: Simulation, work: Floats, rate: float, *, again: Floats | None = None, seed: int = 1
) -> Result:
    """Ask one shard for these works, at random times."""
    times = arrivals(rate, len(work), seed)

    def query(at: int) -> Query:
        more = () if again is None else (again[at : at + 1],)
        return Query(times[at], NO_WORK, ONE, (work[at : at + 1],), more, (0.0,))

    return sim.run(query, len(work), warm_up=len(work) // 10)


def exponential(n: int, seed: int = 2) -> Floats:
    return np.random.default_rng(seed).exponential(1.0, n)


def fan_out(sim: Simulation, n_shards: int, n: int) -> Result:
    """Ask many shards, one query after the other has ended, with exponential times."""
    rng = np.random.default_rng(3)
    shards = np.arange(n_shards)

    def query(at: int) -> Query:
        work = rng.exponential(1.0, n_shards)
        return Query(at * 1e3, NO_WORK, shards, (work,), transfer=(0.0,))

    return sim.run(query, n)


# ---- checks ----


def check_mean_waits(make: type[Cluster]) -> None:
    """M/M/1: rate / (1 - rate); M/D/1: half of it (service of 1, so that the rate is the load)."""
    n = 20_000
    for load, bound in ((0.3, 0.06), (0.6, 0.1)):
        for work, expected in (
            (exponential(n), load / (1 - load)),
            (np.ones(n), load / (2 * (1 - load))),
        ):
            found = single(make(np.array([1]), 1), work, load)
            assert found.latency.mean() - work.mean() == pytest.approx(expected, rel=bound)


def check_fan_out(make: type[Cluster]) -> None:
    """The maximum of n exponentials has the mean 1 + 1/2 + ... + 1/n."""
    for n_shards in (1, 10, 100):
        found = fan_out(make(np.ones(n_shards, np.int64), 1), n_shards, 6_000)
        expected = (1 / np.arange(1, n_shards + 1)).sum()
        assert found.latency.mean() == pytest.approx(expected, rel=0.03)


def check_hedged_load(make: type[Cluster]) -> None:
    """Where each question is asked twice, two replicas wait as each alone under the whole rate.

    Hedged after no time at all, each of the two gets every question: M/D/1 of the whole rate. If
    the second work did not keep its replica busy, nothing would wait behind it.
    """
    n, load = 20_000, 0.5
    work = np.ones(n)
    cluster = make(np.array([2]), 1, hedge_after=0.0)
    found = single(cluster, work, load, again=work)
    assert found.asked_again == n
    assert found.latency.mean() - 1 == pytest.approx(load / (2 * (1 - load)), rel=0.06)
    assert found.shard_busy.sum() / found.span == pytest.approx(2 * load, rel=0.02)


def check_replicas(make: type[Cluster]) -> None:
    """The replica with the fewest outstanding questions: little worse than one queue for both.

    M/M/2 waits load^2 / (1 - load^2) on average, which no choice of a queue can beat. Joining the
    shorter of two queues waits less than 1.3 times that, choosing by chance more than twice.
    """
    n, load = 30_000, 0.8
    found = single(make(np.array([2]), 1), exponential(n), 2 * load)
    wait = (found.latency - 1.0).mean()
    best = load**2 / (1 - load**2)
    assert best * 0.9 < wait < best * 1.3


def check_utilisation(make: type[Cluster]) -> None:
    """Work done is rate times mean work, and a caller's is too (the utilisation law)."""
    rng = np.random.default_rng(5)
    n, rate = 6_000, 0.5
    times = arrivals(rate, n, 6)
    shards = np.arange(3)
    works = rng.exponential(0.8, (n, 2, 3))

    def query(at: int) -> Query:
        return Query(times[at], (0.1, 0.2, 0.3), shards, tuple(works[at]))

    found = make(np.array([1, 2, 1]), 2).run(query, n)
    assert found.shard_busy / found.span == pytest.approx(rate * 1.6, rel=0.04)
    assert found.caller_busy / found.span == pytest.approx(rate * 0.6, rel=0.04)
    assert found.shard_busy == pytest.approx(works.sum(axis=(0, 1)))


CHECKS = (
    check_mean_waits, check_fan_out, check_hedged_load, check_replicas, check_utilisation,
)  # fmt: skip


@pytest.mark.parametrize("check", CHECKS)
def test_a_cluster_agrees_with_closed_forms(check: Callable[[type[Cluster]], None]) -> None:
    check(Cluster)


# ---- planted bugs ----


class JoinsByMean(Cluster):
    """A step is over when the average shard has answered."""

    def joined(self, ends: Floats) -> float:
        return float(ends.mean())


class HedgesForFree(Cluster):
    """The second question keeps no replica busy."""

    def hedged(self, time: float, query: Query, step: int, late: Ints, picked: Ints) -> Floats:
        self.asked_again += len(late)
        other = self.choose(time, query.shards[late], but=picked[late])
        free: Floats = self._free[query.shards[late], other]
        return np.maximum(time, free) + query.again[step][late]


class ChoosesEarly(Cluster):
    """The replica is chosen before the query arrives, so that its queue is not known."""

    def choose(self, time: float, shards: Ints, but: Ints | None = None) -> Ints:
        return super().choose(0.0, shards, but) if but is not None else self._drawn(shards)

    def _drawn(self, shards: Ints) -> Ints:
        self._rng = getattr(self, "_rng", np.random.default_rng(9))
        return self._rng.integers(0, self._free.shape[1], len(shards))


class ForgetsQueue(Cluster):
    """A question is answered at once, whatever its process is at."""

    def serve(self, time: float, shards: Ints, picked: Ints, work: Floats) -> Floats:
        self._free[shards, picked] = 0.0
        return super().serve(time, shards, picked, work)


class CountsHalf(Cluster):
    """The first step's work is not counted."""

    def ask(self, time: float, query: Query, at: int, step: int) -> None:
        super().ask(time, query, at, step)
        if step == 0 and len(query.steps) > 1:
            self.shard_busy[query.shards] -= query.steps[0]


@pytest.mark.parametrize(
    ("planted", "check"),
    [
        (JoinsByMean, check_fan_out),
        (HedgesForFree, check_hedged_load),
        (ChoosesEarly, check_replicas),
        (ForgetsQueue, check_mean_waits),
        (CountsHalf, check_utilisation),
    ],
)
def test_a_planted_bug_is_seen(
    planted: type[Cluster], check: Callable[[type[Cluster]], None]
) -> None:
    with pytest.raises(AssertionError):
        check(planted)


# ---- one machine ----


def test_shared_cores_agree_with_closed_forms() -> None:
    """One process alone is M/M/1; many processes on two cores are M/M/2, shared or in turn."""
    n = 20_000
    found = single(OneMachine(1, cores=2), exponential(n), 0.6)
    assert found.latency.mean() == pytest.approx(1 / (1 - 0.6), rel=0.06)

    many, load = 60, 0.7  # so many that a query hardly ever finds its process busy
    times, works = arrivals(2 * load, n, 8), exponential(n)
    turns = np.random.default_rng(4).integers(0, many, n)

    def query(at: int) -> Query:
        asked = turns[at : at + 1]
        return Query(times[at], NO_WORK, asked, (works[at : at + 1],), transfer=(0.0,))

    mean = OneMachine(many, cores=2).run(query, n).latency.mean()
    assert mean == pytest.approx(1 / (1 - load**2), rel=0.06)


def test_with_a_core_for_each_process_both_simulations_give_the_same_times() -> None:
    def queries() -> Callable[[int], Query]:
        rng = np.random.default_rng(7)
        clock = itertools.accumulate(rng.exponential(2.0, 2_000))

        def query(at: int) -> Query:
            asked = np.sort(rng.permutation(4)[: rng.integers(1, 5)])
            works = tuple(rng.exponential(0.4, (2, len(asked))))
            return Query(
                next(clock), rng.exponential(0.2, 3).tolist(), asked, works, transfer=(0.1, 0.3)
            )

        return query

    cluster = Cluster(np.ones(4, np.int64), 1, delay=0.25).run(queries(), 2_000)
    machine = OneMachine(4, cores=5, delay=0.25).run(queries(), 2_000)
    assert machine.latency == pytest.approx(cluster.latency)
    fewer = OneMachine(4, cores=1, delay=0.25).run(queries(), 2_000)
    assert fewer.latency.mean() > 1.2 * cluster.latency.mean()
    for one in (machine, fewer):
        assert one.shard_busy == pytest.approx(cluster.shard_busy)


def test_a_lone_query_takes_the_sum_of_its_parts() -> None:
    steps = (np.array([3.0, 5.0]), np.array([20.0, 7.0]))
    query = Query(100.0, (1.0, 2.0, 4.0), np.array([0, 1]), steps, transfer=(0.5, 0.25))
    expected = 1 + 5 + 2 + 20 + 4 + 4 * 0.25 + 0.5 + 0.25
    for sim in (Cluster(np.ones(2, np.int64), 1, delay=0.25), OneMachine(2, 3, delay=0.25)):
        assert sim.run(lambda _: query, 1).latency == pytest.approx([expected])


def test_a_hedged_question_that_is_late_counts_from_the_replica_that_answers_first() -> None:
    def ask(work: float, again: float) -> Any:
        query = Query(0.0, NO_WORK, ONE, (np.array([work]),), (np.array([again]),), (0.0,))
        return Cluster(np.array([2]), 1, hedge_after=10.0).run(lambda _: query, 1)

    assert [ask(9.0, 1.0).latency[0], ask(9.0, 1.0).asked_again] == [9.0, 0]
    assert [ask(50.0, 4.0).latency[0], ask(50.0, 4.0).asked_again] == [14.0, 1]
    assert ask(50.0, 90.0).latency[0] == 50.0


def test_processes_of_others_take_their_share_of_the_cores() -> None:
    """Beside one other process on one core everything takes twice as long."""
    work, rate = exponential(500), 0.2
    beside = single(OneMachine(1, 1, others=1), work, rate)
    assert beside.latency == pytest.approx(single(OneMachine(1, 1), 2 * work, rate).latency)


class NeverWarm(OneMachine):
    """Planted: each piece of work counts as one after a long rest."""

    def _start(self, task: Any) -> None:
        self._rests_since[task.server] = -np.inf
        super()._start(task)


@pytest.mark.parametrize(("machine", "is_right"), [(OneMachine, True), (NeverWarm, False)])
def test_work_shortly_after_other_work_takes_less(
    machine: type[OneMachine], *, is_right: bool
) -> None:
    """Works of 4 at 0, 0 and 8.5, half of it if warm, all of it again after a rest of 5."""
    times, work = (0.0, 0.0, 8.5), np.array([4.0])
    sim = machine(1, 1, warm_shard=Warmth(0.5, 5.0))
    found = sim.run(lambda at: Query(times[at], NO_WORK, ONE, (work,), transfer=(0.0,)), 3)
    assert (found.latency.tolist() == pytest.approx([4.0, 6.0, 3.0])) is is_right


# ---- plans ----


def test_a_large_tenant_fills_shards_and_a_small_one_lies_in_one() -> None:
    placed = Tenants.of(1e6, 10, Options(tenant_rows=1e3))
    assert placed.rows.sum() == pytest.approx(1e6)
    assert placed.ends[-1] == pytest.approx(1.0)
    assert placed.spread[0] == 2  # 13 % of the rows
    assert (placed.spread[1:] == 1).all()
    assert len(set(placed.asked(0, 10))) == 2
    assert [placed.drawn(0.0), placed.drawn(1.0)] == [0, len(placed.rows) - 1]
    ones = placed.by_shard(np.ones(len(placed.rows)), 10)
    assert ones.sum() == len(placed.rows) + 1


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a tiny measurement."""
    path = tmp_path_factory.mktemp("scale") / "tiny.json"
    assert main(["measure", "--size", "tiny", "--out", str(path)]) == 0
    return path


def test_a_plan_adds_machines_with_documents_and_replicas_with_the_rate(tiny: Path) -> None:
    figures = Figures.load(tiny)
    options = Options(queries=200)
    for scope in ("everyone", "tenant"):
        plans = [Plan(figures, n, scope, options) for n in (1e6, 1e9, 1e10)]
        shards = [plan.shards for plan in plans]
        assert shards[0] == 1 < shards[1] < shards[2]
        assert all(plan.rows * figures.disk_bytes <= 0.8 * 128e9 for plan in plans)
        assert all(plan.busiest <= options.most_load for plan in plans)
        more = Plan(figures, 1e9, scope, options, rate=100 * plans[1].rate)
        assert more.shards == shards[1]
        assert more.replicas.sum() > plans[1].replicas.sum()
        assert more.machines > plans[1].machines
    few = Plan(figures, 1e9, "everyone", Options(queries=200, most_ms=5.0))
    assert few.shards > Plan(figures, 1e9, "everyone", options).shards


def test_a_simulated_plan_repeats_and_its_load_is_the_planned_one(tiny: Path) -> None:
    figures = Figures.load(tiny)
    plan = Plan(figures, 3e8, "everyone", Options(queries=2_000))
    assert plan.is_cut
    found = plan.simulate()
    assert (found.latency == plan.simulate().latency).all()
    used = found.shard_busy / found.span / plan.replicas
    assert used == pytest.approx(plan.busiest, rel=0.1)
    floor = figures.caller_line("hybrid")[1] * plan.shards
    assert np.median(found.latency) > floor


def test_the_commands_print_their_tables(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", "--from", str(tiny), "--queries", "50", "--plot", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.count("| all rows |") == said.count("| a tenant |") == 5
    assert said.count("| yes |") == 2
    ET.fromstring((tmp_path / "scale.svg").read_text())
    short = ["--shards", "2", "--rows", "1000", "--loads", "0.2", "--seconds", "0.2"]
    assert main(["validate", "--from", str(tiny), *short]) == 0
    said = capsys.readouterr().out
    assert "\n| 1 | 20% |" in said
    assert "\n| 2 | 20% |" in said


def test_the_committed_figures_are_of_a_full_measurement() -> None:
    figures = Figures.load(COMMITTED)
    assert figures.found["size"] == "full"
    assert {"machine_info", "commit", "date", "versions", "others_cores"} <= figures.found.keys()
    assert json.dumps(figures.found, indent=1) + "\n" == COMMITTED.read_text()
    assert figures.first_bytes < figures.disk_bytes
    plan = Plan(figures, 1e9, "everyone", Options(queries=20))
    assert (plan.simulate().latency > 0).all()
    beside = Figures.load(COMMITTED, beside_others=True)
    assert beside.noise.rate >= figures.noise.rate  # equal for an idle machine
    other = figures.found["noise"] | {"rate": figures.noise.rate + 1}
    told = figures.found | {"noise_beside_others": other}
    assert Figures(told).noise.rate == figures.noise.rate
    assert Figures(told, beside_others=True).noise.rate == figures.noise.rate + 1
