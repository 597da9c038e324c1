// What:   canonical scores of candidates: cosine() of core/formulas.hpp.
// In/Out: DenseJob: candidates; score_keys. First those at or above the query's pivot, then of the
//         rest those that can still be among the best; the others get 0.
// Launch: grid (CTAs a query, queries); a warp takes up to 32 candidates of its query at a time.
// Cost:   a row's bytes a candidate, read at random: a few hundred rows a query.
// Oracle: tests/golden for the arithmetic, the CPU path for whole replies; bit for bit.
#include "kernels/cuda/kernels.cuh"
#include "kernels/cuda/warp_math.cuh"
#include "kernels/shared/score_key.hpp"

namespace hyrecall::cuda {

__global__ void __launch_bounds__(kRescoreThreads, 4)
    rescore(DenseJob const* job_at, std::uint32_t is_second) {
  DenseJob const& job = *job_at;
  std::uint32_t const query = blockIdx.y;
  if (query >= job.batch.n_queries) return;
  std::uint32_t const n = n_candidates(job, query);
  std::uint32_t const n_warps = gridDim.x * (kRescoreThreads / kLanes);
  std::uint32_t const warp = blockIdx.x * (kRescoreThreads / kLanes) + threadIdx.x / kLanes;
  std::uint32_t const lane = lane_id();
  std::size_t const base = std::size_t{query} * job.capacity;
  QueryBound const bound = job.bounds[query];
  float const cut = job.cuts[query];
  std::uint32_t const pivot = job.pivots[query];
  // A lane looks at each candidate, the warp scores what is left. Few are spread over all warps.
  std::uint32_t const even = (n + n_warps - 1) / n_warps;
  std::uint32_t const share = even < kLanes ? even : kLanes;
  for (std::uint32_t begin = warp * share; begin < n; begin += n_warps * share) {
    std::uint32_t const i = begin + lane;
    bool const is_own = lane < share && i < n;
    std::uint64_t const candidate = is_own ? job.candidates[base + i] : 0;
    bool const is_best = static_cast<std::uint32_t>(candidate >> 32) >= pivot;
    bool is_wanted = is_own && is_best == (is_second == 0);
    if (is_wanted && is_second != 0) {
      std::uint32_t const slot = candidate_slot(candidate);
      DenseSegment const& segment = segment_of_tile(job, slot / kTileRows);
      std::uint32_t const row = slot - segment.first_tile * kTileRows;
      float const residual = job.plane == FirstPassPlane::kInt8 ? segment.residuals[row] : 0.0f;
      is_wanted = reach_of_lower(candidate_score(candidate), residual, bound.per_residual) >= cut;
      if (!is_wanted) job.score_keys[base + i] = 0;
    }
    for (std::uint32_t left = ballot(is_wanted); left != 0; left &= left - 1) {
      std::uint32_t const from = lowest_bit(left);
      std::uint32_t const slot = shuffle(candidate_slot(candidate), from);
      std::uint32_t const key = score_key_by_warp(job, query, slot);
      if (lane == 0) job.score_keys[base + begin + from] = key;
    }
  }
}

}  // namespace hyrecall::cuda
