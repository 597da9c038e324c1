"""How many machines hold so many documents, and how the queries of tenants spread over them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bench.scale.figures import STEPS, Figures
from bench.scale.simulator import Cluster, Floats, Ints, Query, Result, trips

NOBODY = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Options:
    """What is assumed, and not measured."""

    cores: int = 16  # of a machine
    memory_gb: float = 128.0
    memory_gb_s: float = 100.0  # what all cores together read
    memory_share: float = 0.8  # of the memory for the index
    price: float = 1.0  # of a machine and hour
    rtt_ms: float = 0.5  # between two machines
    gbit_s: float = 10.0  # of a machine's network
    kind: str = "hybrid"
    rates: tuple[float, float] = (5.0, 1_000.0)  # queries a second: everyone's rows, a tenant's
    tenant_rows: float = 10_000.0  # the mean
    exponent: float = 1.0  # of Zipf's law: of the tenants' rows, and of their queries
    most_load: float = 0.6  # of a process, on average; more replicas if it would be more
    most_ms: float = 100.0  # of a scan; more shards if it would take longer
    queries: int = 10_000
    seed: int = 1


@dataclass(frozen=True)
class Tenants:
    """Tenants by size: their share of the rows and of the queries, and where they lie."""

    rows: Floats
    share: Floats  # of the queries
    first: Ints  # shard
    spread: Ints  # over so many shards, one behind the other

    @classmethod
    def of(cls, documents: float, shards: int, options: Options) -> Tenants:
        """Place tenants: a large one fills shards of its own, of small ones each lies in one."""
        n = max(1, round(documents / options.tenant_rows))
        share = np.arange(1, n + 1, dtype=float) ** -options.exponent
        share /= share.sum()
        rows = documents * share
        spread = np.ceil(rows / (documents / shards)).astype(np.int64)
        first = np.random.default_rng(options.seed).integers(0, shards, n)
        return cls(rows, share, first, np.minimum(spread, shards))

    @cached_property
    def ends(self) -> Floats:
        """The sum of the shares, tenant after tenant."""
        return np.cumsum(self.share)

    def drawn(self, uniform: float) -> int:
        """Return the tenant at a uniform number from [0, 1)."""
        return min(int(np.searchsorted(self.ends, uniform, side="right")), len(self.rows) - 1)

    def asked(self, tenant: int, shards: int) -> Ints:
        """Return the shards of a tenant."""
        spread = int(self.spread[tenant])
        return np.sort((int(self.first[tenant]) + np.arange(spread)) % shards)

    def by_shard(self, value: Floats, shards: int) -> Floats:
        """Sum a value of each tenant over the shards that it lies in."""
        found = np.bincount(self.first, value, shards).astype(float)
        for tenant in np.flatnonzero(self.spread > 1).tolist():
            asked = self.asked(tenant, shards)
            found[asked[asked != self.first[tenant]]] += value[tenant]
        return found


class Plan:
    """Shards, replicas and callers for so many documents, and a simulation of their queries."""

    def __init__(
        self,
        figures: Figures,
        documents: float,
        scope: str,
        options: Options,
        *,
        replicas: int | None = None,
        rate: float | None = None,
    ) -> None:
        """Choose the least machines; ``replicas`` and ``rate`` take the place of chosen ones."""
        self.figures, self.documents, self.scope, self.options = figures, documents, scope, options
        self.rate = options.rates[scope == "tenant"] if rate is None else rate
        self.shards = max(1, math.ceil(documents / min(self._most_rows(), documents)))
        self.rows = documents / self.shards
        if scope == "tenant":
            self.tenants = Tenants.of(documents, self.shards, options)
        wanted = self._busy() / options.most_load
        self.replicas: Ints = np.maximum(1, np.ceil(wanted)).astype(np.int64)
        if replicas is not None:
            self.replicas = np.full(self.shards, replicas, np.int64)
        self.busiest = float((self._busy() / self.replicas).max())
        asked_work = self.rate / 1e3 * self._caller_mean() if self.is_cut else 0.0
        self.callers = math.ceil(asked_work / options.most_load)
        self.machines = int(self.replicas.sum()) + math.ceil(self.callers / options.cores)

    @property
    def is_cut(self) -> bool:
        """Whether there is more than one shard: otherwise a plain index answers, and no caller."""
        return self.shards > 1

    def _most_rows(self) -> float:
        options = self.options
        in_memory = options.memory_gb * 1e9 * options.memory_share / self.figures.disk_bytes
        least, most = 1e4, in_memory
        if self._step("finding", most) <= options.most_ms:
            return most
        for _ in range(60):
            middle = (least + most) / 2
            is_slow = self._step("finding", middle) > options.most_ms
            least, most = (least, middle) if is_slow else (middle, most)
        return least

    def _step(self, step: str, rows: npt.ArrayLike) -> Floats:
        options = self.options
        return self.figures.step_ms(
            options.kind, step, rows, threads=options.cores, gb_s=options.memory_gb_s
        )

    def _recall(self, rows: npt.ArrayLike) -> Floats:
        options = self.options
        return self.figures.recall_ms(
            options.kind, rows, threads=options.cores, gb_s=options.memory_gb_s
        )

    def _work(self, rows: npt.ArrayLike) -> Floats:
        """Return the mean work of a query at a shard where it sees so many rows."""
        if not self.is_cut:
            work = self._recall(rows)
        else:
            work = sum((self._step(step, rows) for step in STEPS), np.zeros(()))
        return self.figures.noise.mean(1.0) * work

    def _busy(self) -> Floats:
        """Return the processes that each shard's queries keep busy, on average."""
        if self.scope == "everyone":
            return np.full(self.shards, self.rate / 1e3 * float(self._work(self.rows)))
        seen = self.tenants.rows / self.tenants.spread
        value = self.tenants.share * self._work(seen)
        return self.rate / 1e3 * self.tenants.by_shard(value, self.shards)

    def _caller_mean(self) -> float:
        mean = self.figures.noise.mean(1.0)
        if self.scope == "everyone":
            return mean * float(self.figures.caller_ms(self.options.kind, self.shards))
        asked = self.figures.caller_ms(self.options.kind, self.tenants.spread)
        return mean * float((self.tenants.share * asked).sum())

    def hedge_after(self) -> float:
        """Return what 95 % of the answers of a shard to an unscoped query take at most."""
        rng = np.random.default_rng(self.options.seed)
        questions = self.figures.questions(self.options.kind, self.scope)[1]
        work = float(self._step("finding", self.rows)) * rng.choice(questions, 20_000)
        return float(np.percentile(self.figures.noise.vary(work, rng), 95))

    def simulate(self, *, hedge_after: float | None = None) -> Result:
        """Answer queries that arrive by chance at the rate of the plan."""
        n, options = self.options.queries, self.options
        if not self.is_cut:
            cluster = Cluster(np.ones(1, np.int64), int(self.replicas[0]))
        else:
            cluster = Cluster(
                self.replicas, self.callers, delay=options.rtt_ms / 2, hedge_after=hedge_after
            )
        found = cluster.run(self._draw(hedge_after is not None), n, warm_up=n // 10)
        return found

    def _draw(self, is_hedged: bool) -> Callable[[int], Query]:
        options, noise = self.options, self.figures.noise
        rng = np.random.default_rng(options.seed)
        times = np.cumsum(-np.log1p(-rng.random(options.queries))) * 1e3 / self.rate
        questions = self.figures.questions(options.kind, self.scope)
        sizes = self.figures.wire_bytes(options.kind, self.scope)
        ms_a_byte = 8 / (options.gbit_s * 1e6)
        sent = sizes["request"] + sizes["statistics"], sum(sizes.values()) + sizes["statistics"]
        everyone = np.arange(self.shards)

        def query(at: int) -> Query:
            asked, rows = everyone, self.rows
            if self.scope == "tenant":
                tenant = self.tenants.drawn(rng.random())
                asked = self.tenants.asked(tenant, self.shards)
                rows = float(self.tenants.rows[tenant] / len(asked))
            question = questions[:, int(rng.random() * questions.shape[1])]
            if not self.is_cut:
                work = np.atleast_1d(self._recall(rows) * question[1])
                return Query(float(times[at]), noise.vary(work, rng).tolist(), NOBODY, ())
            caller = noise.vary(
                np.atleast_1d(self.figures.caller_ms(options.kind, len(asked))), rng
            )
            means = [
                np.full(len(asked), float(self._step(step, rows)) * factor)
                for step, factor in zip(STEPS, question, strict=True)
            ]
            transfer = [one * len(asked) * ms_a_byte for one in sent]
            varied = [[noise.vary(one, rng) for one in means] for _ in range(1 + is_hedged)]
            own = float(caller[0])
            around, steps, lasts = trips(own, varied[0], transfer)
            again = trips(own, varied[1], transfer)[1] if is_hedged else ()
            return Query(float(times[at]), around, asked, steps, again, lasts)

        return query
