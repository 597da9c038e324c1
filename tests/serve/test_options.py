"""Options of the service are checked when they are made."""

from __future__ import annotations

from typing import Any

import pytest

from hyrecall.errors import DTypeError, HyrecallError, OptionError
from hyrecall.serve import ServiceOptions


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.53", "localhost", "::1"])
def test_loopback_needs_no_tokens(host: str) -> None:
    assert ServiceOptions(host=host).is_local


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "example.org", "127.evil.example"])
def test_another_host_without_tokens_is_refused(host: str) -> None:
    with pytest.raises(OptionError, match=r"^tokens: expected tokens with a host"):
        ServiceOptions(host=host)
    assert not ServiceOptions(host=host, tokens="tokens.json").is_local


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"allowed_origins": ("*",)}, OptionError),
        ({"allowed_hosts": ("*.example.org",)}, OptionError),
        ({"allowed_hosts": "example.org"}, DTypeError),
        ({"allowed_hosts": (1,)}, DTypeError),
        ({"port": 65_536}, OptionError),
        ({"port": -1}, OptionError),
        ({"port": True}, DTypeError),
        ({"host": ""}, DTypeError),
        ({"max_body": 0}, OptionError),
        ({"max_limit": 2.5}, DTypeError),
        ({"deadline": 0}, OptionError),
        ({"slow": float("nan")}, OptionError),
        ({"drain": float("inf")}, OptionError),
        ({"join": 1}, DTypeError),
    ],
)
def test_a_wrong_option_is_refused_by_name(
    given: dict[str, Any], kind: type[HyrecallError]
) -> None:
    with pytest.raises(kind, match=f"^{next(iter(given))}: expected"):
        ServiceOptions(**given)


def test_an_origin_is_kept_as_browsers_send_it() -> None:
    made = ServiceOptions(allowed_origins=("https://App.Example/",))
    assert made.allowed_origins == ("https://app.example",)
