// A first threshold for queries that share a scope, from a sample of their rows.
//
// Without one every row passes until the first `depth` of them are scored, and far more pass than
// are kept. A guess is not proven: who starts from it must look at the end whether `depth` rows
// reached it, and scan again without it where they did not.
#pragma once

#include <span>
#include <vector>

#include "engine/dense/cohorts.hpp"
#include "engine/dense/collector.hpp"

namespace hyrecall {

inline constexpr float kNoGuess = -2.0f;  // below every cosine

// [n_queries of the request], kNoGuess where a guess would not pay. Some three in a thousand are
// too high where rows come in no order that has to do with the query.
std::vector<float> guess_thresholds(Snapshot const& snapshot, BatchRequest const& request,
                                    DenseRequest const& arm, Audience const& audience,
                                    std::span<QueryCohort const> cohorts,
                                    std::span<QuantizedQuery const> quantized);

}  // namespace hyrecall
