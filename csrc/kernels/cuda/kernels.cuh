// The kernels of a dense pass, in the order in which they run, and how they are launched.
#pragma once

#include "kernels/cuda/primitives.cuh"
#include "kernels/shared/dense_job.hpp"

namespace hyrecall::cuda {

inline constexpr unsigned kQueryThreads = 128;
inline constexpr unsigned kRescoreThreads = 256;
inline constexpr unsigned kSelectThreads = 256;

// where queries lie on the device already:
__global__ void take_queries(DenseJob const* job);
__global__ void prepare_queries(DenseJob const* job);
__global__ void fill_panels(DenseJob const* job);
// scan_rows (scan.cuh) of the seed, then
__global__ void set_thresholds(DenseJob const* job);
__global__ void take_seeds(DenseJob const* job);
// scan_rows of the rest, then
__global__ void cut_candidates(DenseJob const* job, std::uint32_t stage);
// at the end:
__global__ void rescore(DenseJob const* job, std::uint32_t is_second);
__global__ void tighten(DenseJob const* job);
__global__ void finish(DenseJob const* job);
// Shared memory of cut_candidates and tighten, and what finish has before its rows.
std::size_t select_bytes();

// Candidates of a query that were kept.
__device__ inline std::uint32_t n_candidates(DenseJob const& job, std::uint32_t query) {
  std::uint32_t const n = job.counts[query];
  return n < job.capacity ? n : job.capacity;
}

// Rows a finish() of this depth sorts, a power of 2; 0 = it does not.
inline std::uint32_t sorted_rows(std::uint32_t depth) {
  if (depth > kMostSorted) return 0;
  std::uint32_t n = 1;
  while (n < depth) n *= 2;
  return n;
}
inline constexpr std::size_t kSortedBytes = 16;  // of a row

// A row of a reply while it is sorted: rising is better first.
struct alignas(16) RankedRow {
  std::uint64_t seq_key;
  std::uint32_t score_key;
  std::uint32_t slot;
};
static_assert(sizeof(RankedRow) == kSortedBytes);

}  // namespace hyrecall::cuda
