"""Evaluates rankings: retrieval sets, measures, paired tests, ablation, baselines and tuning.

Scores need the extra ``[evaluate]`` (ir-measures, pytrec-eval-terrier, scipy, matplotlib).
docs/evaluation.md explains how to measure and what each figure means.
"""

from hyrecall.evaluate.compare import (
    MEASURES,
    Comparison,
    Scores,
    compare,
    difference_table,
    score_run,
)
from hyrecall.evaluate.data import Dataset, embed_dataset
from hyrecall.evaluate.learn import Learnt, learn, learn_from_feedback
from hyrecall.evaluate.readers import load_dataset
from hyrecall.evaluate.report import plot_study, study_text
from hyrecall.evaluate.run import (
    Indexes,
    Run,
    Setting,
    grid,
    read_setting,
    run_setting,
    setting_code,
    with_each,
    without_each,
)
from hyrecall.evaluate.tune import Study, Tuned, ablate, tune

__all__ = [
    "MEASURES",
    "Comparison",
    "Dataset",
    "Indexes",
    "Learnt",
    "Run",
    "Scores",
    "Setting",
    "Study",
    "Tuned",
    "ablate",
    "compare",
    "difference_table",
    "embed_dataset",
    "grid",
    "learn",
    "learn_from_feedback",
    "load_dataset",
    "plot_study",
    "read_setting",
    "run_setting",
    "score_run",
    "setting_code",
    "study_text",
    "tune",
    "with_each",
    "without_each",
]
