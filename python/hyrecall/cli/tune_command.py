"""``hyrecall tune``: choose fusion, weights and BM25 constants on one half, report the other."""

from __future__ import annotations

from typing import Annotated

import typer

from hyrecall.cli.eval_command import (
    AnalyzerName,
    Data,
    Qrels,
    Stopwords,
    read_data,
    with_vectors,
)
from hyrecall.cli.memory_options import EmbedderName
from hyrecall.cli.options import Threads
from hyrecall.cli.show import print_json, say
from hyrecall.cli.values import read_analyzer
from hyrecall.evaluate import Indexes, tuned_text, tuned_to_dict
from hyrecall.evaluate import tune as run_tune

__all__ = ["tune"]

_ASKED = ("rrf",)  # what is tuned joins words and vectors


def tune(
    data: Data,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, every bit.")] = False,
    measure: Annotated[
        str, typer.Option("--measure", metavar="NAME", help="What to choose by.")
    ] = "nDCG@10",
    analyzer: AnalyzerName = "unicode",
    stopwords: Stopwords = None,
    qrels: Qrels = None,
    embedder: EmbedderName = None,
    threads: Threads = None,
) -> None:
    """Search settings on the even half of the queries and report them on the odd half.

    First k1 and b of BM25 alone, then the kind of fusion and its weights, then k1 and b within
    that fusion. The winner stands beside the single arms. A set without vectors is embedded first.
    It needs the extra [eval].
    """
    dataset = with_vectors(read_data(data, qrels), embedder, _ASKED)
    tuned = run_tune(
        Indexes(dataset, threads=threads),
        dataset,
        measure=measure,
        analyzer=read_analyzer("--analyzer", analyzer, stopwords),
        tell=lambda name: say(f"asking: {name}"),
    )
    if as_json:
        print_json(tuned_to_dict(tuned))
    else:
        print(tuned_text(tuned))
