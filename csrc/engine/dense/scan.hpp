// The dense arm on the CPU: exact cosine over the rows that each query may see.
#pragma once

#include <vector>

#include "engine/request/request.hpp"
#include "engine/scope/audience.hpp"
#include "engine/top_k.hpp"

namespace hyrecall {

// Each query's best `depth` rows among those of its group that have a vector and pass the floor, by
// (score, seq). Empty for a query without a vector.
std::vector<std::vector<Candidate>> scan_dense(Snapshot const& snapshot,
                                               BatchRequest const& request, DenseRequest const& arm,
                                               Audience const& audience);

}  // namespace hyrecall
