// What:   queries as the first pass reads them, the start of every query's search, and the lists of
//         visits.
// In/Out: DenseJob: queries, floors; query_scales, bounds, thresholds, cuts, counts; plane_queries:
//         each query in every panel that holds it; the visits, and
//         0 for the scores of tiles in which no row can pass.
// Launch: any grid; a warp a place of a panel, then a thread a visit.
// Cost:   n_queries x dim x 4 bytes, and some 30 reads one after another for a visit; of no
// account. Oracle: kernels/int8_bound.hpp on the host, bit for bit; visits by
// tests/native/test_dense_planner.
#include "kernels/cuda/kernels.cuh"
#include "kernels/cuda/visit_lists.cuh"
#include "kernels/cuda/warp_math.cuh"

namespace hyrecall::cuda {

namespace {

// A query of a panel, or one in none; a warp calls it. Of a query in several panels it does the
// same several times. store(i, value) gets codes or bits of the plane of the first pass.
template <typename Store>
__device__ void prepare_query(DenseJob const& job, std::uint32_t query, Store&& store) {
  float const* const values = job.queries + std::size_t{query} * job.dim;
  double const norm =
      norm_by_warp(job.dim, [values](std::uint32_t i) { return double{values[i]}; });
  auto const element = [values](std::uint32_t i) { return values[i]; };
  Int8Row made{1.0f, 0.0f};
  if (job.plane == FirstPassPlane::kInt8) {
    made = quantize_by_warp(job.dim, element, norm, store);
  } else {
    made.residual = round_by_warp(job.dim, element, norm, store);
  }
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
}

// A place of a panel, or the place after all of a query that is in none. Places that no query has
// become 0. A warp calls it.
__device__ void fill_place(DenseJob const& job, std::uint32_t place) {
  bool const is_orphan = place >= job.batch.n_plane_queries;
  Panel const* const panels = job.batch.panels;
  std::uint32_t const at = find_last(job.batch.n_panels, place,
                                     [panels](std::uint32_t i) { return panels[i].plane_begin; });
  std::uint32_t const column = is_orphan ? 0 : place - panels[at].plane_begin;
  std::uint32_t const chunk_bytes = is_orphan ? 0 : panels[at].width * kChunkBytes;
  std::uint8_t* const to =
      is_orphan ? nullptr : job.plane_queries + queries_of_panel(job, panels[at]);
  auto const store = [=](std::uint32_t i, auto value) {
    if (to == nullptr) return;
    std::uint32_t const byte = i * sizeof value;
    std::size_t const block = std::size_t{byte / kChunkBytes} * chunk_bytes;
    memcpy(to + block + place_in_block(column, byte % kChunkBytes), &value, sizeof value);
  };
  if (is_orphan || column < panels[at].n_queries) {
    std::uint32_t const query = is_orphan
                                    ? job.batch.orphans[place - job.batch.n_plane_queries]
                                    : job.batch.panel_queries[panels[at].query_begin + column];
    prepare_query(job, query, store);
  } else {
    for (std::uint32_t i = lane_id(); i < job.plane_chunks * kChunkBytes; i += kLanes)
      store(i, std::uint8_t{0});
  }
}

}  // namespace

__global__ void __launch_bounds__(kQueryThreads) prepare_queries(DenseJob const* job_at) {
  begin_behind();
  DenseJob const& job = *job_at;
  std::uint32_t const step = gridDim.x * (kQueryThreads / kLanes);
  std::uint32_t const warp = (blockIdx.x * kQueryThreads + threadIdx.x) / kLanes;
  for (std::uint32_t place = warp; place < job.batch.n_plane_queries + job.batch.n_orphans;
       place += step)
    fill_place(job, place);
  list_visits<false>(job, warp, step);
}

}  // namespace hyrecall::cuda
