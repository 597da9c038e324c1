"""Input that somebody chose to be slow: keys that meet in one slot, phrases that repeat."""

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from oracle.words import phrase_occurrences

MASK = 2**64 - 1


def cpu_seconds(call: Callable[[], object]) -> float:
    """Seconds of processor time, the least of three: the machine may be busy."""
    spent = []
    for _ in range(3):
        begin = time.process_time()
        call()
        spent.append(time.process_time() - begin)
    return min(spent)


def unshift(h: int) -> int:
    """Invert ``h ^ h >> 33``."""
    return h ^ (h >> 33)


def unmix(h: int) -> int:
    """Invert the murmur3 finaliser, with which an unseeded table would place its keys."""
    h = unshift(h) * pow(0xC4CEB9FE1A85EC53, -1, 2**64) & MASK
    return unshift(unshift(h) * pow(0xFF51AFD7ED558CCD, -1, 2**64) & MASK)


def mix(h: int) -> int:
    """Spread bits as the murmur3 finaliser does."""
    h = unshift(h) * 0xFF51AFD7ED558CCD & MASK
    return unshift(unshift(h) * 0xC4CEB9FE1A85EC53 & MASK)


def crafted(n: int) -> np.ndarray:
    """Keys of the first cell whose finalised hash ends in 20 zeros."""
    keys = [unmix(i << 20) ^ mix(1) for i in range(1, n + 1)]
    return np.array(keys, np.uint64).view(np.int64)


def test_the_crafted_keys_would_meet_in_a_table_without_a_secret() -> None:
    assert all(mix(mix(1) ^ int(key)) % 2**20 == 0 for key in crafted(100).view(np.uint64))


def built(keys: object) -> hr.Index:
    texts = pa.nulls(len(keys), pa.large_string())  # type: ignore[arg-type]
    table = pa.table({"id": keys, "text": texts})
    schema = hr.Schema(key="id", cell=None, text="text")
    return hr.Index.build(table, schema, device="cpu", threads=1)


def test_chosen_keys_cost_what_others_cost() -> None:
    n = 20_000
    plain = cpu_seconds(partial(built, np.arange(n)))
    assert (
        cpu_seconds(partial(built, crafted(n))) < 10 * plain + 0.05
    )  # they cost 0.4 s without a secret


def index_of(text: str) -> hr.Index:
    table = pa.table({"id": [0], "text": [text]})
    return hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"), device="cpu")


def frequency(index: hr.Index, phrase: hr.Phrase) -> float:
    hits = index.recall_one(text=phrase)
    if not len(hits):
        return 0.0
    return hits[0].explain().components[0].terms[0].term_freq


def test_a_phrase_with_slop_takes_time_in_proportion_to_the_text() -> None:
    index = index_of("a " * 200_000 + "c " * 2000 + "b")
    assert cpu_seconds(lambda: index.recall_one(text=hr.Phrase("a b", 1000))) < 0.3
    assert frequency(index, hr.Phrase("a c", 1000)) == 1001


@pytest.mark.parametrize("slop", [0, 1, 7, 1000])
def test_a_phrase_counts_what_its_definition_counts(slop: int) -> None:
    rng = np.random.default_rng(slop)
    words = [f"w{i}" for i in rng.integers(0, 20, 100)]
    index = index_of(" ".join(words))
    for asked in ("w1 w2", "w1 w2 w3", "w4 w4", "w1 w2 w1", "w5 w5 w6 w5"):
        expected = phrase_occurrences(words, asked.split(), slop)
        assert frequency(index, hr.Phrase(asked, slop)) == expected


def test_a_phrase_of_a_thousand_equal_tokens_takes_little_time_and_memory() -> None:
    index = index_of("a " * 20_000)
    phrase = hr.Phrase("a " * 1000)
    assert cpu_seconds(lambda: index.recall_one(text=phrase)) < 0.5
    assert frequency(index, phrase) == 20_000 - 999


def test_a_phrase_of_too_many_tokens_is_not_searched_and_says_its_place() -> None:
    index = index_of("a b c")
    assert len(index.recall_one(text=hr.Phrase("a " * 4096))) == 0
    hits = index.recall(text=["a", hr.All("b", hr.Phrase("a " * 4097))])
    told = "text[1] was not searched: it has a phrase of more than 4,096 tokens"
    assert hits.trace.degraded == (told,)
    assert [len(one) for one in hits] == [1, 0]


PHRASES = """
n = 200
table = pa.table({"id": range(n), "text": ["a " * 10_000] * n})
schema = hr.Schema(key="id", cell=None, text="text")
index = hr.Index.build(table, schema, device="cpu", threads=threads)
options = {"text": [hr.Phrase("a " * 1000)] * n_queries}
"""
SHAPING = """
n = 40_000
vectors = np.random.default_rng(1).standard_normal((n, 16), np.float32)
schema = hr.Schema(key="id", cell=None, vector="v")
table = pa.table({"id": range(n)})
index = hr.Index.build(table, schema, vectors={"v": vectors}, device="cpu", threads=threads)
options = {"vectors": vectors[:n_queries], "depth": n, "limit": n, "shaping": [SHAPE]}
"""
INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
import pyarrow as pa
import hyrecall as hr

n_queries, threads = map(int, sys.argv[1:])
PREPARE
sent = []
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it

def interrupt():
    sent.append(time.process_time())
    os.kill(os.getpid(), signal.SIGINT)

threading.Timer(0.5, interrupt).start()
try:
    index.recall(**options)
except KeyboardInterrupt:
    print(time.process_time() - sent[0])
"""


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize(
    ("prepare", "n_queries", "threads"),
    [
        (PHRASES, 8, 2),
        (PHRASES, 1, 1),
        (SHAPING.replace("SHAPE]", "hr.Dedup(0.99)]"), 1, 1),
        (SHAPING.replace("SHAPE]", "hr.MMR(0.5)]"), 2, 2),
    ],
    ids=["phrases", "phrase", "dedup", "mmr"],
)
def test_an_interrupt_ends_a_long_recall(prepare: str, n_queries: int, threads: int) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            INTERRUPTED.replace("PREPARE", prepare),
            str(n_queries),
            str(threads),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 2.0  # of the processor; a whole recall takes 5 and more


FORKED = """
import os, signal, sys, threading, time
import pyarrow as pa
import hyrecall as hr

n_queries, threads = 1, 1
PREPARE
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it

def recall():
    begun = time.process_time()
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        index.recall(**options)
    except KeyboardInterrupt:
        os._exit(0 if time.process_time() - begun < 2.5 else 3)
    os._exit(4)

def fork():
    child = os.fork()
    if child == 0:
        recall()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

thread = threading.Thread(target=fork)
thread.start()
thread.join()
"""


@pytest.mark.slow
def test_an_interrupt_is_heard_in_a_child_that_another_thread_forked() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED.replace("PREPARE", PHRASES)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
