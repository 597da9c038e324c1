"""``hyrecall evaluate`` and ``hyrecall tune`` on a small set."""

import json
import shutil
import sys
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hyrecall as hr
from hyrecall.evaluate import MEASURES, Indexes, ablate, load_dataset, read_setting, run_setting
from hyrecall.evaluate import tune as run_tune
from hyrecall.recipe import Coefficients
from retrieval_set import small_set, write_folder

pytest.importorskip("ir_measures", reason="the extra [evaluate] is not installed")
pytest.importorskip("scipy", reason="the extra [evaluate] is not installed")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return write_folder(small_set(), tmp_path_factory.mktemp("sets") / "small")


def test_a_recipe_whose_columns_a_set_lacks_is_named(run, small):
    reply = run("evaluate", small, "-r", "bm25", "-r", "loom")
    assert reply.code == 1
    told = reply.err.splitlines()[-1]
    assert told.startswith("error: occurred_at: expected one column of the table, got none among")
    assert told.endswith("(in the setting 'loom' of the set 'small')")


def test_json_is_one_object_on_stdout(run, small):
    options = ("-r", "rrf", "--setting", "bm25", "--json", "--measures", "RR@10,R@5")
    reply = run("evaluate", small, *options)
    assert reply.code == 0
    assert [one["name"] for one in reply.data["settings"]] == ["rrf", "bm25"]
    assert list(reply.data["settings"][0]["means"]) == ["RR@10", "R@5"]
    assert reply.data["comparisons"][0]["against"] == "rrf"
    assert reply.data["n_queries"] == 54


def test_halves_analyzers_constants_and_judgements_can_be_chosen(run, small):
    def means(*options):
        reply = run("evaluate", small, "-r", "bm25", "--json", *options)
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


@pytest.fixture(scope="module")
def chats(small, tmp_path_factory):
    """The small set, five rows to a session, which are counted down."""
    folder = tmp_path_factory.mktemp("sets") / "chats"
    shutil.copytree(small, folder)
    corpus = pq.read_table(folder / "corpus.parquet")
    numbers = range(corpus.num_rows)
    corpus = corpus.append_column("session", pa.array([f"s{at // 5}" for at in numbers]))
    corpus = corpus.append_column("turn", pa.array([-at for at in numbers]))
    pq.write_table(corpus, folder / "corpus.parquet")
    return folder


@pytest.mark.parametrize("name", ["default", "conversation"])
def test_columns_of_threads_and_places_are_measured(run, chats, name):
    def means(*options):
        reply = run("evaluate", chats, "-r", name, "--json", *options)
        assert reply.code == 0, reply.err
        return reply.data["settings"][0]["means"]

    dataset = load_dataset(chats)
    setting = replace(read_setting(name), thread="session", place="turn")
    expected = ablate(Indexes(dataset), dataset, [setting], measures=MEASURES).scores[0].means
    assert means("--thread", "session", "--place", "turn") == dict(expected)
    assert means("--thread", "session") != means()


def test_a_column_counts_each_of_its_values_once(run, chats):
    data = load_dataset(chats)
    expected = ablate(Indexes(data), data.count_by("session"), [read_setting("bm25")]).scores[0]
    reply = run("evaluate", chats, "-r", "bm25", "--by", "session", "--json")
    assert reply.code == 0, reply.err
    (told,) = reply.data["settings"]
    assert told["means"] == expected.means
    assert told["intervals"] == {name: list(one) for name, one in expected.intervals.items()}
    assert reply.data["dataset"] == "chats, by session"


def test_longmemeval_is_measured_from_its_file_in_one_line(run, tmp_path):
    turns = [[{"role": "user", "content": text, "has_answer": right}]
             for text, right in (("we had tea", True), ("we had milk", False))]  # fmt: skip
    entries = [
        {
            "question_id": name, "question_type": "single-session-user", "question": "had tea?",
            "haystack_session_ids": ["s1", "s2"], "haystack_sessions": turns,
            "answer_session_ids": ["s1"],
        }
        for name in ("one", "two_abs")
    ]  # fmt: skip
    path = tmp_path / "longmemeval_s.json"
    path.write_text(json.dumps(entries))
    reply = run("evaluate", path, "-r", "bm25")
    assert reply.code == 0, reply.err
    assert reply.err.startswith("reading longmemeval_s.json as a set of LongMemEval\n")
    lines = reply.out.splitlines()
    assert lines[0] == "longmemeval_s: 1 judged queries"
    assert lines[2].split() == [
        "setting", "any@1", "any@5", "any@10", "all@5", "R@10", "nDCG@10", "RR@10",
    ]  # fmt: skip
    assert lines[4].split() == ["bm25", *["1.0000"] * 7]
    options = ("--unit", "turns", "--role", "user", "--abstention", "--by", "session")
    told = run("evaluate", path, "-r", "bm25", "--json", *options)
    assert told.data["n_queries"] == 2
    assert told.data["dataset"] == "longmemeval_s, turns, user, with abstention, by session"
    refused = run("evaluate", path, "-r", "bm25", "--qrels", "x.tsv")
    assert "error: qrels: expected none with a set of LongMemEval, got 'x.tsv'" in refused.err


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--place", "turn"), "error: --place: expected --thread beside it, got none"),
        (("--thread", "week"), "error: --thread: expected a column of ["),
        (("--thread", "session", "--place", "week"), "error: --place: expected a column of ["),
    ],
)
def test_other_columns_of_threads_are_refused(run, chats, options, line):
    reply = run("evaluate", chats, "-r", "bm25", *options)
    assert reply.code == 1
    assert reply.err.splitlines()[-1].startswith(line)


def test_a_run_equal_to_its_baseline_is_done_with_0(run, small, tmp_path):
    path = tmp_path / "b.json"
    assert run("evaluate", small, "--write-baseline", path).code == 0
    reply = run("evaluate", small, "-r", "rrf", "--against", path, "--measures", "AP", "--json")
    assert reply.code == 0
    assert [one["measure"] for one in reply.data["baseline"]] == ["R@5", "RR@10", "nDCG@10"]
    assert not any(one["failed"] for one in reply.data["baseline"])


def test_a_measure_below_its_baseline_is_1_and_named(run, small, tmp_path):
    path = tmp_path / "b.json"
    assert run("evaluate", small, "-r", "bm25", "--write-baseline", path).code == 0
    # A ranker that is broken: half of the words are thrown away.
    thrown = "amber,basin,cedar,delta,ember,fjord,grove"
    words = ("evaluate", small, "-r", "bm25", "--stopwords", thrown)
    reply = run(*words, "--against", path, "--diff", "3")
    assert reply.code == 1
    assert "error: bm25: nDCG@10 fell by 0." in reply.err
    assert "FELL" in reply.out
    assert "nDCG@10, the baseline -> bm25" in reply.out
    told = run(*words, "--against", path, "--json").data
    assert any(one["failed"] for one in told["baseline"])


def test_the_queries_that_moved_most_are_shown(run, small):
    asked = ("evaluate", small, "-r", "bm25", "-r", "dense", "--diff", "2")
    reply = run(*asked, "--json")
    (moved,) = reply.data["queries_moved"]
    assert (moved["before"], moved["after"], len(moved["table"])) == ("bm25", "dense", 2)
    assert moved["table"][0]["text"]
    assert (
        "nDCG@10, bm25 -> dense"
        in run("evaluate", small, "-r", "bm25", "-r", "dense", "--diff", 2).out
    )


@pytest.mark.slow
@pytest.mark.parametrize(("name", "begin"), [("means.svg", b"<?xml"), ("means.PNG", b"\x89PNG")])
def test_a_plot_is_written_as_its_name_says_and_said_on_stderr(run, small, tmp_path, name, begin):
    pytest.importorskip("matplotlib", reason="the extra [evaluate] is not installed")
    path = tmp_path / name
    reply = run("evaluate", small, "-r", "bm25", "--plot", path)
    assert reply.code == 0
    assert f"drawn in {path}" in reply.err
    assert path.read_bytes().startswith(begin)


def test_a_recipe_brings_the_analyzer_that_it_needs(run, tmp_path):
    rows = {"id": ["a", "b"], "text": ["running teas", "a cup of milk"], "embedding": [[1, 0]] * 2}
    columns = {"pinned": [0, 1], "updated_at": [1, 2]}
    vectors = pa.array(rows["embedding"], pa.list_(pa.float32(), 2))
    pq.write_table(pa.table({**rows, **columns, "embedding": vectors}), tmp_path / "corpus.parquet")
    asked = pa.table({"id": ["q"], "text": ["running"], "embedding": vectors[:1]})
    pq.write_table(asked, tmp_path / "queries.parquet")
    (tmp_path / "qrels.tsv").write_text("query\tdocument\tgrade\nq\ta\t1\n")
    reply = run("evaluate", tmp_path, "-r", "l0", "--measures", "RR@10", "--json")
    assert reply.code == 0, reply.err
    assert reply.data["settings"][0]["analyzer"]["name"] == "unicode61"
    refused = run("evaluate", tmp_path, "-r", "l0", "--measures", "RR@10", "--analyzer", "word")
    assert refused.code == 1
    assert "expected the analyzer 'unicode61'" in refused.err


def asked_by(code: str, small):
    """Run what is printed, and ask the set as the comment in it says."""
    made: dict[str, object] = {}
    exec(code, made)
    data = load_dataset(small)
    schema = hr.Schema(
        key="id", cell="tenant" if data.has_cells else None,
        text={"text": hr.Text("title", "text")}, vector="embedding",
    )  # fmt: skip
    index = hr.Index.build(data.corpus, schema, analyzer=made["analyzer"])
    judged = data.judged
    given = {"text": judged["text"].to_pylist(), "vectors": judged["embedding"]}
    call = next(line for line in code.splitlines() if "index.recall(" in line)
    asked = {name: one for name, one in given.items() if f"{name}=" in call}
    scope = {"scope": judged["tenant"].to_pylist()} if data.has_cells else {}
    hits = index.recall(**asked, **scope, limit=100, **made["options"]).to_arrow()
    keys: dict[str, list[str]] = {name: [] for name in judged["id"].to_pylist()}
    for query, key in zip(hits["query"].to_pylist(), hits["key"].to_pylist(), strict=True):
        keys[judged["id"][query].as_py()].append(key)
    return {query: tuple(found) for query, found in keys.items()}


def code_of(out: str) -> str:
    return out[out.index("import hyrecall as hr") :]


@pytest.mark.slow
def test_the_best_of_several_settings_is_printed_as_python_that_gives_its_lists(run, small):
    settings = ("-r", "bm25", "-r", "rrf", "-r", "minmax", "-r", "default", "-r", "dense")
    for more in ((), ("--analyzer", "snowball:english", "--stopwords", "amber,basin")):
        reply = run("evaluate", small, *settings, *more)
        assert reply.code == 0, reply.err
        told = run("evaluate", small, *settings, *more, "--json").data
        best = max(told["settings"], key=lambda one: one["means"]["nDCG@10"])["name"]
        assert told["best"]["setting"] == best
        assert f"best by nDCG@10: {best}\n\nimport hyrecall as hr" in reply.out
        assert code_of(reply.out).rstrip() == told["best"]["python"]
        how = {"analyzer": hr.Analyzer("snowball:english", stopwords=["amber", "basin"])}
        setting = replace(read_setting(best), **(how if more else {}))
        data = load_dataset(small)
        expected = run_setting(Indexes(data), data, setting).documents
        assert asked_by(code_of(reply.out), small) == dict(expected)


def test_of_a_set_without_tenants_the_printed_recall_names_no_scope(run, tmp_path):
    data = small_set()
    data = replace(
        data,
        corpus=data.corpus.drop_columns(["tenant"]),
        queries=data.queries.drop_columns(["tenant"]),
    )
    folder = write_folder(data, tmp_path / "open")
    reply = run("evaluate", folder, "-r", "bm25", "-r", "rrf", "--measures", "RR@10")
    assert reply.code == 0, reply.err
    (line,) = (one for one in reply.out.splitlines() if "index.recall(" in one)
    schema = hr.Schema(key="id", cell=None, text="text", vector="embedding")
    index = hr.Index.build(data.corpus, schema)
    made = {"index": index, "texts": data.queries["text"], "vectors": data.queries["embedding"]}
    exec(code_of(reply.out) + "\n" + line.removeprefix("# "), made)
    assert made["hits"].n_hits


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["-r", "best"],
            "error: setting: expected one of bm25, dense, rrf, minmax, conversation, default, ",
        ),
        (["-r", "rrf", "-r", "rrf"], "error: --setting: expected each name once"),
        (["--split", "left"], "error: split: expected 'even' or 'odd', got 'left'"),
        (["--measures", "ERR@3"], "error: measures: expected nDCG@k"),
        (["-r", "bm25", "--diff", "3"], "error: --diff: expected two settings, or --against"),
        (["--against", "absent.json"], "error: absent.json: No such file"),
        (["--qrels", "absent.tsv"], "expected a file absent.tsv, got none"),
        (["--analyzer", "klingon"], "error: --analyzer: "),
    ],
)
def test_what_is_refused_is_one_line_and_1(run, small, arguments, line):
    reply = run("evaluate", small, *arguments)
    assert reply.code == 1
    talk = [one for one in reply.err.splitlines() if one.startswith("error: ")]
    assert len(talk) == 1
    assert line in talk[0]


def test_a_folder_that_holds_no_set_is_refused(run, tmp_path):
    reply = run("evaluate", tmp_path)
    assert reply.code == 1
    assert (
        "LMEB) or with documents, topics and qrels of TREC, got a folder with nothing" in reply.err
    )


@pytest.mark.parametrize("command", ["evaluate", "tune"])
def test_without_the_extra_nothing_is_begun_and_the_code_is_2(run, small, monkeypatch, command):
    for package in ("ir_measures", "pytrec_eval", "scipy"):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, package, None)
            reply = run(command, small)
        assert reply.code == 2
        assert reply.err == (
            "error: evaluate: expected the extra [evaluate] (pip install 'hyrecall[evaluate]'), "
            f"got no package {package}\n"
        )


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_winner_of_tune_is_printed_as_python_that_gives_its_lists(run, small):
    reply = run("tune", small, "--measure", "RR@10")
    told = run("tune", small, "--measure", "RR@10", "--json").data
    assert code_of(reply.out).rstrip() == told["python"]
    assert f"best by RR@10 on the even queries: {told['winner']['name']}" in reply.out
    data = load_dataset(small)
    indexes = Indexes(data)
    tuned = run_tune(indexes, data, measure="RR@10")
    assert tuned.winner.name == told["winner"]["name"]
    expected = run_setting(indexes, data, tuned.winner).documents
    assert asked_by(told["python"], small) == dict(expected)


def test_wrong_coefficients_of_confidence_are_learnt_anew(run, tmp_path):
    folder = write_folder(small_set(n_docs=400, n_queries=160), tmp_path / "set")
    wrong, path = tmp_path / "wrong.json", tmp_path / "right.json"
    given = Coefficients(query={"base": 3, "names": 1}, hit={"base": 1})
    wrong.write_text(hr.recipes.default.replace(confidence=given).to_json())
    asked = ("learn", folder, "--confidence", "-o", path)
    reply = run(*asked, "--recipe", wrong, "--json")
    assert (reply.code, reply.data["is_better"]) == (0, True), reply.err
    assert reply.data["before_by"] == "recipe"
    assert reply.data["after"]["squared_error"] < reply.data["before"]["squared_error"]
    learnt = hr.Recipe.from_json(path.read_text())
    assert learnt == hr.Recipe.from_json(json.dumps(reply.data["recipe"]))
    written = path.read_bytes()
    again = run(*asked, "--recipe", path)
    assert (again.code, "not written to" in again.err) == (1, True)
    assert path.read_bytes() == written
    for option, told in (
        (("--measure", "AP"), "--measure: expected none with --confidence, got 'AP'"),
        (("--feature", "x"), "--feature: expected none with --confidence"),
        (("--foreign", folder), "foreign: expected none with two tenants or more, got 1"),
    ):
        refused = run(*asked, *option)
        assert (refused.code, told in refused.err) == (1, True), refused.err
    for option in ("--foreign", "--model"):
        refused = run("learn", folder, option, "x")
        assert refused.code == 1
        assert f"{option}: expected --confidence with it" in refused.err


@pytest.mark.slow
def test_a_recipe_that_is_not_better_is_told_as_json(run, small):
    reply = run("learn", small, "--json")
    assert (reply.code, reply.data["is_better"]) == (0, False)  # no file was asked for
    assert {"fused", "agreement", "text_score", "embedding_score"} >= set(reply.data["weights"])


def test_a_learnt_recipe_is_written_and_ranks_an_index(run, tmp_path):
    data = small_set(n_docs=600, n_queries=120)
    right = {doc for docs in data.judgements.values() for doc, grade in docs.items() if grade > 0}
    said = ["yes" if key in right else "no" for key in data.corpus["id"].to_pylist()]
    data = replace(data, corpus=data.corpus.append_column("said", [said]))
    folder = write_folder(data, tmp_path / "said")
    path = tmp_path / "recipe.json"
    reply = run("learn", folder, "--feature", "said=yes", "--arm", "said", "-o", path)
    assert reply.code == 0, reply.err
    assert f"written to {path}" in reply.err
    recipe = hr.Recipe.from_json(path.read_text())
    assert dict(recipe.shaping[0].weights)["said=yes"] > 0
    assert [part.arms for part in recipe.arms] == [("text",), None, ("said",)]
    refused = run("learn", folder, "--arm", "nix")
    assert (refused.code, "--arm: expected a column of" in refused.err) == (1, True)
    made = run(
        "index", folder / "corpus.parquet", "-o", tmp_path / "index", "--key", "id", "--cell",
        "tenant", "--text", "text", "--text", "said", "--vector", "embedding",
        "--attribute", "said",
    )  # fmt: skip
    assert made.code == 0, made.err
    asked = ("recall", tmp_path / "index", "amber", "--scope", "acme", "--recipe", path)
    found = run(*asked, "--json")
    assert found.code == 0, found.err
    assert found.data["hits"]
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    for wrong, told in (
        (broken, "recipe"),
        (tmp_path / "absent.json", "--recipe: expected a file with a recipe in JSON"),
        ("nix", "--recipe: expected one of"),
    ):
        refused = run(*asked[:-1], wrong)
        assert refused.code in (1, 2)
        assert told in refused.err
