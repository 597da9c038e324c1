"""Which ranking is best? Several ways to join words and vectors, measured on judged queries.

The best is chosen on one half of the queries and measured on the other half, with the probability
that its lead is chance. Needs the extra [evaluate]. Without [local] only BM25 is measured.
"""

from pathlib import Path

import hyrecall as hr
import hyrecall.evaluate as ev
from hyrecall.embed import StaticEmbedder

data = ev.load_dataset(Path(__file__).parents[1] / "tests" / "evaluate" / "golden")
english = hr.Analyzer("unicode:english")
settings = [
    ev.read_setting("bm25"),
    ev.Setting("bm25, stems", arms=("text",), analyzer=english),
]
if StaticEmbedder.available():
    data = ev.embed_dataset(data, StaticEmbedder())
    by_weight = hr.WeightedSum({"text": 0.3, "embedding": 0.7})
    settings += [
        ev.read_setting("dense"),
        ev.read_setting("rrf"),
        ev.read_setting("l0"),
        ev.Setting("default, stems", {"recipe": hr.recipes.default}, analyzer=english),
        ev.Setting("sum .3/.7, stems", {"fusion": by_weight}, analyzer=english),
    ]
indexes = ev.Indexes(data)

# Choose on the even half, report on the odd half. Each setting is compared with the first.
even, odd = data.split("even"), data.split("odd")
winner = ev.ablate(indexes, even, settings, measures=["nDCG@10"]).best("nDCG@10")
study = ev.ablate(indexes, odd, settings, measures=["nDCG@10", "R@5", "RR@10"])
print(ev.study_text(study))

print(f"\nThe winner of the even half is {winner.name}:\n\n{ev.setting_code(winner)}")
scores = {one.name: one for one in study.scores}
moved = ev.difference_table(scores["bm25"], scores[winner.name], "nDCG@10", odd.queries)
print("What it moves most in the odd half, and why its first hit is the first:")
for row in moved.slice(0, 3).to_pylist():
    print(f"  {row['before']:.2f} -> {row['after']:.2f}  {row['text']}")
(query,) = (row for row in odd.queries.to_pylist() if row["id"] == moved["query"][0].as_py())
asked = {"text": [query["text"]], "vectors": [query.get("embedding")]}
asked = {arm: asked[arm] for arm in winner.arms}
hits = indexes.get(winner).recall(**asked, scope=query["tenant"], **winner.options)
print(hits[0][0].text, hits[0][0].explain(), sep="\n")
