// Who reads which rows together: queries that read the same tiles are a cohort, so that a row is
// read once for all of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/request/request.hpp"
#include "engine/scope/audience.hpp"

namespace hyrecall {

// Queries of one group: they read the same rows.
struct CohortMember {
  std::size_t group;
  std::size_t n_rows;  // that they may see
  std::vector<std::uint32_t> queries;
};

// Queries that are scanned together.
struct QueryCohort {
  std::vector<CohortMember> members;
  std::size_t n_queries = 0;
  std::size_t n_rows = 0;    // that its largest member may see
  bool is_plain = false;     // its rows are so few that the first pass would not pay
  bool reads_heads = false;  // where a segment has them
  std::size_t n_slices = 1;
};

// The cohorts of a dense arm, those with most work first. Queries without a vector are in none.
std::vector<QueryCohort> plan_cohorts(Snapshot const& snapshot, BatchRequest const& request,
                                      DenseRequest const& arm, Audience const& audience);

}  // namespace hyrecall
