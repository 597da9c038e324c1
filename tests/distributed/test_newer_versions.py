"""What loads newer versions beside requests tells its log of every fault."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hyrecall.distributed.newer_versions import NewerVersions
from hyrecall.errors import CorruptIndexError


class Unreadable:
    """An index whose new version cannot be loaded."""

    is_stale = True

    def __init__(self, fault: Exception) -> None:
        self._fault = fault

    def reload(self) -> bool:
        raise self._fault


@pytest.mark.parametrize(
    "fault", [PermissionError(13, "Permission denied", "shards.json"), CorruptIndexError("damaged")]
)
def test_the_log_names_every_fault(fault: Exception, caplog: pytest.LogCaptureFixture) -> None:
    index: Any = Unreadable(fault)
    with ThreadPoolExecutor(1) as threads, caplog.at_level(logging.ERROR, "versions"):
        versions = NewerVersions(index, threads, logging.getLogger("versions"))
        versions._looked = -1e9
        versions.look_again()
        assert versions.loading is not None
        assert versions.loading.exception() is None
    kind = type(fault).__name__
    assert caplog.messages == [f"index: the new version cannot be read ({kind})"]
