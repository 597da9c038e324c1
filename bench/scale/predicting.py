"""The table from 10^6 to 10^10 documents, what replicas and hedging bring, and a plot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.scale.figures import STEPS, Figures
from bench.scale.plan import Options, Plan
from bench.scale.simulator import Result
from bench.scale.world import KINDS
from bench.svg import Series, line_chart

OUT = Path(__file__).parents[2] / "docs" / "plots"
DOCUMENTS = (1e6, 1e7, 1e8, 1e9, 1e10)
SCOPES = ("everyone", "tenant")
PERCENTILES = (50, 95, 99, 99.9)
NAMES = {"everyone": "all rows", "tenant": "a tenant"}


@dataclass(frozen=True)
class Row:
    """A plan and what its simulation gave."""

    plan: Plan
    result: Result

    @property
    def cost(self) -> tuple[float, float]:
        """The price of an hour, and of a million queries."""
        hour = self.plan.machines * self.plan.options.price
        return hour, hour / (self.plan.rate * 3600) * 1e6


def rows(figures: Figures, options: Options, documents: Sequence[float] = DOCUMENTS) -> list[Row]:
    """Plan and simulate each number of documents, for queries over all rows and over a tenant's."""
    plans = [Plan(figures, n, scope, options) for scope in SCOPES for n in documents]
    return [Row(plan, plan.simulate()) for plan in plans]


def measured_tables(figures: Figures) -> Iterator[str]:
    """Return what was measured: bytes, and queries a second."""
    found = figures.found
    for name in ("disk_bytes", "memory_bytes"):
        parts = ", ".join(f"{part} {n:,.0f}" for part, n in found[name].items() if n >= 0.5)
        total, where = sum(found[name].values()), name.removesuffix("_bytes")
        yield f"bytes of a document, {where}: {total:,.0f} ({parts})"
    for kind in KINDS:
        sizes = figures.wire_bytes(kind, "everyone")
        fixed, each = figures.caller_line(kind)
        wire = ", ".join(f"{name} {n:,.0f}" for name, n in sizes.items())
        cost = f"{fixed:.2g} ms + {each:.2g} a shard"
        yield f"{kind}: bytes from and to a shard: {wire}; caller: {cost}"
    noise = figures.noise
    yield (
        f"interruptions: {noise.rate * 1e3:.2g} a second of work, {noise.tail.mean:.2g} ms on "
        f"average (scale {noise.tail.scale:.2g}, shape {noise.tail.shape:.2g}); "
        f"every core busy: {found['crowded']:.2g} times the processor time"
    )
    batch = max(map(int, figures.entries("hybrid", "everyone")[-1]["batched"]))
    yield f"\n| queries/s and core | rows | one at a time | batches of {batch} | work of a shard |"
    yield "|---" * 5 + "|"
    for kind in KINDS:
        for scope in ("tenant", "everyone"):
            for entry in figures.entries(kind, scope):
                single, many = (1e3 / entry["batched"][n] for n in ("1", str(batch)))
                steps = " + ".join(f"{entry[step]['ms']:.2f}" for step in STEPS)
                yield (
                    f"| {kind}, {NAMES[scope]} | {entry['seen']:,} | {single:,.0f} | {many:,.0f} "
                    f"| {steps} ms |"
                )


def short(value: float) -> str:
    """Write three digits, and no exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def power(n: float) -> str:
    """Write a number of documents: 1M, 10M, ..., 10,000M."""
    return f"{n / 1e6:,.0f}M"


def table(made: Sequence[Row]) -> Iterator[str]:
    """Return the lines of the table."""
    yield (
        "| documents | query | queries/s | shards | replicas of a shard | callers | machines "
        "| busiest | p50 | p95 | p99 | p99.9 ms | price an hour | a million queries |"
    )
    yield "|---" * 14 + "|"
    for one in made:
        plan = one.plan
        least, most = int(plan.replicas.min()), int(plan.replicas.max())
        times = " | ".join(short(ms) for ms in one.result.percentiles(*PERCENTILES))
        replicas = f"{least}" if least == most else f"{least} to {most}"
        hour, million = one.cost
        yield (
            f"| {power(plan.documents)} | {NAMES[plan.scope]} | {plan.rate:,.0f} | {plan.shards} "
            f"| {replicas} | {plan.callers or '-'} | {plan.machines} | {plan.busiest:.0%} "
            f"| {times} | {hour:,.0f} | {short(million)} |"
        )


def replica_table(figures: Figures, options: Options, documents: float) -> Iterator[str]:
    """Return what replicas and hedging bring for queries over all rows, at two loads."""
    yield (
        "| load of one replica | replicas | hedged | busiest | p50 | p95 | p99 | p99.9 ms "
        "| asked again |"
    )
    yield "|---" * 9 + "|"
    one = Plan(figures, documents, "everyone", options, replicas=1, rate=1.0)
    for load in (0.3, 0.7):
        rate = load / one.busiest
        for replicas, is_hedged in ((1, False), (2, False), (2, True)):
            plan = Plan(figures, documents, "everyone", options, replicas=replicas, rate=rate)
            found = plan.simulate(hedge_after=plan.hedge_after() if is_hedged else None)
            times = " | ".join(short(ms) for ms in found.percentiles(*PERCENTILES))
            again = found.asked_again / (options.queries * 2 * plan.shards)
            yield (
                f"| {load:.0%} | {replicas} | {'yes' if is_hedged else 'no'} "
                f"| {plan.busiest:.0%} | {times} | {again:.1%} |"
            )


def plot(made: Sequence[Row]) -> str:
    """Draw latency by documents."""
    lines = [
        Series(
            f"{NAMES[scope]}, p{percentile}",
            [
                (one.plan.documents, one.result.percentiles(percentile)[0])
                for one in made
                if one.plan.scope == scope
            ],
        )
        for scope in SCOPES
        for percentile in (50, 99)
    ]
    title = f"Simulated {made[0].plan.options.kind} queries, one at a time"
    return line_chart(title, "documents", "milliseconds", lines)


def predict(figures: Figures, options: Options, out: Path | None) -> None:
    """Print the tables, and write the plot to a folder."""
    made = rows(figures, options)
    print("\n".join(measured_tables(figures)))
    print("\nSimulated:\n")
    print("\n".join(table(made)))
    print(f"\n{power(1e9)} documents, queries over all rows:\n")
    print("\n".join(replica_table(figures, options, 1e9)))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        path = out / "scale.svg"
        path.write_text(plot(made))
        print(f"\n{path}")
