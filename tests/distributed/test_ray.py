"""Shards in Ray actors: the same replies, and an actor that ends is named."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import hyrecall as hr
from distributed.test_processes import asked, saved_shards, whole
from hyrecall.distributed import ShardedIndex
from hyrecall.distributed.ray_shards import RayShard
from laws.engine import ipc_bytes

ray = pytest.importorskip("ray", reason="ray is not installed")

pytestmark = pytest.mark.filterwarnings("ignore")  # of Ray, at its start


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShardedIndex]:
    paths = saved_shards(tmp_path_factory.mktemp("ray"))
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        with ShardedIndex.on_ray(paths, device="cpu", threads=1, num_cpus=0.5) as made:
            yield made
    finally:
        ray.shutdown()


def test_actors_reply_as_one_index(index: ShardedIndex) -> None:
    one = whole()
    for more in ({}, {"shaping": (hr.MMR(0.5),)}, {"recipe": hr.recipes.default},
                 {"filter": hr.Filter(year=(2002, None)), "columns": ["text"]}):  # fmt: skip
        got = index.recall(**asked(**more))
        assert not got.degraded
        assert ipc_bytes(got.to_arrow()) == ipc_bytes(one.recall(**asked(**more)).to_arrow())
    with pytest.raises(hr.ScopeError) as fault:
        index.recall(**asked(scope=None))
    assert fault.value.argument == "scope"


def test_an_actor_that_is_killed_is_named_or_starts_again(index: ShardedIndex) -> None:
    want = whole().recall(**asked()).to_arrow()
    for shard in index.shards:
        assert isinstance(shard, RayShard)
        ray.kill(shard.actor, no_restart=False)
        got = index.recall(**asked())
        if got.degraded:
            assert any(shard.name in told for told in got.trace.degraded)
        else:
            assert got.to_arrow().equals(want)
        deadline = time.monotonic() + 60
        while index.recall(**asked()).degraded and time.monotonic() < deadline:
            time.sleep(0.2)
        assert index.recall(**asked()).to_arrow().equals(want)
