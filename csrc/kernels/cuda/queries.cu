// What:   queries as the first pass reads them, and the start of every query's search.
// In/Out: DenseJob: queries, floors; front_queries, query_scales, bounds, thresholds, cuts, counts.
// Launch: a warp a query.
// Cost:   n_queries x dim x 4 bytes; of no account.
// Oracle: kernels/front_plane.hpp on the host, bit for bit.
#include "kernels/cuda/kernels.cuh"
#include "kernels/cuda/warp_math.cuh"

namespace hyrecall::cuda {

__global__ void __launch_bounds__(kQueryThreads) prepare_queries(DenseJob const* job_at) {
  DenseJob const& job = *job_at;
  std::uint32_t const query = blockIdx.x * (kQueryThreads / kLanes) + threadIdx.x / kLanes;
  if (query >= job.batch.n_queries) return;  // the whole warp
  float const* const values = job.queries + std::size_t{query} * job.dim;
  auto const element = [values](std::uint32_t i) { return values[i]; };
  double const norm = norm_by_warp(job.dim, [&](std::uint32_t i) { return double{values[i]}; });
  std::uint8_t* const to = job.front_queries + std::size_t{query} * job.front_pitch;
  float scale = 1.0f;
  float residual = 0.0f;
  if (job.plane == FrontPlane::kInt8) {
    Int8Row const made = quantize_by_warp(job.dim, job.front_pitch, element, norm,
                                          reinterpret_cast<std::int8_t*>(to));
    scale = made.scale;
    residual = made.residual;
  } else {
    bool const is_half = job.plane == FrontPlane::kFloat16;
    auto* const out = reinterpret_cast<std::uint16_t*>(to);
    double sum = 0.0;
    for (std::uint32_t i = lane_id(); i < job.front_pitch / 2; i += kLanes) {
      double const unit = norm == 0.0 || i >= job.dim ? 0.0 : unit_value(values[i], norm);
      std::uint16_t const bits = is_half ? float16_bits(unit) : bfloat16_bits(unit);
      out[i] = bits;
      double const left = left_over(unit, is_half ? float16_value(bits) : bfloat16_value(bits));
      sum = sum + left * left;
    }
    residual = residual_up(shuffle(fold_warp(sum), 0), job.dim);
  }
  if (lane_id() != 0) return;
  QueryBound const bound = query_bound(job.plane, job.dim, residual);
  job.inverse_query_norms[query] = inverse_norm(norm);
  job.query_scales[query] = scale;
  job.bounds[query] = bound;
  // A query without a direction is missing: nothing reaches it.
  float const least = norm == 0.0 ? __builtin_inff() : job.floors[query];
  job.thresholds[query] = least;
  job.cuts[query] = cut_for(least, bound);
  job.counts[query] = 0;
  job.overflows[query] = 0;
  job.pivots[query] = 0;
}

}  // namespace hyrecall::cuda
