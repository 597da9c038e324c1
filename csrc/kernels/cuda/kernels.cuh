// The kernels of a pass, in the order in which they run, and how they are launched.
#pragma once

#include <bit>

#include "kernels/cuda/primitives.cuh"
#include "kernels/shared/pool_job.hpp"

namespace hyrecall::cuda {

inline constexpr unsigned kQueryThreads = 128;
inline constexpr unsigned kSelectThreads = 256;
inline constexpr unsigned kTextThreads = 128;
inline constexpr unsigned kPoolThreads = 128;
inline constexpr unsigned kPoolWarps = kPoolThreads / 32;

// Of vectors: where queries lie on the device already the first, a scan of what is read first
// before the last, scans of the rest after it.
__global__ void take_queries(DenseJob const* job);
__global__ void prepare_queries(DenseJob const* job);
__global__ void guess_thresholds(DenseJob const* job);

// Of texts: a scan of stage 0 before the last, of stage 1 after it. has_words: some text of the
// batch is not positive.
__global__ void prepare_texts(DenseJob const* job);
__global__ void scan_postings(DenseJob const* job, std::uint32_t stage, std::uint32_t has_words);
__global__ void cut_texts(DenseJob const* job);

// Shared memory of guess_thresholds and cut_texts, and of scan_postings.
std::size_t select_bytes();
std::size_t text_bytes(bool has_words);

// Of vectors where queries and rows have many: both, instead of the others.
inline constexpr unsigned kPrepareThreads = 256;
inline constexpr unsigned kManyThreads = 128;
inline constexpr unsigned kManyCtas = 4;  // of a multiprocessor
__global__ void prepare_many(DenseJob const* job);
__global__ void scan_many(DenseJob const* job);
std::size_t many_bytes(std::uint32_t n_chunks);

// Of sparse vectors, behind prepare_many.
inline constexpr unsigned kSparseThreads = 128;
inline constexpr unsigned kSparseCtas = 8;  // of a multiprocessor
inline constexpr std::size_t kSparseBytes = kSparseThreads / 32 * kTileRows * sizeof(double);
__global__ void scan_sparse(DenseJob const* job);

// Of all, at the end. What the scores of rows are made of: a vector each, many, or sparse ones,
// whose scores the scan knows.
enum class RowKind { kOne, kMany, kSparse };
template <RowKind kKind>
__global__ void pick_best(DenseJob const* job, std::uint32_t list_room);

// Of the lists of several arms, in this order.
// A CTA a query, with join_bytes(documents in all lists of a query) of shared memory.
__global__ void join_lists(PoolJob const* job);
std::size_t join_bytes(std::uint32_t n_sorted);
// A grid of (CTAs a query, queries).
__global__ void complete_pools(PoolJob const* job);
// A CTA a query, with fuse_bytes().
__global__ void fuse_pools(PoolJob const* job);
std::size_t fuse_bytes(std::uint32_t n_sorted);

// How pick_best is launched. Where queries are few, several CTAs share the scores of one.
struct PickShape {
  unsigned n_ctas;  // a query
  std::uint32_t list_room;
  std::size_t shared_bytes;

  // Rows that it sorts where queries are many.
  static constexpr std::uint32_t kFewRows = 256;

  static PickShape of(std::uint32_t n_queries, std::uint32_t sorted_rows, bool is_lexical,
                      unsigned n_multiprocessors, std::size_t most_shared_bytes);
  // The same where CTAs always share: no list of theirs could overflow.
  static PickShape shared(PickShape of, std::uint32_t sorted_rows);
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
  return depth > kMostSorted ? 0 : std::bit_ceil(depth);
}

// A row of a reply while it is sorted: rising is better first.
struct alignas(16) RankedRow {
  std::uint64_t seq_key;
  std::uint32_t score_key;
  std::uint32_t slot;
};
static_assert(sizeof(RankedRow) == 16);

}  // namespace hyrecall::cuda
