// The kernels of a dense pass, in the order in which they run, and how they are launched.
#pragma once

#include "kernels/cuda/primitives.cuh"
#include "kernels/shared/dense_job.hpp"

namespace hyrecall::cuda {

inline constexpr unsigned kQueryThreads = 128;
inline constexpr unsigned kSelectThreads = 256;

// where queries lie on the device already:
__global__ void take_queries(DenseJob const* job);
__global__ void prepare_queries(DenseJob const* job);
// a scan of what is read first, then
__global__ void guess_thresholds(DenseJob const* job);
__global__ void cut_texts(DenseJob const* job);
// Shared memory of these two.
std::size_t select_bytes();

// scans of the rest, and at the end:
__global__ void pick_best(DenseJob const* job, std::uint32_t list_room);

// How pick_best is launched. Where queries are few, several CTAs share the scores of one.
struct PickShape {
  unsigned n_ctas;  // a query
  std::uint32_t list_room;
  std::size_t shared_bytes;

  // Rows that it sorts where queries are many.
  static constexpr std::uint32_t kFewRows = 256;

  static PickShape of(std::uint32_t n_queries, std::uint32_t sorted_rows, bool is_lexical,
                      unsigned n_multiprocessors, std::size_t most_shared_bytes);
  static bool has_shares(std::uint32_t n_queries, unsigned n_multiprocessors) {
    return 4 * n_multiprocessors / n_queries > 1;
  }
};

// Candidates of a query that were kept.
__device__ inline std::uint32_t n_candidates(DenseJob const& job, std::uint32_t query) {
  std::uint32_t const n = job.counts[query];
  return n < job.capacity ? n : job.capacity;
}

// Rows that pick_best() sorts at this depth, a power of 2; 0 = it does not.
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
