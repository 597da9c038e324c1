"""``hyrecall evaluate``: compares settings on a retrieval set, and with a baseline."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeAlias

import typer

from hyrecall import recipes
from hyrecall.cli.memory_options import bar, now_ready, opened
from hyrecall.cli.options import (
    at_least,
    by_arm,
    names,
    read_analyzer,
    read_bm25,
    refuse,
)
from hyrecall.cli.settings import read_recipe, read_settings
from hyrecall.cli.show import print_json, say, screen_width, show
from hyrecall.embed import Embedder
from hyrecall.embed.choose import NAMES
from hyrecall.embed.choose import embedder as choose
from hyrecall.embed.guard import Off
from hyrecall.errors import OptionError, error
from hyrecall.evaluate import (
    MEASURES,
    Comparison,
    Dataset,
    Indexes,
    Learnt,
    LearntConfidence,
    Setting,
    Study,
    ablate,
    difference_table,
    embed_dataset,
    learn_confidence,
    learn_from_feedback,
    load_dataset,
    read_setting,
    setting_code,
)
from hyrecall.evaluate import learn as run_learn
from hyrecall.evaluate import tune as run_tune
from hyrecall.evaluate.compare import (
    GATE,
    OF_MEMORIES,
    check,
    read_baseline,
    read_measure,
    require_extra,
    write_baseline,
)
from hyrecall.evaluate.data import VECTOR
from hyrecall.evaluate.readers import form_of
from hyrecall.evaluate.report import (
    checks_text,
    confidence_text,
    confidence_to_dict,
    differences_text,
    learnt_text,
    learnt_to_dict,
    plot_format,
    plot_study,
    study_text,
    study_to_dict,
    tuned_text,
    tuned_to_dict,
    winner_text,
)
from hyrecall.evaluate.run import BUILT_IN
from hyrecall.text.analyzer import Analyzer

_FELL = 1  # the exit code if a measure fell below its baseline
MEASURABLE = [  # a set cannot have a column named key, which hits have
    name for name in recipes.__all__ if "key" not in getattr(recipes, name).columns
]
USUAL_MEASURES, MEMORY_MEASURES = ",".join(MEASURES), ",".join(OF_MEMORIES)

Checks: TypeAlias = list[tuple[str, Comparison]]
"""Measures of settings beside their baseline."""

SHARED = """
data DATA: Folder with corpus and queries (.parquet or .jsonl) and qrels.tsv, or a set as BEIR,
    MTEB, LMEB, TREC or LongMemEval distribute it.
qrels FILE: Another file of judgements in the folder.
analyzer NAME: How texts are split into words, as in hyrecall index. [default: that of a recipe,
    otherwise unicode]
stopwords WORDS: Words to leave out: english, or a,list,of,words. [default: none]
thread COLUMN: The column of the corpus that says which session or document a row is part of.
place COLUMN: The column that orders the rows of a thread. [default: the order of the corpus]
embedder static|minilm|off|URL: The source of vectors: the packaged model, all-MiniLM-L6-v2, none,
    or an endpoint. [default: HYRECALL_EMBEDDING_URL, the settings, or the packaged model]
as_json --json: Write one JSON object, in full precision.
"""


def evaluate(
    data: Path,
    *,
    setting: list[str] | None = None,
    against: Path | None = None,
    write_to: Path | None = None,
    as_json: bool = False,
    plot: Path | None = None,
    diff: int = 0,
    analyzer: str | None = None,
    stopwords: str | None = None,
    bm25: list[str] | None = None,
    split: str | None = None,
    qrels: str | None = None,
    unit: str | None = None,
    role: str | None = None,
    abstention: bool = False,
    by: str | None = None,
    thread: str | None = None,
    place: str | None = None,
    embedder: str | None = None,
    measures: list[str] | None = None,
    threads: int | None = None,
) -> None:
    """Measure settings on a retrieval set.

    A set without vectors is embedded first if a setting needs vectors. Intervals are of 95 %.
    Differences, their intervals and p compare with the first setting, and with --against also with
    the baseline. Of several settings, the best one is also shown as Python code. It needs the extra
    [evaluate].

    Options
    setting --setting -r NAME: A setting to measure: $BUILT_IN, or a recipe whose columns the corpus
        has: $MEASURABLE. Repeat the option for several; each is compared with the first. [default:
        the first four, or bm25 without vectors]
    against FILE: Compare with this baseline: exit code 1 if $GATE fell by more than 0.02 with p <
        0.01, or by more than 0.04.
    write_to --write-baseline FILE: Write this run as a baseline.
    plot FILE: Draw the means, as .svg or .png.
    diff N: Show the N queries that changed most.
    split even|odd: Use one half of the queries.
    unit sessions|turns: The documents of LongMemEval. [default: sessions]
    role user|assistant: Read only the turns of one side of LongMemEval. [default: both]
    abstention: Keep the questions of LongMemEval that the sessions do not answer: 500 in place of
        470.
    by COLUMN: Count each value of a column of the corpus once, at the rank of its best document,
        such as the session of a turn.
    measures NAME: The measures to compute, separated by commas. [default: $USUAL_MEASURES, of
        LongMemEval $MEMORY_MEASURES]
    """
    at_least("--diff", diff, 0)
    if plot is not None:
        plot_format(plot, "--plot")
    require_extra()
    asked = tuple(map(read_measure, names(measures) or form_of(data).measures))
    needed = GATE if against is not None or write_to is not None else ()
    baseline = None if against is None else read_baseline(against)
    dataset = read_data(data, qrels, unit=unit, role=role, abstention=abstention)
    if by is not None:
        dataset = dataset.count_by(by)
    if split is not None:
        dataset = dataset.split(split)  # type: ignore[arg-type]
    dataset = with_vectors(dataset, embedder, names(setting))
    constants = by_arm("--bm25", bm25, read_bm25)
    own: dict[str, Any] = {} if constants is None else {"bm25": constants}
    threads_of = threaded(dataset, thread, place)
    chosen = [
        replace(one, **threads_of)
        for one in _settings(dataset, names(setting), given_analyzer(analyzer, stopwords), own)
    ]
    study = ablate(
        Indexes(dataset, threads=threads), dataset, chosen,
        measures=tuple(dict.fromkeys((*asked, *needed))), tell=lambda name: say(f"asking: {name}"),
    )  # fmt: skip
    checked = () if baseline is None else study.scores
    checks = [(one.name, found) for one in checked for found in check(one, baseline or {})]
    moved = _moved(study, dataset, asked[0], diff, baseline) if diff else []
    best = study.best(asked[0])
    code = setting_code(best, analyzer=tokenizer_code(analyzer), has_cells=dataset.has_cells)
    if as_json:
        shown = {"measure": asked[0], "setting": best.name, "python": code}
        print_json({**_as_data(study, checks, moved), "best": shown})
    else:
        _show(study, checks, moved)
        if len(study.settings) > 1:
            print(f"\n{winner_text(best, asked[0], code, width=screen_width())}")
    if plot is not None:
        plot_study(study, plot)
        say(f"drawn in {plot}")
    if write_to is not None:
        write_baseline(write_to, dataset.name, study.scores)
        say(f"baseline written to {write_to}")
    fell = [(name, one) for name, one in checks if one.has_fallen]
    for name, one in fell:
        say(f"error: {name}: {one.measure} fell by {-one.difference:.4f}")
    if fell:
        raise typer.Exit(_FELL)


def read_data(data: Path, qrels: str | None, **options: Any) -> Dataset:
    """Read a set and print its size; before that, check that the extra [evaluate] is installed."""
    require_extra()
    form = form_of(data)
    if form.name in ("LongMemEval", "TREC"):  # which may take a minute
        say(f"reading {data.name} as a set of {form.name}")
    dataset = load_dataset(data, qrels=qrels, **options)
    n_judged = dataset.judged.num_rows
    say(f"{dataset.name}: {dataset.corpus.num_rows:,} documents, {n_judged:,} judged queries")
    return dataset


def with_vectors(dataset: Dataset, named: str | None, settings: Sequence[str] = ()) -> Dataset:
    """Embed a set without vectors, if a setting needs vectors or no setting is named."""
    having = [table for table in (dataset.corpus, dataset.queries) if VECTOR in table.column_names]
    asking = [name for name in settings if "vectors" in read_setting(name).arms]
    is_of_use = not having and (asking or not settings)
    if not is_of_use:
        if named is not None:
            wish, got = "none for a set with vectors", f"a column {VECTOR!r}"
            if not having:
                wish, got = "a setting that uses vectors", ", ".join(settings)
            raise error(OptionError, "--embedder", wish, got)
        return dataset
    chosen = _embedder(named)
    if isinstance(chosen, Off):
        if asking:
            wish = f"static or the URL of an endpoint, for {', '.join(asking)}"
            raise error(OptionError, "--embedder", wish, chosen.detail)
        say(f"note: no vectors: {chosen.detail}")
        return dataset
    n_texts = dataset.corpus.num_rows + dataset.judged.num_rows
    say(f"embedding {n_texts:,} texts with {chosen.model}")
    started = time.perf_counter()
    with bar() as progress:
        made = embed_dataset(dataset, chosen, progress=progress)
    say(f"embedded in {time.perf_counter() - started:.1f} s")
    return made


def given_analyzer(name: str | None, stopwords: str | None) -> Analyzer | None:
    """Return the analyzer of the options, or None if neither is given."""
    if name is None and stopwords is None:
        return None
    return read_analyzer("--analyzer", name or "unicode", stopwords)


def tokenizer_code(name: str | None) -> str | None:
    """Return the Python code of a tokenizer's file, or None for another analyzer."""
    is_file = name is not None and name.endswith(".json")
    return f"hr.Analyzer.from_tokenizer({name!r})" if is_file else None


def _embedder(named: str | None) -> Embedder | Off:
    """Return the embedder of the option, otherwise of the environment or the settings."""
    if named is None:
        return choose(settings=read_settings())
    if named not in NAMES and not named.startswith(("http://", "https://")):
        wish = "static, minilm, off or the URL of an endpoint"
        raise error(OptionError, "--embedder", wish, repr(named))
    return choose(named, settings=read_settings())


def _settings(
    dataset: Dataset, named: Sequence[str], analyzer: Analyzer | None, own: dict[str, Any]
) -> list[Setting]:
    """Return the named settings, or all built-in settings that the set allows."""
    if not named:
        named = list(BUILT_IN) if dataset.has_vectors else ["bm25"]
    if len(set(named)) < len(named):
        raise error(OptionError, "--setting", "each name once", ", ".join(named))
    made = []
    for name in named:
        one = read_setting(name)
        options = {**one.options, **(own if "text" in one.arms else {})}
        made.append(replace(one, analyzer=analyzer or one.analyzer, options=options))
    return made


def threaded(
    dataset: Dataset, thread: str | None, place: str | None, arms: Sequence[str] = ()
) -> dict[str, Any]:
    """Check the columns of threads, places and further arms; every setting's index has them."""
    if place is not None and thread is None:
        raise error(OptionError, "--place", "--thread beside it", "none")
    known = dataset.corpus.column_names
    further = [("--arm", arm) for arm in arms]
    for option, name in (("--thread", thread), ("--place", place), *further):
        if name is not None and name not in known:
            raise error(OptionError, option, f"a column of {known}", repr(name))
    return {"thread": thread, "place": place, "more_arms": tuple(arms)}


def _moved(
    study: Study, dataset: Dataset, measure: str, n_rows: int, baseline: Any
) -> list[dict[str, Any]]:
    """Return the queries with the largest changes from the baseline or from the first setting."""
    pairs = [(study.scores[0], one) for one in study.scores[1:]]
    if baseline is not None:
        pairs = [(baseline[one.name], one) for one in study.scores]
    elif not pairs:
        wish = "two settings, or --against"
        raise error(OptionError, "--diff", wish, f"only {study.scores[0].name}")
    return [
        {
            "measure": measure,
            "before": "the baseline" if baseline is not None else before.name,
            "after": after.name,
            "table": difference_table(before, after, measure, dataset.queries).slice(0, n_rows),
        }
        for before, after in pairs
    ]


def _as_data(study: Study, checks: Checks, moved: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        **study_to_dict(study),
        "baseline": [
            {"setting": name, "failed": one.has_fallen, **asdict(one)} for name, one in checks
        ],
        "queries_moved": [{**one, "table": one["table"].to_pylist()} for one in moved],
    }


def _show(study: Study, checks: Checks, moved: list[dict[str, Any]]) -> None:
    width = screen_width()
    print(study_text(study, width=width))
    if checks:
        print(f"\nagainst the baseline\n\n{checks_text(checks, width=width)}")
    for one in moved:
        print(f"\n{one['measure']}, {one['before']} -> {one['after']}\n")
        print(differences_text(one["table"], width=width))


# ---- ``hyrecall learn``: fits a recipe's weights to judged queries: of a set, or of a store's user

_NOT_BETTER = 1  # the exit code if nothing was written
_OF_CONFIDENCE = ("foreign", "model")
_NEEDS_VECTORS = ("rrf",)  # a setting that does, because words and vectors are fused


def learn(
    ctx: typer.Context,
    data: Path,
    *,
    output: Path | None = None,
    recipe: str | None = None,
    user_id: str | None = None,
    org: str | None = None,
    workspace: str | None = None,
    features: list[str] | None = None,
    arms: list[str] | None = None,
    thread: str | None = None,
    place: str | None = None,
    measure: str = "nDCG@10",
    confidence: bool = False,
    foreign: list[Path] | None = None,
    model: str | None = None,
    as_json: bool = False,
    analyzer: str | None = None,
    stopwords: str | None = None,
    qrels: str | None = None,
    embedder: str | None = None,
    threads: int | None = None,
) -> None:
    """Learn a recipe's weights on the even half of the queries and compare it on the odd half.

    Of a store, the queries and judgements are what --user said by hyrecall feedback. Nothing of
    other users is read.

    With --confidence, learn how sure replies are instead of the weights.

    The recipe is written only if it is better than the one it starts from on queries that it did
    not see (p < .05). Use it with hyrecall recall --recipe FILE, or with Recipe.from_json. It needs
    the extra [evaluate].

    Arguments
    data DATA: A set as in hyrecall evaluate, or the folder of a store.
    Options
    output --output -o FILE: Write the recipe here, in JSON, if it is better; otherwise the exit
        code is 1.
    recipe NAME: The recipe to start from: a name, or a .json file. [default: default; of a store,
        the recipe of the settings]
    features --feature FEATURE: One more feature: COLUMN=VALUE, recency(COLUMN, HALF_LIFE),
        shared(COLUMN) for tags, or ARM_rank. Repeat the option for several. [default: none]
    arms --arm COLUMN: One more column that becomes an arm: texts, such as who said a row or its
        date; or vectors, which the queries have too. Repeat the option for several. [default: none]
    measure NAME: The measure that is compared.
    confidence: Learn the coefficients of confidence; the squared error is compared.
    foreign DATA: With --confidence, a set whose queries nothing in DATA answers. Repeat the option
        for several. [default: those of other tenants of DATA]
    model NAME: With --confidence, the embedder of the vectors that DATA has, such as
        all-MiniLM-L6-v2, by whose coefficients the package judges.
    """
    asked: dict[str, Any] = {"user_id": user_id, "org": org, "workspace": workspace}
    fits: dict[str, Any] = {"features": tuple(features or ()), "measure": measure, "tell": say}
    if (data / "memory.db").is_file():
        of_a_set = ("arms", "thread", "place", "analyzer", "embedder", "stopwords", "qrels")
        refuse(ctx, "none with a store, whose own holds", *of_a_set)
        refuse(ctx, "none with a store", "confidence", *_OF_CONFIDENCE)
        with opened(data, recipe=recipe, read_only=True) as memory:
            learnt = learn_from_feedback(now_ready(memory), threads=threads, **asked, **fits)
    else:
        refuse(ctx, "none with a retrieval set", *asked)
        wish = "none with --confidence" if confidence else "--confidence with it"
        refuse(ctx, wish, *(("features", "measure") if confidence else _OF_CONFIDENCE))
        given = read_data(data, qrels)
        dataset = with_vectors(given, embedder, _NEEDS_VECTORS)
        base = _base(recipe or "default", dataset.has_vectors)
        own = given_analyzer(analyzer, stopwords) or base.analyzer
        base = replace(base, analyzer=own, **threaded(dataset, thread, place, arms or ()))
        indexes = Indexes(dataset, threads=threads)
        if confidence:
            if dataset is not given:
                model = getattr(_embedder(embedder), "model", None)
            others = [read_data(one, None) for one in foreign or ()]
            others = [with_vectors(one, embedder, _NEEDS_VECTORS) for one in others]
            made = learn_confidence(
                indexes, dataset, base=base, foreign=others, model=model, tell=say
            )
            show(as_json, confidence_to_dict(made), confidence_text(made, width=screen_width()))
            _write(made, output)
            return
        learnt = run_learn(indexes, dataset, base=base, **fits)
    show(as_json, learnt_to_dict(learnt), learnt_text(learnt, width=screen_width()))
    _write(learnt, output)


def _write(learnt: Learnt | LearntConfidence, output: Path | None) -> None:
    """Write a learnt recipe if it is better."""
    if output is None:
        return
    if not learnt.is_better:
        start = learnt.base.name
        say(f"not written to {output}: not better than {start} on the odd queries (p < .05)")
        raise typer.Exit(_NOT_BETTER)
    output.write_text(learnt.recipe.to_json() + "\n", encoding="utf-8")
    say(f"written to {output}: hyrecall recall --recipe {output}")


def _base(recipe: str, has_vectors: bool) -> Setting:
    """Return the setting to start from; a set without vectors has words alone."""
    if recipe in recipes.__all__:
        made = read_setting(recipe)
    else:
        found = read_recipe("--recipe", recipe, recipes.__all__)
        made = Setting(found.name, {"recipe": found})
    return made if has_vectors else replace(made, arms=("text",))


# ---- ``hyrecall tune``: chooses fusion, weights and BM25 constants on half of a retrieval set ----


def tune(
    data: Path,
    *,
    as_json: bool = False,
    measure: str = "nDCG@10",
    analyzer: str | None = None,
    stopwords: str | None = None,
    qrels: str | None = None,
    embedder: str | None = None,
    threads: int | None = None,
) -> None:
    """Search settings on the even half of the queries and report them on the odd half.

    First k1 and b of BM25 alone, then the kind of fusion and its weights, then k1 and b within
    that fusion. The winner is compared with the single arms and shown as Python code. A set without
    vectors is embedded first. It needs the extra [evaluate].

    Options
    as_json --json: Write one JSON object, in full precision.
    measure NAME: The measure that chooses the winner.
    """
    dataset = with_vectors(read_data(data, qrels), embedder, _NEEDS_VECTORS)
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
    width = screen_width()
    shown = winner_text(tuned.winner, f"{tuned.measure} on the even queries", code, width=width)
    data_of = {**tuned_to_dict(tuned), "python": code}
    show(as_json, data_of, f"{tuned_text(tuned, width=width)}\n\n{shown}")
