// The scan of an arm of sparse vectors: a row's score is the sum of the products of its weights
// with the query's. Exact, by docs/scoring.md.
//
// Source of the pruning: Turtle and Flood, "Query Evaluation: Strategies and Optimizations", 1995
// (MaxScore).
#pragma once

#include "engine/request/request.hpp"
#include "engine/scope/audience.hpp"
#include "engine/top_k.hpp"

namespace hyrecall {

// Each query's best `depth` rows among those of its group that share a term with it and pass the
// floor, by (score, seq).
QueryLists scan_sparse(Snapshot const& snapshot, BatchRequest const& request,
                       DenseRequest const& arm, Audience const& audience);

}  // namespace hyrecall
