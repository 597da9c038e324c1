"""``hyrecall learn``: fits a recipe's weights to judged queries: of a set, or of a store's user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from hyrecall import recipes
from hyrecall.cli.eval_command import (
    AnalyzerName,
    Markdown,
    Place,
    Qrels,
    Stopwords,
    Thread,
    check_one_form,
    given_analyzer,
    read_data,
    threaded,
    with_vectors,
)
from hyrecall.cli.memory_options import EmbedderName, Org, User, Workspace, now_ready, opened
from hyrecall.cli.options import Threads
from hyrecall.cli.recipe_files import read_recipe
from hyrecall.cli.show import print_json, say, screen_width
from hyrecall.errors import OptionError, error
from hyrecall.evaluate import (
    Indexes,
    Learnt,
    Setting,
    learn_from_feedback,
    learnt_text,
    learnt_to_dict,
    read_setting,
)
from hyrecall.evaluate import learn as run_learn
from hyrecall.text.analyzer import Analyzer

__all__ = ["learn"]

_NOT_BETTER = 1  # the exit code if nothing was written


def learn(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="Folder with corpus and queries (.parquet or .jsonl) and qrels.tsv, as in BEIR, "
            "or of a store.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the recipe here, in JSON, if it is better; otherwise the exit code is 1.",
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe",
            metavar="NAME",
            show_default="default; of a store, the recipe of the settings",
            help="The recipe to start from: a name, or a .json file.",
        ),
    ] = None,
    user: User = None,
    org: Org = None,
    workspace: Workspace = None,
    features: Annotated[
        list[str] | None,
        typer.Option(
            "--feature",
            metavar="FEATURE",
            show_default="none",
            help="One more feature: COLUMN=VALUE, recency(COLUMN, HALF_LIFE), shared(COLUMN) for "
            "tags, or ARM_rank. Repeat the option for several.",
        ),
    ] = None,
    thread: Thread = None,
    place: Place = None,
    measure: Annotated[
        str, typer.Option("--measure", metavar="NAME", help="The measure that is compared.")
    ] = "nDCG@10",
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object, in full precision.")
    ] = False,
    markdown: Markdown = False,
    analyzer: AnalyzerName = None,
    stopwords: Stopwords = None,
    qrels: Qrels = None,
    embedder: EmbedderName = None,
    threads: Threads = None,
) -> None:
    """Learn a recipe's weights on the even half of the queries and compare it on the odd half.

    Of a store, the queries and judgements are what --user said by hyrecall feedback. Nothing of
    other users is read.

    The recipe is written only if it is better than the one it starts from on queries that it did
    not see (p < .05). Use it with hyrecall recall --recipe FILE, or with Recipe.from_json. It needs
    the extra [eval].
    """  # fmt: skip
    check_one_form(as_json=as_json, markdown=markdown)
    asked: dict[str, Any] = {"user_id": user, "org": org, "workspace": workspace}
    fits: dict[str, Any] = {"features": tuple(features or ()), "measure": measure, "tell": say}
    if (data / "memory.db").is_file():
        of_a_set = {
            "--thread": thread, "--place": place, "--analyzer": analyzer, "--embedder": embedder,
            "--stopwords": stopwords, "--qrels": qrels,
        }  # fmt: skip
        _check_absent(of_a_set, "none with a store, whose own holds")
        with opened(data, recipe=recipe, read_only=True) as memory:
            learnt = learn_from_feedback(now_ready(memory), threads=threads, **asked, **fits)
    else:
        of_a_store = {"--user": user, "--org": org, "--workspace": workspace}
        _check_absent(of_a_store, "none with a retrieval set")
        learnt = _of_a_set(
            data, recipe or "default", qrels=qrels, embedder=embedder, threads=threads,
            analyzer=given_analyzer(analyzer, stopwords), thread=thread, place=place, **fits,
        )  # fmt: skip
    if as_json:
        print_json(learnt_to_dict(learnt))
    else:
        how: dict[str, Any] = {"width": screen_width(), "markdown": markdown}
        print(learnt_text(learnt, **how))
    if output is None:
        return
    if not learnt.is_better:
        start = learnt.base.name
        say(f"not written to {output}: not better than {start} on the odd queries (p < .05)")
        raise typer.Exit(_NOT_BETTER)
    output.write_text(learnt.recipe.to_json() + "\n", encoding="utf-8")
    say(f"written to {output}: hyrecall recall --recipe {output}")


def _check_absent(given: Mapping[str, object], wish: str) -> None:
    """Refuse options that would have no effect."""
    for name, value in given.items():
        if value is not None:
            raise error(OptionError, name, wish, repr(value))


def _of_a_set(
    data: Path,
    recipe: str,
    *,
    qrels: str | None,
    embedder: str | None,
    threads: int | None,
    analyzer: Analyzer | None,
    thread: str | None,
    place: str | None,
    **fits: Any,
) -> Learnt:
    dataset = with_vectors(read_data(data, qrels), embedder, ("rrf",))
    base = _base(recipe, dataset.has_vectors)
    own = analyzer or base.analyzer
    base = replace(base, analyzer=own, **threaded(dataset, thread, place))
    return run_learn(Indexes(dataset, threads=threads), dataset, base=base, **fits)


def _base(recipe: str, has_vectors: bool) -> Setting:
    """Return the setting to start from; a set without vectors has words alone."""
    if recipe in recipes.__all__:
        made = read_setting(recipe)
    else:
        found = read_recipe("--recipe", recipe, recipes.__all__)
        made = Setting(found.name, {"recipe": found})
    return made if has_vectors else replace(made, arms=("text",))
