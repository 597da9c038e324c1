"""The command: ``python -m bench.scale measure | predict | validate``."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import fields
from pathlib import Path

from bench import results
from bench.scale import __doc__ as about
from bench.scale import measuring, predicting, validating, world
from bench.scale.figures import Figures
from bench.scale.plan import Options

COMMITTED = results.FOLDER / "scale" / "shard.json"
SIZES = {"full": world.FULL, "tiny": world.TINY}
ASSUMED = {
    "cores": "cores of a machine",
    "memory_gb": "memory of a machine",
    "memory_gb_s": "what all cores of a machine read together",
    "memory_share": "how much of the memory is for the index",
    "price": "price of a machine and hour",
    "rtt_ms": "round trip between two machines",
    "gbit_s": "network of a machine",
    "tenant_rows": "documents of a tenant, the mean",
    "exponent": "of Zipf's law of tenants",
    "most_load": "of a process; replicas keep it below",
    "most_ms": "of a scan; shards keep it below",
    "queries": "simulated queries of each line",
    "seed": "of everything that is drawn",
}


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    top = argparse.ArgumentParser(
        prog="python -m bench.scale",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", required=True)
    measure = commands.add_parser("measure", help="measure a shard and a caller on this machine")
    measure.add_argument("--out", type=Path, required=True, help="the JSON to write")
    measure.add_argument("--samples", type=Path, help="where to keep every single time as JSON")
    measure.add_argument("--size", choices=tuple(SIZES), default="full")
    predict = commands.add_parser("predict", help="simulate 10^6 to 10^10 documents")
    predict.add_argument("--plot", type=Path, default=None, help="folder for scale.svg")
    predict.add_argument(
        "--beside-others", action="store_true",
        help="shards also wait for a core, as long as they did beside other programs here",
    )  # fmt: skip
    predict.add_argument("--kind", choices=world.KINDS, default="hybrid")
    predict.add_argument(
        "--rates", type=float, nargs=2, default=Options.rates, metavar=("ALL", "TENANT"),
        help="queries a second over all rows, and of tenants",
    )  # fmt: skip
    for field in fields(Options):
        if field.name in ASSUMED:
            name, default = field.name.replace("_", "-"), field.default
            predict.add_argument(
                f"--{name}", type=type(default), default=default,
                help=f"{ASSUMED[field.name]} (default: {default})",
            )  # fmt: skip
    validate = commands.add_parser("validate", help="compare the simulation with real shards here")
    validate.add_argument("--kind", choices=world.KINDS, default="hybrid")
    validate.add_argument("--shards", type=int, default=4, help="the most shards")
    validate.add_argument("--rows", type=int, default=50_000, help="of each shard")
    validate.add_argument("--loads", type=float, nargs="+", default=[0.3, 0.6, 0.8])
    validate.add_argument("--seconds", type=float, default=4.0, help="of each run")
    validate.add_argument("--patience", type=float, default=0.0, help=(
        "seconds that each run waits for other programs to rest"))  # fmt: skip
    for one in (predict, validate):
        one.add_argument("--from", dest="file", type=Path, default=COMMITTED, help="of measure")
    return top


def main(arguments: list[str] | None = None) -> int:
    """Run a command."""
    given = parser().parse_args(arguments)
    if given.command == "measure":
        found = measuring.measure(SIZES[given.size], given.size, given.samples)
        given.out.write_text(json.dumps(found, indent=1) + "\n")
        print(f"{given.out}: other programs used {found['others_cores']} cores meanwhile")
        return 0
    if given.command == "predict":
        figures = Figures.load(given.file, beside_others=given.beside_others)
        assumed = {name: getattr(given, name) for name in ASSUMED}
        options = Options(kind=given.kind, rates=tuple(given.rates), **assumed)
        predicting.predict(figures, options, given.plot)
        return 0
    figures = Figures.load(given.file)
    cases = validating.cases(given.kind, given.shards, given.loads, given.rows, given.seconds)
    sizes = SIZES[figures.found["size"]]
    lines = validating.validate(figures, sizes, cases, patience=given.patience)
    for line in validating.table(lines):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
