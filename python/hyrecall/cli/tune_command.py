"""``hyrecall tune``: chooses fusion, weights and BM25 constants on half of a retrieval set."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hyrecall.cli.eval_command import (
    AnalyzerName,
    Data,
    Markdown,
    Qrels,
    Stopwords,
    check_one_form,
    given_analyzer,
    read_data,
    tokenizer_code,
    with_vectors,
)
from hyrecall.cli.memory_options import EmbedderName
from hyrecall.cli.options import Threads
from hyrecall.cli.show import print_json, say, screen_width
from hyrecall.evaluate import Indexes, setting_code, tuned_text, tuned_to_dict
from hyrecall.evaluate import tune as run_tune
from hyrecall.evaluate.report import winner_text

__all__ = ["tune"]

_ASKED = ("rrf",)  # a setting that needs vectors, because tuning fuses words and vectors


def tune(
    data: Data,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object, in full precision.")
    ] = False,
    markdown: Markdown = False,
    measure: Annotated[
        str, typer.Option("--measure", metavar="NAME", help="The measure that chooses the winner.")
    ] = "nDCG@10",
    analyzer: AnalyzerName = None,
    stopwords: Stopwords = None,
    qrels: Qrels = None,
    embedder: EmbedderName = None,
    threads: Threads = None,
) -> None:
    """Search settings on the even half of the queries and report them on the odd half.

    First k1 and b of BM25 alone, then the kind of fusion and its weights, then k1 and b within
    that fusion. The winner is compared with the single arms and shown as Python code. A set without
    vectors is embedded first. It needs the extra [eval].
    """
    check_one_form(as_json=as_json, markdown=markdown)
    dataset = with_vectors(read_data(data, qrels), embedder, _ASKED)
    tuned = run_tune(
        Indexes(dataset, threads=threads),
        dataset,
        measure=measure,
        analyzer=given_analyzer(analyzer, stopwords),
        tell=lambda name: say(f"asking: {name}"),
    )
    code = setting_code(
        tuned.winner, analyzer=tokenizer_code(analyzer), has_cells=dataset.has_cells
    )
    if as_json:
        print_json({**tuned_to_dict(tuned), "python": code})
        return
    how: dict[str, Any] = {"width": screen_width(), "markdown": markdown}
    print(tuned_text(tuned, **how))
    by = f"{tuned.measure} on the even queries"
    print(f"\n{winner_text(tuned.winner, by, code, **how)}")
