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

}  // namespace hyrecall
