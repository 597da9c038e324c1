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

// Those of each lane that has a panel.
__device__ inline void clear_empty(DenseJob const& job, std::uint32_t panel, std::uint32_t tile) {
  for (std::uint32_t left = ballot(panel != kNone32); left != 0; left &= left - 1) {
    std::uint32_t const from = lowest_bit(left);
    clear_scores(job, job.batch.panels[shuffle(panel, from)], shuffle(tile, from));
  }
}

// A document tile is full where its rows all live and lie in one range, and there is no filter.
__device__ inline TileClass classify_text(DenseJob const& job, std::uint32_t doc_tile,
                                          std::uint32_t group_begin) {
  std::uint32_t const first = doc_tile * (kDocTileRows / kTileRows);  // of its tiles
  DenseSegment const& own = job.segments[find_run(job.segment_tiles, job.n_segments, first)];
  DenseGroup const group = job.batch.groups[job.batch.panel_groups[group_begin]];
  std::uint32_t const begin = doc_tile * kDocTileRows;
  std::uint32_t const rows_end = own.first_tile * kTileRows + own.n_rows;
  std::uint32_t const end = begin + kDocTileRows < rows_end ? begin + kDocTileRows : rows_end;
  SlotRange const* const ranges = job.batch.ranges + group.range_begin;
  std::uint32_t const at =
      find_last(group.n_ranges, begin, [ranges](std::uint32_t i) { return ranges[i].begin; });
  bool const is_full = group.filter == kNone32 && own.live == nullptr && group.n_ranges > 0 &&
                       ranges[at].begin <= begin && ranges[at].end >= end;
  return is_full ? TileClass::kFull : TileClass::kPartial;
}

// Writes a visit into each list that has it; all lanes of a warp call it, some without a visit. The
// visits of panels come first, then those of wide panels.
template <bool kIsText>
__device__ inline void list_visit(DenseJob const& job, std::uint32_t number, std::uint32_t n) {
  DenseBatch const& batch = job.batch;
  std::uint32_t const n_narrow = batch.visit_begins[batch.n_cohorts];
  std::uint32_t cleared = kNone32;  // the panel whose scores of the tile are
  std::uint32_t tile = 0;
  if (number < n) {
    bool const is_wide = number >= n_narrow;
    WidePanel const* const wides = batch.wides;
    std::uint32_t const at_wide = number - n_narrow;
    std::uint32_t const wide =
        is_wide ? find_last(batch.n_wides, at_wide,
                            [wides](std::uint32_t i) { return wides[i].visit_begin; })
                : 0;
    std::uint32_t const at =
        is_wide ? wides[wide].cohort : find_run(batch.visit_begins, batch.n_cohorts, number);
    Cohort const cohort = batch.cohorts[at];
    std::uint32_t const i =
        is_wide ? at_wide - wides[wide].visit_begin : number - batch.visit_begins[at];
    std::uint32_t const own = is_wide ? 0 : i % cohort.n_panels;
    TileRun const* const runs = batch.runs + cohort.run_begin;
    tile = tile_at(runs, cohort.n_runs, is_wide ? i : i / cohort.n_panels);
    std::uint32_t const panel = is_wide ? wides[wide].panel_begin : cohort.panel_begin + own;
    Panel const last = batch.panels[is_wide ? panel + wides[wide].n_panels - 1 : panel];
    std::uint32_t const group_begin = batch.panels[panel].group_begin;
    TileClass const is =
        kIsText ? classify_text(job, tile, group_begin)
                : classify(job, tile, group_begin, last.group_begin + last.n_groups - group_begin);
    auto const listed = [&](bool is_read) {
      return make_visit(tile, panel, is_read ? is : TileClass::kEmpty);
    };
    if (is_wide) {
      job.wide_visits[at_wide] = listed(true);
    } else {
      // A text reads its own tiles, each once.
      std::uint32_t const stride =
          kIsText ? batch.groups[batch.panel_groups[group_begin]].stride : cohort.stride;
      bool const is_first = stride > 0 && tile % stride == 0;
      if (cohort.stride > 0 && tile % cohort.stride == 0) {
        std::uint32_t const before = first_before(runs, cohort.n_runs, cohort.stride, tile);
        job.first_visits[cohort.first_begin + before * cohort.n_panels + own] = listed(is_first);
        if (is == TileClass::kEmpty) cleared = panel;
      }
      if (cohort.rest_begin != kNone32)
        job.rest_visits[cohort.rest_begin + i] = listed(!kIsText || !is_first);
    }
  }
  if constexpr (kIsText) {
    return;
  } else {
    clear_empty(job, cleared, tile);
  }
}

// By all warps of a grid, of which this is number `first`.
template <bool kIsText>
__device__ inline void list_visits(DenseJob const& job, std::uint32_t first,
                                   std::uint32_t n_warps) {
  if (job.batch.n_cohorts == 0) return;
  std::uint64_t const n =
      std::uint64_t{job.batch.visit_begins[job.batch.n_cohorts]} + job.batch.n_wide;
  for (std::uint64_t begin = std::uint64_t{first} * kWarp; begin < n;
       begin += std::uint64_t{n_warps} * kWarp) {
    list_visit<kIsText>(job, static_cast<std::uint32_t>(begin) + lane_id(),
                        static_cast<std::uint32_t>(n));
  }
}

}  // namespace hyrecall::cuda
