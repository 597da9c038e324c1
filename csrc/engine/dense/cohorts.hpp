// Puts queries that read the same tiles into one cohort, so that a row is read once for all.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/request/request.hpp"
#include "engine/scope/audience.hpp"

namespace hyrecall {

// Queries of one group, which all read the same rows.
struct CohortMember {
  std::size_t group;
  std::size_t n_rows;  // in their scope
  std::vector<std::uint32_t> queries;
};

// Queries that are scanned together.
struct QueryCohort {
  std::vector<CohortMember> members;
  std::size_t n_queries = 0;
  std::size_t n_rows = 0;    // in the scope of its largest member
  bool is_plain = false;     // it has too few rows for the first pass to pay
  bool reads_heads = false;  // if a segment has heads
  std::size_t n_slices = 1;
};

// The cohorts of a dense arm, the largest first. Queries without a vector are in no cohort.
std::vector<QueryCohort> plan_cohorts(Snapshot const& snapshot, BatchRequest const& request,
                                      DenseRequest const& arm, Audience const& audience);

}  // namespace hyrecall
