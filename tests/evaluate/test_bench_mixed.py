"""The set with long messages of ``python -m bench.mixed``."""

import numpy as np
import pyarrow as pa
import pytest

from hyrecall.evaluate import Dataset

pytest.importorskip("ir_measures", reason="needs the extra [evaluate]")

from bench import mixed


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
