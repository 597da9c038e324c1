"""A sharded index behind Ray Serve: queries of many callers are joined, each in its own scope.

Needs ``pip install 'hyrecall[ray]' 'ray[serve]'``. Ray starts a cluster on this machine, unless the
program is connected to another one; there the folders must be readable on every node.
"""

import tempfile
from functools import partial
from pathlib import Path

import pyarrow as pa
import ray
from ray import serve

import hyrecall as hr
from hyrecall.distributed import ShardedIndex
from hyrecall.distributed.ray_serve import recall_app


def save_shards(folder: Path) -> list[Path]:
    """Save two indexes that are shards of one."""
    schema = hr.Schema(key="id", cell="user", text="text")
    paths = []
    for number in range(2):
        ids = [f"{user}{place}" for user in "ab" for place in (2 * number, 2 * number + 1)]
        users = ["ann" if one.startswith("a") else "bob" for one in ids]
        table = pa.table({"id": ids, "user": users, "text": ["green tea", "milk"] * 2})
        paths.append(folder / f"shard-{number}")
        hr.Index.build(table, schema, first_seq=4 * number).save(paths[-1])
    return paths


def main(folder: Path) -> None:
    """Serve the shards, ask as two callers at a time, and show what is refused."""
    app = recall_app(
        partial(ShardedIndex.open, save_shards(folder), threads=1),
        deployment={"num_replicas": 1, "ray_actor_options": {"num_cpus": 0.1}},
    )
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        serve.start(proxy_location="Disabled")  # no HTTP: the callers here have the handle
        handle = serve.run(app)
        users = ["ann", "bob"] * 20
        # They are sent before the first reply is awaited, so most of them become one batch.
        sent = [(user, handle.recall_one.remote(text="tea", scope=user)) for user in users]
        found = {user: reply.result().keys for user, reply in sent}
        for user, keys in found.items():
            print(f"{user}: {keys}")
        counts = handle.counts.remote().result()
        print(f"{counts['queries']} queries in {counts['batches']} batches")
        try:
            handle.recall_one.remote(text="tea").result()
        except Exception as fault:
            cause = getattr(fault, "cause", fault)
            print(f"without a scope: {cause}")
    finally:
        serve.shutdown()
        ray.shutdown()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
