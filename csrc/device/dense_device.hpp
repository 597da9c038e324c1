// Exact search over the columns that a CUDA device holds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/dense_planner.hpp"
#include "device/device_guest.hpp"
#include "device/device_segment.hpp"
#include "kernels/int8_bound.hpp"
#include "kernels/shared/dense_batch.hpp"
#include "kernels/shared/dense_rows.hpp"
#include "kernels/shared/lexical_job.hpp"
#include "kernels/shared/sparse_job.hpp"
#include "kernels/shared/tile_filter.hpp"

namespace hyrecall::device {

// Queries that are searched for at a time: some 100 MB of candidates.
inline constexpr std::size_t kMostTogether = 1024;

// Rows of queries in host memory.
struct QueryRows {
  float const* first = nullptr;
  std::size_t stride = 0;  // floats from row to row
};

// A batch of queries on one table. Scopes and groups as in DensePlanInput.
struct DenseSearch {
  std::span<SlotRanges const> scopes;
  std::span<std::uint32_t const> group_scopes;
  std::span<std::uint32_t const> group_filters;
  std::span<std::uint32_t const> group_of;  // [n_queries], kNone32: finds nothing
  std::span<SegmentFilter const> filters;   // [n_filters, n_views]
  std::span<TileTest const> tests;
  std::span<std::int64_t const> codes;    // of tests
  QueryRows queries;                      // [n_queries, dim], norms as prepare_queries checks
  std::span<float const> floors;          // [n_queries], -inf: none
  std::span<std::uint8_t const> strict;   // [n_queries] a score must lie above its floor
  std::span<std::uint32_t const> depths;  // [n_queries] rows wanted
  Settings settings{};
  // Queries on the device, instead of `queries`; those that a search skips are not read. A row that
  // no query may be finds nothing, and its reading says why.
  GuestRows const* guest = nullptr;
  // Of a lexical column, instead of both.
  TextQueries const* text = nullptr;
  // Of a column whose rows have many vectors: [n_queries + 1] which of `queries` each query has;
  // none of them is missing.
  std::span<std::uint32_t const> vector_begins{};
  SparseTerms sparse{};  // of a sparse column, where vector_begins is all 0
  int threads = 1;       // that may copy queries
  // For tests: [n_queries, n_slots], where lower_score() of the rows that were found goes.
  std::span<float> first_scores{};
};

// The arrays of a DenseSearch, and their memory.
struct SearchArrays {
  // Adds a filter's program for one view.
  void add_program(std::span<TileTest const> program, std::span<std::int64_t const> of_program);
  // Without what the queries are; points into this.
  DenseSearch view() const;

  std::vector<SlotRanges> scopes;
  std::vector<std::uint32_t> group_scopes, group_filters, group_of, depths;
  std::vector<SegmentFilter> filters;
  std::vector<TileTest> tests;
  std::vector<std::int64_t> codes;
  std::vector<float> floors;
  std::vector<std::uint8_t> strict;
  Settings settings{};
  int threads = 1;
};

// A query's best rows by (score desc, seq asc), exactly; those beyond the sorting of the device
// come unsorted. Where they lie is the workspace's again once they have been taken.
struct FoundRows {
  std::uint32_t query;
  std::span<float const> scores;
  std::span<std::int64_t const> seqs;
  std::span<std::uint32_t const> slots;
  bool is_sorted;
};
using TakeFound = std::function<void(std::span<FoundRows const> found)>;

// Hands over what every query finds, in any order; again, where a search with others has failed and
// is repeated alone. A query of no group or of depth 0 is not spoken of. Any number of threads at
// once. A batch that does not fit in the device's memory runs in smaller pieces; a single query
// that does not fit throws kDeviceMemory, and the next call works. What waits for the device may be
// searched together; see SearchQueue.
void search(DeviceTable const& table, DenseSearch const& batch, TakeFound const& take);
void search_alone(DeviceTable const& table, DenseSearch const& batch, TakeFound const& take);

// What the first pass says of every row: lower_score(), [n_queries, n_rows]; of 16-bit planes that
// is its score. For tests of the bound; the column has a vector in every row. queries:
// [n_queries, dim], none of them zero.
std::vector<float> first_scores(std::string const& folder, int ordinal, ColumnArrays const& column,
                                std::size_t n_rows, std::span<float const> queries,
                                Settings const& settings = {});

}  // namespace hyrecall::device
