// What:   canonical scores of candidates: cosine() of core/formulas.hpp.
// In/Out: DenseJob: candidates; score_keys. First those at or above the query's pivot, then of the
//         rest those that can still be among the best; the others get 0.
// Launch: grid (CTAs a query, queries); a warp takes every n-th candidate of its query.
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
  std::uint32_t const first = blockIdx.x * (kRescoreThreads / kLanes) + threadIdx.x / kLanes;
  std::size_t const base = std::size_t{query} * job.capacity;
  QueryBound const bound = job.bounds[query];
  float const cut = job.cuts[query];
  for (std::uint32_t i = first; i < n; i += n_warps) {
    std::uint64_t const candidate = job.candidates[base + i];
    bool const is_best = static_cast<std::uint32_t>(candidate >> 32) >= job.pivots[query];
    if (is_best == (is_second != 0)) continue;  // the whole warp
    std::uint32_t const slot = candidate_slot(candidate);
    DenseSegment const& segment = segment_of_tile(job, slot / kTileRows);
    std::uint32_t const row = slot - segment.first_tile * kTileRows;
    if (is_second != 0) {
      float const residual = job.plane == FirstPassPlane::kInt8 ? segment.residuals[row] : 0.0f;
      float const lower = candidate_score(candidate);
      if (!(reach_of_lower(lower, residual, bound.per_residual) >= cut)) {
        if (lane_id() == 0) job.score_keys[base + i] = 0;
        continue;
      }
    }
    float const dot = dot_by_warp(
        job.dim, job.queries + std::size_t{query} * job.dim,
        [&](std::uint32_t at) { return row_value(segment.rows, job.row_type, job.dim, row, at); });
    if (lane_id() == 0) {
      job.score_keys[base + i] =
          score_key(cosine(dot, segment.inverse_norms[row], job.inverse_query_norms[query]));
    }
  }
}

}  // namespace hyrecall::cuda
