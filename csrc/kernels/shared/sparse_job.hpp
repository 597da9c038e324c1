// Sparse vectors of rows and queries, as kernels see them: engine/dense/sparse_column.hpp.
#pragma once

#include <cstdint>
#include <span>

namespace hyrecall {

inline constexpr std::uint32_t kSparsePageRows = 1 << 16;

// Sparse vectors of a segment's rows, in host memory.
struct SparseArrays {
  std::span<std::uint32_t const> run_pages;
  std::span<std::uint64_t const> run_begins;  // [n_runs]
  std::span<std::uint16_t const> rows;        // [n_postings]
  std::span<std::uint8_t const> weights;      // [n_postings] of float16 or float32
  std::span<std::uint32_t const> sizes;       // [n_rows] 0: the row has no vector
  bool is_half = false;
};

// The postings of a segment: runs, each of one term and one page of rows.
struct SparseSegment {
  std::uint32_t const* run_pages;   // [n_runs] rising in a term
  std::uint64_t const* run_begins;  // [n_runs + 1] of postings
  std::uint16_t const* rows;        // [n_postings] of the run's page, rising
  std::uint8_t const* weights;      // [n_postings] of float16 or float32
  bool is_half;
};

// A term of a query in a segment that has it.
struct SparseRuns {
  std::uint32_t begin, end;  // runs
  float weight;              // of the query
};

// The terms of all queries, each query's in the order of their bytes: those of query q in segment s
// are of_segments[q * n_segments + s] to the next.
struct SparseTerms {
  std::span<std::uint32_t const> of_segments;  // [n_queries * n_segments + 1]
  std::span<SparseRuns const> runs;
};

}  // namespace hyrecall
