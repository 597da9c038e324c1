"""What the tests of all adapters share."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Run the async tests of a framework's conformance suite, where pytest-asyncio is there."""
    if config.pluginmanager.hasplugin("asyncio"):
        config.option.asyncio_mode = "auto"
