// Guesses a first threshold for queries that share a scope, from a sample of their rows.
//
// Without a first threshold every row passes until `depth` rows are scored, and far more pass than
// are kept. A guess is not proven: a scan that starts from it must check at the end that `depth`
// rows reached it, and otherwise scan again without it.
#pragma once

#include <span>
#include <vector>

#include "engine/dense/cohorts.hpp"
#include "engine/dense/collector.hpp"

namespace hyrecall {

inline constexpr float kNoGuess = -2.0f;  // below every cosine

// [n_queries of the request], kNoGuess if a guess would not pay. If the order of rows does not
// depend on the query, some three guesses in a thousand are too high.
std::vector<float> guess_thresholds(Snapshot const& snapshot, BatchRequest const& request,
                                    DenseRequest const& arm, Audience const& audience,
                                    std::span<QueryCohort const> cohorts,
                                    std::span<QuantizedQuery const> quantized);

}  // namespace hyrecall
