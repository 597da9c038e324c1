"""The golden gate by hand: the folder as it is committed, embedded by the packaged model."""

import pytest

from golden_run import BASELINE, GOLDEN
from hyrecall.embed import StaticEmbedder

pytest.importorskip("ir_measures", reason="the extra [evaluate] is not installed")
pytest.importorskip("scipy", reason="the extra [evaluate] is not installed")
pytestmark = pytest.mark.skipif(
    not StaticEmbedder.available(), reason="the extra [local] is not installed"
)


@pytest.mark.slow
def test_G04_the_golden_gate_passes_by_hand(run, tmp_path, monkeypatch):
    monkeypatch.setenv("HYRECALL_CONFIG", str(tmp_path / "config.json"))
    asked = [word for name in ("dense", "rrf", "minmax", "default") for word in ("-r", name)]
    reply = run("evaluate", GOLDEN, "--embedder", "static", "--against", BASELINE, *asked, "--json")
    assert reply.code == 0, reply.err
    for one in reply.data["baseline"]:
        assert abs(one["difference"]) < 1e-3  # the committed vectors are these in float16
    assert len(reply.data["baseline"]) == 4 * 3


def test_G04_a_weaker_ranker_fails_the_gate_by_hand(run, tmp_path, monkeypatch):
    monkeypatch.setenv("HYRECALL_CONFIG", str(tmp_path / "config.json"))
    monkeypatch.setattr("hyrecall.evaluate.run.DEPTH", 3)
    reply = run("evaluate", GOLDEN, "--embedder", "static", "--against", BASELINE, "-r", "dense")
    assert reply.code == 1
    assert "error: dense: nDCG@10 fell by 0." in reply.err
