"""Sets as BEIR, MTEB, LMEB, TREC and LongMemEval distribute them, in tiny files of their forms."""

import gzip
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hyrecall.errors import DTypeError, OptionError
from hyrecall.evaluate import (
    Dataset,
    Indexes,
    Scores,
    load_dataset,
    read_setting,
    run_setting,
    score_run,
)
from seams import bootstrap_interval, form_of
from seams import evaluate_compare as measuring
from seams import evaluate_readers as readers

DOCUMENTS = {"d1": "hot tea", "d2": "cold milk", "d3": "black coffee"}
QUERIES = {"q1": "which tea", "q2": "is milk cold"}
GRADES = {"q1": {"d1": 1}, "q2": {"d2": 2, "d3": 0}}


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def lines(path: Path, texts: Mapping[str, str], name: str = "_id", **more: Any) -> None:
    rows = [{name: key, "text": text, **more} for key, text in texts.items()]
    write(path, "".join(json.dumps(row) + "\n" for row in rows))


def tsv(path: Path, grades: Mapping[str, Mapping[str, int]], header: str = "") -> None:
    pairs = [(q, d, grade) for q, docs in grades.items() for d, grade in docs.items()]
    write(path, header + "".join(f"{q}\t{d}\t{grade}\n" for q, d, grade in pairs))


def parquet(path: Path, **columns: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def beir(folder: Path) -> Path:
    lines(folder / "corpus.jsonl", DOCUMENTS, title="", metadata={"url": "x"})
    lines(folder / "queries.jsonl", QUERIES, metadata={})
    tsv(folder / "qrels" / "test.tsv", GRADES, "query-id\tcorpus-id\tscore\n")
    tsv(folder / "qrels" / "train.tsv", {"q1": {"d3": 1}}, "query-id\tcorpus-id\tscore\n")
    return folder


def beir_zip(folder: Path) -> Path:
    made = beir(folder / "files" / "drinks")
    path = folder / "drinks.zip"
    with zipfile.ZipFile(path, "w") as out:
        for one in made.rglob("*"):
            out.write(one, one.relative_to(made.parent))
    return path


def mteb_lines(folder: Path) -> Path:
    beir(folder)
    (folder / "qrels" / "test.tsv").unlink()
    (folder / "qrels" / "train.tsv").unlink()
    rows = [
        {"query-id": q, "corpus-id": d, "score": float(grade)}
        for q, docs in GRADES.items()
        for d, grade in docs.items()
    ]
    write(folder / "qrels" / "test.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    return folder


def mteb(folder: Path, *, part: str = "", qrels: str = "qrels", name: str = "id") -> Path:
    """Parquet files in folders, the corpus in two; queries of another split beside."""
    for number, key in enumerate(DOCUMENTS):
        shard = f"corpus-{number:05}-of-00003.parquet"
        columns = {name: [key], "text": [DOCUMENTS[key]], "title": [""]}
        parquet(folder / f"{part}corpus" / shard, **columns)
    asked = folder / f"{part}queries"
    parquet(
        asked / "test-00000-of-00001.parquet", **{name: [*QUERIES], "text": [*QUERIES.values()]}
    )
    parquet(asked / "train-00000-of-00001.parquet", **{name: ["q9"], "text": ["none"]})
    pairs = [(q, d, float(g)) for q, docs in GRADES.items() for d, g in docs.items()]
    names = ("query-id", "corpus-id", "score")
    judged = {one: [pair[at] for pair in pairs] for at, one in enumerate(names)}
    parquet(folder / f"{part}{qrels}" / "test-00000-of-00001.parquet", **judged)
    return folder


def mteb_part(folder: Path) -> Path:
    return mteb(folder, part="go-") / "go"


def trec(folder: Path) -> Path:
    """Documents in two files, one of them compressed; topics without closing tags."""
    body = "<DOC>\n<DOCNO> {} </DOCNO>\n<HEADLINE>A &amp; B</HEADLINE>\n<TEXT>\n<P>{}</P>\n"
    body += "</TEXT>\n</DOC>\n"
    texts = [body.format(key, text) for key, text in DOCUMENTS.items()]
    write(folder / "disk" / "a", "".join(texts[:2]))
    (folder / "disk" / "b.gz").write_bytes(gzip.compress(texts[2].encode()))
    top = "<top>\n<num> Number: {}\n<title> {}\n\n<desc> Description:\nWhat?\n</top>\n"
    asked = {"051": QUERIES["q1"], "052": QUERIES["q2"]}
    write(folder / "topics.txt", "".join(top.format(*pair) for pair in asked.items()))
    write(folder / "qrels.txt", "51 0 d1 1\n52 0 d2 2\n52 0 d3 0\n52 0 gone 1\n")
    write(folder / "README", "of no use\n")
    return folder


def trec_lines(folder: Path) -> Path:
    """Documents as JSON lines, queries as id and text: TREC's deep learning track."""
    rows = [{"docid": key, "title": "", "contents": text} for key, text in DOCUMENTS.items()]
    write(folder / "docs.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    write(folder / "queries.tsv", "".join(f"{key}\t{text}\n" for key, text in QUERIES.items()))
    write(folder / "qrels.txt", "q1 Q0 d1 1\nq2 Q0 d2 2\nq2 Q0 d3 0\n")
    return folder


FORMS: dict[str, Callable[[Path], Path]] = {
    "BEIR": beir,
    "BEIR zip": beir_zip,
    "MTEB lines": mteb_lines,
    "MTEB": mteb,
    "MTEB old": lambda folder: mteb(folder, qrels="data", name="_id"),
    "MTEB part": mteb_part,
    "TREC lines": trec_lines,
}


@pytest.mark.parametrize("form", FORMS)
def test_a_set_is_read_in_the_form_in_which_it_is_distributed(tmp_path: Path, form: str) -> None:
    dataset = load_dataset(FORMS[form](tmp_path / "drinks"))
    corpus = zip(*(dataset.corpus[name].to_pylist() for name in ("id", "text")), strict=True)
    assert dict(corpus) == DOCUMENTS
    queries = zip(*(dataset.judged[name].to_pylist() for name in ("id", "text")), strict=True)
    assert dict(queries) == QUERIES
    assert dataset.judgements == GRADES
    assert dataset.name == ("go" if form == "MTEB part" else "drinks")


def test_one_of_several_sets_in_a_zip_is_named_by_its_path_in_it(tmp_path: Path) -> None:
    path = tmp_path / "cqa.zip"
    with zipfile.ZipFile(path, "w") as out:
        for name in ("android", "english"):
            made = beir(tmp_path / name)
            for one in made.rglob("*"):
                out.write(one, f"cqa/{one.relative_to(tmp_path)}")
    with pytest.raises(OptionError, match=r"cqa.zip/cqa/: expected .* with android, english$"):
        load_dataset(path)
    dataset = load_dataset(path / "cqa" / "english")
    assert (dataset.name, dataset.judgements) == ("english", GRADES)


def test_trec_documents_topics_and_judgements_are_found_by_their_contents(tmp_path: Path) -> None:
    dataset = load_dataset(trec(tmp_path / "disks"))
    assert dataset.corpus["text"].to_pylist() == [*DOCUMENTS.values()]
    assert set(dataset.corpus["title"].to_pylist()) == {"A & B"}
    assert dataset.queries.to_pylist() == [
        {"id": "51", "text": "which tea"},
        {"id": "52", "text": "is milk cold"},
    ]
    # A judged document that the collection lacks counts as one that is never found.
    assert dataset.judgements["52"] == {"d2": 2, "d3": 0, "gone": 1}


def test_topics_of_the_web_tracks_are_read_and_those_without_a_title_have_their_description(
    tmp_path: Path,
) -> None:
    folder = trec(tmp_path)
    topics = (
        '<topic number="51" type="faceted"><query>obama tea</query><description>x</description>'
        "</topic>\n<topic><num>52</num><title></title><desc>Description: milk</desc></topic>"
    )
    write(folder / "topics.txt", topics)
    assert load_dataset(folder).queries["text"].to_pylist() == ["obama tea", "milk"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("no tab here", "docs.tsv line 2: expected an id and a text, got 'no tab here'"),
        ('{"id": 1}', "docs.tsv line 2: expected an id and a text"),
        ("{", "docs.tsv line 2: expected a JSON object"),
    ],
)
def test_a_line_that_is_no_document_is_named(tmp_path: Path, line: str, message: str) -> None:
    folder = trec_lines(tmp_path)
    (folder / "docs.jsonl").unlink()
    write(folder / "docs.tsv", f"d1\thot tea\n{line}\n")
    (folder / "plot.png").write_bytes(b"\x89PNG\t\0")  # of use to nobody, and refused by nobody
    with pytest.raises(DTypeError) as caught:
        load_dataset(folder)
    assert message in str(caught.value)


def test_documents_in_lines_may_have_a_title_and_judgements_may_have_tabs(tmp_path: Path) -> None:
    folder = trec_lines(tmp_path)
    (folder / "docs.jsonl").unlink()
    write(folder / "msmarco-docs.tsv", "d1\thttp://x\tTea\thot tea\nd2\tcold milk\n")
    write(folder / "qrels.txt", "q1\tQ0\td1\t-1\nq2\t0\td2\t2\n")
    dataset = load_dataset(folder)
    assert dataset.corpus.to_pylist() == [
        {"id": "d1", "title": "Tea", "text": "hot tea"},
        {"id": "d2", "title": None, "text": "cold milk"},
    ]
    assert dataset.judgements == {"q1": {"d1": -1}, "q2": {"d2": 2}}


def test_passages_of_ms_marco_have_their_own_ids_and_no_text_is_made_of_a_list(
    tmp_path: Path,
) -> None:
    folder = trec_lines(tmp_path)
    write(folder / "docs.jsonl", '{"docid": "d", "pid": "d1", "passage": "tea", "spans": "()"}\n')
    assert load_dataset(folder).corpus["id"].to_pylist() == ["d1"]
    write(folder / "docs.jsonl", '{"id": "d1", "contents": [{"content": "tea"}]}\n')
    with pytest.raises(DTypeError, match="line 1: expected an id and a text"):
        load_dataset(folder)


def test_documents_of_trec_may_share_a_line(tmp_path: Path) -> None:
    path = trec(tmp_path) / "disk" / "a"
    path.write_text(path.read_text().replace("\n", " "))
    assert load_dataset(tmp_path).corpus["text"].to_pylist() == [*DOCUMENTS.values()]


def test_a_byte_order_mark_is_no_content(tmp_path: Path, chats: Path) -> None:
    folders = [trec(tmp_path / "t"), trec_lines(tmp_path / "l"), beir(tmp_path / "b")]
    tsv(tmp_path / "b" / "qrels" / "test.tsv", GRADES)
    paths = [one for folder in folders for one in folder.rglob("*") if one.suffix != ".gz"]
    before = [load_dataset(one) for one in (*folders, chats)]
    for path in (chats, *(one for one in paths if one.is_file())):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    for one, was in zip((*folders, chats), before, strict=True):
        assert load_dataset(one).corpus.equals(was.corpus)
        assert load_dataset(one).judgements == was.judgements


def test_two_files_of_judgements_must_be_told_apart(tmp_path: Path) -> None:
    folder = trec(tmp_path)
    write(folder / "qrels.2.txt", "51 0 d2 1\n")
    with pytest.raises(OptionError, match=r"^qrels: expected one of the files of judgements, got "):
        load_dataset(folder)
    assert load_dataset(folder, qrels="qrels.2.txt").judgements == {"51": {"d2": 1}}


def test_a_set_with_one_split_and_no_grades_is_read_and_one_with_two_wants_a_choice(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "NanoDrinks"
    parquet(folder / "corpus" / "train-0.parquet", _id=[*DOCUMENTS], text=[*DOCUMENTS.values()])
    parquet(folder / "queries" / "train-0.parquet", _id=[*QUERIES], text=[*QUERIES.values()])
    pairs = {"query-id": ["q1", "q2"], "corpus-id": ["d1", "d2"]}
    parquet(folder / "qrels" / "train-0.parquet", **pairs)
    assert load_dataset(folder).judgements == {"q1": {"d1": 1}, "q2": {"d2": 1}}
    parquet(folder / "qrels" / "dev-0.parquet", **pairs)
    with pytest.raises(OptionError, match=r"^qrels: expected one of the splits, got \['dev-0"):
        load_dataset(folder)
    assert load_dataset(folder, qrels="qrels/dev-0.parquet").judgements["q2"] == {"d2": 1}
    parquet(folder / "qrels" / "dev-0.parquet", query=["q1"], document=["d1"])
    with pytest.raises(OptionError, match="expected columns query-id, corpus-id, got"):
        load_dataset(folder, qrels="qrels/dev-0.parquet")


# ---- LMEB ----


def lmeb(folder: Path) -> Path:
    """Two scenes that share d2; the corpus and the candidates lie above the questions."""
    lines(folder / "corpus.jsonl", DOCUMENTS, name="id", title="")
    scenes = {"conv_1": ["d1", "d2"], "conv_2": ["d2", "d3", "stale"]}
    rows = [{"scene_id": one, "candidate_doc_ids": names} for one, names in scenes.items()]
    write(folder / "candidates.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    lines(folder / "single_hop" / "queries.jsonl", {"conv_1_0": "milk", "conv_2_0": "milk"}, "id")
    tsv(folder / "single_hop" / "qrels.tsv", {"conv_1_0": {"d2": 1}, "conv_2_0": {"d3": 1}})
    return folder / "single_hop"


def found(dataset: Dataset) -> dict[str, set[str]]:
    """Every document that a query can find, by a word that all of them have."""
    corpus, queries = (
        table.set_column(
            table.column_names.index("text"), "text", pa.array(["milk"] * table.num_rows)
        )
        for table in (dataset.corpus, dataset.queries)
    )
    same = Dataset("same", corpus, queries, dataset.judgements)
    run = run_setting(Indexes(same), same, read_setting("bm25"))
    return {query: set(documents) for query, documents in run.documents.items()}


def test_a_query_of_lmeb_sees_the_candidates_of_its_scene_alone(tmp_path: Path) -> None:
    dataset = load_dataset(lmeb(tmp_path / "LoCoMo"))
    assert dataset.judgements == {"conv_1_0": {"d2": 1}, "conv_2_0": {"d3": 1}}
    assert found(dataset) == {"conv_1_0": {"d1", "d2"}, "conv_2_0": {"d2", "d3"}}


def test_a_query_of_lmeb_without_candidates_is_refused(tmp_path: Path) -> None:
    folder = lmeb(tmp_path / "LoCoMo")
    lines(folder / "queries.jsonl", {"conv_1_0": "milk", "conv_2_0": "x", "conv_3_0": "x"}, "id")
    tsv(folder / "qrels.tsv", {"conv_3_0": {"d2": 1}})
    with pytest.raises(OptionError, match=r"query 'conv_3_0': expected candidates"):
        load_dataset(folder)


def test_ranked_candidates_of_mteb_limit_each_query(tmp_path: Path) -> None:
    folder = mteb(tmp_path / "drinks")
    ranked = {"query-id": ["q1", "q2"], "corpus-ids": [["d1", "d3"], ["d2"]]}
    parquet(folder / "top_ranked" / "test-00000-of-00001.parquet", **ranked)
    assert found(load_dataset(folder)) == {"q1": {"d1", "d3"}, "q2": {"d2"}}


# ---- LongMemEval ----


def turn(role: str, content: str, *, right: bool | None = None) -> dict[str, Any]:
    return {"role": role, "content": content, **({} if right is None else {"has_answer": right})}


TEA = [turn("user", "I had tea", right=True), turn("assistant", "how nice", right=False)]
MILK = [turn("user", "buy milk"), turn("assistant", "done")]
SAID = [turn("user", "what to drink", right=False), turn("assistant", "try mate", right=True)]


def question(
    name: str, sessions: dict[str, Any], answers: list[str], **more: Any
) -> dict[str, Any]:
    return {
        "question_id": name,
        "question_type": "single-session-user",
        "question": f"about {name}?",
        "answer": "x",
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_dates": ["2023/05/20 (Sat) 02:21"] * len(sessions),
        "haystack_session_ids": list(sessions),
        "haystack_sessions": list(sessions.values()),
        "answer_session_ids": answers,
        **more,
    }


ENTRIES = [
    question("a", {"s1": MILK, "answer_a": TEA}, ["answer_a"]),
    question("b", {"answer_b": SAID, "s1": MILK}, ["answer_b"]),
    question("c_abs", {"s1": MILK, "near": TEA}, ["near"]),
]


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    return write(tmp_path / "longmemeval_s_cleaned.json", json.dumps(ENTRIES))


def test_each_question_of_longmemeval_searches_its_own_sessions(chats: Path) -> None:
    dataset = load_dataset(chats)
    assert dataset.judgements == {"a": {"answer_a": 1}, "b": {"answer_b": 1}}
    assert dataset.name == "longmemeval_s_cleaned"
    assert found(dataset) == {"a": {"s1", "answer_a"}, "b": {"s1", "answer_b"}}
    assert dataset.corpus["text"].to_pylist()[1] == "I had tea\nhow nice"
    assert dataset.queries["question_type"].to_pylist() == ["single-session-user"] * 2


def test_turns_are_right_where_they_have_the_answer_and_sessions_where_they_are_named(
    chats: Path,
) -> None:
    dataset = load_dataset(chats, unit="turns")
    assert dataset.judgements == {"a": {"answer_a_1": 1}, "b": {"answer_b_2": 1}}
    rows = dataset.corpus.to_pylist()
    assert [row["id"] for row in rows[:4]] == ["s1_1", "s1_2", "answer_a_1", "answer_a_2"]
    assert rows[3] == {
        "tenant": "a", "id": "answer_a_2", "session": "answer_a", "turn": 2,
        "role": "assistant", "text": "how nice",
    }  # fmt: skip


def test_questions_without_an_answer_are_left_out_unless_they_are_asked_for(chats: Path) -> None:
    assert load_dataset(chats).judged.num_rows == 2
    kept = load_dataset(chats, abstention=True)
    assert kept.judgements["c_abs"] == {"near": 1}
    assert (kept.judged.num_rows, kept.name) == (3, "longmemeval_s_cleaned, with abstention")


def test_one_side_of_the_chats_leaves_out_questions_that_the_other_answers(chats: Path) -> None:
    users = load_dataset(chats, role="user")
    assert users.corpus["text"].to_pylist() == [
        "buy milk",
        "I had tea",
        "what to drink",
        "buy milk",
    ]
    turns = load_dataset(chats, unit="turns", role="user")
    assert turns.judged["id"].to_pylist() == ["a"]
    assert turns.corpus["id"].to_pylist() == ["s1_1", "answer_a_1", "answer_b_1", "s1_1"]


def test_a_session_that_occurs_twice_counts_once(tmp_path: Path) -> None:
    twice = question("a", {"answer_a": TEA, "s1": MILK}, ["answer_a"])
    for name in ("haystack_session_ids", "haystack_sessions", "haystack_dates"):
        twice[name] = [*twice[name], twice[name][1]]
    dataset = load_dataset(write(tmp_path / "s.json", json.dumps([twice])))
    assert dataset.corpus["id"].to_pylist() == ["answer_a", "s1"]


def test_turns_counted_by_session_find_a_session_at_its_best_turn(chats: Path) -> None:
    dataset = load_dataset(chats, unit="turns").count_by("session")
    assert dataset.name == "longmemeval_s_cleaned, turns, by session"
    assert dataset.classes is not None
    assert dataset.classes["answer_a_2"] == dataset.classes["answer_a_1"] == "answer_a"
    with pytest.raises(OptionError, match=r"column: expected one of .*, got classes"):
        dataset.count_by("session")
    with pytest.raises(OptionError, match=r"column: expected one of .*, got 'week'"):
        load_dataset(chats).count_by("week")
    with pytest.raises(OptionError, match="column: expected one value for each id"):
        load_dataset(chats).count_by("tenant")


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_a_file_is_read_question_by_question_however_it_is_cut(
    chats: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    whole = load_dataset(chats)
    monkeypatch.setattr(readers, "_CHUNK", chunk)
    chats.write_text(f" {json.dumps(ENTRIES, indent=1)}\n", encoding="utf-8")
    assert load_dataset(chats).corpus.equals(whole.corpus)


# ---- what is refused ----


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer_session_ids": None}, "question 1: expected a question of LongMemEval, got TypeE"),
        ({"haystack_session_ids": ["s1"]}, "question 1: expected a question of LongMemEval, got V"),
        ({"question_id": 5}, "question 1: expected a question of LongMemEval, got AttributeError"),
        ({"question": 5}, "s.json: text: expected values of one type"),
    ],
)
def test_what_is_no_question_of_longmemeval_is_named(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = write(tmp_path / "s.json", json.dumps([{**ENTRIES[0], **change}]))
    with pytest.raises(DTypeError) as caught:
        load_dataset(path)
    assert message in str(caught.value)


GONE = b"\x1f\x8b"  # the start of a .gz file
ONCE = "expected each id once, got"


@pytest.mark.parametrize(
    ("make", "name", "content", "message"),
    [
        (beir, "corpus.jsonl", b'{"_id": 7, "text": ""}\n' * 2, f"corpus: {ONCE} '7' 2 times"),
        (
            beir,
            "corpus.jsonl",
            b'{"_id": 7, "text": "\\ud800"}',
            "text: expected values of one type",
        ),
        (beir, "corpus.jsonl", b'{"_id": 7, "n": 1%s}' % (b"0" * 30), "n: expected values of one"),
        (beir, "corpus.jsonl", b"[" * 100_000, "corpus.jsonl line 1: expected a JSON object"),
        (
            beir,
            "qrels/test.tsv",
            "²\t0\td1\t1".encode(),
            "test.tsv line 1: expected a query of the",
        ),
        (
            beir,
            "qrels/test.tsv",
            b"9" * 5000 + b"\t0\td1\t1",
            "test.tsv line 1: expected a query of",
        ),
        (lmeb, "../candidates.jsonl", b'{"scene_id": "conv_1"}', "expected columns scene_id, cand"),
        (
            lmeb,
            "../candidates.jsonl",
            b'{"scene_id": "", "candidate_doc_ids": 5}',
            "row 1: expected a",
        ),
        (
            lmeb,
            "../corpus.jsonl",
            b'{"id": "d2", "text": ""}\n' * 2,
            f"corpus: {ONCE} 'd2' 2 times",
        ),
        (
            trec,
            "disk/b.gz",
            GONE,
            "disk/b.gz: expected a file that can be read, got Compressed file",
        ),
        (
            trec,
            "disk/b.gz",
            b"text",
            "disk/b.gz: expected a file that can be read, got Not a gzipped",
        ),
        (trec, "disk/a", b"<DOC>\n<DOCNO>a</DOCNO>\ncut o", "disk/a: expected </DOC> at the end"),
        (trec, "topics.txt", b"<top><num>51<title>tea</top>" * 2, f"{ONCE} '51' 2 times"),
    ],
)
def test_damaged_or_repeated_content_is_named(
    tmp_path: Path, make: Callable[[Path], Path], name: str, content: bytes, message: str
) -> None:
    place = make(tmp_path / "set")
    (place / name).write_bytes(content)
    with pytest.raises((DTypeError, OptionError)) as caught:
        load_dataset(place)
    assert message in str(caught.value)


def test_a_damaged_zip_and_a_file_that_is_missing_are_named(tmp_path: Path) -> None:
    path = beir_zip(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"hot tea", b"hot TEA"))
    with pytest.raises(
        DTypeError, match=r"corpus.jsonl: expected a file that can be read, got Bad"
    ):
        load_dataset(path)
    with pytest.raises(
        DTypeError, match=r"none.txt: expected a file that can be read, got .*No such"
    ):
        load_dataset(trec(tmp_path / "t"), qrels="none.txt")


def test_a_question_that_occurs_twice_is_refused(chats: Path) -> None:
    chats.write_text(json.dumps(ENTRIES + ENTRIES[:1]))
    with pytest.raises(DTypeError, match=r"question 4: expected .* got ValueError: 'a' again"):
        load_dataset(chats)


def test_a_file_that_ends_early_is_refused(chats: Path) -> None:
    chats.write_text(json.dumps(ENTRIES)[:-20], encoding="utf-8")
    with pytest.raises(DTypeError, match=r"cleaned.json: expected a list of JSON objects, got "):
        load_dataset(chats)


def test_options_of_another_form_are_refused(chats: Path, tmp_path: Path) -> None:
    folder = beir(tmp_path / "drinks")
    for options in ({"unit": "turns"}, {"role": "user"}, {"abstention": True}):
        (name,) = options
        with pytest.raises(OptionError, match=rf"^{name}: expected none with a set of tables"):
            load_dataset(folder, **options)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"^qrels: expected none with a set of LongMemEval"):
        load_dataset(chats, qrels="x.tsv")
    with pytest.raises(OptionError, match=r"^unit: expected one of sessions, turns, got 'days'"):
        load_dataset(chats, unit="days")  # type: ignore[arg-type]


def test_what_has_no_known_form_is_told_with_what_is_there(tmp_path: Path) -> None:
    for name in ("android", "english"):
        beir(tmp_path / "cqa" / name)
    with pytest.raises(OptionError, match=r"LMEB\) or .* got a folder with android, english$"):
        load_dataset(tmp_path / "cqa")
    with pytest.raises(OptionError, match=r"got another file$"):
        load_dataset(write(tmp_path / "x.json", "{}"))
    with pytest.raises(OptionError, match=r"queries.jsonl, got neither, a folder with candidates"):
        load_dataset(lmeb(tmp_path / "LoCoMo").parent)


def test_the_form_is_told_by_the_contents(chats: Path, tmp_path: Path) -> None:
    assert form_of(chats).name == "LongMemEval"
    assert form_of(trec(tmp_path / "t")).name == "TREC"
    assert form_of(beir(tmp_path / "b")).name.startswith("tables")


# ---- figures by the definitions of the field ----


def field_figures(ranked: list[str], right: set[str], k: int) -> tuple[float, float]:
    """recall_any@k and recall_all@k as LongMemEval's code defines them."""
    first = set(ranked[:k])
    return float(bool(first & right)), float(right <= first)


def figures_agree() -> bool:
    random = np.random.default_rng(5)
    names = [f"d{at}" for at in range(12)]
    run = {f"q{at}": random.permutation(names).tolist() for at in range(40)}
    right = {query: set(random.choice(names, 1 + at % 3, replace=False).tolist())
             for at, query in enumerate(run)}  # fmt: skip
    grades = {query: dict.fromkeys(documents, 1) for query, documents in right.items()}
    for k in (1, 3, 5, 10):
        scores = score_run(run, grades, measures=[f"any@{k}", f"all@{k}"])
        pairs = zip(
            *(scores.values[f"{kind}@{k}"].tolist() for kind in ("any", "all")), strict=True
        )
        if list(pairs) != [field_figures(run[q], right[q], k) for q in scores.queries]:
            return False
    return True


def test_any_and_all_are_the_recalls_of_the_field(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ir_measures", reason="the extra [evaluate] is not installed")
    assert figures_agree()
    monkeypatch.setitem(measuring._OF_IR_MEASURES, "all", "Success")  # a planted bug
    assert not figures_agree()


def test_a_session_counts_at_the_rank_of_its_best_turn() -> None:
    pytest.importorskip("ir_measures", reason="the extra [evaluate] is not installed")
    classes = {f"{session}_{at}": session for session in "abc" for at in (1, 2)}
    ranked, grades = ["a_1", "a_2", "b_2", "c_1"], {"b_1": 1, "c_1": 1}
    asked = ["RR@10", "any@2", "all@2", "all@3"]
    by_session = score_run({"q": ranked}, {"q": grades}, classes=classes, measures=asked)
    assert by_session.means == {"RR@10": 0.5, "any@2": 1.0, "all@2": 0.0, "all@3": 1.0}
    by_turn = score_run({"q": ranked}, {"q": grades}, measures=asked)
    assert by_turn.means == {"RR@10": 0.25, "any@2": 0.0, "all@2": 0.0, "all@3": 0.0}


def test_a_query_that_is_a_document_does_not_find_itself(tmp_path: Path) -> None:
    """In ArguAna the question is a document of the corpus, which answers it best."""
    texts = {"q1": "tea is good", "q2": "other words of tea", "d1": "tea is bad"}
    lines(tmp_path / "corpus.jsonl", texts)
    lines(tmp_path / "queries.jsonl", {"q1": texts["q1"], "q2": "tea"})
    tsv(tmp_path / "qrels.tsv", {"q1": {"d1": 1}, "q2": {"d1": 1}})
    dataset = load_dataset(tmp_path)
    run = run_setting(Indexes(dataset), dataset, read_setting("bm25"))
    assert (run.documents["q1"][0], set(run.documents["q1"])) == ("d1", {"d1", "q2"})
    assert len(run.scores["q1"]) == 2
    assert set(run.documents["q2"]) == {*texts}  # equal ids of other texts are a coincidence
    first = run_setting(Indexes(dataset), dataset, read_setting("bm25"), limit=1)
    assert first.documents == {query: names[:1] for query, names in run.documents.items()}


def test_a_judged_document_that_the_corpus_lacks_is_never_found(tmp_path: Path) -> None:
    """One judgement of ArguAna names such a document; files of two sets would name many."""
    pytest.importorskip("ir_measures", reason="the extra [evaluate] is not installed")
    names = [str(number) for number in range(100)]
    lines(tmp_path / "corpus.jsonl", {name: f"tea {name}" for name in names[1:]})
    lines(tmp_path / "queries.jsonl", {f"q{name}": f"tea {name}" for name in names})
    tsv(tmp_path / "qrels.tsv", {f"q{name}": {name: 1} for name in names})
    dataset = load_dataset(tmp_path)
    run = run_setting(Indexes(dataset), dataset, read_setting("bm25"))
    scores = score_run(run.documents, dataset.judgements, measures=["R@10"])
    assert scores.means == {"R@10": 0.99}
    tsv(tmp_path / "qrels.tsv", {f"q{name}": {name: 1} for name in names[:99]})
    with pytest.raises(OptionError, match="line 1: expected a document of the set, got '0'"):
        load_dataset(tmp_path)


def test_the_interval_of_a_mean_is_that_of_its_percentiles() -> None:
    """Of 0 and 1 in 100 queries the percentiles are those of the binomial distribution."""
    stats = pytest.importorskip("scipy.stats")
    values = np.repeat([0.0, 1.0], [70, 30])
    one = Scores(
        "one", tuple(f"q{at:02}" for at in range(100)), {"any@1": values, "AP": values * 0}
    )
    low, high = one.intervals["any@1"]
    assert (low, high) == pytest.approx(
        np.array(stats.binom.interval(0.95, 100, 0.3)) / 100, abs=0.01
    )
    assert one.intervals == Scores("again", one.queries, one.values).intervals
    assert one.intervals["AP"] == (0.0, 0.0)
    assert one.intervals["any@1"] == bootstrap_interval(values)
    assert Scores("none", (), {"AP": np.zeros(0)}).intervals == {"AP": (0.0, 0.0)}
