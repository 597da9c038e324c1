"""Evaluates rankings: retrieval sets, measures, paired tests, ablation, baselines and tuning.

Scores need the extra ``[eval]`` (ir-measures, pytrec-eval-terrier, scipy, matplotlib).
docs/evaluation.md explains how to measure and what each figure means.
"""

from hyrecall.evaluate.compare import (
    GATE,
    Check,
    Comparison,
    bootstrap_interval,
    check,
    compare,
    difference_table,
    randomisation_p,
    read_baseline,
    student_p,
    write_baseline,
)
from hyrecall.evaluate.data import Dataset, embed_dataset, load_dataset
from hyrecall.evaluate.learn import Learnt, fit_weights, learn, learn_from_feedback
from hyrecall.evaluate.metrics import MEASURES, Scores, read_measure, score_run
from hyrecall.evaluate.report import (
    learnt_text,
    learnt_to_dict,
    plot_study,
    study_text,
    study_to_dict,
    tuned_text,
    tuned_to_dict,
)
from hyrecall.evaluate.run import Indexes, Run, run_setting, score_setting, setting_code
from hyrecall.evaluate.settings import Setting, grid, read_setting, with_each, without_each
from hyrecall.evaluate.tune import (
    Study,
    Tuned,
    ablate,
    alpha_grid,
    depth_grid,
    rank_constant_grid,
    tune,
    weight_grid,
)

__all__ = [
    "GATE",
    "MEASURES",
    "Check",
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
    "alpha_grid",
    "bootstrap_interval",
    "check",
    "compare",
    "depth_grid",
    "difference_table",
    "embed_dataset",
    "fit_weights",
    "grid",
    "learn",
    "learn_from_feedback",
    "learnt_text",
    "learnt_to_dict",
    "load_dataset",
    "plot_study",
    "randomisation_p",
    "rank_constant_grid",
    "read_baseline",
    "read_measure",
    "read_setting",
    "run_setting",
    "score_run",
    "score_setting",
    "setting_code",
    "student_p",
    "study_text",
    "study_to_dict",
    "tune",
    "tuned_text",
    "tuned_to_dict",
    "weight_grid",
    "with_each",
    "without_each",
    "write_baseline",
]
