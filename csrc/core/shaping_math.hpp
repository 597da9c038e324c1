// The arithmetic of stages that compute new scores of a list's entries or compare their vectors,
// for host and device. docs/scoring.md describes it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/formulas.hpp"
#include "core/score_range.hpp"

namespace hyrecall {

enum class RelevanceScale : std::uint8_t { kRaw, kMax, kMinMax };

// A score as the relevance of MMR. range: of all scores of the list.
HYRECALL_HD inline double relevance_of(RelevanceScale scale, double score,
                                       ScoreRange const& range) {
  if (scale == RelevanceScale::kMinMax) return minmax_scale(score, range.low, range.high);
  if (scale == RelevanceScale::kMax) return range.high > 0.0 ? score / range.high : 0.0;
  return score;
}

// Whether two rows are duplicates. is_unit: the threshold is one of the cosine moved into [0, 1].
HYRECALL_HD inline bool is_duplicate(float cosine, bool is_unit, double threshold) {
  double const similarity = cosine;
  return (is_unit ? unit_scale(similarity) : similarity) > threshold;
}

// The chosen entry that an entry is most similar to; of equally similar ones the first chosen.
struct NearestChosen {
  double similarity = 0.0;  // never below it
  std::int64_t entry = -1;  // -1: none is similar

  HYRECALL_HD void add(float cosine, std::int64_t chosen) {
    if (!(static_cast<double>(cosine) > similarity)) return;
    similarity = cosine;
    entry = chosen;
  }
};

// The order in which MMR chooses among the remaining entries: of equal values the earlier in the
// list.
HYRECALL_HD inline bool is_chosen_before(double value, std::size_t place, double other_value,
                                         std::size_t other_place) {
  return value != other_value ? value > other_value : place < other_place;
}

// What a stage makes a new score of: the age of the document, a weight by the value of a column, or
// age, importance and the score that it had.
enum class Rescoring : std::uint8_t { kRecency, kWeight, kComposite };

struct RescoreRule {
  Rescoring kind = Rescoring::kRecency;
  double half_life = 1.0;       // of kRecency and kComposite
  double exponent = 1.0;        // of kRecency
  double recency_weight = 0.0;  // of kComposite, as the two below
  double importance_weight = 0.0;
  double relevance_weight = 0.0;
};

// The values of an entry that a stage reads besides its score.
struct EntrySignals {
  double age;        // in seconds; NaN: no time
  double half_life;  // likewise
  double worth;      // kWeight: the weight; kComposite: the importance
};

struct EntryScore {
  double signal;  // what the age leaves; kWeight: the weight
  double raw;     // kComposite: the weighted sum
  double score;
};

HYRECALL_HD inline EntryScore rescored(RescoreRule const& rule, double score,
                                       EntrySignals const& entry) {
  if (rule.kind == Rescoring::kWeight) return {entry.worth, 0.0, entry.worth * score};
  bool const is_recency = rule.kind == Rescoring::kRecency;
  double const left = recency_factor(entry.age, entry.half_life, is_recency ? rule.exponent : 1.0);
  if (is_recency) return {left, 0.0, score * left};
  double const raw = composite_sum(rule.recency_weight, left, rule.importance_weight, entry.worth,
                                   rule.relevance_weight, score);
  double const total = (rule.recency_weight + rule.importance_weight) + rule.relevance_weight;
  return {left, raw, composite_mean(raw, total)};
}

}  // namespace hyrecall
