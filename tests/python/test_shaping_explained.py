"""What the stages did is told: by explain(), to the last bit, and in the table of hits."""

from datetime import timedelta

import pytest

import hyrecall as hr
from explained import check_equations
from shaped_corpus import WEIGHTS, corpus


def longest(query: str, texts: list[str]) -> list[float]:
    return [float(len(text)) for text in texts]


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize("normalize", [False, True])
def test_explain_recomputes_every_stage_to_the_last_bit(*, normalize: bool) -> None:
    stages = [
        hr.Provenance("source", WEIGHTS, default=0.7),
        hr.Dedup(0.9, scale="unit", keep="source", prefer=("session", "memory")),
        hr.Recency("at", half_life=timedelta(hours=10), exponent=0.5),
        hr.Composite(time="at", half_life="10h", rating="rating", recency=3, relevance=0.5),
        hr.Budget(40),
        *(hr.MMR(0.3, relevance=scale) for scale in ("raw", "max", "minmax")),
        hr.Rerank(7),
        hr.RerankBy(longest, window=6, timeout="30s"),
        hr.Recency("at", half_life="30d", by="source", half_lives={"session": "10h"}),
        (
            hr.Provenance("source", WEIGHTS),
            hr.Rerank(20),
            hr.Dedup(0.9),
            hr.Recency("at", half_life="5d"),
            hr.Budget(200),
            hr.MMR(0.7),
            hr.Gate(-0.5),
        ),
    ]
    explained = 0
    for seed, stage in enumerate(stages):
        hits = corpus(seed).ask(stage, limit=8, offset=seed % 3, normalize=normalize)
        for hit in (hit for one in hits for hit in one):
            made = hit.explain()
            assert made.score == hit.score, (stage, hit, str(made))
            assert [step.stage for step in made.steps] == [t.stage for t in hits.trace.stages]
            assert f"{made.steps[-1].stage}: score {hit.score:.6g}" in str(made)
            check_equations(made)
            explained += 1
    assert explained > 150


def test_the_table_of_hits_shows_what_the_stages_found_out() -> None:
    case = corpus(4)
    table = case.ask((hr.Rerank(3), hr.Dedup(0.8), hr.Budget(60), hr.MMR(0.7))).to_arrow()
    assert table.column_names[-6:] == [
        *(
            "fused_score",
            "rerank_score",
            "n_duplicates",
            "token_estimate",
            "mmr_relevance",
            "mmr_similarity",
        )
    ]
    assert table["n_duplicates"].to_numpy().sum() > 0
    assert table["rerank_score"].null_count > 0
    assert "fused_score" not in case.ask(()).to_arrow().column_names
