// The lists of visits of a batch: each visit is classified once, in the kernel that prepares the
// batch, so that a scan finds its work ready.
#pragma once

#include "kernels/cuda/visits.cuh"

namespace hyrecall::cuda {

// Nobody reads the tile first: its rows have no scores. A warp calls it.
__device__ inline void clear_scores(DenseJob const& job, Panel const& panel, std::uint32_t tile) {
  for (std::uint32_t i = 0; i < panel.n_queries; ++i) {
    std::uint32_t const query = job.batch.panel_queries[panel.query_begin + i];
    DenseGroup const group = job.batch.groups[job.batch.query_groups[query]];
    if (group.stride == 0 || tile % group.stride != 0) continue;
    std::uint32_t const number =
        first_before(job.batch.runs + group.run_begin, group.n_runs, group.stride, tile);
    bool const is_whole = group.stride == 1;
    std::uint32_t const n = is_whole ? kTileRows : kTileRows / kSampleRows;
    std::uint32_t* const to =
        (is_whole ? scores_of(job, query) : job.samples + std::size_t{query} * job.most_samples) +
        std::size_t{number} * n;
    for (std::uint32_t k = lane_id(); k < n; k += kLanes) to[k] = 0;
  }
}

// Writes a visit into each list that has it; all lanes of a warp call it, some without a visit.
__device__ inline void list_visit(DenseJob const& job, std::uint32_t number, bool is_there) {
  DenseBatch const& batch = job.batch;
  bool is_cleared = false;
  Panel panel{};
  std::uint32_t tile = 0;
  if (is_there) {
    std::uint32_t const at = find_run(batch.visit_begins, batch.n_cohorts, number);
    Cohort const cohort = batch.cohorts[at];
    std::uint32_t const i = number - batch.visit_begins[at];
    std::uint32_t const position = i / cohort.n_panels;
    std::uint32_t const own = i % cohort.n_panels;
    TileRun const* const runs = batch.runs + cohort.run_begin;
    tile = tile_at(runs, cohort.n_runs, position);
    panel = batch.panels[cohort.panel_begin + own];
    // A text reads its own tiles, each once.
    bool const is_text = job.is_exact != 0;
    std::uint32_t const stride =
        is_text ? batch.groups[batch.panel_groups[panel.group_begin]].stride : cohort.stride;
    bool const is_first = stride > 0 && tile % stride == 0;
    TileClass const is =
        is_text ? TileClass::kPartial : classify(job, tile, panel.group_begin, panel.n_groups);
    auto const listed = [&](bool is_read) {
      return make_visit(tile, cohort.panel_begin + own, is_read ? is : TileClass::kEmpty);
    };
    if (cohort.stride > 0 && tile % cohort.stride == 0) {
      std::uint32_t const before = first_before(runs, cohort.n_runs, cohort.stride, tile);
      job.first_visits[cohort.first_begin + before * cohort.n_panels + own] = listed(is_first);
      is_cleared = is == TileClass::kEmpty;
    }
    if (cohort.rest_begin != kNone32)
      job.rest_visits[cohort.rest_begin + i] = listed(!is_text || !is_first);
    if (cohort.wide_begin != kNone32 && own % batch.wide_panels == 0) {
      WidePanel const wide = batch.wides[cohort.wide_begin + own / batch.wide_panels];
      Panel const last = batch.panels[wide.panel_begin + wide.n_panels - 1];
      job.wide_visits[wide.visit_begin + position] =
          make_visit(tile, wide.panel_begin,
                     classify(job, tile, panel.group_begin,
                              last.group_begin + last.n_groups - panel.group_begin));
    }
  }
  for (std::uint32_t left = ballot(is_cleared); left != 0; left &= left - 1) {
    std::uint32_t const from = lowest_bit(left);
    Panel of{};
    of.query_begin = shuffle(panel.query_begin, from);
    of.n_queries = shuffle(panel.n_queries, from);
    clear_scores(job, of, shuffle(tile, from));
  }
}

// By all warps of a grid, of which this is number `first`.
__device__ inline void list_visits(DenseJob const& job, std::uint32_t first,
                                   std::uint32_t n_warps) {
  std::uint32_t const n =
      job.batch.n_cohorts == 0 ? 0 : job.batch.visit_begins[job.batch.n_cohorts];
  for (std::uint64_t begin = std::uint64_t{first} * kWarp; begin < n;
       begin += std::uint64_t{n_warps} * kWarp) {
    auto const number = static_cast<std::uint32_t>(begin) + lane_id();
    list_visit(job, number, number < n);
  }
}

}  // namespace hyrecall::cuda
