"""Grids, stages on and off, and tuning on one half."""

import json
import sys

import pytest

import hyrecall as hr
from hyrecall.errors import MissingExtraError, OptionError
from hyrecall.evaluate import (
    Dataset,
    Indexes,
    Setting,
    Study,
    ablate,
    compare,
    grid,
    plot_study,
    read_setting,
    run_setting,
    score_run,
    study_text,
    tune,
    with_each,
    without_each,
)
from seams import score_setting, study_to_dict, tuned_text, tuned_to_dict

pytest.importorskip("ir_measures", reason="the extra [evaluate] is not installed")
pytest.importorskip("scipy", reason="the extra [evaluate] is not installed")


@pytest.fixture(scope="module")
def study(data, indexes):
    settings = [read_setting(name) for name in ("bm25", "dense", "rrf")]
    return ablate(indexes, data, settings, measures=["nDCG@10", "R@5"])


def test_the_ends_of_a_grid_are_the_single_arms(data, indexes):
    single = {name: run_setting(indexes, data, read_setting(name)) for name in ("bm25", "dense")}
    ends = [hr.RRF(alpha=0), hr.RRF(alpha=1)]
    for kind in (hr.WeightedSum, hr.Max):
        ends += [kind({"text": 1 - weight, "embedding": weight}) for weight in (0, 1)]
    named = grid(read_setting("rrf"), fusion={str(at): one for at, one in enumerate(ends)})
    for settings in (named[:2], named[2:4], named[4:]):
        for setting, arm in zip(settings, ("bm25", "dense"), strict=True):
            found = run_setting(indexes, data, setting).documents
            assert found == single[arm].documents


def test_a_grid_of_two_options_has_every_pair():
    yes_no = {"no": False, "yes": True}
    made = grid(read_setting("rrf"), depth={"10": 10, "20": 20}, normalize=yes_no)
    assert [(s.options["depth"], s.options["normalize"]) for s in made] == [
        (10, False), (10, True), (20, False), (20, True),
    ]  # fmt: skip
    assert made[3].name == "rrf depth=20 normalize=yes"
    assert made[0].options["fusion"] == hr.RRF()


def test_G06_each_stage_can_be_off_alone_or_on_alone():
    base = Setting("all", {"shaping": ("a", "b", "c"), "depth": 50})
    off = [one.options["shaping"] for one in without_each(base, "shaping")]
    assert off == [("a", "b", "c"), ("b", "c"), ("a", "c"), ("a", "b")]
    on = [one.options["shaping"] for one in with_each(base, "shaping")]
    assert on == [(), ("a",), ("b",), ("c",)]
    assert {one.options["depth"] for one in (*without_each(base, "shaping"),)} == {50}
    with pytest.raises(OptionError, match="fusion: expected a sequence in setting 'all'"):
        without_each(base, "fusion")


def test_a_study_compares_every_setting_with_the_first(data, indexes, study):
    for setting, scores in zip(study.settings, study.scores, strict=True):
        alone = score_setting(indexes, data, setting, measures=["nDCG@10", "R@5"])
        assert scores.means == alone.means
    assert study.comparisons[1] == compare(study.scores[0], study.scores[2])
    assert [one.measure for one in study.comparisons[0]] == ["nDCG@10", "R@5"]


def test_a_refused_setting_is_named_in_a_note(data, indexes):
    lost = read_setting("bm25").but("lost", shaping=(hr.Recency("nowhere", half_life="1d"),))
    with pytest.raises(OptionError, match=r"Recency\.column") as caught:
        ablate(indexes, data, [read_setting("bm25"), lost], measures=["R@5"])
    assert caught.value.__notes__ == [f"in the setting 'lost' of the set {data.name!r}"]


def test_the_best_setting_of_a_study_has_the_highest_mean(study):
    for measure in ("nDCG@10", "recall@5"):
        best = [one.name for one in study.settings].index(study.best(measure).name)
        name = "R@5" if measure == "recall@5" else measure
        assert study.scores[best].means[name] == max(one.means[name] for one in study.scores)
    tied = Study(study.dataset, study.settings[:2], study.scores[:1] * 2, ())
    assert tied.best("R@5") is study.settings[0]
    with pytest.raises(OptionError, match=r"one of \['nDCG@10', 'R@5'\], got 'AP'"):
        study.best("AP")


def test_the_text_of_a_study_has_its_figures_in_80_columns(study):
    lines = study_text(study).splitlines()
    assert lines[0] == "small: 54 judged queries"
    assert lines[2].split() == ["setting", "nDCG@10", "R@5"]
    assert [line.split()[0] for line in lines[4:7]] == ["bm25", "dense", "rrf"]
    for scores, line in zip(study.scores, lines[4:7], strict=True):
        assert line.split()[1:] == [f"{mean:.4f}" for mean in scores.means.values()]
    assert lines[8] == "95 % intervals"
    low, high = study.scores[2].intervals["nDCG@10"]
    assert lines[14].split()[:2] == ["rrf", f"{low:.3f}-{high:.3f}".replace("0.", ".")]
    assert lines[16] == "nDCG@10, against bm25"
    one = study.comparisons[1][0]
    low, high = one.interval
    assert lines[21].split() == [
        "rrf", f"{one.difference:+.4f}", f"{low:+.4f}", "..", f"{high:+.4f}",
        *(["<", "0.0001"] if one.p_value < 0.0001 else [f"{one.p_value:.4f}"]),
    ]  # fmt: skip
    assert max(map(len, lines)) <= 80


def test_columns_that_do_not_fit_stand_beneath_their_rows(data, indexes):
    named = [Setting("a setting with a name of forty characters", arms=("text",))]
    wide = ablate(indexes, data, named)
    lines = study_text(wide, width=60).splitlines()
    assert max(map(len, lines)) <= 60
    assert f"AP {wide.scores[0].means['AP']:.4f}" in " ".join(lines)


def test_the_data_of_a_study_is_json_and_keeps_every_bit(study):
    data = json.loads(json.dumps(study_to_dict(study)))
    assert [one["name"] for one in data["settings"]] == ["bm25", "dense", "rrf"]
    assert data["settings"][2]["means"] == study.scores[2].means
    assert data["settings"][2]["intervals"]["R@5"] == list(study.scores[2].intervals["R@5"])
    assert data["settings"][2]["options"]["fusion"]["kind"] == "RRF"
    assert [(one["setting"], one["measure"]) for one in data["comparisons"]] == [
        ("dense", "nDCG@10"), ("dense", "R@5"), ("rrf", "nDCG@10"), ("rrf", "R@5"),
    ]  # fmt: skip


@pytest.mark.slow
def test_the_picture_is_the_same_bytes_each_time_and_names_no_day(study, tmp_path):
    for kind, begin in (("svg", b"<?xml"), ("png", b"\x89PNG\r\n")):
        paths = [tmp_path / f"{name}.{kind}" for name in ("one", "two")]
        for path in paths:
            plot_study(study, path)
        first, second = (path.read_bytes() for path in paths)
        assert first == second
        assert first.startswith(begin)
        assert b"<dc:date>" not in first
        assert b"Matplotlib version" not in first
    assert b"<svg" in (tmp_path / "one.svg").read_bytes()
    with pytest.raises(OptionError, match=r"plot: expected a name that ends in \.svg or \.png"):
        plot_study(study, tmp_path / "one.jpg")


@pytest.fixture(scope="module")
def tuned(data, indexes):
    return tune(indexes, data)


def test_tuning_chooses_on_the_even_half_and_reports_on_the_odd(data, indexes, tuned):
    even, odd = data.split("even"), data.split("odd")
    assert tuned.report.scores[0].queries == tuple(sorted(odd.judgements))
    best, mean = tuned.tried[0]
    assert mean == max(value for _, value in tuned.tried)
    assert best.name == tuned.winner.name
    again = score_setting(indexes, even, tuned.winner, measures=["nDCG@10"])
    assert again.means["nDCG@10"] == mean
    by_name = {scores.name: scores for scores in tuned.report.scores}
    on_odd = score_setting(indexes, odd, tuned.winner, measures=["nDCG@10"])
    assert by_name[tuned.winner.name].means["nDCG@10"] == on_odd.means["nDCG@10"]


def test_tuning_tries_constants_fusions_and_constants_again(tuned):
    names = [setting.name for setting, _ in tuned.tried]
    assert len(names) == 25 + 2 * 9 + 9 + 9 + 25
    kinds = {type(s.options["fusion"]).__name__ for s, _ in tuned.tried if "fusion" in s.options}
    assert kinds == {"RRF", "WeightedSum", "Max"}
    assert {"bm25 k1=0.9 b=0.4", "rrf:10 alpha=0.3", "sum embedding=0.5"} <= set(names)


def test_the_winner_stands_beside_the_arm_that_is_best_where_it_is_reported(tuned):
    names = [scores.name for scores in tuned.report.scores]
    assert names[:2] == ["bm25", "dense"]
    assert names[-1] == tuned.winner.name
    means = {one.name: one.means["nDCG@10"] for one in tuned.report.scores}
    arms = {name: mean for name, mean in means.items() if name != tuned.winner.name}
    assert arms[tuned.best_arm] == max(arms.values())
    against = tuned.against_best_arm
    assert against.before == arms[tuned.best_arm]
    assert against.after == means[tuned.winner.name]
    assert 0 < against.p_value <= 1


def test_the_report_of_a_tuning_has_the_winner_as_text_and_as_data(tuned):
    text = tuned_text(tuned)
    assert f"{tuned.winner.name} against {tuned.best_arm}" in text
    assert "small, odd queries" in text
    data = json.loads(json.dumps(tuned_to_dict(tuned)))
    assert data["winner"]["options"]["bm25"]["k1"] == tuned.winner.options["bm25"].k1
    assert len(data["tried"]) == len(tuned.tried)


def test_without_vectors_the_constants_alone_are_tuned(data):
    queries = data.queries.drop_columns("embedding")
    plain = Dataset("plain", data.corpus, queries, data.judgements)
    tuned = tune(Indexes(plain), plain, measure="RR@10")
    assert len(tuned.tried) == 25
    assert tuned.best_arm == "bm25"
    assert set(tuned.winner.options) == {"bm25"}


def test_a_missing_extra_is_named_with_its_install_line(monkeypatch):
    for package in ("ir_measures", "pytrec_eval", "scipy"):
        monkeypatch.setitem(sys.modules, package, None)
    install = (
        r"evaluate: expected the extra \[evaluate\] \(pip install 'hyrecall\[evaluate\]'\), got no"
    )
    with pytest.raises(MissingExtraError, match=install):
        score_run({}, {})
