// What:   queries as the first pass reads them, and the start of every query's search.
// In/Out: DenseJob: queries, floors; query_scales, bounds, thresholds, cuts, counts; and
//         plane_queries: each query in every panel that holds it; kept_queries where they stay.
// Launch: prepare_queries: a warp a query. fill_panels: any grid, a warp a place of a panel.
// Cost:   n_queries x dim x 4 bytes; of no account.
// Oracle: kernels/int8_bound.hpp on the host, bit for bit.
#include "kernels/cuda/kernels.cuh"
#include "kernels/cuda/warp_math.cuh"

namespace hyrecall::cuda {

namespace {

// A unit query in the plane of the first pass; store(i, value) gets codes or bits.
template <typename Store>
__device__ Int8Row convert(DenseJob const& job, float const* values, double norm, Store&& store) {
  auto const element = [values](std::uint32_t i) { return values[i]; };
  if (job.plane == FirstPassPlane::kInt8) return quantize_by_warp(job.dim, element, norm, store);
  return {1.0f, round_by_warp(job.plane, job.dim, element, norm, store)};
}

__device__ double norm_of_query(DenseJob const& job, float const* values) {
  return norm_by_warp(job.dim, [values](std::uint32_t i) { return double{values[i]}; });
}

// For who scores other rows with it later. A warp calls it.
__device__ void keep_query(DenseJob const& job, std::uint32_t query, float const* values,
                           double norm) {
  std::size_t const place = result_place(job, query);
  for (std::uint32_t i = lane_id(); i < job.dim; i += kLanes)
    job.kept_queries[place * job.dim + i] = values[i];
  if (lane_id() == 0) job.kept_inverse_norms[place] = inverse_norm(norm);
}

}  // namespace

__global__ void __launch_bounds__(kQueryThreads) prepare_queries(DenseJob const* job_at) {
  DenseJob const& job = *job_at;
  std::uint32_t const query = blockIdx.x * (kQueryThreads / kLanes) + threadIdx.x / kLanes;
  if (query >= job.batch.n_queries) return;  // the whole warp
  float const* const values = job.queries + std::size_t{query} * job.dim;
  double const norm = norm_of_query(job, values);
  Int8Row const made = convert(job, values, norm, [](std::uint32_t, auto) {});
  if (job.kept_queries != nullptr) keep_query(job, query, values, norm);
  if (lane_id() != 0) return;
  QueryBound const bound = query_bound(job.plane, job.dim, made.residual);
  job.inverse_query_norms[query] = inverse_norm(norm);
  job.query_scales[query] = made.scale;
  job.bounds[query] = bound;
  // A query without a direction is missing: nothing reaches it.
  float const least = norm == 0.0 ? __builtin_inff() : job.floors[query];
  job.thresholds[query] = least;
  job.guesses[query] = -__builtin_inff();
  job.cuts[query] = cut_for(least, bound);
  job.counts[query] = 0;
  job.overflows[query] = 0;
  job.tickets[query] = 0;
  job.pivots[query] = 0;
}

// Places of a panel that no query has become 0, and so do all places of seeds: a scan fills some.
__global__ void __launch_bounds__(kQueryThreads) fill_panels(DenseJob const* job_at) {
  DenseJob const& job = *job_at;
  std::uint32_t const n_warps = gridDim.x * (kQueryThreads / kLanes);
  std::uint32_t const first = blockIdx.x * (kQueryThreads / kLanes) + threadIdx.x / kLanes;
  for (std::uint32_t place = first; place < job.batch.n_plane_queries; place += n_warps) {
    std::uint32_t low = 0;  // the panel it is in
    for (std::uint32_t high = job.batch.n_panels; high - low > 1;) {
      std::uint32_t const middle = low + (high - low) / 2;
      (job.batch.panels[middle].plane_begin <= place ? low : high) = middle;
    }
    Panel const panel = job.batch.panels[low];
    std::uint32_t const column = place - panel.plane_begin;
    std::uint8_t* const to = job.plane_queries + queries_of_panel(job, panel);
    auto const store = [&](std::uint32_t i, auto value) {
      std::uint32_t const byte = i * sizeof value;
      std::size_t const block = std::size_t{byte / kChunkBytes} * panel.width * kChunkBytes;
      memcpy(to + block + place_in_block(column, byte % kChunkBytes), &value, sizeof value);
    };
    if (column < panel.n_queries) {
      float const* const values =
          job.queries + std::size_t{job.batch.panel_queries[panel.query_begin + column]} * job.dim;
      convert(job, values, norm_of_query(job, values), store);
    } else {
      for (std::uint32_t i = lane_id(); i < job.plane_chunks * kChunkBytes; i += kLanes)
        store(i, std::uint8_t{0});
    }
  }
  // A warp clears a tile of a query's seed.
  std::uint32_t const tiles = job.most_seed_rows / kTileRows;
  std::uint64_t const n_blocks = std::uint64_t{job.batch.n_queries} * tiles;
  for (std::uint64_t block = first; block < n_blocks; block += n_warps) {
    auto const query = static_cast<std::uint32_t>(block / tiles);
    auto const begin = static_cast<std::uint32_t>(block % tiles) * kTileRows;
    if (begin >= job.batch.seed_rows[query]) continue;
    std::uint64_t* const to = job.seeds + std::size_t{query} * job.most_seed_rows + begin;
    for (std::uint32_t i = lane_id(); i < kTileRows; i += kLanes) to[i] = 0;
  }
}

}  // namespace hyrecall::cuda
