"""A store learns the length of its vectors from the embedder's first reply."""

from pathlib import Path
from typing import Any

import pytest

from memory.stores import open_store
from memory.test_backfill import LengthUnknown


def test_a_change_of_length_that_is_interrupted_is_made_by_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(tmp_path / "store", embedder=LengthUnknown()) as memory:
        store = memory._store

        def interrupted(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(store.follower, "relayout", interrupted)
            with pytest.raises(KeyboardInterrupt):
                memory.remember("tea", id="tea", user_id="ann")
        assert store.dim != 3
        memory.remember("tea", id="tea", user_id="ann")
        assert store.dim == 3
        found = memory.search("nothing of it", user_id="ann", vector=[1, 2, 3])
        assert [round(one.vector_score or 0, 5) for one in found] == [1.0]
