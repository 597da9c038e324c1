// Which tiles a CTA reads next, and what rows of a tile a group may see: by scope, live bits, zone
// maps and filter.
#pragma once

#include "kernels/cuda/primitives.cuh"
#include "kernels/shared/dense_job.hpp"

namespace hyrecall::cuda {

inline constexpr std::uint32_t kWarp = 32;

struct QueuedVisit {
  std::uint32_t tile;
  std::uint32_t panel;
  std::uint32_t segment;
  TileClass tile_class;
};

// The visits that a CTA takes next, of a warp's look at its list.
struct VisitQueue {
  QueuedVisit visits[kWarp];
  std::uint32_t n;
  std::uint32_t next;  // of the CTA's own visits, to be looked at
};

__device__ inline TileMask live_mask(DenseSegment const& segment, std::uint32_t tile) {
  std::uint32_t const at = 2 * (tile - segment.first_tile);
  return {segment.live[at], segment.live[at + 1]};
}

__device__ inline TileProgramView program_of(DenseJob const& job, std::uint32_t filter,
                                             std::uint32_t segment) {
  SegmentFilter const own = job.filters[filter * job.n_segments + segment];
  return {job.tests + own.test_begin, own.n_tests, job.codes};
}

// What a tile is to some of panel_groups.
__device__ inline TileClass classify(DenseJob const& job, std::uint32_t tile,
                                     std::uint32_t group_begin, std::uint32_t n_groups) {
  std::uint32_t const segment = find_run(job.segment_tiles, job.n_segments, tile);
  DenseSegment const& own = job.segments[segment];
  TileMask const live = live_mask(own, tile);
  if (!live.any()) return TileClass::kEmpty;
  bool all = live.is_all();
  bool any = false;
  for (std::uint32_t i = 0; i < n_groups && (all || !any); ++i) {
    DenseGroup const group = job.batch.groups[job.batch.panel_groups[group_begin + i]];
    TileMask const scope =
        mask_of_ranges(job.batch.ranges + group.range_begin, group.n_ranges, tile) & live;
    ZoneAnswer answer = ZoneAnswer::kAll;
    if (group.filter != kNone32 && scope.any()) {
      answer = zone_answer(program_of(job, group.filter, segment), own.attributes,
                           tile - own.first_tile);
    }
    any = any || (scope.any() && answer != ZoneAnswer::kNone);
    all = all && scope.is_all() && answer == ZoneAnswer::kAll;
  }
  if (!any) return TileClass::kEmpty;
  return all ? TileClass::kFull : TileClass::kPartial;
}

__device__ inline QueuedVisit queued(DenseJob const& job, Visit visit) {
  return {visit.tile, visit.panel(), find_run(job.segment_tiles, job.n_segments, visit.tile),
          visit.tile_class()};
}

// Fills the queue anew with a CTA's visits, every step-th from `first` on, but for empty ones; one
// warp calls it, between barriers of the CTA. An empty queue: there are no more.
__device__ inline void refill(DenseJob const& job, Visit const* visits, std::uint32_t n_visits,
                              std::uint32_t first, std::uint32_t step, VisitQueue& queue) {
  std::uint32_t const lane = lane_id();
  std::uint32_t n = 0;
  std::uint64_t next = queue.next;
  sync_warp();  // every lane has read it
  for (; n == 0 && next * step + first < n_visits; next += kWarp) {
    std::uint64_t const at = (next + lane) * step + first;
    Visit const own = at < n_visits ? visits[at] : Visit{0, 0};
    bool const is_wanted = at < n_visits && own.tile_class() != TileClass::kEmpty;
    std::uint32_t const wanted = ballot(is_wanted);
    if (is_wanted) queue.visits[popcount(wanted & ((1u << lane) - 1))] = queued(job, own);
    n = popcount(wanted);
  }
  if (lane == 0) {
    queue.n = n;
    queue.next = static_cast<std::uint32_t>(next);
  }
}

// The rows of a tile that a group may see: bits lane, lane + 32, ... are tested by that lane. The
// whole warp comes here, and looks at so many words of 32 rows at a time.
template <int kWordsAtOnce>
__device__ inline TileMask group_mask(DenseJob const& job, QueuedVisit const& visit,
                                      std::uint32_t group_number) {
  DenseSegment const& own = job.segments[visit.segment];
  DenseGroup const group = job.batch.groups[group_number];
  TileMask mask = mask_of_ranges(job.batch.ranges + group.range_begin, group.n_ranges, visit.tile) &
                  live_mask(own, visit.tile);
  if (group.filter == kNone32 || !mask.any()) return mask;  // the same in every lane
  TileProgramView const program = program_of(job, group.filter, visit.segment);
  std::uint32_t const first = (visit.tile - own.first_tile) * kTileRows;
  TileMask found{0, 0};
#pragma unroll kWordsAtOnce
  for (std::uint32_t i = 0; i < 4; ++i) {
    std::uint32_t const row = i * kWarp + lane_id();
    bool const passes = mask.test(row) && row_passes(program, own.attributes, first + row);
    std::uint64_t const word = std::uint64_t{ballot(passes)} << 32 * (i % 2);
    (i < 2 ? found.low : found.high) |= word;
  }
  return found;
}

// Of a panel of one query that has a place for each row: what it may see of a visit's tile, and
// where the keys of the tile's scores go. The whole warp comes here.
struct OwnTile {
  std::uint32_t query;
  TileMask mask;
  std::uint32_t* keys;  // [kTileRows] 0: the row does not pass
};
__device__ inline OwnTile own_tile(DenseJob const& job, QueuedVisit const& visit) {
  std::uint32_t const query = job.batch.panel_queries[job.batch.panels[visit.panel].query_begin];
  std::uint32_t const group_number = job.batch.query_groups[query];
  DenseGroup const group = job.batch.groups[group_number];
  bool const is_full = visit.tile_class == TileClass::kFull;
  std::uint32_t const before =
      first_before(job.batch.runs + group.run_begin, group.n_runs, 1, visit.tile);
  return {query, is_full ? TileMask::all() : group_mask<4>(job, visit, group_number),
          scores_of(job, query) + std::size_t{before} * kTileRows};
}

}  // namespace hyrecall::cuda
