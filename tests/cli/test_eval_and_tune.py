"""``hyrecall eval`` and ``hyrecall tune`` on a small set."""

import json
import sys

import pytest

from hyrecall.evaluate import load_dataset
from retrieval_set import small_set, write_folder

pytest.importorskip("ir_measures", reason="the extra [eval] is not installed")
pytest.importorskip("scipy", reason="the extra [eval] is not installed")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return write_folder(small_set(), tmp_path_factory.mktemp("sets") / "small")


def test_all_settings_are_measured_where_none_is_named(run, small):
    reply = run("eval", small)
    assert reply.code == 0
    assert reply.out.startswith("small: 54 judged queries\n\n| setting ")
    assert [line.split("|")[1].strip() for line in reply.out.splitlines()[4:]] == [
        "bm25", "dense", "rrf", "minmax",
    ]  # fmt: skip
    assert "nDCG@10 less bm25" in reply.out
    assert "small: 80 documents, 54 judged queries" in reply.err


def test_json_is_one_object_on_stdout(run, small):
    options = ("-r", "rrf", "--setting", "bm25", "--json", "--measures", "RR@10,R@5")
    reply = run("eval", small, *options)
    assert reply.code == 0
    assert [one["name"] for one in reply.data["settings"]] == ["rrf", "bm25"]
    assert list(reply.data["settings"][0]["means"]) == ["RR@10", "R@5"]
    assert reply.data["comparisons"][0]["against"] == "rrf"
    assert reply.data["n_queries"] == 54


def test_halves_analyzers_constants_and_judgements_can_be_chosen(run, small):
    def means(*options):
        reply = run("eval", small, "-r", "bm25", "--json", *options)
        assert reply.code == 0, reply.err
        return reply.data["settings"][0]["means"], reply.data["n_queries"]

    whole = means()
    even, odd = means("--split", "even"), means("--split", "odd")
    assert even[1] + odd[1] == whole[1] == 54
    assert even[0] != odd[0]
    assert means("--bm25", "lucene:0:0") != whole
    assert means("--analyzer", "word", "--stopwords", "amber,basin,cedar") != whole
    lines = (small / "qrels.tsv").read_text().splitlines()[:10]
    (small / "few.tsv").write_text("\n".join(lines))
    assert means("--qrels", "few.tsv")[1] == 3


def test_a_run_equal_to_its_baseline_is_done_with_0(run, small, tmp_path):
    path = tmp_path / "b.json"
    assert run("eval", small, "--write-baseline", path).code == 0
    reply = run("eval", small, "-r", "rrf", "--against", path, "--measures", "AP", "--json")
    assert reply.code == 0
    assert [one["measure"] for one in reply.data["baseline"]] == ["R@5", "RR@10", "nDCG@10"]
    assert not any(one["failed"] for one in reply.data["baseline"])


def test_a_measure_below_its_baseline_is_1_and_named(run, small, tmp_path):
    path = tmp_path / "b.json"
    assert run("eval", small, "-r", "bm25", "--write-baseline", path).code == 0
    # A ranker that is broken: half of the words are thrown away.
    thrown = "amber,basin,cedar,delta,ember,fjord,grove"
    words = ("eval", small, "-r", "bm25", "--stopwords", thrown)
    reply = run(*words, "--against", path, "--diff", "3")
    assert reply.code == 1
    assert "error: bm25: nDCG@10 fell by 0." in reply.err
    assert "FELL" in reply.out
    assert "nDCG@10, the baseline -> bm25" in reply.out
    told = run(*words, "--against", path, "--json").data
    assert any(one["failed"] for one in told["baseline"])


def test_the_queries_that_moved_most_are_shown(run, small):
    asked = ("eval", small, "-r", "bm25", "-r", "dense", "--diff", "2")
    reply = run(*asked, "--json")
    (moved,) = reply.data["queries_moved"]
    assert (moved["before"], moved["after"], len(moved["table"])) == ("bm25", "dense", 2)
    assert moved["table"][0]["text"]
    assert (
        "nDCG@10, bm25 -> dense" in run("eval", small, "-r", "bm25", "-r", "dense", "--diff", 2).out
    )


def test_a_plot_is_written_and_said_on_stderr(run, small, tmp_path):
    pytest.importorskip("matplotlib", reason="the extra [eval] is not installed")
    path = tmp_path / "means.svg"
    reply = run("eval", small, "-r", "bm25", "--plot", path)
    assert reply.code == 0
    assert f"drawn in {path}" in reply.err
    assert path.read_text().rstrip().endswith("</svg>")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["-r", "best"],
            "error: setting: expected one of bm25, dense, rrf, minmax, default, hebb, ",
        ),
        (["-r", "rrf", "-r", "rrf"], "error: --setting: expected each name once"),
        (["--split", "left"], "error: split: expected 'even' or 'odd', got 'left'"),
        (["--measures", "ERR@3"], "error: measures: expected nDCG@k"),
        (["-r", "bm25", "--diff", "3"], "error: --diff: expected two settings, or --against"),
        (["--against", "absent.json"], "error: absent.json: No such file"),
        (["--qrels", "absent.tsv"], "expected a file absent.tsv, got none"),
        (["-r", "bm25", "--plot", "means.png"], "error: plot: expected a name that ends in .svg"),
        (["--analyzer", "klingon"], "error: --analyzer: "),
    ],
)
def test_what_is_refused_is_one_line_and_1(run, small, arguments, line):
    reply = run("eval", small, *arguments)
    assert reply.code == 1
    talk = [one for one in reply.err.splitlines() if one.startswith("error: ")]
    assert len(talk) == 1
    assert line in talk[0]


def test_a_folder_that_holds_no_set_is_refused(run, tmp_path):
    reply = run("eval", tmp_path)
    assert reply.code == 1
    assert "expected a folder with either corpus.parquet or corpus.jsonl, got neither" in reply.err


@pytest.mark.parametrize("package", ["ir_measures", "pytrec_eval", "scipy", "matplotlib"])
@pytest.mark.parametrize("command", ["eval", "tune"])
def test_without_the_extra_nothing_is_begun_and_the_code_is_2(
    run, small, monkeypatch, command, package
):
    monkeypatch.setitem(sys.modules, package, None)
    reply = run(command, small)
    assert reply.code == 2
    assert reply.err == (
        "error: evaluate: expected the extra [eval] (pip install 'hyrecall[eval]'), "
        f"got no package {package}\n"
    )


def test_tune_reports_the_winner_beside_the_arms_on_the_other_half(run, small):
    reply = run("tune", small, "--json", "--measure", "RR@10")
    assert reply.code == 0
    report = reply.data["report"]
    assert report["dataset"] == "small, odd queries"
    assert report["n_queries"] == len(load_dataset(small).split("odd").judgements)
    assert [one["name"] for one in report["settings"]][:2] == ["bm25", "dense"]
    assert report["settings"][-1]["name"] == reply.data["winner"]["name"]
    assert 0 < reply.data["against_best_arm"]["p_value"] <= 1
    assert json.dumps(reply.data).count('"name"') > 80
    text = run("tune", small, "--measure", "RR@10").out
    assert "chosen on the even queries" in text
    assert reply.data["winner"]["name"] in text
