"""What loads newer versions beside requests tells its log of every fault."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hyrecall.errors import CorruptIndexError
from seams import NewerVersions, newer_versions


class Unreadable:
    """An index whose new version cannot be loaded."""

    is_stale = True

    def __init__(self, fault: Exception) -> None:
        self._fault = fault

    def reload(self) -> bool:
        raise self._fault


class Waiting:
    """An index whose folder is looked at for as long as it is told."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()

    @property
    def is_stale(self) -> bool:
        return not self.may_go_on.wait(60)


@pytest.mark.parametrize("pause", [1.0, 100.0])
def test_a_request_waits_after_a_pause_alone_and_not_for_ever(
    pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newer_versions, "LOOK_AGAIN", 0.1 if pause > 2 else 100.0)
    index: Any = Waiting()
    with ThreadPoolExecutor(1) as threads:
        versions = NewerVersions(index, threads, logging.getLogger("versions"))
        versions._looked -= pause * newer_versions.LOOK_AGAIN
        asyncio.run(versions.look_again())
        assert versions.loading is not None
        assert not versions.loading.done()
        index.may_go_on.set()
        asyncio.run(versions.look_again())
        versions.loading.result(60)


@pytest.mark.parametrize(
    "fault", [PermissionError(13, "Permission denied", "shards.json"), CorruptIndexError("damaged")]
)
def test_the_log_names_every_fault(fault: Exception, caplog: pytest.LogCaptureFixture) -> None:
    index: Any = Unreadable(fault)
    with ThreadPoolExecutor(1) as threads, caplog.at_level(logging.ERROR, "versions"):
        versions = NewerVersions(index, threads, logging.getLogger("versions"))
        versions._looked = -1e9
        asyncio.run(versions.look_again())
        assert versions.loading is not None
        assert versions.loading.exception() is None
    kind = type(fault).__name__
    assert caplog.messages == [f"index: the new version cannot be read ({kind})"]
