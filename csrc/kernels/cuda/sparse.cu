// What:   the scores of rows of sparse vectors, of each row in scope: sparse_sum() of
//         core/formulas.hpp, term after term in the order of their bytes.
// In/Out: DenseJob with sparse_begins: first_visits; a score a row, as of a query that reads all of
//         its tiles first. The score is exact, and has no bound.
// Launch: any grid of kSparseThreads, with kSparseBytes; a warp takes a visit.
// Cost:   6 bytes a posting of the query's terms (4 of float16), and a search for each tile's.
// Oracle: the CPU path, bit for bit (tests/laws/test_vector_forms.py).
#include "kernels/cuda/kernels.cuh"
#include "kernels/cuda/visits.cuh"
#include "kernels/cuda/warp_math.cuh"

namespace hyrecall::cuda {
namespace {

constexpr std::uint32_t kSparseWarps = kSparseThreads / kLanes;

struct TermPostings {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// The first posting of [low, high) in a row of at least `least`.
__device__ std::uint64_t first_from(std::uint16_t const* rows, std::uint64_t low,
                                    std::uint64_t high, std::uint32_t least) {
  while (low < high) {
    std::uint64_t const middle = low + (high - low) / 2;
    if (rows[middle] < least) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// A term's postings in the tile of rows from `first` on; a thread.
__device__ TermPostings postings_in(SparseSegment const& segment, SparseRuns const& term,
                                    std::uint32_t first) {
  std::uint32_t const page = first / kSparsePageRows;
  std::uint32_t const* const pages = segment.run_pages;
  std::uint32_t const run =
      find_first(term.begin, term.end, [pages, page](std::uint32_t i) { return pages[i] < page; });
  if (run == term.end || pages[run] != page) return {};
  std::uint32_t const least = first % kSparsePageRows;
  std::uint64_t const end = segment.run_begins[run + 1];
  std::uint64_t const begin = first_from(segment.rows, segment.run_begins[run], end, least);
  return {begin, first_from(segment.rows, begin, end, least + kTileRows)};
}

__device__ float weight_at(SparseSegment const& segment, std::uint64_t posting) {
  if (!segment.is_half) return reinterpret_cast<float const*>(segment.weights)[posting];
  return float16_value(reinterpret_cast<std::uint16_t const*>(segment.weights)[posting]);
}

// Adds the products of a query's terms to the sums of a tile's rows; a warp. number: of the query
// in the segment.
__device__ void add_terms(DenseJob const& job, SparseSegment const& segment, std::uint32_t number,
                          std::uint32_t first, double* sums) {
  std::uint32_t const end = job.sparse_begins[number + 1];
#pragma unroll 1
  for (std::uint32_t some = job.sparse_begins[number]; some < end; some += kLanes) {
    // Lanes look for a term each; then all add the postings of one term after another.
    bool const is_there = some + lane_id() < end;
    SparseRuns const own = job.sparse_runs[is_there ? some + lane_id() : some];
    TermPostings const found = is_there ? postings_in(segment, own, first) : TermPostings{};
#pragma unroll 1
    for (std::uint32_t left = ballot(found.begin < found.end); left != 0; left &= left - 1) {
      std::uint32_t const from = lowest_bit(left);
      std::uint64_t const begin = shuffle(found.begin, from);
      std::uint64_t const last = shuffle(found.end, from);
      float const weight = shuffle(own.weight, from);
      for (std::uint64_t i = begin + lane_id(); i < last; i += kLanes) {
        double& sum = sums[segment.rows[i] % kTileRows];
        sum = sparse_sum(sum, weight, weight_at(segment, i));
      }
      sync_warp();  // the next term adds to what this one has
    }
  }
}

}  // namespace

__global__ void __launch_bounds__(kSparseThreads, kSparseCtas) scan_sparse(DenseJob const* job_at) {
  begin_behind();
  DenseJob const& job = *job_at;
  std::uint32_t const warp = threadIdx.x / kLanes;
  double* const sums = reinterpret_cast<double*>(shared_memory()) + warp * kTileRows;
  std::uint64_t const step = std::uint64_t{gridDim.x} * kSparseWarps;
  for (std::uint64_t at = std::uint64_t{blockIdx.x} * kSparseWarps + warp; at < job.batch.n_first;
       at += step) {
    Visit const own = job.first_visits[at];
    if (own.tile_class() == TileClass::kEmpty) continue;
    QueuedVisit const visit = queued(job, own);
    OwnTile const tile = own_tile(job, visit);
    for (std::uint32_t i = lane_id(); i < kTileRows; i += kLanes) sums[i] = 0.0;
    sync_warp();
    DenseSegment const& segment = job.segments[visit.segment];
    add_terms(job, segment.sparse, tile.query * job.n_segments + visit.segment,
              (visit.tile - segment.first_tile) * kTileRows, sums);
    for (std::uint32_t i = lane_id(); i < kTileRows; i += kLanes) {
      // Each product is above 0: a row with a sum shares a term.
      bool const is_found = tile.mask.test(i) && sums[i] > 0.0;
      tile.keys[i] = is_found ? score_key(static_cast<float>(sums[i])) : 0;
    }
  }
}

}  // namespace hyrecall::cuda
