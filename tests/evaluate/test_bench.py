"""The programs bench.mixed and bench.quality, on sets small enough to work out by hand."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from hyrecall.evaluate import Dataset, Indexes, Run, Setting, read_setting, run_setting

pytest.importorskip("ir_measures", reason="needs the extra [evaluate]")

from bench import learnt, learnt_arms, mixed, quality

# ---- the set with long messages ----


def chat() -> Dataset:
    rows = [
        (f"{tenant}{turn}", tenant, session, turn, f"w{turn} said {tenant}", [1.0, turn % 3])
        for tenant in ("ann", "bob")
        for session, turn in ((1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3))
    ]
    names = ["id", "tenant", "session", "turn", "text", "embedding"]
    columns = list(zip(*rows, strict=True))
    vectors = pa.array(columns.pop(), pa.list_(pa.float32(), 2))
    corpus = pa.table([*map(pa.array, columns), vectors], names)
    asked = pa.table({"id": ["q"], "tenant": ["ann"], "text": ["w1"]})
    return Dataset("chat", corpus, asked, {"q": {"ann1": 1}})


def test_every_fifth_turn_is_answered_from_the_turns_around_it() -> None:
    plain = chat()
    made = mixed.with_messages(plain)
    rows = made.corpus.to_pylist()
    answers = [row for row in rows if row["id"].endswith(" answer")]
    assert len(rows) == plain.corpus.num_rows + plain.corpus.num_rows // mixed.EVERY
    assert len(answers) == 2
    for answer in answers:
        before = rows[rows.index(answer) - 1]
        assert answer["turn"] == before["turn"] + 1
        near = [
            row
            for row in rows
            if row not in answers
            and (row["tenant"], row["session"]) == (answer["tenant"], answer["session"])
        ]
        own = [word for row in near for word in row["text"].split()]
        said = answer["text"].split()
        assert len(said) == 2 * len(own)
        assert all(said.count(word) >= own.count(word) for word in own)
        mean = np.mean([row["embedding"] for row in near], axis=0)
        assert answer["embedding"] == pytest.approx(mean / np.linalg.norm(mean), abs=1e-6)
    assert made.judgements == plain.judgements
    assert mixed.with_messages(plain).corpus.equals(made.corpus)


# ---- the tables of quality ----


def small() -> Dataset:
    """Ann's words and vectors agree; of Bob's only the words lead to the judged row."""
    rows = [
        ("a1", "ann", 1, 1, "green tea with milk", [1, 0]),
        ("a2", "ann", 1, 2, "black coffee", [0, 1]),
        ("a3", "ann", 2, 1, "a broken bicycle", [-1, 0]),
        ("b1", "bob", 1, 1, "the printer jams", [1, 0]),
        ("b2", "bob", 2, 1, "the invoice is late", [0, 1]),
    ]
    asked = [
        ("q1", "ann", "drinks", "tea", [1, 0]),
        ("q2", "bob", "work", "printer", [0, 1]),
    ]
    kinds = pa.list_(pa.float32(), 2)

    def table(rows: list[tuple], names: list[str]) -> pa.Table:
        columns = list(zip(*rows, strict=True))
        vectors = pa.array(np.array(columns.pop()).tolist(), kinds)
        return pa.table([*map(pa.array, columns), vectors], names)

    return Dataset(
        "small",
        table(rows, ["id", "tenant", "session", "turn", "text", "embedding"]),
        table(asked, ["id", "tenant", "category_name", "text", "embedding"]),
        {"q1": {"a1": 1}, "q2": {"b1": 1}},
    )


def lines(capsys: pytest.CaptureFixture[str]) -> dict[str, list[str]]:
    """The cells of each line by its first one and its place among the lines of that name."""
    found: dict[str, list[str]] = {}
    for line in capsys.readouterr().out.splitlines():
        name, *cells = [cell.strip() for cell in line.strip("| ").split("|")]
        found[f"{name} {sum(one.startswith(f'{name} ') for one in found)}"] = cells
    return found


def test_the_tables_have_the_figures_of_the_definitions(capsys: pytest.CaptureFixture[str]) -> None:
    quality.report(small())
    found = lines(capsys)
    *figures, ms = found["BM25 0"]
    assert figures == ["1.000"] * 5
    assert float(ms) > 0
    # By vectors Bob's judged row is the second: MRR (1 + 1/2) / 2, nDCG (1 + 1/log2(3)) / 2.
    assert found["vectors 0"][:5] == ["1.000", "1.000", "1.000", ".750", ".815"]
    assert found["vectors 1"] == ["1.000", "1.000", ".750"]  # by session
    assert found["conversation 0"][0] == "1.000"
    assert found["any@10 0"] == ["drinks (1)", "work (1)"]
    assert found["vectors 2"] == ["1.000", "1.000"]


def test_a_session_stands_where_its_best_row_does() -> None:
    of_row = quality.sessions(small())
    assert of_row == {"a1": "ann 1", "a2": "ann 1", "a3": "ann 2", "b1": "bob 1", "b2": "bob 2"}
    run = quality.Run("one", {"q1": ("a3", "a2", "a1")}, {})
    scores = quality.scored(small(), run, ("RR",), of_row)
    assert scores.means == {"RR": 0.5}  # a2 is in the session of a1


def test_a_difference_beyond_chance_has_stars() -> None:
    queries = tuple(map(str, range(40)))
    worse = quality.Scores("worse", queries, {"RR": np.full(40, 0.2)})
    better = quality.Scores("better", queries, {"RR": np.full(40, 0.9)})
    alike = quality.Scores("alike", queries, {"RR": np.resize([0.1, 0.3], 40)})
    assert quality.stars(worse, better, "RR") == "**"
    assert quality.stars(worse, alike, "RR") == ""


def test_weights_are_learnt_on_other_tenants_than_they_rank() -> None:
    (others, asked), _ = learnt.parts(small())
    assert others.judged["id"].to_pylist() == ["q2"]
    assert asked.judged["id"].to_pylist() == ["q1"]
    assert (others.judgements, asked.judgements) == ({"q2": {"b1": 1}}, {"q1": {"a1": 1}})


def test_every_query_is_ranked_by_the_weights_of_the_other_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fit(_: Indexes, known: Dataset, base: Setting) -> tuple[Setting, int]:
        return base.but(f"from {known.judged['id'].to_pylist()}"), 1

    def run(_: Indexes, asked: Dataset, setting: Setting) -> Run:
        ids = asked.judged["id"].to_pylist()
        return Run(setting.name, dict.fromkeys(ids, (setting.name,)), dict.fromkeys(ids, (1.0,)))

    monkeypatch.setattr(learnt, "fit_weights", fit)
    monkeypatch.setattr(learnt, "run_setting", run)
    found, last = learnt.run_learnt(Indexes(small()), small(), read_setting("default"))
    assert found.documents == {"q1": ("from ['q2']",), "q2": ("from ['q1']",)}
    assert set(found.scores) == {"q1", "q2"}
    assert last.name == "from ['q1']"


# ---- further arms ----


def spoken() -> Dataset:
    days = pa.array([1, 2, 3, 4, 40], pa.timestamp("us"))
    corpus = small().corpus.append_column("timestamp", days)
    speakers = pa.array(["ann", "bob", "ann", "bob", "cid"])
    return replace(small(), corpus=corpus.append_column("speaker", speakers))


def test_who_and_when_are_beside_the_parts(capsys: pytest.CaptureFixture[str]) -> None:
    alone = spoken()
    level = pa.array([[1, 0], [1, 1]], pa.list_(pa.float32(), 2))  # q2: to both of Bob's rows
    asked = alone.queries.set_column(3, "text", pa.array(["tea", "cid"]))
    asked = asked.set_column(4, "embedding", level)
    quality.report(replace(alone, queries=asked, judgements={"q1": {"a1": 1}, "q2": {"b2": 1}}))
    found = lines(capsys)
    assert found["all parts 0"][3] == ".750"  # MRR: b1 is before b2, which Cid said
    assert found["with who and when 0"] == ["1.000"] * 5


def test_who_and_when_become_arms_beside_the_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = learnt_arms.with_arms(spoken(), sparse=False)
    assert made.corpus["said"].to_pylist() == ["1 January 1970 Thursday"] * 5

    def learn(indexes: Indexes, asked: Dataset, base: Setting) -> tuple[Run, Setting]:
        return run_setting(indexes, asked, base), base

    monkeypatch.setattr(learnt_arms, "run_learnt", learn)
    learnt_arms.report(made)
    found = lines(capsys)
    assert found["default 0"][0] == "1.000"
    assert {"with who 0", "with when 0", "with who and when 0"} < found.keys()
    assert "learnt, with who and when 0" in found
    asked = replace(made, queries=made.queries.set_column(3, "text", pa.array(["tea", "cid"])))
    base = replace(read_setting("default"), arms=("text",))
    ranked = run_setting(Indexes(made), asked, learnt_arms.unlearnt(base, ("speaker",)))
    assert ranked.documents["q2"] == ("b2",)  # which Cid said
