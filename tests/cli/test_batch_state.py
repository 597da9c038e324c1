"""The state of an interrupted batch: what of it is read, and what is that of no run."""

import json

import pytest

pytest.importorskip("typer", reason="the extra [cli] is not installed")

from seams import BatchState


@pytest.mark.parametrize("job", [[], None, 7])
def test_a_state_whose_job_is_no_object_is_that_of_no_run(tmp_path, job):
    path = tmp_path / "state.json"
    path.write_bytes(BatchState(job={"limit": 3}).to_json())
    assert BatchState.read(path).difference({"limit": 4}) == ("limit", 3, 4)
    path.write_text(json.dumps({"job": job, "format": 2}))
    assert BatchState.read(path) is None
