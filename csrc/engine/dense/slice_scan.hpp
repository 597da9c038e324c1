// Scans a slice of the rows of a cohort in one thread.
#pragma once

#include <span>
#include <vector>

#include "engine/dense/cohorts.hpp"
#include "engine/dense/collector.hpp"
#include "engine/scope/audience.hpp"

namespace hyrecall {

// Heads of all queries of a request, by segment; empty if the scan reads no heads of the segment.
using QueryHeads = std::span<std::vector<QuantizedQuery> const>;

// Scans the rows of a slice for all queries of the cohort; the results are in the order of its
// members. slice: below cohort.n_slices.
void scan_slice(Snapshot const& snapshot, DenseRequest const& arm, Audience const& audience,
                QueryCohort const& cohort, QueryHeads heads, std::size_t slice,
                std::span<DenseCollector> queries);

}  // namespace hyrecall
