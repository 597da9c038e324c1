"""What importing the service loads, and what it says where the extra is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hyrecall

WITHOUT_FASTAPI = "import sys; sys.modules['fastapi'] = None; import hyrecall.serve as serve; "


def run_python(code: str) -> str:
    env = {"PYTHONPATH": str(Path(hyrecall.__file__).parents[1]), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


WEB = {"fastapi", "starlette", "uvicorn", "prometheus_client", "mcp", "mcp_types", "httpx"}


@pytest.mark.slow
def test_importing_the_room_and_showing_help_load_no_web_framework_and_no_sdk() -> None:
    """The SDK of MCP takes seconds to load, which only hyrecall mcp has to wait for."""
    code = (
        "import hyrecall.serve, sys, json\n"
        "from typer.testing import CliRunner\n"
        "from hyrecall.cli.app import app\n"
        "for words in (['--help'], ['mcp', '--help'], ['info'], ['list', '--path', '/no/such']):\n"
        "    CliRunner().invoke(app, words)\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    assert set(json.loads(run_python(code))) & WEB == set()
    assert "create_app" in run_python("import hyrecall.serve as s; print(s.create_app.__name__)")


def test_a_missing_extra_is_named_when_the_app_is_asked_for() -> None:
    code = (
        "from hyrecall.errors import MissingExtraError\n"
        "try: serve.create_app\n"
        "except MissingExtraError as fault: print(fault)"
    )
    told = run_python(WITHOUT_FASTAPI + "\n" + code)
    assert told.startswith("hyrecall.serve: expected the extra [serve]")
    assert "no package fastapi" in told


def test_an_unknown_name_is_an_attribute_error() -> None:
    code = "try: serve.nothing\nexcept AttributeError as fault: print(fault)"
    assert "nothing" in run_python("import hyrecall.serve as serve\n" + code)
