// One thread's way through a slice of the rows of a cohort.
#pragma once

#include <span>
#include <vector>

#include "engine/dense/cohorts.hpp"
#include "engine/dense/collector.hpp"
#include "engine/scope/audience.hpp"

namespace hyrecall {

// Heads of all queries of a request, by segment; empty where a segment's are not read.
using QueryHeads = std::span<std::vector<QuantizedQuery> const>;

// Shows the rows of a slice to the cohort's queries, in the order of its members; slice is below
// cohort.n_slices.
void scan_slice(Snapshot const& snapshot, DenseRequest const& arm, Audience const& audience,
                QueryCohort const& cohort, QueryHeads heads, std::size_t slice,
                std::span<DenseCollector> queries);

}  // namespace hyrecall
