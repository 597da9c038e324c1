"""Options of the service are checked when they are made."""

from __future__ import annotations

import pytest

from hyrecall.errors import OptionError
from hyrecall.serve import ServiceOptions


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.53", "localhost", "::1"])
def test_loopback_needs_no_tokens(host: str) -> None:
    assert ServiceOptions(host=host).is_local


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "example.org", "127.evil.example"])
def test_another_host_without_tokens_is_refused(host: str) -> None:
    with pytest.raises(OptionError, match=r"^tokens: expected tokens with a host"):
        ServiceOptions(host=host)
    assert not ServiceOptions(host=host, tokens="tokens.json").is_local


def test_an_origin_is_kept_as_browsers_send_it() -> None:
    made = ServiceOptions(allowed_origins=("https://App.Example/",))
    assert made.allowed_origins == ("https://app.example",)
